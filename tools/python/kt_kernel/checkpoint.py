# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the contents of a model's files."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import _abi
from ._handle import Handle, Pointer, log_message
from ._lib import KTValueError, call, encode, lib, text, whole, whole_list
from .context import Context
from .layer import Layer


@dataclasses.dataclass(frozen=True)
class Moe:
    """The experts of one layer of a checkpoint."""

    layer: int
    n_experts: int
    top_k: int  # experts of a token; 0: the checkpoint does not say
    hidden_size: int
    intermediate_size: int
    dtypes: tuple[str, ...]  # of gate, up, down
    activation: str
    limit: float
    alpha: float
    size: int  # bytes of the weights
    stored_backend: str  # of a store: what its weights are packed for


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """The metadata of the files."""

    format: str  # "gguf", "safetensors" or "kt"
    architecture: str
    name: str
    n_layers: int
    size: int  # bytes of all files
    expert_size: int
    n_files: int


class Checkpoint(Handle):
    """A model's file or folder: GGUF, safetensors, what KT-Kernel's converter wrote, or a store of ``kt convert``.

    io is "mmap" (files are mapped) or "read" (they are read into memory). Raises KTError naming the file and what
    is wrong in it.
    """

    def __init__(self, path: str | os.PathLike, *, io: str = "mmap"):
        if io not in _abi.IO:
            raise KTValueError(f'io is "{io}", but must be "mmap" or "read"')
        params = _abi.sized(_abi.kt_checkpoint_params)
        params.io = _abi.IO[io]
        params.log = log_message
        handle, name = Pointer(), encode(path, "path")
        self.path = os.fspath(path)
        call(lib.kt_checkpoint_open, name, ctypes.byref(params), ctypes.byref(handle))
        self.handle = handle.own(lib.kt_checkpoint_close)

    @property
    def info(self) -> CheckpointInfo:
        """Of all files together."""
        info, handle = _abi.kt_checkpoint_info(), self._use()
        lib.kt_checkpoint_info(handle, ctypes.byref(info))
        return CheckpointInfo(
            text(info.format),
            text(info.architecture),
            text(info.name),
            info.n_layers,
            info.size,
            info.expert_size,
            info.n_files,
        )

    @property
    def layers(self) -> list[int]:
        """The numbers of the layers that have experts, ascending."""
        handle, layer, found = self._use(), ctypes.c_uint64(), []
        info = _abi.kt_checkpoint_info()
        lib.kt_checkpoint_info(handle, ctypes.byref(info))
        for index in range(info.n_moe_layers):
            call(lib.kt_checkpoint_moe_layer, handle, index, ctypes.byref(layer))
            found.append(layer.value)
        return found

    def moe(self, layer: int) -> Moe:
        """The experts of a layer. KTKeyError: it has none."""
        info, handle = _abi.kt_moe_info(), self._use()
        call(lib.kt_checkpoint_moe, handle, whole(layer, "layer"), ctypes.byref(info))
        activations = {number: name for name, number in _abi.ACTIVATION.items()}
        return Moe(
            info.layer,
            info.n_experts,
            info.top_k,
            info.hidden_size,
            info.intermediate_size,
            tuple(text(lib.kt_dtype_name(dtype)) for dtype in info.dtype),
            activations[info.activation],
            info.limit,
            info.alpha,
            info.size,
            text(info.stored_backend),
        )

    def load(
        self,
        context: Context,
        layers: Sequence[int] | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> dict[int, Layer]:
        """Loads layers, by default all that have experts; options are those of Layer.

        progress(done, total) is called with bytes of the layers' weights in their files, ten times a second and after
        each layer, from the caller's thread; what it raises ends the loading, and what was loaded is given back.
        """
        chosen = self.layers if layers is None else whole_list(layers, "layers")
        sizes = [self.moe(layer).size for layer in chosen]
        loaded: dict[int, Layer] = {}
        done = 0
        try:
            for layer, size in zip(chosen, sizes):
                if progress:
                    options["progress"] = _part_of(progress, done, size, sum(sizes))
                loaded[layer] = Layer(context, self, layer, **options)
                done += size
        except BaseException:
            for made in loaded.values():
                made.close()
            raise
        return loaded


def _part_of(progress, before, size, total):
    """Progress of a layer as progress of all of them."""
    return lambda done, whole: progress(before + (size * done // whole if whole else 0), total)
