# SPDX-License-Identifier: Apache-2.0
"""What objects of the library have in common, and where its messages go."""

from __future__ import annotations

import logging
import os
import weakref

from . import _abi
from ._lib import KTError

logger = logging.getLogger("kt_kernel")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


@_abi.LOG_FN
def log_message(_data, level, message):
    logger.log(_LEVELS[level], "%s", message.decode(errors="replace"))


def encode_path(path):
    return os.fsencode(os.fspath(path))


class Handle:
    """What the library made: given back by close(), at the end of a `with`, or with the object."""

    def _hold(self, handle, release):
        self.handle = handle
        self._release = weakref.finalize(self, release, handle)

    def close(self) -> None:
        """Gives the memory back; the object cannot be used afterwards. A second call does nothing."""
        self._release()
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def _use(self):
        if self.handle is None:
            raise KTError(f"this {type(self).__name__} is closed")
        return self.handle
