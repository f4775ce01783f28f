#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of kt_kernel that carries the library, its plugins, the command and what they need.

make python-wheel calls it. Nothing but the standard library and ldd is used, and the same input gives the same
bytes. Files find each other by their RUNPATH, whatever it was, and run with a glibc older than the one here: elf.py
changes both, and the wheel's name says which glibc it takes.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import elf
from distribution import Wheel

COMPAT = "libktglibc.so.0"
OLDEST = (2, 31)  # of Debian 11 and Ubuntu 20.04
# What every Linux with glibc has, by the manylinux specification (PEP 600).
SYSTEM = re.compile(r"(ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libgcc_s\.)")


def run(*words):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


def read(path):
    return elf.Elf(pathlib.Path(path).read_bytes())


def find_libraries(library, ours=()):
    """soname: path of all that the library needs beside what every system has, and the wheel's own libraries."""
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", library), re.M))
    found = {}

    def visit(path):
        for name in read(path).needed():
            if name not in found and name not in ours and not SYSTEM.match(name):
                if name not in places:
                    raise SystemExit(f"wheel.py: {path} needs {name}, which the dynamic linker does not find")
                found[name] = pathlib.Path(places[name])
                visit(places[name])

    visit(str(library))
    return found


class Glibc:
    """Lowers the glibc that files need to OLDEST, where the wheel's own library for that can."""

    def __init__(self, compat):
        self.compat = compat
        libc = pathlib.Path(re.search(r"libc\.so\.6 => (/\S+)", run("ldd", compat)).group(1))
        self._own = set(read(compat).definitions())
        self._moved = set(self._own)
        for name, versions in read(libc).definitions().items():
            if any((elf.glibc(version) or OLDEST + (1,)) <= OLDEST for version in versions):
                self._moved.add(name)
        self._newest = (2, 17)

    def change(self, data, runpath):
        """A file of the wheel, with the RUNPATH to lib/."""
        file = elf.Elf(data)
        if file.lower(OLDEST, self._moved) & self._own:
            file.need(COMPAT)  # and with it what moved: Python, and so a plugin, has that anyhow
        if any(not SYSTEM.match(name) for name in file.needed()):
            file.set_runpath(runpath)
        self._newest = max([self._newest, *filter(None, map(elf.glibc, file.versions()))])
        return file.write()

    def tag(self):
        """manylinux for the oldest glibc that has every symbol."""
        return "manylinux_{}_{}_{}".format(*self._newest, platform.machine())


def notice_of(path):
    """What Debian says of a bundled library's license, or None."""
    try:
        owner = run("dpkg", "-S", str(path.resolve())).split(":")[0]
    except (OSError, subprocess.CalledProcessError):
        return None
    notice = pathlib.Path("/usr/share/doc") / owner / "copyright"
    return notice if notice.is_file() else None


class NativeWheel(Wheel):
    """A wheel with programs and libraries."""

    def __init__(self, strip, glibc):
        super().__init__()
        self._strip = strip
        self._glibc = glibc

    def add_binary(self, name, path, runpath):
        """A program or library, without what only debuggers read."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "file"
            shutil.copyfile(path, copy)
            if self._strip:
                subprocess.run([self._strip, "--strip-unneeded", str(copy)], check=True)
            self.add(name, self._glibc.change(copy.read_bytes(), runpath), True)


def fill(wheel, options, glibc):
    """Adds all files; returns the platform's tag."""
    files = "kt_kernel/_files"
    wheel.add_package()
    libraries, ours = find_libraries(options.library), {options.library.name: options.library}
    if options.engine:
        ours[options.engine.name] = options.engine
        libraries.update(find_libraries(options.engine, ours))
    for soname, path in {**libraries, COMPAT: options.compat, **ours}.items():
        wheel.add_binary(f"{files}/lib/{soname}", path, "$ORIGIN")
    for path in options.plugin:
        wheel.add_binary(f"{files}/lib/kt-kernel/abi{options.abi}/{path.name}", path, "$ORIGIN/../..")
    for path in options.dropin:
        wheel.add(f"{files}/share/kt-kernel/plugins.d/{path.name}", path.read_bytes())
    for path in options.data:
        wheel.add(f"{files}/share/kt-kernel/{path.name}", path.read_bytes())
    wheel.add_binary(f"{files}/bin/kt", options.command, "$ORIGIN/../lib")
    if options.engine_command:  # where kt looks for it
        wheel.add_binary(f"{files}/libexec/kt-kernel/kt-engine", options.engine_command, "$ORIGIN/../../lib")
    for soname, path in libraries.items():
        notice = notice_of(path)
        if notice:
            wheel.add(f"kt_kernel-{options.version}.dist-info/licenses/{soname}.txt", notice.read_bytes())
    wheel.add_information(options.version, options.source, glibc.tag())
    return glibc.tag()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the project's folder")
    parser.add_argument("--version", required=True)
    parser.add_argument("--abi", required=True, help="major of the plugin ABI")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libktkernel.so.0")
    parser.add_argument("--command", type=pathlib.Path, required=True, help="the program kt")
    parser.add_argument("--engine", type=pathlib.Path, help="libktengine.so.0")
    parser.add_argument("--engine-command", type=pathlib.Path, help="the program kt-engine")
    parser.add_argument("--compat", type=pathlib.Path, required=True, help=f"{COMPAT}, of glibc.c")
    parser.add_argument("--plugin", type=pathlib.Path, action="append", default=[], help="kt_NAME.so")
    parser.add_argument("--dropin", type=pathlib.Path, action="append", default=[], help="NAME.ini")
    parser.add_argument("--data", type=pathlib.Path, action="append", default=[], help="tuned.ini and its like")
    parser.add_argument("--strip", default="", help="the program strip; empty: keep what debuggers read")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the wheel")
    options = parser.parse_args()
    glibc = Glibc(options.compat)
    wheel = NativeWheel(options.strip, glibc)
    tag = fill(wheel, options, glibc)
    options.output.mkdir(parents=True, exist_ok=True)
    print(wheel.write(options.output, options.version, tag))


if __name__ == "__main__":
    main()
