# SPDX-License-Identifier: Apache-2.0
"""What pip calls to build this folder (PEP 517 and 660); README says which wheel it makes when."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from distribution import PACKAGE, Wheel

_TOP = PACKAGE.parents[2]


def _version():
    try:
        text = (_TOP / "configure.ac").read_text()
    except OSError:
        raise SystemExit(f"{PACKAGE.parent} must lie in kt-kernel's source tree") from None
    return re.search(r"AC_INIT\(\[kt-kernel\], \[([^]]+)\]", text).group(1)


def _build_folder(settings):
    """Where the library was built, or None."""
    named = (settings or {}).get("build")
    if named == "none":
        return None
    if named:
        if not (pathlib.Path(named) / "libktkernel.la").is_file():
            raise SystemExit(f"build={named}: there is no libktkernel.la; name the folder where make was run")
        return pathlib.Path(named)
    folders = (_TOP / "build", _TOP)
    return next((folder for folder in folders if (folder / "libktkernel.la").is_file()), None)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version, build = _version(), _build_folder(config_settings)
    if build is None:
        return _pure(version).write(wheel_directory, version, "any").name
    with tempfile.TemporaryDirectory() as folder:
        # Not make's own settings: pip may have been called by make.
        environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
        words = ["make", "-C", str(build), "python-wheel", f"wheel_folder={folder}"]
        subprocess.run(words, check=True, env=environment)
        (made,) = pathlib.Path(folder).glob("*.whl")
        shutil.copy(made, wheel_directory)
    return made.name


def _pure(version):
    """Only the package: it finds the library that is installed, and the command is that installation's."""
    wheel = Wheel()
    wheel.add_package()
    wheel.add_information(version, _TOP, "any", commands="")
    return wheel


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    version, wheel = _version(), Wheel()
    wheel.add("kt_kernel.pth", f"{PACKAGE.parent}\n".encode())
    wheel.add_information(version, _TOP, "any", commands="")
    return wheel.write(wheel_directory, version, "any").name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("kt-kernel's sources are one tarball: make dist")
