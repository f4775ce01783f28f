# SPDX-License-Identifier: Apache-2.0
"""The structs, numbers and functions of <kt/text.h> that the package uses, as _abi.py has those of <kt/kt.h>."""

from __future__ import annotations

import ctypes as c
from typing import Any

TOKENIZER_KIND = {"bpe": 1, "spm": 2}
TOKEN_TYPE = {"normal": 1, "unknown": 2, "control": 3, "user": 4, "unused": 5, "byte": 6}
ENCODE_BOS = 1
DECODE_NO_CONTROL = 1


class kt_text_part(c.Structure):
    _fields_ = [
        ("text", c.c_char_p),
        ("length", c.c_uint64),
        ("is_content", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class kt_tokenizer_info(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32),
        ("n_tokens", c.c_uint32),
        ("pre", c.c_char_p),
        ("source", c.c_char_p),
        ("bos_token_id", c.c_int32),
        ("eos_token_id", c.c_int32),
        ("unk_token_id", c.c_int32),
        ("pad_token_id", c.c_int32),
        ("adds_bos", c.c_uint32),
        ("adds_eos", c.c_uint32),
        ("normalizes", c.c_uint32),
    ]


class kt_token(c.Structure):
    _fields_ = [("text", c.c_void_p), ("length", c.c_uint64), ("type", c.c_uint32), ("ends", c.c_uint32)]


STRUCTS = [made for name, made in list(globals().items()) if name.startswith("kt_")]

# ---- functions: as in _abi.py ----

_P, _S, _U32, _U64 = c.c_void_p, c.c_char_p, c.c_uint32, c.c_uint64
TOKENIZER: dict[str, tuple[Any, list[Any]]] = {
    "kt_tokenizer_open": ("status", [_S, _P]),
    "kt_tokenizer_create": ("status", [_P, _P]),
    "kt_tokenizer_destroy": (None, [_P]),
    "kt_tokenizer_info": (None, [_P, _P]),
    "kt_tokenizer_token": ("status", [_P, c.c_int64, _P]),
    "kt_tokenizer_find": (c.c_int32, [_P, _S, _U64]),
    "kt_tokenizer_encode": ("status", [_P, _P, _U64, _U32, _P, _P]),
    "kt_ids_free": (None, [_P]),
    "kt_tokenizer_decode": ("status", [_P, _P, _U64, _U32, _P, _P]),
    "kt_text_free": (None, [_P]),
    "kt_detokenizer_create": ("status", [_P, _U32, _P]),
    "kt_detokenizer_destroy": (None, [_P]),
    "kt_detokenizer_add": ("status", [_P, _P, _U64, _P, _P]),
    "kt_detokenizer_end": ("status", [_P, _P, _P]),
}
TEMPLATE: dict[str, tuple[Any, list[Any]]] = {
    "kt_template_create": ("status", [_S, _U64, _S, _P]),
    "kt_template_open": ("status", [_P, _S, _P]),
    "kt_template_destroy": (None, [_P]),
    "kt_template_render": ("status", [_P, _S, _U64, _P, _P]),
    "kt_rendering_text": (_P, [_P, _P]),
    "kt_rendering_parts": (_P, [_P, _P]),
    "kt_rendering_destroy": (None, [_P]),
}
