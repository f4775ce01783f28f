# SPDX-License-Identifier: Apache-2.0
"""Writes experts in their source's format into an engine's buffers for GPU ranks."""

from __future__ import annotations

import ctypes
import operator
import weakref
from typing import Any

from . import _abi, _arrays
from ._lib import KTError, KTUnsupportedError, KTValueError, call, lib, text, whole
from .layer import Ticket

# The dtype of scales that engines expect, whatever the checkpoint has.
_SCALES = {"FP8": "f32", "FP8_PERCHANNEL": "f32", "RAWINT4": "bf16", "MXFP4": "bf16", "MXFP8": "f8_e8m0"}
_NAMES = {number: name for name, number in _abi.DTYPE.items()}


def _to_f32(data, dtype):
    """Scales as float32, exactly."""
    if dtype == "f8_e8m0":
        exponents = data.astype("uint32")
        bits = exponents << 23
        bits[exponents == 0] = 1 << 22  # 2^-127
        bits[exponents == 255] = 0x7FC00000
        return bits.view("float32")
    if dtype == "bf16":
        return (data.view("uint16").astype("uint32") << 16).view("float32")
    return data.view({"f16": "float16", "f32": "float32"}[dtype]).astype("float32")


def _convert(data, source, wanted):
    """Scales in another dtype; KTValueError if that would round them."""
    values = _to_f32(data, source)
    if wanted == "f32":
        return values.view("uint8")
    bits = values.view("uint32")
    if (bits & 0xFFFF).any():
        raise KTValueError(f"scales in {source} cannot be written as bfloat16 without rounding")
    return (bits >> 16).astype("uint16").view("uint8")


def _pointer(given):
    """An address that the CPU can write to, or 0."""
    if hasattr(given, "data_ptr"):
        return 0 if given.is_cuda else given.data_ptr()
    try:
        number = operator.index(given)
    except TypeError:
        return 0
    return number if 0 < number < 1 << 64 else 0


def _pointers(given, count, what, wanted):
    if not wanted:
        return [None] * count
    found = [_pointer(pointer) for pointer in given] if isinstance(given, (list, tuple)) else []
    if len(found) != count or not all(found):
        raise KTValueError(f"{what} must be a list of {count} pointers to memory of the CPU, not {given}")
    return found


class Writes:
    """Experts that are being written: tickets, and scales that are still to be converted."""

    def __init__(self, wrapper):
        self._wrapper = weakref.proxy(wrapper)
        self._writes: list[tuple[Ticket, list[Any]]] = []
        # The buffers belong to the engine, so the end of the wrapper, or of the interpreter, waits for the writes.
        weakref.finalize(wrapper, self._writes.clear)

    def submit(self, n_ranks, expert, w13, w13_scales, w2, w2_scales):
        wrapper = self._wrapper
        moe = wrapper.loaded()
        handle = moe._use()
        n_ranks, expert = whole(n_ranks, "gpu_tp_count", 1), whole(expert, "expert_id")
        info = _abi.kt_unpack_info()
        call(lib.kt_layer_unpack_info, handle, n_ranks, ctypes.byref(info))
        if info.w13.zero_size or info.w2.zero_size:
            raise KTUnsupportedError(f"layer {wrapper.layer_idx}: its weights have zeros, which have no buffers here")
        conversions: list[Any] = []
        ranks = (_abi.kt_unpack_buffers * n_ranks)()
        lists = {
            "w13": _pointers(w13, n_ranks, "w13_weight_ptrs", True),
            "w2": _pointers(w2, n_ranks, "w2_weight_ptrs", True),
            "w13_scales": _pointers(w13_scales, n_ranks, "w13_scale_ptrs", info.w13.scale_size),
            "w2_scales": _pointers(w2_scales, n_ranks, "w2_scale_ptrs", info.w2.scale_size),
        }
        for rank in range(n_ranks):
            for field, pointers in lists.items():
                setattr(ranks[rank], field, pointers[rank])
            self._redirect(conversions, ranks[rank], "w13_scales", info.w13)
            self._redirect(conversions, ranks[rank], "w2_scales", info.w2)
        number = ctypes.c_uint64()
        call(lib.kt_layer_submit_unpack, handle, expert, n_ranks, ranks, ctypes.byref(number))
        self._writes.append((Ticket(moe._context, number.value, None, (ranks, conversions)), conversions))

    def _redirect(self, conversions, buffers, field, matrix):
        """Directs scales that need another dtype to a temporary array, to be converted later."""
        wanted = _SCALES.get(self._wrapper.method.upper())
        source = _NAMES.get(matrix.scale_dtype, text(lib.kt_dtype_name(matrix.scale_dtype)))
        if not matrix.scale_size or wanted is None or wanted == source:
            return
        module = _arrays.numpy(f"scales are converted from {source} to {wanted}")
        room = module.empty(matrix.scale_size, dtype="uint8")
        conversions.append((room, source, wanted, getattr(buffers, field)))
        setattr(buffers, field, room.ctypes.data)

    def sync(self):
        writes, self._writes[:] = list(self._writes), []
        failure = None
        for ticket, _conversions in writes:
            try:
                ticket.wait()
            except KTError as error:
                failure = failure or error
        if failure:
            raise failure
        for _ticket, conversions in writes:
            for room, source, wanted, pointer in conversions:
                data = _convert(room, source, wanted)
                ctypes.memmove(pointer, data.ctypes.data, data.nbytes)
