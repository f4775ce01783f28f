# SPDX-License-Identifier: Apache-2.0
"""Finds libktkernel, loads it, and turns its errors into exceptions."""

from __future__ import annotations

import contextlib
import ctypes
import math
import numbers
import operator
import os
import pathlib
import sys

from . import _abi

SONAME = "libktkernel.so.0"
_FOLDER = pathlib.Path(__file__).resolve().parent

# ---- errors ----


class KTError(RuntimeError):
    """An error of the library: what went wrong, where, and what to do.

    ``status`` is its name in C, such as ``"KT_E_FORMAT"``. Where Python has an exception for it, the error is
    one as well: ``KTValueError`` is a ``ValueError``, and so on.
    """

    status = "KT_E_STATE"

    def __init__(self, message: str, status: str | None = None):
        super().__init__(message)
        if status:
            self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class KTValueError(KTError, ValueError):
    """An argument is wrong (KT_E_INVALID) or outside its range (KT_E_RANGE)."""

    status = "KT_E_INVALID"


class KTMemoryError(KTError, MemoryError):
    """Memory could not be had (KT_E_NOMEM)."""

    status = "KT_E_NOMEM"


class KTFileError(KTError, OSError):
    """A file could not be opened or read, or it changed meanwhile (KT_E_IO)."""

    status = "KT_E_IO"


class KTKeyError(KTError, KeyError):
    """A tensor, layer or backend does not exist (KT_E_NOT_FOUND)."""

    status = "KT_E_NOT_FOUND"


class KTUnsupportedError(KTError, NotImplementedError):
    """Valid, but nothing here can do it (KT_E_UNSUPPORTED)."""

    status = "KT_E_UNSUPPORTED"


for _class in (KTError, *KTError.__subclasses__()):
    _class.__module__ = "kt_kernel"  # as programs and tracebacks call them

_CLASSES = {
    "KT_E_INVALID": KTValueError,
    "KT_E_RANGE": KTValueError,
    "KT_E_NOMEM": KTMemoryError,
    "KT_E_IO": KTFileError,
    "KT_E_NOT_FOUND": KTKeyError,
    "KT_E_UNSUPPORTED": KTUnsupportedError,
}


def fail(error):
    """Raises what a kt_error says."""
    status = _abi.STATUS[error.status] if error.status < len(_abi.STATUS) else "KT_E_STATE"
    raise _CLASSES.get(status, KTError)(error.message.decode(errors="replace"), status)


@contextlib.contextmanager
def renamed(names):
    """Errors inside call things as the caller does: {what the library says: what the caller says}."""
    try:
        yield
    except KTError as error:
        message = str(error)
        for ours, callers in names.items():
            message = message.replace(ours, callers)
        if message == str(error):
            raise
        raise type(error)(message, error.status) from None


def call(function, *arguments):
    """Calls a function that returns a status; raises KTError."""
    error = _abi.kt_error()
    if function(*arguments, ctypes.byref(error)):
        fail(error)


# ---- the library ----


def bundled():
    """The folder of a wheel's own files, laid out like an installation's PREFIX, or None."""
    return _FOLDER / "_files" if (_FOLDER / "_files" / "lib" / SONAME).is_file() else None


def bundled_folders(files):
    """The folders of a wheel's plugins and drop-ins."""
    (plugins,) = (files / "lib" / "kt-kernel").glob("abi*")
    return plugins, files / "share" / "kt-kernel" / "plugins.d"


def _of_prefix(soname=SONAME):
    """A library's path in the prefix that this package is installed in, PREFIX/lib/python3.N/site-packages, or its
    soname. As with a program's RUNPATH, LD_LIBRARY_PATH goes before it and the system's folders come after it."""
    if any(pathlib.Path(folder, soname).is_file() for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        return soname
    for parent in _FOLDER.parents:
        if parent.name in ("lib", "lib64", "lib32"):
            multiarch = getattr(sys.implementation, "_multiarch", "")
            folders = (parent, parent.parent / "lib64", parent.parent / "lib", parent.parent / "lib" / multiarch)
            return next((str(folder / soname) for folder in folders if (folder / soname).is_file()), soname)
    return soname


def _load():
    path = os.environ.get("KT_KERNEL_LIBRARY")
    if path:
        return ctypes.CDLL(path)
    files = bundled()
    if not files:
        return ctypes.CDLL(_of_prefix())
    return ctypes.CDLL(str(files / "lib" / SONAME))  # its RUNPATH finds the others


def load_beside(soname):
    """Another library of ours, from where libktkernel is from. OSError: it is not there."""
    path, files = os.environ.get("KT_KERNEL_LIBRARY"), bundled()
    if path and pathlib.Path(path).with_name(soname).is_file():
        return ctypes.CDLL(str(pathlib.Path(path).with_name(soname)))
    if files and not path:
        return ctypes.CDLL(str(files / "lib" / soname))
    return ctypes.CDLL(_of_prefix(soname))


def _open():
    try:
        library = _load()
        _abi.declare(library)
    except OSError as error:
        raise ImportError(
            f"kt_kernel needs {SONAME}, which cannot be loaded: {error}. Install kt-kernel (Debian: libktkernel0), "
            "or set KT_KERNEL_LIBRARY to the library's path"
        ) from None
    except AttributeError as error:
        raise ImportError(f"kt_kernel and {SONAME} are not of the same version: {error}") from None
    return library


lib = _open()
VERSION: str = lib.kt_version().decode()


# ---- arguments ----


def whole(value, what, least=0, most=(1 << 31) - 1):
    """A whole number that fits into the library's; ctypes would cut it off."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise KTValueError(f"{what} is {value!r}, but must be a whole number from {least} to {most}")
    return number


def whole_list(values, what):
    """Whole numbers from 0 on."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} must be a list of whole numbers, not {values!r}")
    return [whole(value, f"{what}[{index}]") for index, value in enumerate(values)]


def real(value, what):
    """A number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value) or value < 0:
        raise KTValueError(f"{what} is {value!r}, but must be a number from 0 on")
    return float(value)


def encode(given, what):
    """A string or a path as the library takes it."""
    try:
        encoded = os.fsencode(given)
    except TypeError:
        raise TypeError(f"{what} must be a string, not {type(given).__name__}") from None
    if b"\0" in encoded:
        raise KTValueError(f"{what} is {given!r}, which has a byte of 0 in it")
    return encoded


def text(value):
    """A string of the library's."""
    return value.decode(errors="replace") if value else ""
