# SPDX-License-Identifier: Apache-2.0
"""The structs and functions of <kt/engine.h> and <kt/sampling.h> that the package uses, as _abi.py has others."""

from __future__ import annotations

import ctypes as c
from typing import Any

SPECULATE = {"auto": 0, "off": 1, "lookup": 2}


class kt_model_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("max_tokens", c.c_uint64),
        ("cache_tokens", c.c_uint64),
        ("max_sessions", c.c_uint32),
        ("max_batch", c.c_uint32),
        ("cache_dtype", c.c_uint32),
        ("mtp", c.c_uint32),
        ("progress", c.c_void_p),
        ("data", c.c_void_p),
        ("experts", c.c_void_p),
        ("n_logits", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class kt_model_info(c.Structure):
    _fields_ = [
        ("family", c.c_char_p),
        ("n_layers", c.c_uint32),
        ("n_experts", c.c_uint32),
        ("hidden_size", c.c_uint64),
        ("vocabulary", c.c_uint64),
        ("context_length", c.c_uint64),
        ("max_tokens", c.c_uint64),
        ("weight_size", c.c_uint64),
        ("cache_size", c.c_uint64),
        ("dense_bytes", c.c_uint64),
        ("expert_bytes", c.c_uint64),
        ("top_k", c.c_uint32),
        ("has_states", c.c_uint32),
        ("n_weights", c.c_uint64),
        ("n_expert_weights", c.c_uint64),
        ("instruction", c.c_char_p),
        ("level", c.c_char_p),
        ("has_mtp", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class kt_step(c.Structure):
    _fields_ = [
        ("session", c.c_void_p),
        ("ids", c.c_void_p),
        ("n_ids", c.c_uint32),
        ("n_logits", c.c_uint32),
        ("logits", c.c_void_p),
    ]


class kt_hidden(c.Structure):
    _fields_ = [
        ("n_rows", c.c_uint32),
        ("reserved", c.c_uint32),
        ("before", c.c_void_p),
        ("after", c.c_void_p),
    ]


class kt_logit_bias(c.Structure):
    _fields_ = [("id", c.c_int32), ("bias", c.c_float)]


class kt_sampling_params(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("seed", c.c_uint64),
        ("temperature", c.c_double),
        ("top_k", c.c_uint32),
        ("n_top", c.c_uint32),
        ("top_p", c.c_double),
        ("min_p", c.c_double),
        ("typical_p", c.c_double),
        ("top_n_sigma", c.c_double),
        ("xtc_probability", c.c_double),
        ("xtc_threshold", c.c_double),
        ("repetition_penalty", c.c_double),
        ("presence_penalty", c.c_double),
        ("frequency_penalty", c.c_double),
        ("penalty_last_n", c.c_uint64),
        ("dry_multiplier", c.c_double),
        ("dry_base", c.c_double),
        ("dry_allowed_length", c.c_uint32),
        ("logprobs", c.c_uint32),
        ("dry_last_n", c.c_uint64),
        ("dry_breakers", c.c_void_p),
        ("n_dry_breakers", c.c_uint64),
        ("logit_bias", c.c_void_p),
        ("n_logit_bias", c.c_uint64),
    ]


class kt_choice(c.Structure):
    _fields_ = [
        ("id", c.c_int32),
        ("n_left", c.c_uint32),
        ("logprob", c.c_float),
        ("n_top", c.c_uint32),
        ("top", c.c_void_p),
    ]


class kt_speculator_params(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("mode", c.c_uint32), ("max_drafts", c.c_uint32)]


class kt_stop_text(c.Structure):
    _fields_ = [("text", c.c_char_p), ("length", c.c_uint64)]


TOKEN_FN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(kt_choice))

STRUCTS = [made for name, made in list(globals().items()) if name.startswith("kt_")]

# ---- functions: as in _abi.py ----

_P, _S, _U32, _U64 = c.c_void_p, c.c_char_p, c.c_uint32, c.c_uint64
MODEL: dict[str, tuple[Any, list[Any]]] = {
    "kt_model_open": ("status", [_P, _P, _P, _P]),
    "kt_model_close": (None, [_P]),
    "kt_model_info": (None, [_P, _P]),
    "kt_session_open": ("status", [_P, _P]),
    "kt_session_close": (None, [_P]),
    "kt_model_step": ("status", [_P, _P, _U32]),
    "kt_model_step_hidden": ("status", [_P, _P, _P, _U32]),
    "kt_sampling_defaults": ("status", [_P, _P]),
    "kt_sampling_breakers": ("status", [_P, _P, _U64, _P, _P]),
    "kt_sampler_create": ("status", [_U64, _P, _P]),
    "kt_sampler_destroy": (None, [_P]),
    "kt_speculator_create": ("status", [_P, _P, _P, _P]),
    "kt_speculator_destroy": (None, [_P]),
    "kt_speculator_add": ("status", [_P, _P, _U64]),
    "kt_speculator_step": ("status", [_P, _P, _U64, TOKEN_FN, _P]),
    "kt_stop_create": ("status", [_P, _U64, _U32, _P]),
    "kt_stop_destroy": (None, [_P]),
    "kt_stop_add": ("status", [_P, _S, _U64, _P, _P, _P]),
    "kt_stop_end": ("status", [_P, _P, _P]),
}
