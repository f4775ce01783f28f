#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of kt_kernel that carries the library, its plugins, the command and what they need.

make python-wheel calls it. Nothing but the standard library, readelf and ldd is used, and the same input gives
the same bytes. No file gets an RPATH: kt_kernel/_lib.py loads the libraries in the order of lib/LIBRARIES.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import time
import zipfile

# Libraries of every Linux with glibc, by the manylinux specification (PEP 600).
SYSTEM = re.compile(r"(ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libgcc_s\.)")


def run(*words):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


def needed(path):
    """Sonames that the file names."""
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path))
    return [name for name in names if not SYSTEM.match(name)]


def find_libraries(library):
    """soname: path of every library needed, dependencies first."""
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", library), re.M))
    order = {}

    def visit(path):
        for name in needed(path):
            if name not in order:
                if name not in places:
                    raise SystemExit(f"wheel.py: {path} needs {name}, which the dynamic linker does not find")
                visit(places[name])
                order[name] = pathlib.Path(places[name])

    visit(str(library))
    return order


def platform_tag(files):
    """manylinux for the oldest glibc that has every symbol."""
    versions = [(2, 17)]
    for path in files:
        found = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", str(path)))
        versions += [(int(major), int(minor)) for major, minor in found]
    return "manylinux_{}_{}_{}".format(*max(versions), platform.machine())


def notice_of(path):
    """What Debian says of a bundled library's licence, or None."""
    try:
        owner = run("dpkg", "-S", str(path.resolve())).split(":")[0]
    except (OSError, subprocess.CalledProcessError):
        return None
    notice = pathlib.Path("/usr/share/doc") / owner / "copyright"
    return notice if notice.is_file() else None


class Wheel:
    """The files of a wheel, name by name."""

    def __init__(self, strip):
        self.files = {}
        self._strip = strip

    def add(self, name, data, executable=False):
        self.files[name] = (data, executable)

    def add_binary(self, name, path, executable=True):
        """A program or library, without debugging information."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "file"
            shutil.copyfile(path, copy)
            if self._strip:
                subprocess.run([self._strip, "--strip-unneeded", str(copy)], check=True)
            self.add(name, copy.read_bytes(), executable)

    def write(self, folder, name, record):
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", 0)) or int(time.time())
        date = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
        lines = []
        path = pathlib.Path(folder) / name
        temporary = path.with_suffix(".tmp")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, (data, executable) in sorted(self.files.items()):
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append(f"{file},sha256={digest},{len(data)}\n")
                self._put(archive, file, data, executable, date)
            self._put(archive, record, ("".join(lines) + f"{record},,\n").encode(), False, date)
        temporary.replace(path)
        return path

    @staticmethod
    def _put(archive, name, data, executable, date):
        info = zipfile.ZipInfo(name, date)
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, data)


def metadata(version, readme):
    return f"""Metadata-Version: 2.1
Name: kt-kernel
Version: {version}
Summary: The experts of Mixture-of-Experts models on CPUs
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/plain

{readme}"""


def fill(wheel, options):
    """Adds all files; returns the platform's tag."""
    package, files = options.package, "kt_kernel/_files"
    for path in sorted([*package.glob("*.py"), package / "py.typed"]):
        wheel.add(f"kt_kernel/{path.name}", path.read_bytes())
    libraries = find_libraries(options.library)
    libraries[options.library.name] = options.library
    for soname, path in libraries.items():
        wheel.add_binary(f"{files}/lib/{soname}", path)
    wheel.add(f"{files}/lib/LIBRARIES", "".join(f"{soname}\n" for soname in libraries).encode())
    for path in options.plugin:
        wheel.add_binary(f"{files}/lib/kt-kernel/abi{options.abi}/{path.name}", path)
    for path in options.dropin:
        wheel.add(f"{files}/share/kt-kernel/plugins.d/{path.name}", path.read_bytes())
    wheel.add_binary(f"{files}/bin/kt", options.command)
    info = f"kt_kernel-{options.version}.dist-info"
    wheel.add(f"{info}/licenses/COPYING", (options.source / "COPYING").read_bytes())
    for soname, path in libraries.items():
        notice = notice_of(path) if path != options.library else None
        if notice:
            wheel.add(f"{info}/licenses/{soname}.txt", notice.read_bytes())
    tag = platform_tag([*libraries.values(), *options.plugin, options.command])
    wheel.add(f"{info}/METADATA", metadata(options.version, (options.source / "README").read_text()).encode())
    wheel.add(f"{info}/entry_points.txt", b"[console_scripts]\nkt = kt_kernel.__main__:main\n")
    purity = f"Wheel-Version: 1.0\nGenerator: kt-kernel {options.version}\nRoot-Is-Purelib: false\n"
    wheel.add(f"{info}/WHEEL", f"{purity}Tag: py3-none-{tag}\n".encode())
    return tag


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the project's folder")
    parser.add_argument("--version", required=True)
    parser.add_argument("--abi", required=True, help="major of the plugin ABI")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libktkernel.so.0")
    parser.add_argument("--command", type=pathlib.Path, required=True, help="the program kt")
    parser.add_argument("--plugin", type=pathlib.Path, action="append", default=[], help="kt_NAME.so")
    parser.add_argument("--dropin", type=pathlib.Path, action="append", default=[], help="NAME.ini")
    parser.add_argument("--strip", default="", help="the program strip; empty: keep what debuggers read")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the wheel")
    options = parser.parse_args()
    options.package = options.source / "tools" / "python" / "kt_kernel"
    wheel = Wheel(options.strip)
    tag = fill(wheel, options)
    options.output.mkdir(parents=True, exist_ok=True)
    record = f"kt_kernel-{options.version}.dist-info/RECORD"
    print(wheel.write(options.output, f"kt_kernel-{options.version}-py3-none-{tag}.whl", record))


if __name__ == "__main__":
    main()
