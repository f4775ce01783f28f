# SPDX-License-Identifier: Apache-2.0
"""State that the wrappers of one model share: threads, the open checkpoint, deferred experts."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

from . import _abi
from ._handle import Pointer, logger
from ._lib import call, lib
from .checkpoint import Checkpoint
from .context import Context

_lock = threading.Lock()
_contexts: weakref.WeakValueDictionary[Any, Context] = weakref.WeakValueDictionary()
_models: weakref.WeakSet[Model] = weakref.WeakSet()
_instances = 0
_warned = False


def context_for(threads, n_pools, nodes, settings):
    """The context of wrappers with these settings: made once, gone with the last of them."""
    key = (threads, n_pools, nodes, *settings.items())
    with _lock:
        context = _contexts.get(key)
        if context is None or context.handle is None:
            context = _contexts[key] = _make_context(threads, n_pools, nodes, settings)
    return context


def _make_context(threads, n_pools, nodes, settings):
    # strict: if the requested method is impossible, an error says why; a slower one is never used instead.
    options: Any = {"threads": threads or None, "strict": True, "settings": settings}
    if nodes is not None:
        return Context(numa_nodes=nodes, **options)
    context = Context(**options)
    found = context.info
    if n_pools and n_pools < found.n_nodes:
        context.close()
        return Context(numa_nodes=found.nodes[:n_pools], **options)
    if n_pools and n_pools > found.n_nodes:
        _warn_once(n_pools, found.n_nodes)
    return context


def _warn_once(n_pools, n_nodes):
    """Not for each of a model's layers."""
    global _warned
    if not _warned:
        _warned = True
        nodes = "1 NUMA node is" if n_nodes == 1 else f"{n_nodes} NUMA nodes are"
        logger.warning("KTMoEWrapper: threadpool_count is %d, but %s used", n_pools, nodes)


def contexts():
    with _lock:
        return list(_contexts.values())


class _Deferral:
    """A kt_deferral for the layers from `first` on."""

    def __init__(self, context, params, first):
        handle = Pointer()
        call(lib.kt_deferral_create, context._use(), ctypes.byref(params), ctypes.byref(handle))
        self.handle = handle.own(lib.kt_deferral_destroy)
        self.first = first


class Model:
    """The wrappers of one model, in order of their layers."""

    def __init__(self, key, context):
        global _instances
        self.key = key
        self.context = context
        self.instance = _instances  # of its staging buffers
        _instances += 1
        self.lock = threading.RLock()
        self._wrappers = {}  # layer_idx: weak reference
        self._places = {}  # layer_idx: (position, deferral or None)
        self._checkpoint = None

    def wrapper(self, layer_idx):
        reference = self._wrappers.get(layer_idx)
        return reference() if reference else None

    def add(self, wrapper):
        with self.lock:
            self._wrappers[wrapper.layer_idx] = weakref.ref(wrapper)
            self._places = {}

    def rearrange(self):
        """Forgets positions, after a layer's number of deferred experts has changed."""
        self.clear_calls()
        with self.lock:
            self._places = {}

    def checkpoint(self, path):
        with self.lock:
            if self._checkpoint is None:
                self._checkpoint = Checkpoint(path)
            return self._checkpoint

    def release_checkpoint(self):
        """Layers that read from it keep it open."""
        with self.lock:
            self._checkpoint = None

    def clear_calls(self):
        with self.lock:
            for reference in list(self._wrappers.values()):
                wrapper = reference()
                if wrapper is not None:
                    wrapper._gpu.clear()

    def place(self, layer_idx):
        """The layer's position among those with experts, and its _Deferral or None."""
        place = self._places.get(layer_idx)
        if place is None:
            with self.lock:
                self._arrange()
                place = self._places[layer_idx]
        return place

    def _arrange(self):
        alive = [(index, reference()) for index, reference in sorted(self._wrappers.items())]
        alive = [(index, wrapper) for index, wrapper in alive if wrapper is not None]
        places, chain, first = {}, [], 0
        for position, (index, wrapper) in enumerate(alive):
            chain.append(wrapper)
            # A layer that defers nothing takes what is pending and ends a chain, as the last one does.
            if not wrapper.max_deferred_experts_per_token or position + 1 == len(alive):
                deferral = self._defer(chain, first)
                for member, other in enumerate(chain):
                    places[other.layer_idx] = (first + member, deferral)
                chain, first = [], position + 1
        self._places = places

    def _defer(self, chain, first):
        if len(chain) == 1:
            return None
        deferred = (ctypes.c_uint32 * len(chain))(*(wrapper.max_deferred_experts_per_token for wrapper in chain))
        params = _abi.sized(_abi.kt_deferral_params)
        params.n_layers = len(chain)
        params.n_experts = max(wrapper.num_experts for wrapper in chain)
        params.top_k = max(wrapper.num_experts_per_tok for wrapper in chain)
        params.max_tokens = max(wrapper.max_tokens for wrapper in chain)
        params.hidden_size = chain[0].hidden_size
        params.max_deferred_of = ctypes.addressof(deferred)
        return _Deferral(self.context, params, first)


def join(wrapper, key, context):
    """The model that the wrapper is a layer of: the latest of the same key that does not have this layer yet, since
    engines make the layers of one model after another."""
    with _lock:
        for model in sorted(_models, key=lambda model: -model.instance):
            if model.key == key and model.context is context and model.wrapper(wrapper.layer_idx) is None:
                break
        else:
            model = Model(key, context)
            _models.add(model)
        model.add(wrapper)
    return model


def release_checkpoints():
    with _lock:
        models = list(_models)
    for model in models:
        model.release_checkpoint()


def clear_buffers():
    """Drops every wrapper's calls on staging buffers, then the buffers."""
    with _lock:
        models = list(_models)
    for model in models:
        model.clear_calls()
    for context in contexts():
        if context.handle is not None:
            call(lib.kt_clear_buffers, context.handle, None)
