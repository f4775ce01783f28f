# SPDX-License-Identifier: Apache-2.0
"""The experts of Mixture-of-Experts models on CPUs, and their linears.

KTMoEWrapper and generate_gpu_experts_masks are what engines such as SGLang use; Context, Checkpoint and Layer
are the library's own objects:

    import kt_kernel

    with kt_kernel.Context(threads=8) as context, kt_kernel.Checkpoint("MODEL") as model:
        layer = kt_kernel.Layer(context, model, 0)
        y = layer.forward(x, ids, weights)      # numpy arrays or torch tensors
        q, k, v = kt_kernel.linears([wq, wk, wv], x)        # of kt_kernel.Linear

    tokenizer = kt_kernel.Tokenizer("MODEL")    # by libktengine, of the package kt-kernel-engine
    ids = tokenizer.encode_chat([{"role": "user", "content": "Hello"}])
    for piece in kt_kernel.Model("MODEL").generate(ids, max_tokens=100, temperature=0.8, seed=1):
        print(piece, end="", flush=True)

Neither torch nor a GPU is needed. What goes wrong in the library is a KTError with its words.
"""

import logging as _logging
import os as _os
import sys as _sys
from typing import Any

from . import kt_kernel_ext
from ._lib import (
    VERSION as __version__,
)
from ._lib import KTError, KTFileError, KTKeyError, KTMemoryError, KTUnsupportedError, KTValueError
from .checkpoint import Checkpoint, CheckpointInfo, Moe
from .command import bench
from .context import Backend, Context, ContextInfo, backends
from .layer import Layer, LayerInfo, Ticket, methods
from .linear import Linear, LinearInfo, linears
from .model import Model, ModelInfo
from .tokenizer import Detokenizer, Token, Tokenizer
from .wrapper import AMXSFTMoEWrapper, KTMoEWrapper, generate_gpu_experts_masks

__all__ = [
    "AMXSFTMoEWrapper",
    "Backend",
    "Checkpoint",
    "CheckpointInfo",
    "Context",
    "ContextInfo",
    "Detokenizer",
    "KTError",
    "KTFileError",
    "KTKeyError",
    "KTMemoryError",
    "KTMoEWrapper",
    "KTUnsupportedError",
    "KTValueError",
    "Layer",
    "LayerInfo",
    "Linear",
    "LinearInfo",
    "Model",
    "ModelInfo",
    "Moe",
    "Ticket",
    "Token",
    "Tokenizer",
    "__cpu_variant__",
    "__version__",
    "backends",
    "bench",
    "generate_gpu_experts_masks",
    "kt_kernel_ext",
    "linears",
    "methods",
]


# KT-Kernel's extension module has this name, too.
_sys.modules.setdefault("kt_kernel_ext", kt_kernel_ext)

__cpu_variant__: str


def __getattr__(name: str) -> Any:
    """__cpu_variant__: the level of this CPU, "amx" .. "scalar", at most what KT_KERNEL_CPU_VARIANT says."""
    if name != "__cpu_variant__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with Context(threads=1) as context:
        globals()[name] = context.info.cpu_variant
    return globals()[name]


# Asked for debug messages, and no program has said where they go: to standard error.
if _os.environ.get("KT_KERNEL_DEBUG", "0").lower() not in ("", "0", "no", "off", "false"):
    _logger = _logging.getLogger("kt_kernel")
    _logger.setLevel(_logging.DEBUG)
    if not _logging.getLogger().handlers and not _logger.handlers:
        _logger.addHandler(_logging.StreamHandler())
