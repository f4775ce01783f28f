# SPDX-License-Identifier: Apache-2.0
"""Looks at the caller's arrays without copying: torch tensors, numpy arrays, ``__array_interface__``, DLPack.

torch is never imported here: who brings a tensor has imported it. numpy is imported where an array has to be
made, or another one converted.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from . import _abi
from ._lib import KTValueError

_SIZE = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "u16": 2, "u32": 4,
    "u64": 8, "bool": 1,
}  # fmt: skip
FLOATS = ("f32", "bf16", "f16")
_INTEGERS = ("i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64")
_TYPESTR = {
    "f8": "f64", "f4": "f32", "f2": "f16", "i8": "i64", "i4": "i32", "i2": "i16", "i1": "i8", "u1": "u8",
    "u2": "u16", "u4": "u32", "u8": "u64", "b1": "bool",
}  # fmt: skip
_TORCH = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip
_torch_names: dict[Any, str] = {}


class View:
    """The address, shape and dtype of an array; strides in bytes. Keeps the array alive."""

    __slots__ = ("device", "dtype", "keep", "pointer", "shape", "strides", "writable")

    def __init__(self, keep, pointer, dtype, shape, strides, device="cpu", writable=True):
        self.keep = keep
        self.pointer = pointer
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.device = device
        self.writable = writable

    def is_dense(self):
        expected = _SIZE[self.dtype]
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return 0 in self.shape
            expected *= size
        return True


def torch_of(array):
    """The torch module if `array` is one of its tensors, else None."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return torch if tensor is not None and isinstance(array, tensor) else None


def numpy(why):
    try:
        import numpy as module
    except ImportError:
        raise ImportError(f"kt_kernel needs numpy here: {why}") from None
    return module


def is_on_gpu(array):
    return torch_of(array) is not None and array.is_cuda


def _torch_dtype(torch, dtype):
    if not _torch_names:
        _torch_names.update({getattr(torch, name): ours for name, ours in _TORCH.items()})
    name = _torch_names.get(dtype)
    if name is None:
        raise KTValueError(f"{dtype} is not a dtype that kt_kernel knows")
    return name


def _view_torch(torch, tensor):
    dtype = _torch_dtype(torch, tensor.dtype)
    size = _SIZE[dtype]
    strides = tuple(step * size for step in tensor.stride())
    device = "cpu" if not tensor.is_cuda and tensor.device.type == "cpu" else str(tensor.device)
    if tensor.is_neg():
        raise KTValueError("a tensor whose numbers are still to be negated; pass tensor.resolve_neg()")
    return View(tensor, tensor.data_ptr(), dtype, tuple(tensor.shape), strides, device)


def _dense_strides(shape, size):
    strides: list[int] = []
    for length in reversed(shape):
        strides.insert(0, size)
        size *= length
    return tuple(strides)


def _view_interface(array, interface):
    typestr, dtype = interface["typestr"], None
    # The name only of a dtype that numpy does not know itself: it takes microseconds.
    if typestr[1] == "V" and str(getattr(array, "dtype", "")) == "bfloat16":
        dtype = "bf16"
    elif typestr[0] == (">" if sys.byteorder == "little" else "<"):
        raise KTValueError(f"an array of {typestr} has the other order of bytes")
    else:
        dtype = _TYPESTR.get(typestr[1:])
    if dtype is None or interface.get("data") is None:
        raise KTValueError(f"an array of {typestr} is none that kt_kernel knows")
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or _dense_strides(shape, _SIZE[dtype])
    pointer, read_only = interface["data"]
    return View(array, pointer, dtype, shape, tuple(strides), writable=not read_only)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DL_CPU, _DL_CUDA_HOST = 1, 3
_DL_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _view_dlpack(array):
    # The capsule stays unused in the protocol's sense, so its own destructor gives the memory back.
    capsule = array.__dlpack__()
    tensor = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    code = _DL_CODES.get(tensor.code, "?")
    dtype = "bool" if code == "bool" else f"{code}{tensor.bits}"
    if tensor.lanes != 1 or dtype not in _SIZE:
        kind = f"type {tensor.code}, {tensor.bits} bits"
        raise KTValueError(f"a DLPack array of {kind}, is none that kt_kernel knows")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    size = _SIZE[dtype]
    strides = _dense_strides(shape, size)
    if tensor.strides:
        strides = tuple(tensor.strides[i] * size for i in range(tensor.ndim))
    on_cpu = tensor.device_type in (_DL_CPU, _DL_CUDA_HOST)
    device = "cpu" if on_cpu else f"DLPack device {tensor.device_type}"
    return View((array, capsule), (tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, device)


def view(array, what):
    """Looks at an array; `what` is its name in messages. KTValueError, TypeError."""
    torch = torch_of(array)
    try:
        if torch is not None:
            return _view_torch(torch, array)
        interface = getattr(array, "__array_interface__", None)
        if interface is not None:
            return _view_interface(array, interface)
        if hasattr(array, "__dlpack__"):
            return _view_dlpack(array)
    except Exception as error:  # also an object's own, such as a sparse tensor's, which has no address
        raise KTValueError(f"{what}: {error}") from error
    if hasattr(array, "__cuda_array_interface__"):
        raise KTValueError(f"{what}: arrays on a GPU must be torch tensors")
    raise TypeError(f"{what} must be a torch tensor, a numpy array or have DLPack, not {type(array).__name__}")


def on_cpu(array, what):
    found = view(array, what)
    if found.device != "cpu":
        raise KTValueError(f"{what} is on {found.device}, but must be on the CPU here")
    if found.pointer % _SIZE[found.dtype]:
        raise KTValueError(f"{what} begins at {found.pointer:#x}, which is not aligned for {found.dtype}")
    return found


def _convert(array, dtype, what):
    """A dense copy in another dtype."""
    torch = torch_of(array)
    if torch is not None:
        wanted = torch.int64 if dtype == "i64" else torch.float32
        return view(array.detach().to(wanted).contiguous(), what)
    found = view(array, what)
    if not hasattr(array, "__array_interface__") or found.dtype == "bf16":
        raise KTValueError(f"{what} is {found.dtype}; it must be dense {dtype}")
    module = numpy(f"{what} is not dense {dtype}")
    return view(module.ascontiguousarray(array, dtype="int64" if dtype == "i64" else "float32"), what)


def matrix(array, what, rows, dtype):
    """A dense matrix on the CPU with `rows` rows, for `dtype` "i64" (from any integers) or "f32" (any floats)."""
    found = on_cpu(array, what)
    kinds = _INTEGERS if dtype == "i64" else ("f32", "bf16", "f16", "f64")
    if found.dtype not in kinds:
        raise KTValueError(f"{what} is {found.dtype}, but must be {'integers' if dtype == 'i64' else 'floats'}")
    if len(found.shape) != 2 or found.shape[0] != rows:
        raise KTValueError(f"{what} has the shape {list(found.shape)}, but must be [{rows}, experts of a token]")
    if found.dtype == "u64" and (numpy(f"{what} are u64").asarray(array) >> 63).any():
        raise KTValueError(f"{what} has numbers above {(1 << 63) - 1}")
    if found.dtype != dtype or not found.is_dense():
        found = _convert(array, dtype, what)
    return found


def float_name(found, what):
    """The dtype of hidden states or weights: numpy has no bfloat16, so 16-bit patterns stand for it."""
    name = "bf16" if found.dtype == "u16" else found.dtype
    if name not in FLOATS:
        raise KTValueError(f"{what} is {found.dtype}, but must be bfloat16, float16 or float32")
    return name


def rows_of(array, what, columns):
    """Hidden states [..., columns] as View, rows and stride of a row in bytes; the numbers of a row are dense."""
    found = on_cpu(array, what)
    size = _SIZE[float_name(found, what)]
    shape, strides = found.shape, found.strides
    if not shape or shape[-1] != columns:
        raise KTValueError(f"{what} has the shape {list(shape)}, but must be [tokens, {columns}]")
    if len(shape) == 2 and strides[1] == size and strides[0] >= size * columns:
        return found, shape[0], strides[0]
    if not found.is_dense():
        raise KTValueError(f"{what} with strides {list(strides)} is not dense; pass a contiguous one")
    n = 1
    for length in shape[:-1]:
        n *= length
    return found, n, size * columns


def empty_like(array, shape, name=None, what="hidden_states"):
    """A new array on the CPU of the caller's kind and dtype, or that of the name "f32", "bf16" or "f16"; numpy's, where
    the caller's cannot make one. `what` is the array's name in messages."""
    torch = torch_of(array)
    if torch is not None:
        wanted = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[name] if name else array.dtype
        return torch.empty(shape, dtype=wanted)
    module = numpy("an output has to be made; pass out= instead")
    dtype = getattr(array, "dtype", None)
    if name or not isinstance(dtype, module.dtype):
        name = name or float_name(view(array, what), what)
        dtype = {"f32": "float32", "f16": "float16", "bf16": "uint16"}[name]
    return module.empty(shape, dtype=dtype)
