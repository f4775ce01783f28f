# SPDX-License-Identifier: Apache-2.0
"""Forwards of tensors on a GPU: pinned staging buffers, copies in the order of the stream, and the library's
submit and wait as functions that the stream calls. All of it may be captured in a graph."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref

from . import _abi, _arrays
from ._handle import Pointer
from ._lib import KTError, KTValueError, call, lib

_lock = threading.Lock()
_runtime = None
_SIZES = {"i32": 4, "i64": 8, "f32": 4, "bf16": 2, "f16": 2}


class Sizes:
    """The batch sizes that graphs are captured for, of the whole process."""

    sizes: list[int] = []
    version = 0  # counts changes


def runtime():
    """The runtime that torch has loaded, libcudart or libamdhip64; opened once and forever."""
    global _runtime
    with _lock:
        if _runtime is None:
            handle = ctypes.c_void_p()
            call(lib.kt_stream_runtime_open, None, ctypes.byref(handle))
            _runtime = handle
    return _runtime


def stream_number(stream):
    """The address of a stream, given as a number or an object such as torch.cuda.Stream."""
    stream = getattr(stream, "cuda_stream", stream)
    return int(getattr(stream, "value", stream) or 0)


def _on(torch, device, stream):
    """The stream's number, and a context in which torch puts its work there."""
    current = torch.cuda.current_stream(device)
    if stream is None or stream_number(stream) == current.cuda_stream:
        return current.cuda_stream, contextlib.nullcontext()
    number = stream_number(stream)
    other = torch.cuda.ExternalStream(number, device=device) if number else torch.cuda.default_stream(device)
    return number, torch.cuda.stream(other)


def _tensor(torch, pointer, shape, name):
    """A tensor on memory that the library owns."""
    count = 1
    for length in shape:
        count *= length
    dtypes = {"i32": "int32", "i64": "int64", "f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    memory = (ctypes.c_char * (count * _SIZES[name])).from_address(pointer)
    return torch.frombuffer(memory, dtype=getattr(torch, dtypes[name])).view(shape)


class _Call:
    """A kt_host_call on the staging buffers of one batch size, and the buffers as tensors."""

    def __init__(self, torch, wrapper, staging, hidden, name):
        n, top_k, size = staging.max_tokens, wrapper.num_experts_per_tok, wrapper.hidden_size
        position, self.deferral = wrapper.model.place(wrapper.layer_idx)
        params = _abi.sized(_abi.kt_host_params)
        layer = wrapper.loaded()._use()
        params.layer = layer
        params.max_tokens = n
        params.n_tokens = staging.n_tokens
        params.forward = staging.forward
        if self.deferral:
            params.deferral = self.deferral.handle
            params.position = position - self.deferral.first
        handle = Pointer()
        call(lib.kt_host_call_create, ctypes.byref(params), ctypes.byref(handle))
        self.handle = handle.own(lib.kt_host_call_destroy, layer, self.deferral)
        self.n_tokens = _tensor(torch, staging.n_tokens, (1,), "i32")
        self.ids = _tensor(torch, staging.expert_ids, (n, top_k), "i64")
        self.weights = _tensor(torch, staging.router_weights, (n, top_k), "f32")
        self.input = _tensor(torch, staging.input, (n, size), name)
        self.host_output = _tensor(torch, staging.output, (n, size), name)
        self.output = hidden.new_empty((n, size))
        self.submitted = 0  # tokens of the forward that is to be waited for


class Forwards:
    """A layer's forwards of tensors on a GPU."""

    def __init__(self, wrapper):
        self._wrapper = weakref.proxy(wrapper)
        self._calls = {}  # (max_tokens, dtype, device): _Call
        self._by_size = {}  # (tokens, dtype, device): the _Call that holds them
        self._version = None

    def clear(self):
        self._calls, self._by_size = {}, {}

    def _staging_params(self, name):
        wrapper = self._wrapper
        params = _abi.sized(_abi.kt_staging_params)
        params.hidden_size = wrapper.hidden_size
        params.top_k = wrapper.num_experts_per_tok
        params.input_dtype = params.output_dtype = _abi.DTYPE[name]
        params.instance = wrapper.model.instance
        call(lib.kt_stream_runtime_allocator, runtime(), ctypes.byref(params.allocator))
        return params

    def _find(self, torch, hidden, n):
        if self._version != Sizes.version:
            self._version, self._by_size = Sizes.version, {}
        key = (n, hidden.dtype, hidden.device)
        found = self._by_size.get(key)
        if found is None:
            found = self._by_size[key] = self._make(torch, hidden, n)
        return found

    def _make(self, torch, hidden, n):
        wrapper, staging = self._wrapper, _abi.kt_staging()
        dtype = str(hidden.dtype).rsplit(".", maxsplit=1)[-1]
        name = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}.get(dtype)
        if name is None:
            raise KTValueError(f"hidden_states is {hidden.dtype}, but must be bfloat16, float16 or float32")
        params = self._staging_params(name)
        sizes = (ctypes.c_uint32 * len(Sizes.sizes))(*Sizes.sizes)
        context, position = wrapper.context._use(), wrapper.model.place(wrapper.layer_idx)[0]
        call(lib.kt_capture_batch_sizes, context, ctypes.byref(params), sizes, len(sizes))
        call(lib.kt_staging_get, context, ctypes.byref(params), n, position, ctypes.byref(staging))
        key = (staging.max_tokens, hidden.dtype, hidden.device)
        if key not in self._calls:
            self._calls[key] = _Call(torch, wrapper, staging, hidden, name)
        return self._calls[key]

    def submit(self, hidden, ids, weights, stream):
        torch = _arrays.torch_of(hidden)
        n = self._rows(hidden)
        self._check(torch, ids, "topk_ids", n, "integers")
        self._check(torch, weights, "topk_weights", n, "floats")
        if n == 0:
            return
        found = self._find(torch, hidden, n)
        call(lib.kt_host_call_status, found.handle)
        number, ordered = _on(torch, hidden.device, stream)
        with ordered:
            # Conversions first: a copy to the host that converts is not in the stream's order.
            found.ids[:n].copy_(ids.to(torch.int64), non_blocking=True)
            found.weights[:n].copy_(weights.to(torch.float32), non_blocking=True)
            found.input[:n].copy_(hidden.reshape(n, -1), non_blocking=True)
            found.n_tokens.copy_(hidden.new_full((1,), n, dtype=torch.int32), non_blocking=True)
        call(lib.kt_submit_on_stream, runtime(), number, found.handle)
        found.submitted = n

    def _rows(self, hidden):
        size = self._wrapper.hidden_size
        if not hidden.shape or hidden.shape[-1] != size:
            raise KTValueError(f"hidden_states has the shape {list(hidden.shape)}, but must be [tokens, {size}]")
        return hidden.numel() // size

    def _check(self, torch, array, what, n, kind):
        """A copy would stretch another shape, and cut numbers of another kind off."""
        if _arrays.torch_of(array) is None:
            raise TypeError(f"{what} must be a torch tensor, as hidden_states is, not {type(array).__name__}")
        shape = [n, self._wrapper.num_experts_per_tok]
        integers = not (array.is_floating_point() or array.is_complex() or array.dtype == torch.bool)
        if list(array.shape) != shape or not (integers if kind == "integers" else array.is_floating_point()):
            found = f"{array.dtype} of the shape {list(array.shape)}"
            raise KTValueError(f"{what} is {found}, but must be {kind} {shape}")

    def sync(self, hidden, stream):
        torch = _arrays.torch_of(hidden)
        n = self._rows(hidden)
        if n == 0:
            return hidden.new_empty((0, hidden.shape[-1]))
        found = self._find(torch, hidden, n)
        if found.submitted != n:
            raise KTError(
                f"layer {self._wrapper.layer_idx}: sync_forward of {n} tokens without a submit_forward of them before it",
                "KT_E_STATE",
            )
        found.submitted = 0
        number, ordered = _on(torch, hidden.device, stream)
        call(lib.kt_sync_on_stream, runtime(), number, found.handle)
        with ordered:
            output = found.output[:n]
            output.copy_(found.host_output[:n], non_blocking=True)
        call(lib.kt_host_call_status, found.handle)
        return output
