# SPDX-License-Identifier: Apache-2.0
"""Experts back in their source's format, into an engine's buffers for GPU ranks."""

import ctypes
import weakref

from . import _abi, _arrays
from ._lib import KTUnsupportedError, KTValueError, call, fail, lib, text, whole

# What engines expect of scales, whatever the checkpoint had.
_SCALES = {"FP8": "f32", "FP8_PERCHANNEL": "f32", "RAWINT4": "bf16", "MXFP4": "bf16", "MXFP8": "f8_e8m0"}
_NAMES = {number: name for name, number in _abi.DTYPE.items()}


def _to_f32(module, data, dtype):
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


def _convert(module, data, source, wanted):
    """Scales in another dtype; KTValueError where they would not stay what they are."""
    values = _to_f32(module, data, source)
    if wanted == "f32":
        return values.view("uint8")
    bits = values.view("uint32")
    if (bits & 0xFFFF).any():
        raise KTValueError(f"scales in {source} cannot be written as bfloat16 without rounding")
    return (bits >> 16).astype("uint16").view("uint8")


def _pointers(given, count, what, wanted):
    if not wanted:
        return [None] * count
    numbers = [pointer.data_ptr() if hasattr(pointer, "data_ptr") else int(pointer) for pointer in given]
    if len(numbers) != count or not all(numbers):
        raise KTValueError(f"{what} must be {count} pointers, one for each rank, not {given}")
    return numbers


class _Write:
    """An expert that is being written: its ticket, and scales that are still to be converted."""

    __slots__ = ("conversions", "keep", "moe", "ticket")


class Writes:
    def __init__(self, wrapper):
        self._wrapper = weakref.proxy(wrapper)
        self._writes = []
        weakref.finalize(wrapper, _drain, self._writes)

    def submit(self, n_ranks, expert, w13, w13_scales, w2, w2_scales):
        wrapper = self._wrapper
        handle = wrapper.layer_handle()
        n_ranks, expert = whole(n_ranks, "gpu_tp_count", 1), whole(expert, "expert_id")
        info = _abi.kt_unpack_info()
        call(lib.kt_layer_unpack_info, handle, n_ranks, ctypes.byref(info))
        if info.w13.zero_size or info.w2.zero_size:
            raise KTUnsupportedError(f"layer {wrapper.layer_idx}: its weights have zeros, which have no buffers here")
        write = _Write()
        write.conversions, write.moe = [], wrapper.moe
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
            self._redirect(write, ranks[rank], "w13_scales", info.w13)
            self._redirect(write, ranks[rank], "w2_scales", info.w2)
        number = ctypes.c_uint64()
        call(lib.kt_layer_submit_unpack, handle, expert, n_ranks, ranks, ctypes.byref(number))
        write.ticket, write.keep = number.value, ranks
        self._writes.append(write)

    def _redirect(self, write, buffers, field, matrix):
        """Scales that engines expect in another dtype go to memory of ours first."""
        wanted = _SCALES.get(self._wrapper.method.upper())
        source = _NAMES.get(matrix.scale_dtype, text(lib.kt_dtype_name(matrix.scale_dtype)))
        if not matrix.scale_size or wanted is None or wanted == source:
            return
        module = _arrays.numpy(f"scales are converted from {source} to {wanted}")
        room = module.empty(matrix.scale_size, dtype="uint8")
        write.conversions.append((room, source, wanted, getattr(buffers, field)))
        setattr(buffers, field, room.ctypes.data)

    def sync(self):
        writes, self._writes[:] = list(self._writes), []
        failure = None
        for write in writes:
            error = _abi.kt_error()
            if write.moe._wait(write.ticket, ctypes.byref(error)):
                failure = failure or error
        if failure:
            fail(failure)
        for write in writes:
            for room, source, wanted, pointer in write.conversions:
                data = _convert(_arrays.numpy("scales are converted"), room, source, wanted)
                ctypes.memmove(pointer, data.ctypes.data, data.nbytes)


def _drain(writes):
    for write in writes:
        write.moe._wait(write.ticket, None)
