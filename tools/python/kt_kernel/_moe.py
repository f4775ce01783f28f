# SPDX-License-Identifier: Apache-2.0
"""kt_kernel_ext.moe: KT-Kernel's classes of layers, on addresses of the caller's, as layers of the library."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

from . import _abi
from ._handle import Pointer
from ._lib import KTError, KTValueError, call, encode, lib, whole
from .layer import check_method

# Longest stay in a wait: a task may stand behind many others.
_TIMEOUT_MS = 24 * 60 * 60 * 1000
# Buffers of a layer; larger batches are computed in pieces.
_MAX_TOKENS = 4096
_SCALE_SIZE = {"f32": 4, "bf16": 2, "f8_e8m0": 1}
_GGML = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k",
    13: "q5_k", 14: "q6_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s",
    22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4",
    40: "nvfp4", 41: "q1_0", 42: "q2_0",
}  # fmt: skip
_PROJECTIONS = ("gate", "up", "down")


class MOEConfig:
    """A layer: sizes, addresses of weights, and its CPUInfer in ``pool``.

    Weights of all experts lie behind gate_proj, up_proj and down_proj, and their scales behind gate_scale ...; or each
    expert's behind an address of its own in gate_projs[0][expert] ... and gate_scales[0][expert] ..."""

    def __init__(
        self,
        expert_num: int = 0,
        num_experts_per_tok: int = 0,
        hidden_size: int = 0,
        intermediate_size: int = 0,
        num_gpu_experts: int = 0,
    ):
        """num_gpu_experts: how many experts, the first ones, are left out; or the address of their mask."""
        self.expert_num, self.num_experts_per_tok = expert_num, num_experts_per_tok
        self.hidden_size, self.intermediate_size = hidden_size, intermediate_size
        self.num_gpu_experts = num_gpu_experts if num_gpu_experts <= expert_num else 0
        self.gpu_experts_mask = num_gpu_experts if num_gpu_experts > expert_num else 0
        self.physical_to_logical_map = 0
        self.layer_idx = 0
        self.max_len = _MAX_TOKENS
        self.pool: Any = None
        self.swiglu_limit = self.swiglu_alpha = 0.0
        self.gate_proj = self.up_proj = self.down_proj = 0
        self.gate_scale = self.up_scale = self.down_scale = 0
        self.gate_projs: list[list[int]] = []
        self.up_projs: list[list[int]] = []
        self.down_projs: list[list[int]] = []
        self.gate_scales: list[list[int]] = []
        self.up_scales: list[list[int]] = []
        self.down_scales: list[list[int]] = []
        self.gate_type = self.up_type = self.down_type = 12
        self.hidden_type = 30
        self.quant_config = types.SimpleNamespace(
            quant_method="", bits=0, group_size=0, zero_point=False, per_channel=False
        )


class _Matrix:
    """How one projection of a kind of weights lies in memory: [rows, cols], and its scales."""

    def __init__(self, dtype, rows, cols, scale=None, groups=(1, 1), by_columns=False):
        elements, size = ctypes.c_uint32(), ctypes.c_uint32()
        self.dtype = lib.kt_dtype_parse(dtype.encode())
        lib.kt_dtype_block(self.dtype, ctypes.byref(elements), ctypes.byref(size))
        if cols % elements.value or cols % groups[1] and scale != "f32":
            raise KTValueError(f"{cols} columns are not in blocks of {elements.value} and groups of {groups[1]}")
        self.rows, self.cols = rows, cols
        n_blocks = cols // elements.value
        self.size = rows * n_blocks * size.value
        self.row_stride, self.block_stride = n_blocks * size.value, size.value
        if by_columns:
            self.row_stride, self.block_stride = size.value, rows * size.value
        self.scale, self.groups, self.by_columns = scale, groups, by_columns

    def scales(self, pointer):
        """kt_scales, and their bytes."""
        down, across = -(-self.rows // self.groups[0]), -(-self.cols // self.groups[1])
        each = _SCALE_SIZE[self.scale]
        strides = (each, down * each) if self.by_columns else (across * each, each)
        dtype = lib.kt_dtype_parse(self.scale.encode())
        return _abi.kt_scales(pointer, down * across * each, dtype, 0, *self.groups, *strides)

    def view(self, pointer, scale):
        given = _abi.kt_view(
            ctypes.sizeof(_abi.kt_view),
            self.dtype,
            pointer,
            self.size,
            self.rows,
            self.cols,
            self.row_stride,
            self.block_stride,
        )
        if self.scale:
            given.scales = self.scales(scale)
        return given


def _dense(_config, _name, rows, cols):
    return _Matrix("bf16", rows, cols)


def _fp8(config, _name, rows, cols):
    group = config.quant_config.group_size or 128
    return _Matrix("f8_e4m3", rows, cols, "f32", (group, group))


def _fp8_channel(_config, _name, rows, cols):
    return _Matrix("f8_e4m3", rows, cols, "f32", (1, cols))


def _int4(config, _name, rows, cols):
    return _Matrix("int4", rows, cols, "bf16", (1, config.quant_config.group_size or 32))


def _gptq(config, _name, rows, cols):
    return _Matrix("int4", rows, cols, "f32", (1, config.quant_config.group_size or 128), by_columns=True)


def _mxfp4(config, _name, rows, cols):
    return _Matrix("f4_e2m1", rows, cols, "bf16", (1, config.quant_config.group_size or 32))


def _mxfp8(config, _name, rows, cols):
    return _Matrix("f8_e4m3", rows, cols, "f8_e8m0", (1, config.quant_config.group_size or 32))


def _ggml(config, name, rows, cols):
    number = int(getattr(config, f"{name}_type"))
    if number not in _GGML:
        raise KTValueError(f"{name}_type is {number}, which is not a type of ggml that this package knows")
    return _Matrix(_GGML[number], rows, cols)


# The method that computes what the class does, on whichever CPU, and how its weights lie in memory.
_CLASSES: dict[str, tuple[str, Callable[..., _Matrix]]] = {
    "AMXInt4_MOE": ("AMXINT4", _dense),
    "AMXInt8_MOE": ("AMXINT8", _dense),
    "AMXBF16_MOE": ("BF16", _dense),
    "AVX2BF16_MOE": ("BF16", _dense),
    "Int8_KERNEL_MOE": ("MOE_INT8", _dense),
    "AMXFP8_MOE": ("FP8", _fp8),
    "AVX2FP8_MOE": ("FP8", _fp8),
    "AMXFP8PerChannel_MOE": ("FP8_PERCHANNEL", _fp8_channel),
    "AMXInt4_KGroup_MOE": ("RAWINT4", _int4),
    "AVX2RawInt4_MOE": ("RAWINT4", _int4),
    "AVXVNNI256RawInt4_MOE": ("RAWINT4", _int4),
    "AVX2GPTQInt4_MOE": ("GPTQ_INT4", _gptq),
    "AVXVNNI256GPTQInt4_MOE": ("GPTQ_INT4", _gptq),
    "AMXFP4_KGroup_MOE": ("MXFP4", _mxfp4),
    "AVX2MXFP4_MOE": ("MXFP4", _mxfp4),
    "AMXMXFP8_KGroup_MOE": ("MXFP8", _mxfp8),
    "AVX2MXFP8_MOE": ("MXFP8", _mxfp8),
    "MOE": ("LLAMAFILE", _ggml),
}


class Task:
    """What CPUInfer.submit takes."""

    def __init__(self, layer: Layer, begin: Callable[[], Any]):
        self.layer = layer
        self.begin = begin


class _Call:
    """A kt_host_call."""

    def __init__(self, layer, params):
        handle = Pointer()
        call(lib.kt_host_call_create, ctypes.byref(params), ctypes.byref(handle))
        self.handle = handle.own(lib.kt_host_call_destroy, layer)


class Layer:
    """A class of kt_kernel_ext.moe, such as AMXInt8_MOE."""

    method = ""
    matrix: Callable[..., _Matrix]

    def __init__(self, config: MOEConfig):
        if config.pool is None:
            raise KTValueError("config.pool is None; set it to a CPUInfer's backend_")
        self.config, self.pool = config, config.pool
        self._handle: Pointer | None = None

    # ---- tasks ----

    def load_weights_task(self, physical_to_logical_map: int = 0) -> Task:
        """Packs the weights; int64 [expert_num] at the address says which of them each expert is, 0: itself."""
        return Task(self, lambda: self._load(physical_to_logical_map))

    def warm_up_task(self) -> Task:
        """Nothing: a layer that is loaded is warm."""
        return Task(self, self._loaded_check)

    def forward_task(
        self,
        qlen: int,
        k: int,
        expert_ids: int,
        weights: int,
        input: int,
        output: int,
        incremental: bool = False,
    ) -> Task:
        """The forward of the int32 at `qlen` tokens, which is read when the task runs; incremental adds to output."""
        return Task(self, lambda: self._forward(qlen, k, expert_ids, weights, input, output, incremental))

    # The same at once.

    def load_weights(self, physical_to_logical_map: int = 0) -> None:
        """load_weights_task, done."""
        self._load(physical_to_logical_map)

    def warm_up(self) -> None:
        """warm_up_task, done."""
        self._loaded_check()

    def forward(self, *arguments: Any) -> None:
        """forward_task, done; qlen is an address here too."""
        self.pool.submit(self.forward_task(*arguments))
        self.pool.sync()

    # ---- how ----

    def _loaded_check(self):
        if self._handle is None:
            raise KTError(f"{type(self).__name__}: there are no weights; submit a load_weights_task first")

    def _load(self, physical_to_logical_map):
        config, context = self.config, self.pool.context
        check_method(context, self.method)
        experts = self._experts()
        params = _abi.sized(_abi.kt_layer_params)
        params.n_experts = whole(config.expert_num, "expert_num", 1)
        params.top_k = whole(config.num_experts_per_tok, "num_experts_per_tok", 1)
        params.hidden_size, params.intermediate_size = config.hidden_size, config.intermediate_size
        params.max_tokens = min(whole(config.max_len, "max_len", 1), _MAX_TOKENS)
        params.limit, params.alpha = config.swiglu_limit, config.swiglu_alpha
        kind = "silu" if not config.swiglu_limit else "swigluoai" if config.swiglu_alpha else "swiglu"
        params.activation = _abi.ACTIVATION[kind]
        params.backend = lib.kt_method_backend(self.method.encode())
        params.expert_map = (physical_to_logical_map or config.physical_to_logical_map) or None
        params.name = encode(f"layer {config.layer_idx}", "layer_idx")
        mask = config.gpu_experts_mask
        keep = None
        if not mask and config.num_gpu_experts:
            n = config.num_gpu_experts
            keep = (ctypes.c_uint8 * config.expert_num)(*([1] * n))
            mask = ctypes.addressof(keep)
        params.skip_mask = mask or None
        handle = Pointer()
        call(lib.kt_layer_create, context._use(), ctypes.byref(params), ctypes.byref(handle))
        handle.own(lib.kt_layer_destroy, keep)
        call(lib.kt_layer_load, handle, experts, len(experts))
        self._handle = handle

    def _experts(self):
        config = self.config
        wide, high = (config.intermediate_size, config.hidden_size), (config.hidden_size, config.intermediate_size)
        experts = (_abi.kt_expert * config.expert_num)()
        for name, shape in zip(_PROJECTIONS, (wide, wide, high)):
            matrix = type(self).matrix(config, name, *shape)
            weights = self._pointers(f"{name}_proj", matrix.size)
            scales: list[Any] = [None] * len(weights)
            if matrix.scale:
                scales = self._pointers(f"{name}_scale", matrix.scales(None).size)
            for expert, weight, scale in zip(experts, weights, scales):
                setattr(expert, name, matrix.view(weight, scale))
        return experts

    def _pointers(self, field, size):
        """An address for each expert."""
        n, each = self.config.expert_num, getattr(self.config, f"{field}s")
        if each:
            if len(each) != 1 or len(each[0]) != n:
                raise KTValueError(f"{field}s must be one list of {n} addresses, whatever the number of NUMA nodes is")
            return [int(pointer) for pointer in each[0]]
        first = int(getattr(self.config, field))
        if not first:
            raise KTValueError(f"{field} is 0, and {field}s is empty: {type(self).__name__} needs one of them")
        return [first + expert * size for expert in range(n)]

    def _forward(self, qlen, k, expert_ids, weights, input, output, incremental):
        self._loaded_check()
        dtype = lib.kt_dtype_parse(_GGML.get(int(self.config.hidden_type), "").encode())
        params = _abi.sized(_abi.kt_host_params)
        params.layer, params.n_tokens, params.max_tokens = self._handle, qlen, self.config.max_len
        params.timeout_ms = _TIMEOUT_MS
        params.forward = _abi.kt_forward(
            ctypes.sizeof(_abi.kt_forward), 0, k, expert_ids, weights, input, output, dtype, dtype, 0, 0,
            1 if incremental else 0,
        )  # fmt: skip
        return _Call(self._handle, params)


missing: Callable[[str], Any]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        return missing(name if name.startswith("__") else f"moe.{name}")
    method, matrix = _CLASSES[name]
    made = type(name, (Layer,), {"method": method, "matrix": staticmethod(matrix), "__module__": __name__})
    globals()[name] = made
    return made
