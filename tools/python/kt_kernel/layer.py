# SPDX-License-Identifier: Apache-2.0
"""Layers: loaded experts, and their forwards."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _abi, _arrays
from ._handle import Handle, Pointer, Single, pointer_of
from ._lib import KTValueError, call, encode, fail, lib, real, text, whole, whole_list
from .context import Context

if TYPE_CHECKING:
    from .checkpoint import Checkpoint


_PROGRESS_SECONDS = 0.1
_FORWARD = ("hidden_states", "expert_ids", "router_weights")


@dataclasses.dataclass(frozen=True)
class LayerInfo:
    """A loaded layer."""

    backend: str
    level: str
    packed_size: int  # bytes of all packed experts
    n_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int
    rounding: str  # to what packing rounded the weights, "int8, a scale for each row"; "": not at all


class Ticket(Single):
    """A forward that was submitted; wait() gives its output. One that is dropped is waited for."""

    __slots__ = ("_context", "_failure", "_keep", "_lock", "_number", "_output")

    def __init__(self, context: Pointer, number: int, output: Any, keep: Any):
        self._context: Pointer | None = context
        self._number: int | None = number
        self._output = output
        self._keep = keep
        self._failure: _abi.kt_error | None = None
        self._lock = threading.Lock()

    def wait(self) -> Any:
        """Waits and returns the output, to each thread that calls it. Raises what the forward failed with."""
        with self._lock:
            if self._number is not None:
                error = _abi.kt_error()
                if self._collect(ctypes.byref(error)):
                    self._failure, self._output = error, None
        if self._failure is not None:
            fail(self._failure)
        return self._output

    # The function is a default, since a module's names may be gone when the interpreter ends.
    def _collect(self, error, wait=lib.kt_wait):
        number, self._number = self._number, None
        status = wait(self._context, number, error)
        self._context = self._keep = None
        return status

    def __del__(self):
        if getattr(self, "_number", None) is not None:
            self._collect(None)


def _expert_map(numbers, n_experts):
    if numbers is None:
        return None
    found = _arrays.on_cpu(numbers, "expert_map") if not isinstance(numbers, (list, tuple)) else None
    if found is not None and (found.dtype != "i64" or found.shape != (n_experts,) or not found.is_dense()):
        raise KTValueError(
            f"expert_map is {found.dtype} of the shape {list(found.shape)}, but must be dense int64 [{n_experts}]"
        )
    source = ctypes.c_int64 * n_experts
    if found is not None:
        return source.from_buffer_copy(source.from_address(found.pointer))
    if len(numbers) != n_experts:
        raise KTValueError(f"expert_map has {len(numbers)} numbers, but must have {n_experts}")
    return source(*whole_list(numbers, "expert_map"))


def _mask_view(mask, n_experts):
    if mask is None:
        return None
    found = _arrays.on_cpu(mask, "skip_mask")
    if found.dtype not in ("bool", "u8", "i8") or found.shape != (n_experts,) or not found.is_dense():
        raise KTValueError(
            f"skip_mask is {found.dtype} of the shape {list(found.shape)}, but must be dense bool or uint8 "
            f"[{n_experts}]"
        )
    return found


class Layer(Handle):
    """The experts of one layer, loaded and ready to compute.

    ``Layer(context, checkpoint, 3)`` loads layer 3; ``Layer.from_tensors`` takes weights of yours. Options:

    backend
        a backend's name, or a method's such as "AMXINT4"; None: as configured
    max_tokens
        buffers are made for this many; larger batches run in chunks of it
    skip_mask
        bool or uint8 [n_experts] on the CPU: experts that are left out, such as those on a GPU. It is not copied:
        change it in place between forwards
    expert_map
        int64 [n_experts]: expert i is the checkpoint's expert expert_map[i]
    top_k
        experts of a token at most; None: what the checkpoint says
    n_experts, hidden_size, intermediate_size
        what the checkpoint must have; None: whatever it has
    progress
        called with bytes of packed weights, done and in all, while the layer is loaded, from the caller's thread and
        never inside the library; what it raises ends the loading, as Ctrl-C does
    activation, limit, alpha
        the activation, instead of the checkpoint's: "silu", "gelu_tanh", "swiglu" (limit), "swiglustep" (limit),
        "swigluoai" (limit and alpha) or "situ" (alpha, and limit unless it is 0)

    Any thread may call forward and submit; forwards of one context run one after another.
    """

    def __init__(
        self,
        context: Context,
        checkpoint: Checkpoint,
        index: int,
        *,
        backend: str | None = None,
        max_tokens: int = 4096,
        skip_mask: Any = None,
        expert_map: Any = None,
        top_k: int | None = None,
        n_experts: int | None = None,
        hidden_size: int | None = None,
        intermediate_size: int | None = None,
        progress: Callable[[int, int], object] | None = None,
        activation: str | None = None,
        limit: float = 0.0,
        alpha: float = 0.0,
    ):
        from .checkpoint import Checkpoint

        params = _abi.sized(_abi.kt_layer_params)
        source, index = pointer_of(checkpoint, Checkpoint, "checkpoint"), whole(index, "index")
        call(lib.kt_checkpoint_layer_params, source, index, ctypes.byref(params))
        sizes = {"n_experts": n_experts, "hidden_size": hidden_size, "intermediate_size": intermediate_size}
        for name, size in {**sizes, "top_k": top_k}.items():
            if size is not None:
                setattr(params, name, whole(size, name, 1))
        if activation is not None:
            _set_activation(params, activation, limit, alpha)
        handle = self._create(context, params, f"layer {index}", backend, max_tokens, skip_mask, expert_map)
        self._fill(handle, progress, lib.kt_layer_load_checkpoint, source, index)

    @classmethod
    def from_tensors(
        cls,
        context: Context,
        gate: Any,
        up: Any,
        down: Any,
        *,
        top_k: int,
        backend: str | None = None,
        max_tokens: int = 4096,
        skip_mask: Any = None,
        expert_map: Any = None,
        activation: str = "silu",
        limit: float = 0.0,
        alpha: float = 0.0,
        index: int = 0,
        store: str | os.PathLike | None = None,
    ) -> Layer:
        """A layer of dense weights: gate and up [n_experts, intermediate_size, hidden_size], down [n_experts,
        hidden_size, intermediate_size], in bfloat16 (numpy: its bits as uint16), float16 or float32 on the CPU.
        They may be freed afterwards. activation, limit and alpha: see Layer.

        store is a folder, made if there is none, into which the packed weights are written too, as layer `index`;
        Checkpoint opens it. It needs the name of a backend that quantizes, and holds such layers only.
        """
        views = [_arrays.on_cpu(array, what) for array, what in ((gate, "gate"), (up, "up"), (down, "down"))]
        experts = _experts(views)
        n_experts, intermediate, hidden = views[0].shape
        params = _abi.sized(_abi.kt_layer_params)
        params.n_experts, params.top_k = n_experts, whole(top_k, "top_k", 1)
        params.hidden_size, params.intermediate_size = hidden, intermediate
        _set_activation(params, activation, limit, alpha)
        layer, name = cls.__new__(cls), f"layer {whole(index, 'index')}"
        handle = layer._create(context, params, name, backend, max_tokens, skip_mask, expert_map)
        if store is not None:
            _store(handle, experts, index, store)
        layer._fill(handle, None, lib.kt_layer_load, experts, n_experts)
        return layer

    def _create(self, context, params, name, backend, max_tokens, skip_mask, expert_map):
        mask = _mask_view(skip_mask, params.n_experts)
        numbers = _expert_map(expert_map, params.n_experts)
        params.backend = backend_of(context, backend)
        params.max_tokens = whole(max_tokens, "max_tokens", 1)
        params.skip_mask = mask.pointer if mask else None
        params.expert_map = ctypes.addressof(numbers) if numbers is not None else None
        params.name = encode(name, "name")
        self._context, handle = pointer_of(context, Context, "context"), Pointer()
        call(lib.kt_layer_create, self._context, ctypes.byref(params), ctypes.byref(handle))
        self.context = context
        self._hidden = params.hidden_size
        self._n_experts = params.n_experts
        return handle.own(lib.kt_layer_destroy, mask)

    def _fill(self, handle, progress, function, *arguments):
        if progress is None:
            call(function, handle, *arguments)
        else:
            _watch(handle, progress, lambda: call(function, handle, *arguments))
        self.handle = handle

    @property
    def info(self) -> LayerInfo:
        """Sizes, backend, level, and whether weights were rounded."""
        info, handle = _abi.kt_layer_info(), self._use()
        lib.kt_layer_info(handle, ctypes.byref(info))
        return LayerInfo(
            text(info.backend),
            text(info.level),
            info.packed_size,
            info.n_experts,
            info.top_k,
            info.hidden_size,
            info.intermediate_size,
            text(info.rounding),
        )

    def _prepare(self, hidden_states, expert_ids, router_weights, out=None, *, accumulate=False, flat=False, names=_FORWARD):
        """A kt_forward, its output ([tokens, hidden_size] if flat) and what must live as long. `names` are what the
        caller's arguments are called."""
        hidden_name, ids_name, weights_name = names
        x, n, stride = _arrays.rows_of(hidden_states, hidden_name, self._hidden)
        ids = _arrays.matrix(expert_ids, ids_name, n, "i64")
        weights = _arrays.matrix(router_weights, weights_name, n, "f32")
        if ids.shape != weights.shape:
            raise KTValueError(f"{ids_name} has the shape {list(ids.shape)}, {weights_name} {list(weights.shape)}")
        if ids.shape[1] == 0:
            raise KTValueError(f"{ids_name} names no expert for a token")
        if out is None:
            if accumulate:
                raise KTValueError("accumulate needs out")
            out = _arrays.empty_like(hidden_states, (n, self._hidden) if flat else x.shape)
        y, rows, out_stride = _arrays.rows_of(out, "out", self._hidden)
        if rows != n or not y.writable:
            raise KTValueError(f"out has {rows} tokens, hidden_states {n}" if rows != n else "out is read-only")
        if x.pointer < y.pointer + n * out_stride and y.pointer < x.pointer + n * stride:
            raise KTValueError("out and hidden_states overlap")
        forward = _abi.kt_forward(
            ctypes.sizeof(_abi.kt_forward),
            n,
            ids.shape[1],
            ids.pointer,
            weights.pointer,
            x.pointer,
            y.pointer,
            _abi.DTYPE[_arrays.float_name(x, hidden_name)],
            _abi.DTYPE[_arrays.float_name(y, "out")],
            stride,
            out_stride,
            1 if accumulate else 0,
        )
        return forward, out, (x, ids, weights, y)

    def forward(
        self, hidden_states: Any, expert_ids: Any, router_weights: Any, *, out: Any = None, accumulate: bool = False
    ) -> Any:
        """output[t] = sum over k of router_weights[t, k] * expert expert_ids[t, k] of hidden_states[t].

        hidden_states [..., hidden_size] in bfloat16 (numpy: its bits as uint16), float16 or float32; expert_ids
        [tokens, k] of integers, of which negative and masked ones are skipped; router_weights [tokens, k]. The
        output has the shape, dtype and kind of hidden_states, or is `out`, which must not overlap them. Nothing
        is copied where ids are int64, weights float32 and all of them dense. KTValueError names an id that does
        not exist.
        """
        forward, out, keep = self._prepare(hidden_states, expert_ids, router_weights, out, accumulate=accumulate)
        call(lib.kt_layer_forward, self._use(), ctypes.byref(forward))
        del keep
        return out

    def submit(self, hidden_states: Any, expert_ids: Any, router_weights: Any, *, out: Any = None) -> Ticket:
        """The same on the context's queue; returns at once. Arrays must not change until the ticket's wait()."""
        return self._submit(self._prepare(hidden_states, expert_ids, router_weights, out))

    def _submit(self, prepared):
        number = ctypes.c_uint64()
        call(lib.kt_layer_submit, self._use(), ctypes.byref(prepared[0]), ctypes.byref(number))
        return Ticket(self._context, number.value, prepared[1], prepared)

    def usage(self) -> list[int]:
        """How often each expert was computed since the layer was made or reset_usage()."""
        counts = (ctypes.c_uint64 * self._n_experts)()
        call(lib.kt_layer_usage, self._use(), counts, self._n_experts)
        return list(counts)

    def reset_usage(self) -> None:
        """Resets all statistics of the layer; waits for a running forward."""
        lib.kt_layer_usage_reset(self._use())


def _watch(handle, progress, load):
    """Runs `load` in a thread of its own, and progress here, so that it may do what it likes."""
    failures = []
    done, total = ctypes.c_uint64(), ctypes.c_uint64()

    def run():
        try:
            load()
        except BaseException as error:
            failures.append(error)

    def tell():
        lib.kt_layer_load_progress(handle, ctypes.byref(done), ctypes.byref(total))
        progress(done.value, total.value)

    thread = threading.Thread(target=run, name="kt_kernel load", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            tell()
            thread.join(_PROGRESS_SECONDS)
    except BaseException:
        while thread.is_alive():
            lib.kt_layer_load_stop(handle)
            thread.join(0.01)
        raise
    if failures:
        raise failures[0]
    tell()


def _store(handle, experts, index, folder):
    """Writes the layer into a store, which is not a folder of anything else."""
    params = _abi.sized(_abi.kt_store_params)
    params.folder = encode(folder, "store")
    os.makedirs(folder, exist_ok=True)
    for name in sorted(os.listdir(folder)):
        if re.search(r"\.(safetensors|gguf|kt)$|^_layer_", name) and not re.match(r"layer-\d+\.safetensors$", name):
            raise KTValueError(f"{os.fspath(folder)} holds {name}, which is of no store; take an empty folder")
    call(lib.kt_layer_store_experts, handle, experts, len(experts), index, ctypes.byref(params))


def _set_activation(params, activation, limit, alpha):
    if activation not in _abi.ACTIVATION:
        raise KTValueError(f'activation is "{activation}", but must be one of {", ".join(_abi.ACTIVATION)}')
    params.activation = _abi.ACTIVATION[activation]
    params.limit, params.alpha = real(limit, "limit"), real(alpha, "alpha")


def _experts(views):
    """kt_expert[n] of gate, up and down as Views [n, rows, cols]."""
    gate, up, down = views
    turned = (*gate.shape[:1], *gate.shape[:0:-1])
    if len(gate.shape) != 3 or up.shape != gate.shape or down.shape != turned:
        raise KTValueError(
            f"gate {list(gate.shape)}, up {list(up.shape)} and down {list(down.shape)} must be [experts, "
            "intermediate_size, hidden_size] twice and [experts, hidden_size, intermediate_size]"
        )
    experts = (_abi.kt_expert * gate.shape[0])()
    for view, name in zip(views, ("gate", "up", "down")):
        if not view.is_dense():
            raise KTValueError(f"{name} is not dense; pass a contiguous one")
        dtype = _abi.DTYPE[_arrays.float_name(view, name)]
        _n, rows, cols = view.shape
        size = rows * cols * (4 if dtype == _abi.DTYPE["f32"] else 2)
        for index, expert in enumerate(experts):
            target, data = ctypes.byref(getattr(expert, name)), view.pointer + index * size
            call(lib.kt_view_dense, target, dtype, data, size, rows, cols)
    return experts


def method_settings(method: str | None) -> dict[str, str]:
    """The settings that a method needs beside its backend: ``Context(settings=...)``."""
    setting = lib.kt_method_setting(encode(method, "method")) if method is not None else None
    return dict([setting.decode().split("=", 1)]) if setting else {}


def backend_of(context, backend):
    """The backend that a name stands for, a method's or its own; None: as configured."""
    method = lib.kt_method_backend(encode(backend, "backend")) if backend is not None else b"auto"
    if method is None:
        raise KTValueError(f'there is no method or backend "{backend}"; methods are {", ".join(methods())}')
    check_method(context, backend)
    return None if method == b"auto" else method


def check_method(context, method):
    """The context must have been made with the settings that the method needs."""
    for setting, wanted in method_settings(method).items():
        section, _, key = setting.rpartition(".")
        found = context.backend_options(section.removeprefix("plugin.")).get(key, wanted)
        if found != wanted:
            raise KTValueError(
                f'"{method}" needs {setting} = {wanted}, but the context has {found}: make one with '
                f"settings={method_settings(method)}"
            )


def methods() -> list[str]:
    """The method names that KT-Kernel's users know, "AMXINT4" and so on."""
    found: list[str] = []
    while (name := lib.kt_method_name(len(found))) is not None:
        found.append(name.decode())
    return found
