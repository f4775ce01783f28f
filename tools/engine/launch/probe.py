# SPDX-License-Identifier: Apache-2.0
"""What kt run asks a Python of SGLang.

look               prints what is installed, without importing it, which would take seconds
check OPTION...    prints the options that SGLang's own parser does not know, else what it says of their values
place FILE L E     writes counts, int64 [L, E] from standard input, as SGLang's recorder does
"""

import sys


def look():
    import importlib.metadata
    import importlib.util
    import os

    def version(*names):
        for name in names:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                pass
        return "?"

    def folder(name):
        spec = importlib.util.find_spec(name)
        return (list(spec.submodule_search_locations or ()) or [""])[0] if spec else ""

    sglang, kernel = folder("sglang"), folder("kt_kernel")
    print("python", sys.executable)
    print("sglang", sglang)
    print("version", version("sglang-kt", "sglang"))
    print("layer", int(os.path.exists(os.path.join(sglang, "srt", "layers", "moe", "kt_ep_wrapper.py"))))
    print("kernel", kernel)
    print("ours", int(os.path.exists(os.path.join(kernel, "_abi.py"))))


def check(words):
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise ValueError(message)

    out, sys.stdout = sys.stdout, sys.stderr  # some packages print while they are imported
    try:
        from sglang.srt.server_args import ServerArgs

        parser = Parser()
        ServerArgs.add_cli_args(parser)
    except BaseException as error:
        print("failed", type(error).__name__ + ":", *str(error).split(), file=out)
        return
    known = parser._option_string_actions
    names = [word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2]
    unknown = [name for name in names if not any(other.startswith(name) for other in known)]
    for name in unknown:
        print("unknown", name, file=out)
    if unknown or "--help" in names or "-h" in words:
        return
    try:
        parser.parse_args(words)
    except (ValueError, TypeError) as error:
        print("wrong", *str(error).split(), file=out)


def place(path, n_layers, n_experts):
    import torch

    counts = torch.frombuffer(bytearray(sys.stdin.buffer.read()), dtype=torch.int64)
    torch.save({"logical_count": counts.reshape(1, int(n_layers), int(n_experts))}, path)


{"look": look, "check": lambda *words: check(list(words)), "place": place}[sys.argv[1]](*sys.argv[2:])
