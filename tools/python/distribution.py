#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each wheel of kt_kernel has: its archive, the Python files, and what pip wants to know.

As a program it prints the METADATA of an installation that pip did not make, for make install."""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parent / "kt_kernel"


def metadata(version, readme=""):
    return f"""Metadata-Version: 2.1
Name: kt-kernel
Version: {version}
Summary: The experts of Mixture-of-Experts models on CPUs
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{readme}"""


class Wheel:
    """The files of a wheel, name by name."""

    def __init__(self):
        self.files = {}

    def add(self, name, data, executable=False):
        self.files[name] = (data, executable)

    def add_package(self):
        for path in sorted([*PACKAGE.glob("*.py"), PACKAGE / "py.typed"]):
            self.add(f"kt_kernel/{path.name}", path.read_bytes())

    def add_information(self, version, source, tag, commands="kt = kt_kernel.__main__:main"):
        """tag: of the platform, "any" where nothing is compiled."""
        info = f"kt_kernel-{version}.dist-info"
        self.add(f"{info}/licenses/COPYING", (source / "COPYING").read_bytes())
        self.add(f"{info}/METADATA", metadata(version, (source / "README.md").read_text()).encode())
        if commands:
            self.add(f"{info}/entry_points.txt", f"[console_scripts]\n{commands}\n".encode())
        pure = "true" if tag == "any" else "false"
        purity = f"Wheel-Version: 1.0\nGenerator: kt-kernel {version}\nRoot-Is-Purelib: {pure}\n"
        self.add(f"{info}/WHEEL", f"{purity}Tag: py3-none-{tag}\n".encode())

    def write(self, folder, version, tag):
        """Returns the wheel's path."""
        name, record = f"kt_kernel-{version}-py3-none-{tag}.whl", f"kt_kernel-{version}.dist-info/RECORD"
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


def main():
    version, readme = sys.argv[1:]
    print(metadata(version, pathlib.Path(readme).read_text()), end="")


if __name__ == "__main__":
    main()
