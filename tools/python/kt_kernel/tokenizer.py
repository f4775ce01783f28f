# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and chat templates of models, by libktengine, which is loaded when the first one is opened."""

from __future__ import annotations

import array
import ctypes
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _abi, _abi_text
from ._handle import Handle, Pointer
from ._lib import KTValueError, call, encode, load_beside, text
from .checkpoint import Checkpoint

SONAME = "libktengine.so.0"


@functools.lru_cache(maxsize=None)
def _engine():
    try:
        library = load_beside(SONAME)
        _abi.declare(library, _abi_text.TOKENIZER)
    except OSError as error:
        raise ImportError(
            f"kt_kernel.Tokenizer needs {SONAME}, which cannot be loaded: {error}. Install kt-kernel-engine "
            "(Debian: libktengine0)"
        ) from None
    except AttributeError as error:
        raise ImportError(f"kt_kernel and {SONAME} are not of the same version: {error}") from None
    return library


def _tidy(message):
    """A message as transformers gives it to templates: no field is None, and its reasoning has the names they read."""
    if not isinstance(message, Mapping):
        return message
    given = {key: value for key, value in message.items() if value is not None}
    for name in ("reasoning_content", "thinking", "reasoning"):
        if name in given:
            return {"thinking": given[name], **given, "reasoning_content": given[name]}
    return given


@functools.lru_cache(maxsize=None)
def _templates():
    library = _engine()
    try:
        _abi.declare(library, _abi_text.TEMPLATE)
    except AttributeError as error:
        raise ImportError(f"kt_kernel and {SONAME} are not of the same version: {error}") from None
    return library


@dataclasses.dataclass(frozen=True)
class Token:
    """A token of a vocabulary."""

    id: int
    text: bytes  # as it stands in decoded text; need not be whole characters
    type: str  # "normal", "unknown", "control", "user", "unused" or "byte"
    ends: bool  # it ends the model's turn


def _ids(given):
    """Token ids as the library takes them; it says itself which are none."""
    try:
        return array.array("i", given)
    except OverflowError:
        raise KTValueError("an id is beyond 32 bits", "KT_E_RANGE") from None
    except TypeError:
        raise TypeError(f"ids must be whole numbers, not {given!r:.80}") from None


def _address(ids):
    return ctypes.c_void_p(ids.buffer_info()[0])


def _bytes(given, what):
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, (bytes, bytearray)):
        return bytes(given)
    raise TypeError(f"{what} must be a string, not {type(given).__name__}")


def _decoded(address, length):
    return ctypes.string_at(address, length.value).decode() if length.value else ""


class Detokenizer(Handle):
    """Ids, as a model generates them, to text, whole characters only; Tokenizer.detokenizer() makes one.

    For one thread at a time.
    """

    def __init__(self, tokenizer: Tokenizer, *, specials: bool = True):
        owner, handle, engine = tokenizer._use(), Pointer(), _engine()
        flags = 0 if specials else _abi_text.DECODE_NO_CONTROL
        call(engine.kt_detokenizer_create, owner, flags, ctypes.byref(handle))
        self.handle = handle.own(engine.kt_detokenizer_destroy, owner)

    def add(self, ids: int | Iterable[int]) -> str:
        """The text that can be shown after these ids, or this one; at most 3 bytes are held back."""
        taken = _ids([ids] if hasattr(ids, "__index__") and not hasattr(ids, "__len__") else ids)
        shown, length = ctypes.c_void_p(), ctypes.c_uint64()
        call(
            _engine().kt_detokenizer_add,
            self._use(),
            _address(taken),
            len(taken),
            ctypes.byref(shown),
            ctypes.byref(length),
        )
        return _decoded(shown.value, length)

    def end(self) -> str:
        """What was held back, as U+FFFD; the next add() begins another text."""
        shown, length = ctypes.c_void_p(), ctypes.c_uint64()
        call(_engine().kt_detokenizer_end, self._use(), ctypes.byref(shown), ctypes.byref(length))
        return _decoded(shown.value, length)


class Tokenizer(Handle):
    """The tokenizer and the chat template of a model: text to token ids and back, as the model's own.

    model: a GGUF file, a model's folder, a tokenizer.json or a tiktoken file; or a Checkpoint. chat_template: the
    source of a template to use instead of the model's. Any number of threads may use one at once. Raises KTError
    naming the file, or what of it cannot be computed exactly; ImportError where libktengine is not installed.
    """

    def __init__(self, model: str | os.PathLike | Checkpoint, *, chat_template: str | None = None):
        engine, handle = _engine(), Pointer()
        if isinstance(model, Checkpoint):
            call(engine.kt_tokenizer_create, model._use(), ctypes.byref(handle))
        else:
            call(engine.kt_tokenizer_open, encode(model, "model"), ctypes.byref(handle))
        self.handle = handle.own(engine.kt_tokenizer_destroy)
        self._source = chat_template
        self._template: Pointer | None = None
        self._ends: frozenset[int] | None = None
        info = _abi_text.kt_tokenizer_info()
        engine.kt_tokenizer_info(self.handle, ctypes.byref(info))
        kinds = {number: name for name, number in _abi_text.TOKENIZER_KIND.items()}
        self.kind: str = kinds.get(info.kind, "?")  #: "bpe" or "spm"
        self.pre: str = text(info.pre)  #: how text is cut into words: "qwen2", "custom"
        self.source: str = text(info.source)  #: the file
        self.bos_token_id: int | None = _or_none(info.bos_token_id)
        self.eos_token_id: int | None = _or_none(info.eos_token_id)
        self.unk_token_id: int | None = _or_none(info.unk_token_id)
        self.pad_token_id: int | None = _or_none(info.pad_token_id)
        self.adds_bos: bool = bool(info.adds_bos)  #: the model expects its text to begin with BOS
        self.adds_eos: bool = bool(info.adds_eos)
        self.normalizes: bool = bool(info.normalizes)  #: decode() gives normalized text
        self._n_tokens = info.n_tokens

    def __len__(self) -> int:
        """Ids are below this number; some may have no token."""
        return self._n_tokens

    # ---- tokens ----

    def token(self, id: int) -> Token:
        """KTValueError: there is no such id."""
        token = _abi_text.kt_token()
        (number,) = _ids([id])
        call(_engine().kt_tokenizer_token, self._use(), number, ctypes.byref(token))
        types = {value: name for name, value in _abi_text.TOKEN_TYPE.items()}
        content = ctypes.string_at(token.text, token.length) if token.length else b""
        return Token(number, content, types.get(token.type, "?"), bool(token.ends))

    def find(self, token: str | bytes) -> int | None:
        """The id of the token with exactly this text, or None."""
        data = _bytes(token, "token")
        return _or_none(_engine().kt_tokenizer_find(self._use(), data, len(data)))

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end the model's turn: eos, eot, what generation_config.json lists."""
        if self._ends is None:
            function, handle, token = _engine().kt_tokenizer_token, self._use(), _abi_text.kt_token()
            place, found = ctypes.byref(token), []
            for number in range(self._n_tokens):
                if function(handle, number, place, None) == 0 and token.ends:  # not 0: an id without a token
                    found.append(number)
            self._ends = frozenset(found)
        return self._ends

    # ---- text and ids ----

    def encode(self, text: str | bytes, *, bos: bool = False, specials: bool = True) -> list[int]:
        """The ids of a text. specials=False: text of a user, in which no control token is found. bos: begin with
        BOS where the model wants it, unless the text does so already."""
        return self.encode_parts([(text, not specials)], bos=bos)

    def encode_parts(self, parts: Iterable[tuple[str | bytes, bool]], *, bos: bool = False) -> list[int]:
        """The ids of one text in parts, (text, is it content); control tokens are found in what is not content."""
        given = [(_bytes(part, "text"), bool(is_content)) for part, is_content in parts]
        array_of = (_abi_text.kt_text_part * max(1, len(given)))()
        for place, (data, is_content) in zip(array_of, given):
            place.text, place.length, place.is_content = data, len(data), is_content
        return self._encode(ctypes.byref(array_of), len(given), bos)

    def _encode(self, parts, n_parts, bos):
        engine, ids, n_ids = _engine(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_uint64()
        flags = _abi_text.ENCODE_BOS if bos else 0
        call(
            engine.kt_tokenizer_encode,
            self._use(),
            parts,
            n_parts,
            flags,
            ctypes.byref(ids),
            ctypes.byref(n_ids),
        )
        try:
            return ids[: n_ids.value] if n_ids.value else []
        finally:
            engine.kt_ids_free(ids)

    def decode(self, ids: Iterable[int], *, specials: bool = True) -> str:
        """The text of ids; what is not UTF-8 is U+FFFD. specials=False leaves control tokens out."""
        engine, taken = _engine(), _ids(ids)
        decoded, length = ctypes.c_void_p(), ctypes.c_uint64()
        call(
            engine.kt_tokenizer_decode,
            self._use(),
            _address(taken),
            len(taken),
            0 if specials else _abi_text.DECODE_NO_CONTROL,
            ctypes.byref(decoded),
            ctypes.byref(length),
        )
        try:
            return _decoded(decoded.value, length)
        finally:
            engine.kt_text_free(decoded)

    def detokenizer(self, *, specials: bool = True) -> Detokenizer:
        """For ids as they are generated."""
        return Detokenizer(self, specials=specials)

    # ---- chats ----

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The text of a conversation, as the model's own template has it; variables are the template's others,
        such as enable_thinking. KTValueError has the words of a template that refuses it.

        To tokenize it take encode_chat(), by which nothing that a message says becomes a control token.
        """
        rendering, length = self._render(messages, tools, add_generation_prompt, variables), ctypes.c_uint64()
        return _decoded(_engine().kt_rendering_text(rendering, ctypes.byref(length)), length)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> list[int]:
        """The ids of a conversation. The template writes BOS itself where the model wants it."""
        rendering, n_parts = self._render(messages, tools, add_generation_prompt, variables), ctypes.c_uint64()
        return self._encode(_engine().kt_rendering_parts(rendering, ctypes.byref(n_parts)), n_parts.value, False)

    def _render(self, messages, tools, add_generation_prompt, variables):
        engine, rendering = _templates(), Pointer()
        given = {
            **self._special_tokens(),
            "messages": [_tidy(message) for message in messages],
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **variables,
        }
        try:
            data = json.dumps(given, allow_nan=False).encode()
        except TypeError as error:
            raise TypeError(f"messages, tools and variables must be what JSON has: {error}") from None
        call(engine.kt_template_render, self._open_template(), data, len(data), None, ctypes.byref(rendering))
        return rendering.own(engine.kt_rendering_destroy)

    def _special_tokens(self):
        """Variables of every template: the texts of BOS, EOS ..."""
        found = {}
        for name in ("bos", "eos", "unk", "pad"):
            number = getattr(self, f"{name}_token_id")
            if number is not None:
                found[f"{name}_token"] = self.token(number).text.decode(errors="replace")
        return found

    def _open_template(self):
        opened = self._template
        if opened is None:
            engine, opened = _templates(), Pointer()
            if self._source is None:
                call(engine.kt_template_open, self._use(), None, ctypes.byref(opened))
            else:
                source = _bytes(self._source, "chat_template")
                call(engine.kt_template_create, source, len(source), b"chat_template", ctypes.byref(opened))
            self._template = opened.own(engine.kt_template_destroy)
        return opened

    def close(self) -> None:
        """Frees the memory once calls of other threads, detokenizers and chat templates have ended."""
        self._template = None
        super().close()


def _or_none(number):
    return None if number < 0 else number
