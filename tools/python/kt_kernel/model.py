# SPDX-License-Identifier: Apache-2.0
"""Whole models: text and ids to logits and more text, by libktengine, which is loaded when the first one is opened."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import numbers
import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _abi, _abi_engine, _arrays
from ._handle import Handle, Pointer, pointer_of
from ._lib import KTError, KTValueError, call, text, whole
from .checkpoint import Checkpoint
from .context import Context
from .tokenizer import SONAME, Tokenizer, _address, _bytes, _engine, _ids

if TYPE_CHECKING:
    import numpy

_REALS = ("temperature", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold",
          "repetition_penalty", "presence_penalty", "frequency_penalty", "dry_multiplier", "dry_base")  # fmt: skip
_WHOLES = {"top_k": 32, "penalty_last_n": 63, "dry_allowed_length": 32, "dry_last_n": 63}
_FILTERS = {"top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability"}
_BREAKERS = (b"\n", b":", b'"', b"*")


@functools.lru_cache(maxsize=None)
def _models():
    library = _engine()
    try:
        _abi.declare(library, _abi_engine.MODEL)
    except AttributeError as error:
        raise ImportError(f"kt_kernel and {SONAME} are not of the same version: {error}") from None
    return library


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A whole model as it was loaded."""

    family: str  # "qwen3moe"
    n_layers: int
    n_experts: int  # of a layer; 0: a dense model
    hidden_size: int
    vocabulary: int  # logits of a token
    context_length: int  # that the model was made for
    max_tokens: int  # of a session
    weight_size: int  # bytes of packed weights
    cache_size: int  # bytes of the cache


def _number(value, name):
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


class Model(Handle):
    """A language model: a GGUF file or a folder of safetensors, with its tokenizer, loaded into a context.

    context: the Context whose threads and backends compute it; without one it has its own. max_tokens: room of a text,
    prompt included. max_sessions: how many generate() and logits() may be under way at once. experts: a store, or
    another file of the same model, whose experts these are. Calls of several threads wait for each other. Raises KTError naming what of the model is not computed.
    """

    def __init__(
        self,
        model: str | os.PathLike | Checkpoint,
        *,
        context: Context | None = None,
        max_tokens: int = 0,
        max_sessions: int = 1,
        experts: str | os.PathLike | Checkpoint | None = None,
    ):
        library, handle = _models(), Pointer()
        params = _abi.sized(_abi_engine.kt_model_params)
        params.max_tokens = whole(max_tokens, "max_tokens")
        params.max_sessions = whole(max_sessions, "max_sessions", 1, 4096)
        checkpoint = model if isinstance(model, Checkpoint) else Checkpoint(model)
        context = Context() if context is None else context
        threads, files = pointer_of(context, Context, "context"), checkpoint._use()
        self.tokenizer = Tokenizer(checkpoint)
        self._checkpoint = files
        keep = None
        if experts is not None:
            stored = experts if isinstance(experts, Checkpoint) else Checkpoint(experts)
            keep = stored._use()
            params.experts = keep.value
        self._lock = threading.RLock()  # the garbage collector may close sessions within it
        call(library.kt_model_open, threads, files, ctypes.byref(params), ctypes.byref(handle))
        self.handle = handle.own(library.kt_model_close, threads, files, keep)
        info = _abi_engine.kt_model_info()
        library.kt_model_info(handle, ctypes.byref(info))
        fields = [field.name for field in dataclasses.fields(ModelInfo)][1:]
        self.info = ModelInfo(text(info.family), *(getattr(info, name) for name in fields))

    # ---- text and ids ----

    def _encode(self, prompt):
        if isinstance(prompt, (str, bytes)):
            return self.tokenizer.encode(prompt, bos=True)
        prompt = list(prompt)
        if prompt and isinstance(prompt[0], Mapping):
            return self.tokenizer.encode_chat(prompt)
        return prompt

    def logits(self, prompt: str | Iterable[int] | Sequence[Mapping[str, Any]]) -> numpy.ndarray:
        """Logits behind each token, [tokens][vocabulary] in float32: of ids, a text, or a chat's messages."""
        ids = _ids(self._encode(prompt))
        out = _arrays.numpy("for logits").empty((len(ids), self.info.vocabulary), "float32")
        handle = self._use()
        session = self._open_session(handle)
        try:
            self._step(handle, session, ids, len(ids), out.ctypes.data)
        finally:
            self._close_session(session)
        return out

    def hidden_states(
        self, prompt: str | Iterable[int] | Sequence[Mapping[str, Any]], *, last: int | None = None, norm: bool = True
    ) -> numpy.ndarray:
        """Hidden states of each token, or of the `last` ones: [tokens][hidden_size] in float32, behind the last
        norm, or, without `norm`, before it."""
        ids = _ids(self._encode(prompt))
        n = len(ids) if last is None else min(whole(last, "last"), len(ids))
        out = _arrays.numpy("for hidden states").empty((n, self.info.hidden_size), "float32")
        wanted = _abi_engine.kt_hidden(n, 0, *((None, out.ctypes.data) if norm else (out.ctypes.data, None)))
        handle = self._use()
        session = self._open_session(handle)
        step = _abi_engine.kt_step(session, _address(ids), len(ids), 0, None)
        try:
            with self._lock:
                call(_models().kt_model_step_hidden, handle, ctypes.byref(step), ctypes.byref(wanted), 1)
        finally:
            self._close_session(session)
        return out

    def generate(
        self,
        prompt: str | Iterable[int] | Sequence[Mapping[str, Any]],
        max_tokens: int = 256,
        *,
        stop: str | Iterable[str] = (),
        ignore_eos: bool = False,
        seed: int | None = None,
        speculate: str = "off",
        **sampling: Any,
    ) -> Iterator[str]:
        """Text, as it is written, behind a text, ids, or a chat's messages. It ends where the model ends it, before
        a string of `stop`, or after max_tokens.

        Sampling is what the model advises, and over it: temperature, top_k, top_p, min_p, typical_p, top_n_sigma,
        xtc_probability, xtc_threshold, repetition_penalty, presence_penalty, frequency_penalty, penalty_last_n,
        dry_multiplier, dry_base, dry_allowed_length, dry_last_n, logit_bias {id: number}; <kt/sampling.h> says what
        they do. temperature=0 is the likeliest token each time, and so is no advice. The same seed gives the same
        text again; without one it is random. speculate: "off", "auto" or "lookup", as of kt generate.
        """
        ids = _ids(self._encode(prompt))
        if not ids:
            raise KTValueError("the prompt is empty, and the model has no token to begin with")
        return _Writing(self, ids, whole(max_tokens, "max_tokens"), stop, ignore_eos, seed, speculate, sampling).run()

    # ---- the library ----

    def _open_session(self, handle):
        session = ctypes.c_void_p()
        with self._lock:
            call(_models().kt_session_open, handle, ctypes.byref(session))
        return session

    def _close_session(self, session):
        with self._lock:
            _models().kt_session_close(session)

    def _step(self, handle, session, ids, n_logits, logits):
        step = _abi_engine.kt_step(session, _address(ids), len(ids), n_logits, logits)
        with self._lock:
            call(_models().kt_model_step, handle, ctypes.byref(step), 1)

    def _sampler(self, seed, sampling):
        library, params, sampler = _models(), _abi.sized(_abi_engine.kt_sampling_params), Pointer()
        given = {name: value for name, value in sampling.items() if value is not None}
        unknown = given.keys() - {*_REALS, *_WHOLES, "logit_bias"}
        if unknown:
            raise TypeError(f"generate() has no argument {', '.join(sorted(unknown))}")
        try:
            call(library.kt_sampling_defaults, self._checkpoint, ctypes.byref(params))
        except KTError:
            if "temperature" not in given:
                raise
        for name, value in given.items():
            if name in _REALS:
                setattr(params, name, _number(value, name))
            elif name in _WHOLES:
                setattr(params, name, whole(value, name, 0, (1 << _WHOLES[name]) - 1))
        if given.keys() & _FILTERS and "temperature" not in given and params.temperature == 0:
            params.temperature = 1
        params.seed = secrets.randbits(64) if seed is None else whole(seed, "seed", 0, (1 << 64) - 1)
        biases = [(*_ids([number]), _number(bias, "logit_bias")) for number, bias in given.get("logit_bias", {}).items()]
        bias_array = (_abi_engine.kt_logit_bias * max(1, len(biases)))(*biases)
        params.logit_bias, params.n_logit_bias = ctypes.addressof(bias_array), len(biases)
        breakers = self._breakers() if params.dry_multiplier > 0 else _ids([])
        params.dry_breakers, params.n_dry_breakers = _address(breakers), len(breakers)
        n = min(len(self.tokenizer), self.info.vocabulary)
        call(library.kt_sampler_create, n, ctypes.byref(params), ctypes.byref(sampler))
        return sampler.own(library.kt_sampler_destroy)

    def _breakers(self):
        library, ids, n = _models(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_uint64()
        texts = (ctypes.c_char_p * len(_BREAKERS))(*_BREAKERS)
        owner = self.tokenizer._use()
        call(library.kt_sampling_breakers, owner, texts, len(_BREAKERS), ctypes.byref(ids), ctypes.byref(n))
        try:
            return _ids(ids[: n.value])
        finally:
            library.kt_ids_free(ids)


class _Writing:
    """One text as it is written."""

    def __init__(self, model, ids, max_tokens, stop, ignore_eos, seed, speculate, sampling):
        self.model, self.ids, self.max_tokens, self.ignore_eos = model, ids, max_tokens, ignore_eos
        self.handle, self.sampler = model._use(), model._sampler(seed, sampling)
        self.speculator = self._speculate(speculate)
        self.detokenizer = model.tokenizer.detokenizer(specials=False)
        texts = [_bytes(one, "stop") for one in ([stop] if isinstance(stop, (str, bytes)) else stop)]
        array_of = (_abi_engine.kt_stop_text * max(1, len(texts)))(*((one, len(one)) for one in texts))
        matcher = Pointer()
        call(_models().kt_stop_create, ctypes.byref(array_of), len(texts), 0, ctypes.byref(matcher))
        self.stop = matcher.own(_models().kt_stop_destroy)

    def _speculate(self, how):
        params, speculator = _abi.sized(_abi_engine.kt_speculator_params), Pointer()
        if how not in _abi_engine.SPECULATE:
            raise KTValueError(f"speculate must be one of {', '.join(_abi_engine.SPECULATE)}, not {how!r}")
        params.mode = _abi_engine.SPECULATE[how]
        create = _models().kt_speculator_create
        call(create, self.handle, self.sampler, ctypes.byref(params), ctypes.byref(speculator))
        return speculator.own(_models().kt_speculator_destroy, self.handle, self.sampler)

    def _show(self, piece):
        """What can be shown, and whether a stop string has come."""
        data, shown, length, found = piece.encode(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int64()
        call(_models().kt_stop_add, self.stop, data, len(data), *map(ctypes.byref, (shown, length, found)))
        return ctypes.string_at(shown, length.value).decode(), found.value >= 0

    def _rest(self):
        piece, stops = self._show(self.detokenizer.end())
        if stops:
            return piece
        shown, length = ctypes.c_void_p(), ctypes.c_uint64()
        call(_models().kt_stop_end, self.stop, ctypes.byref(shown), ctypes.byref(length))
        return piece + ctypes.string_at(shown, length.value).decode()

    def _take(self, _, choice):
        self.chosen.append(choice.contents.id)
        return int(self.chosen[-1] in self.ends)

    def run(self):
        model, library, wanted = self.model, _models(), self.max_tokens
        wanted = min(wanted, model.info.max_tokens - len(self.ids) + 1)
        self.ends = frozenset() if self.ignore_eos else model.tokenizer.ends
        take = _abi_engine.TOKEN_FN(self._take)
        session = model._open_session(self.handle)
        try:
            call(library.kt_speculator_add, self.speculator, _address(self.ids), len(self.ids))
            while wanted > 0:
                self.chosen = []
                with model._lock:
                    call(library.kt_speculator_step, self.speculator, ctypes.byref(session), wanted, take, None)
                wanted -= len(self.chosen)
                for token in self.chosen:
                    if token in self.ends:
                        wanted = 0
                        break
                    piece, stops = self._show(self.detokenizer.add(_ids([token])))
                    if piece:
                        yield piece
                    if stops:
                        return
            piece = self._rest()
            if piece:
                yield piece
        finally:
            model._close_session(session)
