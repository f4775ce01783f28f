# SPDX-License-Identifier: Apache-2.0
"""What programs and people that come from KT-Kernel expect, and words that name what they wrote."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import Model

import kt_kernel
from kt_kernel import _lib


def run(program, **environment):
    words, everything = [sys.executable, "-c", program], {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=everything)


def test_masks_clamp():
    freq = np.array([[0.1, 0.5, 0.3, 0.8], [0.2, 0.4, 0.9, 0.1]])
    for number, expected in {-5: 0, -(1 << 20): 0, 0: 0, 3: 3, 8: 8, 100: 8}.items():
        assert kt_kernel.generate_gpu_experts_masks(freq, number).sum() == expected
    with pytest.raises(ValueError, match="num_gpu_experts"):
        kt_kernel.generate_gpu_experts_masks(freq, 2.5)


def test_one_warning(tmp_path):
    model = Model(tmp_path)
    program = f"""
import kt_kernel
for threads in (1, 2):
    for layer in range(8):
        kt_kernel.KTMoEWrapper(layer, 8, 3, 64, 96, None, threads, 63, {model.path!r}, 64, method="BF16")
"""
    ended = run(program)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(
        r"KTMoEWrapper: threadpool_count is 63, but (1 NUMA node is|\d+ NUMA nodes are) used\n", ended.stderr
    )


@pytest.mark.parametrize("name", ["avx512_base", "avx512"])
def test_cpu_variants_of_kt_kernel(name):
    ended = run("import kt_kernel; print(kt_kernel.__cpu_variant__)", KT_KERNEL_CPU_VARIANT=name)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() in ("avx512", "avx2", "scalar", "neon")
    wrong = run("import kt_kernel; kt_kernel.__cpu_variant__", KT_KERNEL_CPU_VARIANT="avx512_bass")
    assert wrong.returncode != 0 and "KT_KERNEL_CPU_VARIANT" in wrong.stderr


def test_formats_are_words_or_prose():
    formats = {backend.name: backend.formats for backend in kt_kernel.backends()}
    for name, found in formats.items():
        names = [word for word in found[:-1] if not re.fullmatch(r"[a-z0-9_]+", word)]
        assert not names and not {"and", "every", "GGUF's", "blocks"} & set(found), (name, found)
    assert formats["reference"] == ("every format that the core decodes",)
    if "amx_int8" in formats:
        assert formats["amx_int8"][0] == "bf16" and formats["amx_int8"][-1] == "GGUF's blocks"


@pytest.mark.parametrize("method, rounding", [("AMXINT8", "int8, a scale for each row"), ("BF16", "")])
def test_a_wrapper_says_what_was_rounded(tmp_path, method, rounding):
    name = {"AMXINT8": "amx_int8", "BF16": "bf16"}[method]
    if not any(backend.name == name and backend.state == "loaded" for backend in kt_kernel.backends()):
        pytest.skip(f"the backend {name} was not built")
    wrapper = Model(tmp_path).wrapper(method=method)
    wrapper.load_weights()
    assert wrapper.moe.info.rounding == rounding


def test_errors_name_the_callers_arguments(tmp_path):
    model = Model(tmp_path)
    wrapper = model.wrapper()
    wrapper.load_weights()
    x, ids, weights = model.batch(4)
    wrong = {
        r"^topk_ids is f32": (x, ids.astype("float32"), weights),
        r"^topk_ids has the shape \[3, 3\]": (x, ids[:3], weights),
        r"^topk_ids has the shape \[4, 3\], topk_weights \[4, 2\]": (x, ids, weights[:, :2]),
        r"^topk_ids names no expert": (x, ids[:, :0], weights[:, :0]),
        r"^topk_weights is i64": (x, ids, ids),
        r"^hidden_states has the shape": (x[:, :5], ids, weights),
    }
    for message, batch in wrong.items():
        for method in (wrapper.forward, wrapper.submit_forward):
            with pytest.raises(ValueError, match=message):
                method(*batch)
    with pytest.raises(TypeError, match="^topk_ids must be"):
        wrapper.forward(x, [[1]], weights)
    with pytest.raises(ValueError, match="^expert_ids"):
        wrapper.moe.forward(x, ids[:3], weights)
    with pytest.raises(ValueError, match="physical_to_logical_map_cpu") as caught:
        wrapper.load_weights(np.arange(3))
    assert "expert_map" not in str(caught.value)
    stacks = [model.stacked(0, f"{name}_proj") for name in ("gate", "up", "down")]
    for index, name in enumerate(("gate_proj", "up_proj", "down_proj")):
        changed = list(stacks)
        changed[index] = stacks[index][:, :7]
        with pytest.raises(ValueError, match=f"^{name} has the shape"):
            wrapper.load_weights_from_tensors(*changed)
        changed[index] = stacks[index].astype("int64")
        with pytest.raises(ValueError, match=f"^{name} is i64"):
            wrapper.load_weights_from_tensors(*changed)


def test_settings_that_nobody_made_are_not_named(tmp_path):
    model = Model(tmp_path)
    for attempt in (lambda: model.wrapper(numa_nodes=[63]), lambda: kt_kernel.Context(numa_nodes=[63])):
        with pytest.raises(kt_kernel.KTError, match="^numa_nodes asks for node 63"):
            attempt()
    with pytest.raises(kt_kernel.KTError, match="^cpuinfer_threads = "):
        model.wrapper(cpuinfer_threads=1 << 20)
    with pytest.raises(kt_kernel.KTError, match="^threads = "):
        kt_kernel.Context(threads=1 << 20)
    with pytest.raises(kt_kernel.KTError) as caught:
        model.wrapper(method="FP8").load_weights()
    assert "core." not in str(caught.value) and "not supported by" in str(caught.value)
    # but one that was made is
    with pytest.raises(kt_kernel.KTError, match="core.numa_nodes asks for node 63"):
        kt_kernel.Context(settings={"core.numa_nodes": "63"})


def test_a_library_in_the_packages_own_prefix(tmp_path):
    """As make install --prefix=DIR puts them, which the dynamic linker need not know."""
    package = tmp_path / "lib" / "python3" / "site-packages" / "kt_kernel"
    shutil.copytree(pathlib.Path(kt_kernel.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.environ["KT_KERNEL_LIBRARY"], tmp_path / "lib" / _lib.SONAME)
    paths = {"PYTHONPATH": str(package.parent), "KT_KERNEL_LIBRARY": ""}
    ended = run("import kt_kernel; print(kt_kernel.__file__, kt_kernel.__version__)", **paths)
    assert ended.returncode == 0 and ended.stdout.startswith(str(package)), ended.stderr
    (tmp_path / "lib" / _lib.SONAME).unlink()
    ended = run("import kt_kernel", **paths)
    assert ended.returncode == 0 or "set KT_KERNEL_LIBRARY" in ended.stderr
