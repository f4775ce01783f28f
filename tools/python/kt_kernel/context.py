# SPDX-License-Identifier: Apache-2.0
"""Contexts: configuration, threads and plugins."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi
from ._handle import Handle, Pointer, log_message, pointer_of
from ._lib import bundled, bundled_folders, call, encode, lib, renamed, text, whole, whole_list


@dataclasses.dataclass(frozen=True)
class Backend:
    """A configured plugin, or the built-in reference."""

    name: str
    state: str  # "loaded", "disabled", "unfit", "refused" or "failed"
    reason: str  # what is wrong and what to do, or ""
    file: str
    version: str
    description: str
    formats: tuple[str, ...]  # names such as "bf16"; the last may be words: "GGUF's blocks"
    level: str  # in use, "" if it is not loaded
    levels: tuple[str, ...]  # best first
    priority: int
    takes_linears: bool  # False: its plugin ABI has only experts, it has none, or it is not loaded
    takes_attention: bool  # False: it has none, or it is not loaded


@dataclasses.dataclass(frozen=True)
class ContextInfo:
    """The machine as a context uses it."""

    n_nodes: int  # NUMA nodes in use
    n_threads: int  # of all nodes, the caller's included
    bind_failures: int
    membind_failures: int
    cpu_variant: str  # "amx" .. "scalar"
    cpu_features: tuple[str, ...]
    nodes: tuple[int, ...]  # their numbers, as in numactl


def _config_params(settings, file):
    params = _abi.sized(_abi.kt_config_params)
    encoded = [encode(setting, "a setting") for setting in settings]
    params.settings = (ctypes.c_char_p * len(encoded))(*encoded)
    params.n_settings = len(encoded)
    params.file = encode(file, "config") if file is not None else None
    params.log = log_message
    files = bundled()
    if files:
        params.plugin_folder, params.dropin_folder = map(os.fsencode, bundled_folders(files))
    return params


def _arguments(wished, settings):
    """What messages say of settings that the caller gave as arguments, not as settings."""
    names = {}
    for key in wished.keys() - settings.keys():
        name = key.removeprefix("core.")
        names[f'setting "{key}={wished[key]}": '] = ""
        names[key] = name
    return names


def _formats(words):
    """The names that a plugin's list begins with, and its closing words, "and GGUF's blocks", as one."""
    names = words.split()
    n = next((i for i, name in enumerate(names) if not lib.kt_dtype_parse(name.encode())), len(names))
    rest = " ".join(names[n:]).removeprefix("and ")
    return (*names[:n], rest) if rest else tuple(names)


class Context(Handle):
    """Configuration, threads and plugins. Layers keep theirs alive; one process may have several.

    threads
        threads of all NUMA nodes; None: as configured, by default one for each core of this process, but no more
        than its control group's quota of CPU time is enough for
    numa_nodes
        numbers of the nodes to use; None: as configured, by default all
    backend
        requested backend; strict=True makes it an error if another one would have to be used
    settings
        ``{"core.spin_us": 100, "plugin.llamafile.level": "avx2"}``, above files and environment
    config
        a file to read instead of the installation's and the user's, as ``kt --config``

    Raises KTError (KT_E_CONFIG, KT_E_PLUGIN, KT_E_SYSTEM) with the file and line of a wrong setting.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        numa_nodes: Iterable[int] | None = None,
        backend: str | None = None,
        strict: bool | None = None,
        settings: Mapping[str, Any] | None = None,
        config: str | os.PathLike | None = None,
    ):
        wished = dict(settings or {})
        if threads is not None:
            wished["core.threads"] = whole(threads, "threads")
        if numa_nodes is not None:
            wished["core.numa_nodes"] = ",".join(map(str, whole_list(numa_nodes, "numa_nodes")))
        if backend is not None:
            wished["core.backend"] = backend
        if strict is not None:
            wished["core.strict"] = strict
        words = {True: "yes", False: "no"}
        texts = [f"{key}={words[value] if isinstance(value, bool) else value}" for key, value in wished.items()]
        handle, made = Pointer(), ctypes.c_void_p()
        with renamed(_arguments(wished, settings or {})):
            call(lib.kt_config_create, ctypes.byref(_config_params(texts, config)), ctypes.byref(made))
            try:
                call(lib.kt_context_create, made, ctypes.byref(handle))
            finally:
                lib.kt_config_destroy(made)
        self.handle = handle.own(lib.kt_context_destroy)

    @property
    def info(self) -> ContextInfo:
        """Threads, NUMA nodes and the CPU, as they are used."""
        info, node, handle = _abi.kt_context_info(), _abi.kt_node_info(), self._use()
        lib.kt_context_info(handle, ctypes.byref(info))
        nodes = []
        for index in range(info.n_nodes):
            call(lib.kt_context_node, handle, index, ctypes.byref(node))
            nodes.append(node.os_index)
        return ContextInfo(
            info.n_nodes,
            info.n_threads,
            info.bind_failures,
            info.membind_failures,
            text(info.cpu_variant),
            tuple(text(info.cpu_features).split()),
            tuple(nodes),
        )

    def backends(self) -> list[Backend]:
        """Every configured plugin, usable or not, and the reference."""
        info, found, handle = _abi.kt_backend_info(), [], self._use()
        for index in range(lib.kt_context_backend_count(handle)):
            call(lib.kt_context_backend, handle, index, ctypes.byref(info))
            found.append(
                Backend(
                    text(info.name),
                    _abi.BACKEND_STATES[info.state],
                    text(info.reason),
                    text(info.file),
                    text(info.version),
                    text(info.description),
                    _formats(text(info.formats)),
                    text(info.level),
                    tuple(text(info.levels).split()),
                    info.priority,
                    info.state == 0 and bool(info.takes_linears),
                    info.state == 0 and bool(info.takes_attention),
                )
            )
        return found

    def backend_options(self, name: str) -> dict[str, str]:
        """A backend's own options, as they stand; none where it is not loaded."""
        info, setting, found, handle = _abi.kt_backend_info(), _abi.kt_setting(), {}, self._use()
        for index in range(lib.kt_context_backend_count(handle)):
            call(lib.kt_context_backend, handle, index, ctypes.byref(info))
            for option in range(info.n_options if text(info.name) == name else 0):
                call(lib.kt_context_backend_option, handle, index, option, ctypes.byref(setting))
                found[text(setting.key)] = text(setting.value)
        return found


def backends(context: Context | None = None) -> list[Backend]:
    """The backends of a context, or of one as this machine is configured."""
    if context is not None:
        pointer_of(context, Context, "context")
        return context.backends()
    with Context(threads=1) as own:
        return own.backends()
