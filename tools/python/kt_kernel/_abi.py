# SPDX-License-Identifier: Apache-2.0
"""The structs, numbers and functions of <kt/kt.h>, <kt/linear.h>, <kt/model.h> and <kt/gpu.h> that the package uses.

Names and order are the headers'; tests/python/test_abi.py has the C compiler compare every size and offset.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

# ---- numbers ----

STATUS = (
    "KT_OK KT_E_INVALID KT_E_RANGE KT_E_NOMEM KT_E_IO KT_E_FORMAT KT_E_UNSUPPORTED KT_E_NOT_FOUND KT_E_CONFIG "
    "KT_E_PLUGIN KT_E_BUSY KT_E_SYSTEM KT_E_STATE KT_E_BACKEND"
).split()
STATUS_NUMBER = {name: number for number, name in enumerate(STATUS)}

DTYPE = {
    "f32": 1, "f16": 2, "bf16": 3, "f64": 4, "i8": 5, "i16": 6, "i32": 7, "i64": 8, "u8": 9, "u16": 10,
    "u32": 11, "u64": 12, "bool": 13, "f8_e4m3": 14, "f8_e8m0": 16, "int4": 17, "f4_e2m1": 18,
}  # fmt: skip
ACTIVATION = {"silu": 0, "swiglu": 1, "swigluoai": 2, "gelu_tanh": 4, "swiglustep": 5, "situ": 6, "relu2": 7}
IO = {"mmap": 0, "read": 1}
SPLIT = {"rows": 0, "cols": 1}
MAX_LINEARS = 8
PLACE_FREQUENCY = 1
BACKEND_STATES = ("loaded", "disabled", "unfit", "refused", "failed")

# ---- functions that the library calls ----

LOG_FN = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)

# ---- structs ----


class kt_error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1020)]


class kt_config_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("file", c.c_char_p),
        ("settings", c.POINTER(c.c_char_p)),
        ("n_settings", c.c_size_t),
        ("log", LOG_FN),
        ("log_data", c.c_void_p),
        ("plugin_folder", c.c_char_p),
        ("dropin_folder", c.c_char_p),
    ]


class kt_context_info(c.Structure):
    _fields_ = [
        ("n_nodes", c.c_uint32),
        ("n_threads", c.c_uint32),
        ("bind_failures", c.c_uint32),
        ("membind_failures", c.c_uint32),
        ("cpu_features", c.c_char_p),
        ("cpu_variant", c.c_char_p),
        ("cpu", c.c_uint64),
        ("membind_message", c.c_char_p),
        ("idle_cpus", c.c_char_p),
        ("cpu_model", c.c_char_p),
        ("microcode", c.c_char_p),
    ]


class kt_node_info(c.Structure):
    _fields_ = [("os_index", c.c_uint32), ("n_threads", c.c_uint32), ("memory", c.c_uint64)]


class kt_setting(c.Structure):
    _fields_ = [
        ("section", c.c_char_p),
        ("key", c.c_char_p),
        ("value", c.c_char_p),
        ("origin", c.c_char_p),
        ("help", c.c_char_p),
    ]


class kt_backend_info(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("state", c.c_int),
        ("reason", c.c_char_p),
        ("file", c.c_char_p),
        ("origin", c.c_char_p),
        ("version", c.c_char_p),
        ("description", c.c_char_p),
        ("formats", c.c_char_p),
        ("level", c.c_char_p),
        ("levels", c.c_char_p),
        ("instruction", c.c_char_p),
        ("priority", c.c_int64),
        ("n_options", c.c_size_t),
        ("takes_linears", c.c_uint32),
        ("takes_attention", c.c_uint32),
    ]


class kt_checkpoint_params(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("io", c.c_int), ("log", LOG_FN), ("log_data", c.c_void_p)]


class kt_checkpoint_info(c.Structure):
    _fields_ = [
        ("format", c.c_char_p),
        ("architecture", c.c_char_p),
        ("name", c.c_char_p),
        ("n_tensors", c.c_uint64),
        ("n_layers", c.c_uint64),
        ("n_moe_layers", c.c_uint64),
        ("size", c.c_uint64),
        ("expert_size", c.c_uint64),
        ("n_files", c.c_uint64),
    ]


class kt_moe_info(c.Structure):
    _fields_ = [
        ("layer", c.c_uint64),
        ("n_experts", c.c_uint32),
        ("top_k", c.c_uint32),
        ("hidden_size", c.c_uint64),
        ("intermediate_size", c.c_uint64),
        ("dtype", c.c_uint32 * 3),
        ("has_bias", c.c_uint32),
        ("activation", c.c_uint32),
        ("limit", c.c_float),
        ("alpha", c.c_float),
        ("size", c.c_uint64),
        ("stored_backend", c.c_char_p),
        ("stored_form", c.c_char_p),
        ("stored_source", c.c_char_p),
        ("stored_layers", c.c_char_p),
    ]


class kt_scales(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("size", c.c_uint64),
        ("dtype", c.c_uint32),
        ("reserved", c.c_uint32),
        ("group_rows", c.c_uint64),
        ("group_cols", c.c_uint64),
        ("row_stride", c.c_int64),
        ("col_stride", c.c_int64),
    ]


class kt_view(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("dtype", c.c_uint32),
        ("data", c.c_void_p),
        ("size", c.c_uint64),
        ("rows", c.c_uint64),
        ("cols", c.c_uint64),
        ("row_stride", c.c_int64),
        ("block_stride", c.c_int64),
        ("scales", kt_scales),
        ("zeros", kt_scales),
        ("name", c.c_char_p),
    ]


class kt_expert(c.Structure):
    _fields_ = [
        ("gate", kt_view),
        ("up", kt_view),
        ("down", kt_view),
        ("gate_bias", c.c_void_p),
        ("up_bias", c.c_void_p),
        ("down_bias", c.c_void_p),
    ]


class kt_layer_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("n_experts", c.c_uint32),
        ("top_k", c.c_uint32),
        ("hidden_size", c.c_uint64),
        ("intermediate_size", c.c_uint64),
        ("max_tokens", c.c_uint32),
        ("activation", c.c_uint32),
        ("limit", c.c_float),
        ("alpha", c.c_float),
        ("backend", c.c_char_p),
        ("skip_mask", c.c_void_p),
        ("expert_map", c.c_void_p),
        ("name", c.c_char_p),
        ("stored", c.c_int),
    ]


class kt_store_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("folder", c.c_char_p),
        ("progress", c.c_void_p),
        ("data", c.c_void_p),
    ]


class kt_layer_info(c.Structure):
    _fields_ = [
        ("backend", c.c_char_p),
        ("level", c.c_char_p),
        ("instruction", c.c_char_p),
        ("packed_size", c.c_uint64),
        ("nominal_size", c.c_uint64),
        ("n_experts", c.c_uint32),
        ("top_k", c.c_uint32),
        ("hidden_size", c.c_uint64),
        ("intermediate_size", c.c_uint64),
        ("rounding", c.c_char_p),
    ]


class kt_forward(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("n_tokens", c.c_uint32),
        ("top_k", c.c_uint32),
        ("expert_ids", c.c_void_p),
        ("router_weights", c.c_void_p),
        ("input", c.c_void_p),
        ("output", c.c_void_p),
        ("input_dtype", c.c_uint32),
        ("output_dtype", c.c_uint32),
        ("input_stride", c.c_int64),
        ("output_stride", c.c_int64),
        ("accumulate", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class kt_linear_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("rows", c.c_uint64),
        ("cols", c.c_uint64),
        ("max_tokens", c.c_uint32),
        ("split", c.c_uint32),
        ("backend", c.c_char_p),
        ("name", c.c_char_p),
        ("stored", c.c_int),
    ]


class kt_linear_info(c.Structure):
    _fields_ = [
        ("backend", c.c_char_p),
        ("level", c.c_char_p),
        ("instruction", c.c_char_p),
        ("packed_size", c.c_uint64),
        ("nominal_size", c.c_uint64),
        ("rows", c.c_uint64),
        ("cols", c.c_uint64),
        ("rounding", c.c_char_p),
    ]


class kt_linear_output(c.Structure):
    _fields_ = [
        ("linear", c.c_void_p),
        ("output", c.c_void_p),
        ("output_stride", c.c_int64),
        ("output_dtype", c.c_uint32),
        ("accumulate", c.c_uint32),
    ]


class kt_linear_batch(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("outputs", c.c_void_p),
        ("n_outputs", c.c_uint32),
        ("n_tokens", c.c_uint32),
        ("input", c.c_void_p),
        ("input_stride", c.c_int64),
        ("input_dtype", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class kt_place_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("placement", c.c_int),
        ("n_layers", c.c_uint32),
        ("n_experts", c.c_uint32),
        ("reserved", c.c_uint32),
        ("n_on_gpu", c.c_uint64),
        ("seed", c.c_uint64),
        ("counts", c.c_void_p),
    ]


class kt_deferral_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("n_layers", c.c_uint32),
        ("n_experts", c.c_uint32),
        ("top_k", c.c_uint32),
        ("max_tokens", c.c_uint32),
        ("hidden_size", c.c_uint64),
        ("max_deferred", c.c_uint32),
        ("per_token", c.c_uint32),
        ("max_deferred_of", c.c_void_p),
    ]


class kt_host_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("layer", c.c_void_p),
        ("deferral", c.c_void_p),
        ("position", c.c_uint32),
        ("max_tokens", c.c_uint32),
        ("n_tokens", c.c_void_p),
        ("timeout_ms", c.c_uint32),
        ("reserved", c.c_uint32),
        ("forward", kt_forward),
    ]


class kt_allocator(c.Structure):
    _fields_ = [("allocate", c.c_void_p), ("release", c.c_void_p), ("data", c.c_void_p)]


class kt_staging_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("hidden_size", c.c_uint64),
        ("top_k", c.c_uint32),
        ("input_dtype", c.c_uint32),
        ("output_dtype", c.c_uint32),
        ("instance", c.c_uint32),
        ("allocator", kt_allocator),
    ]


class kt_staging(c.Structure):
    _fields_ = [
        ("max_tokens", c.c_uint32),
        ("reserved", c.c_uint32),
        ("n_tokens", c.c_void_p),
        ("expert_ids", c.c_void_p),
        ("router_weights", c.c_void_p),
        ("input", c.c_void_p),
        ("output", c.c_void_p),
        ("forward", kt_forward),
    ]


class kt_unpack_matrix(c.Structure):
    _fields_ = [
        ("dtype", c.c_uint32),
        ("scale_dtype", c.c_uint32),
        ("zero_dtype", c.c_uint32),
        ("reserved", c.c_uint32),
        ("rows", c.c_uint64),
        ("row_size", c.c_uint64),
        ("scale_rows", c.c_uint64),
        ("scale_row_size", c.c_uint64),
        ("zero_row_size", c.c_uint64),
        ("size", c.c_uint64),
        ("scale_size", c.c_uint64),
        ("zero_size", c.c_uint64),
    ]


class kt_unpack_info(c.Structure):
    _fields_ = [
        ("n_ranks", c.c_uint32),
        ("reserved", c.c_uint32),
        ("intermediate_size", c.c_uint64),
        ("w13", kt_unpack_matrix),
        ("w2", kt_unpack_matrix),
    ]


class kt_unpack_buffers(c.Structure):
    _fields_ = [
        ("w13", c.c_void_p),
        ("w13_scales", c.c_void_p),
        ("w13_zeros", c.c_void_p),
        ("w2", c.c_void_p),
        ("w2_scales", c.c_void_p),
        ("w2_zeros", c.c_void_p),
    ]


STRUCTS = [made for name, made in list(globals().items()) if name.startswith("kt_")]


def sized(struct):
    """A new struct whose struct_size is set, the rest 0."""
    value = struct()
    value.struct_size = c.sizeof(struct)
    return value


# ---- functions: what they return, their arguments; "status" takes a kt_error as its last one ----

_P, _S, _U32, _U64 = c.c_void_p, c.c_char_p, c.c_uint32, c.c_uint64
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "kt_version": (_S, []),
    "kt_status_name": (_S, [c.c_int]),
    "kt_dtype_name": (_S, [_U32]),
    "kt_dtype_parse": (_U32, [_S]),
    "kt_dtype_block": (None, [_U32, _P, _P]),
    "kt_method_backend": (_S, [_S]),
    "kt_method_name": (_S, [c.c_size_t]),
    "kt_method_setting": (_S, [_S]),
    "kt_config_create": ("status", [_P, _P]),
    "kt_config_destroy": (None, [_P]),
    "kt_context_create": ("status", [_P, _P]),
    "kt_context_destroy": (None, [_P]),
    "kt_context_info": (None, [_P, _P]),
    "kt_context_node": ("status", [_P, _U32, _P]),
    "kt_context_backend_count": (c.c_size_t, [_P]),
    "kt_context_backend": ("status", [_P, c.c_size_t, _P]),
    "kt_context_backend_option": ("status", [_P, c.c_size_t, c.c_size_t, _P]),
    "kt_checkpoint_open": ("status", [_S, _P, _P]),
    "kt_checkpoint_close": (None, [_P]),
    "kt_checkpoint_info": (None, [_P, _P]),
    "kt_checkpoint_moe_layer": ("status", [_P, _U64, _P]),
    "kt_checkpoint_moe": ("status", [_P, _U64, _P]),
    "kt_checkpoint_layer_params": ("status", [_P, _U64, _P]),
    "kt_checkpoint_weight": ("status", [_P, _S, _P, _P]),
    "kt_view_dense": ("status", [_P, _U32, _P, _U64, _U64, _U64]),
    "kt_view_row": ("status", [_P, _U64, _P]),
    "kt_layer_create": ("status", [_P, _P, _P]),
    "kt_layer_destroy": (None, [_P]),
    "kt_layer_load": ("status", [_P, _P, _U32]),
    "kt_layer_load_checkpoint": ("status", [_P, _P, _U64]),
    "kt_layer_load_progress": (None, [_P, _P, _P]),
    "kt_layer_load_stop": (None, [_P]),
    "kt_layer_store_experts": ("status", [_P, _P, _U32, _U64, _P]),
    "kt_layer_info": (None, [_P, _P]),
    "kt_layer_forward": ("status", [_P, _P]),
    "kt_layer_submit": ("status", [_P, _P, _P]),
    "kt_layer_usage": ("status", [_P, _P, _U32]),
    "kt_layer_usage_reset": (None, [_P]),
    "kt_linear_create": ("status", [_P, _P, _P]),
    "kt_linear_destroy": (None, [_P]),
    "kt_linear_load": ("status", [_P, _P, _P]),
    "kt_linear_load_checkpoint": ("status", [_P, _P, _S]),
    "kt_linear_info": (None, [_P, _P]),
    "kt_linear_weights": ("status", [_P, _U64, _U64, _P]),
    "kt_linear_forward": ("status", [_P]),
    "kt_wait": ("status", [_P, _U64]),
    "kt_place": ("status", [_P, _P]),
    "kt_deferral_create": ("status", [_P, _P, _P]),
    "kt_deferral_destroy": (None, [_P]),
    "kt_deferral_submit": ("status", [_P, _U32, _P, _P, _P]),
    "kt_host_call_create": ("status", [_P, _P]),
    "kt_host_call_destroy": (None, [_P]),
    "kt_host_call_status": ("status", [_P]),
    "kt_host_submit": (None, [_P]),
    "kt_host_wait": (None, [_P]),
    "kt_stream_runtime_open": ("status", [_S, _P]),
    "kt_stream_runtime_allocator": ("status", [_P, _P]),
    "kt_submit_on_stream": ("status", [_P, _P, _P]),
    "kt_sync_on_stream": ("status", [_P, _P, _P]),
    "kt_capture_batch_sizes": ("status", [_P, _P, _P, _U32]),
    "kt_staging_get": ("status", [_P, _P, _U32, _U32, _P]),
    "kt_clear_buffers": ("status", [_P, _P]),
    "kt_layer_unpack_info": ("status", [_P, _U32, _P]),
    "kt_layer_submit_unpack": ("status", [_P, _U32, _U32, _P, _P]),
}


def declare(library, functions=_FUNCTIONS):
    """Gives each function of a library its types; AttributeError names one that it lacks."""
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype = c.c_int if result == "status" else result
        function.argtypes = arguments + [_P] * (result == "status")
