# SPDX-License-Identifier: Apache-2.0
"""python3 -m kt_kernel VERB ...: the command kt, a wheel's own or the one in PATH."""

import os
import sys

from ._lib import KTError
from .command import command


def main():
    try:
        words, environment = command()
    except KTError as error:
        sys.exit(f"kt_kernel: {error}")
    os.execvpe(words[0], words + sys.argv[1:], environment)


if __name__ == "__main__":
    main()
