# SPDX-License-Identifier: Apache-2.0
"""Command lines of `kt run --engine sglang`, read by the parser of the package sglang-kt where it is installed."""

import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest
from conftest import DATA

# One process reads all of them: importing SGLang takes seconds, and changes much.
READ = """
import argparse, json, sys
out, sys.stdout = sys.stdout, sys.stderr
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
json.dump([vars(parser.parse_args(words)) for words in json.load(sys.stdin)], out, default=str)
"""
OPTIONS = {
    "kt_max_deferred_experts_per_token": "--kt-max-deferred-experts-per-token 2",
    "max_running_requests": "--max-running 3",
    "max_queued_requests": "--max-queue 4",
    "max_total_tokens": "--max-total-tokens 5000",
    "kt_expert_placement_strategy": "--kt-expert-placement-strategy random",
    "kt_enable_dynamic_expert_update": "--kt-enable-dynamic-expert-update",
    "kt_num_gpu_experts": "--gpu-experts 2",
    "kt_gpu_prefill_token_threshold": "--gpu-prefill-threshold 700",
    "attention_backend": "--attention-backend triton",
    "trust_remote_code": "--trust-remote-code",
    "watchdog_timeout": "--watchdog-timeout 9",
    "api_key": "--api-key secret",
    "nnodes": "--nnodes 2 --dist-init-addr host:1",
    "tool_call_parser": "-- --tool-call-parser qwen25",
}
METHODS = {"fp8-block": "FP8", "fp8-channel": "FP8_PERCHANNEL", "int4-g32": "RAWINT4", "mxfp4": "MXFP4"}


def command(tmp_path, model, options):
    build = pathlib.Path(os.environ["KT_TEST_BUILD"])
    if not (build / "kt-serve").exists():
        pytest.skip("kt-serve was not built")
    program = next(path for path in (build / ".libs/kt", build / "kt") if path.exists())
    words = [program, "run", "--engine", "sglang", "--gpu-memory", "24G", "--dry-run", "--python", tmp_path / "python"]
    libraries = {"LD_LIBRARY_PATH": str(build / ".libs")}
    own, _, rest = options.partition("-- --")
    ended = subprocess.run(
        [*map(str, words), str(DATA / model), *shlex.split(own), *(["--", *shlex.split("--" + rest)] if rest else [])],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **libraries},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return shlex.split(ended.stdout)[3:]


def test_the_real_parser(tmp_path):
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("sglang-kt is not installed (pip install --no-deps sglang-kt, and what it then asks for)")
    # A stand-in with SGLang, whose parser is not asked: it is asked below.
    (tmp_path / "python").write_text("#!/bin/sh\nprintf 'sglang /x\\nlayer 1\\nkernel /x\\nours 1\\n'\n")
    (tmp_path / "python").chmod(0o755)
    lines = [command(tmp_path, f"{folder}-l0", "") for folder in METHODS]
    lines += [command(tmp_path, "fp8-block-l0", options) for options in OPTIONS.values()]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ],
        input=json.dumps(lines), capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    if "ModuleNotFoundError" in ended.stderr:
        pytest.skip(f"sglang-kt needs more: {ended.stderr.strip().splitlines()[-1]}")
    assert ended.returncode == 0, ended.stderr
    read = json.loads(ended.stdout)
    for (folder, method), args in zip(METHODS.items(), read):
        assert args["kt_method"] == method and args["kt_weight_path"] == args["model_path"]
        assert args["model_path"] == os.path.realpath(DATA / f"{folder}-l0")
        assert args["host"] == "127.0.0.1" and args["trust_remote_code"] is False
        assert len(args["kt_numa_nodes"]) == args["kt_threadpool_count"] and args["kt_cpuinfer"] > 0
        assert args["kt_num_gpu_experts"] == 8 and 0 < args["mem_fraction_static"] <= 0.85
    for (name, options), args in zip(OPTIONS.items(), read[len(METHODS) :]):
        value = options.split()[-1] if " " in options else True
        value = "2" if name == "nnodes" else value
        assert str(args[name]).removesuffix(".0") == str(value), name
