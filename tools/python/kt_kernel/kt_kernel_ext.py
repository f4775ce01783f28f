# SPDX-License-Identifier: Apache-2.0
"""The names of KT-Kernel's extension module that programs use without KTMoEWrapper: CPUInfer and the classes of moe.

    cpu = kt_kernel_ext.CPUInfer(threads)
    layer = kt_kernel_ext.moe.AMXInt8_MOE(config)
    cpu.submit(layer.load_weights_task(map_pointer))
    cpu.sync()

Tasks take addresses, as there, so nothing of what lies behind them can be looked at: new programs use
kt_kernel.Layer. What is not here raises an error that is an AttributeError and a NotImplementedError, so both
hasattr() and a reader are told.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from . import _device
from . import _moe as moe
from ._handle import Single
from ._lib import KTError, KTUnsupportedError, call, lib, renamed, whole, whole_list
from .context import Context

__all__ = ["CPUInfer", "WorkerPoolConfig", "moe"]


class WorkerPoolConfig:
    """Threads for each of some NUMA nodes; the threads of all are spread evenly over them."""

    def __init__(self) -> None:
        self.subpool_count = 1
        self.subpool_numa_map = [0]
        self.subpool_thread_count = [1]


class CPUInfer(Single):
    """Threads, and a first-in first-out queue of tasks of the classes in moe.

    With a GPU's runtime there are submit_with_cuda_stream(stream, task) and sync_with_cuda_stream(stream) too: hasattr()
    says so. What fails is raised by sync; on a stream, by the next sync or submit."""

    def __init__(self, threads: int | WorkerPoolConfig = 0):
        if isinstance(threads, WorkerPoolConfig):
            nodes = whole_list(threads.subpool_numa_map, "subpool_numa_map")[: threads.subpool_count]
            counts = whole_list(threads.subpool_thread_count, "subpool_thread_count")[: threads.subpool_count]
            with renamed({"numa_nodes": "subpool_numa_map", "threads = ": "subpool_thread_count = "}):
                self.context = Context(threads=sum(counts), numa_nodes=nodes)
        else:
            self.context = Context(threads=whole(threads, "threads") or None)
        self._pending: list[Any] = []
        self._on_streams: dict[int, list[Any]] = {}
        self._calls: list[Any] = []  # on streams: captured graphs may run them as long as this lives
        self._lock = threading.Lock()

    @property
    def backend_(self) -> CPUInfer:
        """For MOEConfig.pool."""
        return self

    def submit(self, task: moe.Task) -> None:
        """Puts a task of this CPUInfer's layers on the queue; one that loads weights is done when this returns."""
        call_ = _begin(task, self)
        if call_ is not None:
            lib.kt_host_submit(call_.handle)
            with self._lock:
                self._pending.append(call_)

    def sync(self, allow_n_pending: int = 0) -> None:
        """Waits until so many tasks at most are not done. Raises what the first of them failed with."""
        failure = None
        while True:
            with self._lock:
                if len(self._pending) <= allow_n_pending:
                    break
                first = self._pending.pop(0)
            lib.kt_host_wait(first.handle)
            failure = failure or _failure(first)
        with self._lock:
            on_streams = list(self._calls)
        for other in on_streams:
            failure = failure or _failure(other)
        if failure:
            raise failure

    def __getattr__(self, name: str) -> Any:
        methods = {"submit_with_cuda_stream": self._submit_on, "sync_with_cuda_stream": self._sync_on}
        if name not in methods:
            raise AttributeError(f"CPUInfer has no {name}; use kt_kernel.Context and kt_kernel.Layer")
        try:
            _device.runtime()
        except KTError as error:
            raise AttributeError(f"CPUInfer has no {name}, since there is no GPU runtime: {error}") from None
        return methods[name]

    def _submit_on(self, stream: int, task: moe.Task) -> None:
        call_ = _begin(task, self)
        if call_ is not None:
            call(lib.kt_submit_on_stream, _device.runtime(), stream, call_.handle)
            with self._lock:
                self._calls.append(call_)
                self._on_streams.setdefault(stream, []).append(call_)

    def _sync_on(self, stream: int, allow_n_pending: int = 0) -> None:
        while True:
            with self._lock:
                waiting = self._on_streams.get(stream, [])
                if len(waiting) <= allow_n_pending:
                    break
                first = waiting.pop(0)
            call(lib.kt_sync_on_stream, _device.runtime(), stream, first.handle)


def _begin(task: Any, cpu: CPUInfer) -> Any:
    """The kt_host_call of a forward, or None where all is done."""
    if not isinstance(task, moe.Task):
        raise TypeError(f"a task must be one of kt_kernel_ext.moe's layers, not {type(task).__name__}")
    if task.layer.pool is not cpu:
        raise ValueError("the task's layer was made for another CPUInfer: set config.pool to this one's backend_")
    return task.begin()


def _failure(call_: Any) -> KTError | None:
    try:
        call(lib.kt_host_call_status, call_.handle)
    except KTError as error:
        return error
    return None


class _Missing(KTUnsupportedError, AttributeError):
    """Nothing here, for hasattr() too."""

    __module__ = "kt_kernel"


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise _Missing(
        f"kt_kernel_ext.{name} is not in this package; use kt_kernel.KTMoEWrapper or kt_kernel.Layer, "
        "which compute the experts of a layer on the CPU"
    )


moe.missing = __getattr__
