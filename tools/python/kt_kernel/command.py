# SPDX-License-Identifier: Apache-2.0
"""The command kt, and its benchmark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

from ._lib import KTError, KTKeyError, bundled, bundled_folders


def command() -> tuple[list[str], dict[str, str]]:
    """The command kt as arguments and environment: a wheel's own, or the one in PATH. KTKeyError: none."""
    files, environment = bundled(), dict(os.environ)
    if files and (files / "bin" / "kt").is_file():
        plugins, dropins = bundled_folders(files)
        environment.setdefault("KT_KERNEL_PLUGINCONFDIR", str(dropins))
        environment.setdefault("KT_KERNEL_CORE_PLUGIN_PATH", str(plugins))
        return [str(files / "bin" / "kt")], environment
    found = shutil.which("kt")
    if not found:
        raise KTKeyError("the command kt is not in PATH; install it (Debian: kt-kernel-tools)", "KT_E_NOT_FOUND")
    return [found], environment


def bench(**options: Any) -> list[dict[str, Any]]:
    """Runs ``kt bench`` and returns its rows.

    Options are those of kt-bench(1) with _ for -: ``bench(backend="llamafile", tokens=[1, 32], threads=2)``. A list
    is joined by commas, True is an option without a value, None is left out. Times in the rows are as the manual
    page says; ``roofline_fraction`` is the part of the machine's limit. Raises KTError with the command's words.
    """
    words, environment = command()
    words += ["bench", "--format", "json"]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            joined = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            words += [option, joined]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise KTError(ended.stderr.strip() or f"kt bench ended with {ended.returncode}", "KT_E_STATE")
    return json.loads(ended.stdout)["rows"]
