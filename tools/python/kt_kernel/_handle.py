# SPDX-License-Identifier: Apache-2.0
"""Handles of the library's objects, and its log messages."""

from __future__ import annotations

import ctypes
import logging
import weakref
from typing import Any, TypeVar

from . import _abi
from ._lib import KTError

Self = TypeVar("Self", bound="Handle")

logger = logging.getLogger("kt_kernel")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


@_abi.LOG_FN
def log_message(_data, level, message):
    logger.log(_LEVELS[level], "%s", message.decode(errors="replace"))


class Pointer(ctypes.c_void_p):
    """An object of the library, destroyed when nobody holds its pointer any more. A call holds its arguments, so
    what one thread closes lives until it has returned in another."""

    def own(self, destroy, *keep):
        """Destroys the object with this pointer; `keep` lives as long."""
        self.keep = keep
        # Not when the interpreter ends: threads of the program, and of a GPU's runtime, may still be inside.
        weakref.finalize(self, destroy, self.value).atexit = False
        return self


class Single:
    """Base class of objects that cannot be copied or pickled."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled; make another one")


class Handle(Single):
    """An object of the library, destroyed by close(), at the end of a `with`, or with the Python object."""

    handle: Pointer | None = None

    def close(self) -> None:
        """Frees the memory once calls of other threads have returned; the object cannot be used afterwards.
        A second call does nothing."""
        self.handle = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _use(self):
        handle = self.handle
        if handle is None:
            raise KTError(f"this {type(self).__name__} is closed", "KT_E_STATE")
        return handle


def pointer_of(given, kind, what):
    """The pointer of an argument that must be a Context, a Checkpoint ..."""
    if not isinstance(given, kind):
        raise TypeError(f"{what} must be a kt_kernel.{kind.__name__}, not {type(given).__name__}")
    return given._use()
