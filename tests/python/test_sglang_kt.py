# SPDX-License-Identifier: Apache-2.0
"""The package sglang-kt itself, where it is installed. In a process of its own: it changes much on import."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest


def test_the_real_layer(tmp_path, torch):
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("sglang-kt is not installed (pip install --no-deps sglang-kt, and what it then asks for)")
    program = pathlib.Path(__file__).with_name("drive_sglang.py")
    words = [sys.executable, "-W", "ignore", str(program), str(tmp_path)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=environment)
    if ended.returncode == 77:
        pytest.skip(ended.stdout.strip().splitlines()[-1])
    assert ended.returncode == 0, ended.stderr
    assert "works: sglang-kt" in ended.stdout
