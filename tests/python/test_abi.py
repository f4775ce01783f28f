# SPDX-License-Identifier: Apache-2.0
"""The structs and numbers of _abi.py are those of the headers: the C compiler compares them."""

import ctypes
import os
import pathlib
import re
import shlex
import subprocess

from kt_kernel import _abi, _abi_engine, _abi_text

SOURCE = pathlib.Path(os.environ["KT_TEST_SOURCE"])


def headers():
    names = ("types.h", "kt.h", "config.h", "linear.h", "gpu.h", "text.h", "engine.h", "sampling.h", "speculate.h")
    return "".join((SOURCE / "include" / "kt" / name).read_text() for name in names)


def assertions():
    for struct in _abi.STRUCTS + _abi_text.STRUCTS + _abi_engine.STRUCTS:
        name = struct.__name__
        yield f"sizeof(struct {name}) == {ctypes.sizeof(struct)}"
        for field, kind in struct._fields_:
            yield f"offsetof(struct {name}, {field}) == {getattr(struct, field).offset}"
            yield f"sizeof(((struct {name} *)0)->{field}) == {ctypes.sizeof(kind)}"
    for name, number in _abi.STATUS_NUMBER.items():
        yield f"{name} == {number}"
    for prefix, numbers in (
        ("KT_DTYPE", _abi.DTYPE),
        ("KT_ACTIVATION", _abi.ACTIVATION),
        ("KT_IO", _abi.IO),
        ("KT_SPLIT", _abi.SPLIT),
        ("KT_TOKENIZER", _abi_text.TOKENIZER_KIND),
        ("KT_TOKEN", _abi_text.TOKEN_TYPE),
        ("KT_SPECULATE", _abi_engine.SPECULATE),
    ):
        for name, number in numbers.items():
            yield f"{prefix}_{name.upper()} == {number}"
    for number, name in enumerate(_abi.BACKEND_STATES):
        yield f"KT_BACKEND_{name.upper()} == {number}"
    yield f"KT_ENCODE_BOS == {_abi_text.ENCODE_BOS}"
    yield f"KT_DECODE_NO_CONTROL == {_abi_text.DECODE_NO_CONTROL}"
    yield f"KT_MAX_LINEARS == {_abi.MAX_LINEARS}"
    yield f"KT_PLACE_FREQUENCY == {_abi.PLACE_FREQUENCY}"


def compile_with(tmp_path, lines):
    source = tmp_path / "abi.c"
    included = "".join(f"#include <kt/{name}.h>\n" for name in ("kt", "text", "engine", "sampling", "speculate"))
    source.write_text(included + "".join(f'_Static_assert({line}, "{line}");\n' for line in lines))
    includes = [f"-I{SOURCE / 'include'}", f"-I{os.environ['KT_TEST_BUILD']}/include"]
    compiler = shlex.split(os.environ.get("KT_TEST_CC") or "cc")
    words = [*compiler, "-std=gnu11", "-fsyntax-only", *includes, str(source)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_layout(tmp_path):
    lines = list(assertions())
    assert len(lines) > 300
    ended = compile_with(tmp_path, lines)
    assert ended.returncode == 0, ended.stderr
    # and the compiler does look
    assert compile_with(tmp_path, [line + " + 1" for line in lines[:1]]).returncode != 0


def test_fields_are_in_the_headers_order():
    text = re.sub(r"/\*.*?\*/", "", headers(), flags=re.S)
    for struct in _abi.STRUCTS + _abi_text.STRUCTS + _abi_engine.STRUCTS:
        body = re.search(r"struct %s \{(.*?)\n\};" % struct.__name__, text, re.S)
        assert body, struct.__name__
        fields = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body.group(1))
        names = re.findall(r"(\w+)(?:\[[^]]*\])?(?=[,;])", fields)
        ours = [field for field, _kind in struct._fields_]
        assert names == ours, struct.__name__
