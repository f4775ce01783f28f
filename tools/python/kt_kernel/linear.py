# SPDX-License-Identifier: Apache-2.0
"""Linears: y = x W^T + bias of one matrix."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from typing import Any

from . import _abi, _arrays
from ._handle import Handle, Pointer, pointer_of
from ._lib import KTValueError, call, encode, lib, text, whole
from .checkpoint import Checkpoint
from .context import Context
from .layer import backend_of


@dataclasses.dataclass(frozen=True)
class LinearInfo:
    """A loaded linear."""

    backend: str
    level: str
    packed_size: int  # bytes of the packed matrix
    rows: int
    cols: int
    rounding: str  # to what packing rounded the weights, "int8, a scale for each row"; "": not at all


class Linear(Handle):
    """A matrix W [rows, cols], loaded and ready to multiply: y[t, r] = bias[r] + sum over c of W[r, c] * x[t, c].

    weight
        a dense array [rows, cols] on the CPU in bfloat16 (numpy: its bits as uint16), float16 or float32, which may
        be freed afterwards; or a Checkpoint, of which `name` says the weight
    bias
        [rows] of the same types, or None; a checkpoint's weight has its own
    max_tokens
        buffers are made for this many inputs, at most 1024; more run in chunks
    split
        how NUMA nodes share it: "rows", or "cols" with sums in the order of the nodes
    backend
        a backend's name, or a method's such as "AMXINT4"; None: as configured
    name
        of the weight, such as "blk.0.attn_q"; with an array only for messages

    Any thread may call forward; forwards of one context run one after another.
    """

    def __init__(
        self,
        context: Context,
        weight: Any,
        bias: Any = None,
        *,
        max_tokens: int = 1024,
        split: str = "rows",
        backend: str | None = None,
        name: str | None = None,
    ):
        params = _abi.sized(_abi.kt_linear_params)
        if split not in _abi.SPLIT:
            raise KTValueError(f'split is "{split}", but must be "rows" or "cols"')
        stored = isinstance(weight, Checkpoint)
        if stored and name is None:
            raise KTValueError("name must say which weight of the checkpoint")
        if stored and bias is not None:
            raise KTValueError("bias must be None: a checkpoint's weight has its own")
        label = encode("linear" if name is None else name, "name")
        source, view = pointer_of(weight, Checkpoint, "weight") if stored else None, _abi.kt_view()
        if stored:
            call(lib.kt_checkpoint_weight, source, label, ctypes.byref(view), None)
        else:
            keep = _view_of(weight, view)
        numbers = _bias_of(bias, view.rows)
        params.rows, params.cols = view.rows, view.cols
        params.max_tokens = whole(max_tokens, "max_tokens", 1)
        params.split = _abi.SPLIT[split]
        params.backend = backend_of(context, backend)
        params.name = label
        used, handle = pointer_of(context, Context, "context"), Pointer()
        call(lib.kt_linear_create, used, ctypes.byref(params), ctypes.byref(handle))
        handle.own(lib.kt_linear_destroy)
        if stored:
            call(lib.kt_linear_load_checkpoint, handle, source, label)
        else:
            call(lib.kt_linear_load, handle, ctypes.byref(view), numbers)
            del keep
        self.context, self.handle = context, handle
        self._rows, self._cols = view.rows, view.cols

    @property
    def info(self) -> LinearInfo:
        """Sizes, backend, level, and whether weights were rounded."""
        info, handle = _abi.kt_linear_info(), self._use()
        lib.kt_linear_info(handle, ctypes.byref(info))
        return LinearInfo(
            text(info.backend), text(info.level), info.packed_size, info.rows, info.cols, text(info.rounding)
        )

    def weights(self, row: int = 0, n_rows: int | None = None) -> Any:
        """Rows [row, row + n_rows) of W as the backend uses them, by default all: numpy float32 [n_rows, cols]."""
        first = whole(row, "row", 0, self._rows)
        n = self._rows - first if n_rows is None else whole(n_rows, "n_rows", 0, self._rows - first)
        out = _arrays.numpy("weights() returns one of its arrays").empty((n, self._cols), dtype="float32")
        if n:
            call(lib.kt_linear_weights, self._use(), first, n, out.ctypes.data)
        return out

    def forward(self, x: Any, out: Any = None, *, out_dtype: Any = None, accumulate: bool = False) -> Any:
        """y = x W^T + bias, or out += that if accumulate.

        x [..., cols] in bfloat16 (numpy: its bits as uint16), float16 or float32; rows may lie apart. The output
        [..., rows] is of the kind of x, in out_dtype ("float32", "bfloat16", "float16" or such a dtype; None: that of
        x), or is `out`, which must not overlap x.
        """
        return linears([self], x, None if out is None else [out], out_dtype=out_dtype, accumulate=accumulate)[0]


def linears(
    linears: Sequence[Linear],
    x: Any,
    outs: Sequence[Any] | None = None,
    *,
    out_dtype: Any = None,
    accumulate: bool = False,
) -> list[Any]:
    """The outputs of up to 8 linears of one context over one input, in one dispatch: ``q, k, v = linears([wq, wk, wv],
    x)``. x [..., cols] and each of the outputs [..., rows] as with Linear.forward; outs are the caller's outputs, one
    for each linear, none overlapping another or x.
    """
    chosen = list(linears)
    if not 1 <= len(chosen) <= _abi.MAX_LINEARS:
        raise KTValueError(f"linears are {len(chosen)}, but must be 1 to {_abi.MAX_LINEARS}")
    handles = [pointer_of(linear, Linear, f"linears[{index}]") for index, linear in enumerate(chosen)]
    for index, linear in enumerate(chosen):
        if linear._cols != chosen[0]._cols:
            raise KTValueError(
                f"linears[{index}] has {linear._cols} columns, linears[0] {chosen[0]._cols}; they share their input"
            )
    source, n, stride = _arrays.rows_of(x, "x", chosen[0]._cols)
    if outs is None:
        if accumulate:
            raise KTValueError("accumulate needs out")
        dtype = _dtype_of(out_dtype)
        made = [_arrays.empty_like(x, (*source.shape[:-1], linear._rows), dtype, "x") for linear in chosen]
    else:
        if out_dtype is not None:
            raise KTValueError("out_dtype is that of out; pass one of the two")
        made = list(outs)
        if len(made) != len(chosen):
            raise KTValueError(f"outs are {len(made)}, linears {len(chosen)}")
    used, keep = [(source.pointer, source.pointer + n * stride, "x")], []
    rows = (_abi.kt_linear_output * len(chosen))()
    for index, (row, linear, out) in enumerate(zip(rows, chosen, made)):
        what = "out" if len(chosen) == 1 else f"outs[{index}]"
        view, tokens, out_stride = _arrays.rows_of(out, what, linear._rows)
        if tokens != n or not view.writable:
            raise KTValueError(f"{what} has {tokens} tokens, x {n}" if tokens != n else f"{what} is read-only")
        begin, end = view.pointer, view.pointer + n * out_stride
        for other_begin, other_end, other in used:
            if begin < other_end and other_begin < end:
                raise KTValueError(f"{what} and {other} overlap")
        used.append((begin, end, what))
        row.linear, row.output, row.output_stride = handles[index].value, begin, out_stride
        row.output_dtype = _abi.DTYPE[_arrays.float_name(view, what)]
        row.accumulate = 1 if accumulate else 0
        keep.append(view)
    if n:
        batch = _abi.sized(_abi.kt_linear_batch)
        batch.outputs, batch.n_outputs, batch.n_tokens = ctypes.addressof(rows), len(chosen), n
        batch.input, batch.input_stride = source.pointer, stride
        batch.input_dtype = _abi.DTYPE[_arrays.float_name(source, "x")]
        call(lib.kt_linear_forward, ctypes.byref(batch))
    return made


def _dtype_of(given):
    """The library's name of a dtype of numpy's or torch's, or of its name."""
    if given is None:
        return None
    name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", str(given)))
    names = {"float32": "f32", "bfloat16": "bf16", "uint16": "bf16", "float16": "f16"}
    found = names.get(str(name).removeprefix("torch."))
    if found is None:
        raise KTValueError(f'out_dtype is "{name}", but must be "float32", "bfloat16" or "float16"')
    return found


def _view_of(weight, view):
    """Fills a kt_view of a matrix; returns what must live as long."""
    found = _arrays.on_cpu(weight, "weight")
    dtype = _arrays.float_name(found, "weight")
    if len(found.shape) != 2 or 0 in found.shape:
        raise KTValueError(f"weight has the shape {list(found.shape)}, but must be [rows, cols]")
    if not found.is_dense():
        raise KTValueError("weight is not dense; pass a contiguous one")
    rows, cols = found.shape
    size = rows * cols * (4 if dtype == "f32" else 2)
    call(lib.kt_view_dense, ctypes.byref(view), _abi.DTYPE[dtype], found.pointer, size, rows, cols)
    return found


def _bias_of(bias, rows):
    """The bias as numbers of float32, or None."""
    if bias is None:
        return None
    found = _arrays.on_cpu(bias, "bias")
    dtype = _arrays.float_name(found, "bias")
    if found.shape != (rows,) or not found.is_dense():
        raise KTValueError(f"bias has the shape {list(found.shape)}, but must be dense [{rows}]")
    view, numbers = _abi.kt_view(), (ctypes.c_float * rows)()
    size = rows * (4 if dtype == "f32" else 2)
    call(lib.kt_view_dense, ctypes.byref(view), _abi.DTYPE[dtype], found.pointer, size, 1, rows)
    call(lib.kt_view_row, ctypes.byref(view), 0, numbers)
    return numbers
