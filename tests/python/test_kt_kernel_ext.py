# SPDX-License-Identifier: Apache-2.0
"""KT-Kernel's call sequences with its extension module: CPUInfer, and layers made of addresses."""

import ctypes
import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import Model, as_numpy, error_of, from_bf16, to_bf16

import kt_kernel
from kt_kernel import kt_kernel_ext
from kt_kernel.kt_kernel_ext import CPUInfer, moe

E, H, INTER, TOP_K = 8, 128, 256, 2
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def test_the_ways_to_import_it():
    assert importlib.import_module("kt_kernel_ext") is kt_kernel_ext is kt_kernel.kt_kernel_ext
    assert "kt_kernel_ext" in kt_kernel.__all__


def without_gpu(program):
    """With no runtime of a GPU, whatever this machine has installed."""
    environment = {**os.environ, "LD_LIBRARY_PATH": ""}
    hide = """
import ctypes
import kt_kernel
from kt_kernel import _device
def none():
    raise kt_kernel.KTKeyError("there is no runtime")
_device.runtime = none
"""
    words = [sys.executable, "-c", hide + program]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_readme_sample():
    program = "from kt_kernel import kt_kernel_ext; c = kt_kernel_ext.CPUInfer(4); print({})"
    assert without_gpu(program.format("hasattr(c, 'submit_with_cuda_stream')")) == "False\n"
    # the stand-in of tests/gpu is found as libcudart is
    assert hasattr(CPUInfer(2), "submit_with_cuda_stream") and hasattr(CPUInfer(2), "sync_with_cuda_stream")


def test_what_is_not_here_says_so():
    for owner, name in ((kt_kernel_ext, "kvcache"), (moe, "NVFP4_MOE"), (moe, "MOESFTConfig")):
        assert not hasattr(owner, name)
        with pytest.raises(NotImplementedError, match=f"{name} is not in this package; use kt_kernel.KTMoEWrapper"):
            getattr(owner, name)
    with pytest.raises(AttributeError, match="CPUInfer has no task_queue_affinity"):
        _ = CPUInfer(1).task_queue_affinity
    with pytest.raises(ImportError):
        from kt_kernel.kt_kernel_ext import mla  # noqa: F401


def to_fp8(values):
    """Bits of the nearest number of e4m3, and the numbers."""
    bits = np.arange(127, dtype="uint8")
    exponents, mantissas = (bits >> 3).astype(float), (bits & 7) / 8
    numbers = np.where(exponents == 0, mantissas * 2.0**-6, (1 + mantissas) * 2.0 ** (exponents - 7))
    nearest = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, np.abs(values)).astype("uint8")
    return nearest | np.signbit(values).astype("uint8") << 7, np.copysign(numbers[nearest], values)


def spread(scales, rows, cols):
    return scales.repeat(rows, 1).repeat(cols, 2)


def nibbles(codes, group):
    """Bytes, the first code low; `group` bytes are an int32 of GPTQ."""
    pairs = (codes[..., ::2] | codes[..., 1::2] << 4).astype("uint8")
    return np.ascontiguousarray(pairs.view("int32").swapaxes(1, 2)) if group else pairs


def make_weights(random, kind, n, k):
    """Weights as they lie in memory, their scales or None, and their numbers, of E experts."""
    w = random.normal(size=(E, n, k)) / np.sqrt(k)
    if kind == "bf16":
        bits = to_bf16(w)
        return bits, None, from_bf16(bits)
    if kind in ("fp8", "fp8 rows"):
        rows, cols = (128, 128) if kind == "fp8" else (1, k)
        scales = (np.abs(w.reshape(E, n // rows, rows, k // cols, cols)).max((2, 4)) / 448).astype("float32")
        bits, numbers = to_fp8(w / spread(scales, rows, cols))
        return bits, scales, numbers * spread(scales, rows, cols)
    most = {"mxfp8": 448, "mxfp4": 6}.get(kind, 7)
    size = 32 if most != 7 else 128
    scales = np.abs(w.reshape(E, n, k // size, size)).max(3) / most
    if most != 7:
        exponents = np.ceil(np.log2(scales))
        scales = 2.0**exponents
    if kind == "mxfp8":
        bits, numbers = to_fp8(w / spread(scales, 1, size))
        return bits, (exponents + 127).astype("uint8"), numbers * spread(scales, 1, size)
    if kind == "mxfp4":
        codes = np.abs((w / spread(scales, 1, size))[..., None] - E2M1).argmin(-1)
        return nibbles(codes, 0), to_bf16(scales), E2M1[codes] * spread(scales, 1, size)
    scales = scales.astype("float32") if kind == "gptq" else from_bf16(to_bf16(scales))
    codes = np.clip(np.rint(w / spread(scales, 1, size)) + 8, 0, 15).astype("uint8")
    numbers = (codes - 8.0) * spread(scales, 1, size)
    if kind == "gptq":
        return nibbles(codes, 4), np.ascontiguousarray(scales.swapaxes(1, 2)), numbers
    return nibbles(codes, 0), to_bf16(scales), numbers


def make_config(cpu, random, kind, lists):
    """A MOEConfig, what it points to, and the weights' numbers."""
    config = moe.MOEConfig(E, TOP_K, H, INTER, 0)
    config.max_len, config.pool = 128, cpu.backend_
    if kind not in ("bf16", "fp8 rows"):
        config.quant_config.bits = 4 if kind in ("int4", "gptq", "mxfp4") else 8
        config.quant_config.group_size = {"mxfp4": 32, "mxfp8": 32}.get(kind, 128)
        config.quant_config.zero_point = False
    keep, numbers = [], []
    for name, n, k in (("gate", INTER, H), ("up", INTER, H), ("down", H, INTER)):
        weights, scales, exact = make_weights(random, kind, n, k)
        for field, array in ((f"{name}_proj", weights), (f"{name}_scale", scales)):
            if array is not None and lists:
                setattr(config, f"{field}s", [[array[expert].ctypes.data for expert in range(E)]])
            elif array is not None:
                setattr(config, field, array.ctypes.data)
        keep += [weights, scales]
        numbers.append(exact)
    return config, keep, numbers


def reference(x, ids, weights, numbers):
    output = np.zeros(x.shape)
    for token, expert_ids in enumerate(ids):
        for expert, weight in zip(expert_ids, weights[token]):
            gate, up = numbers[0][expert] @ x[token], numbers[1][expert] @ x[token]
            output[token] += weight * (numbers[2][expert] @ (gate / (1 + np.exp(-gate)) * up))
    return output


class Batch:
    """Arrays of n tokens, and their addresses as forward_task takes them."""

    def __init__(self, random, n):
        self.x = to_bf16(random.normal(size=(n, H)))
        self.ids = np.argsort(random.random((n, E)), axis=1)[:, :TOP_K].astype("int64")
        self.weights = random.random((n, TOP_K)).astype("float32")
        self.output = np.zeros((n, H), "uint16")
        self.n = np.array([n], "int32")

    def arguments(self, *more):
        ids, weights, x, output = (array.ctypes.data for array in (self.ids, self.weights, self.x, self.output))
        return self.n.ctypes.data, TOP_K, ids, weights, x, output, *more

    def expected(self, numbers):
        return reference(from_bf16(self.x).astype("float64"), self.ids, self.weights, numbers)


@pytest.mark.parametrize(
    ("name", "kind", "bound"),
    [
        ("AVX2BF16_MOE", "bf16", 0.01),
        ("AMXBF16_MOE", "bf16", 0.01),
        ("AMXInt8_MOE", "bf16", 0.03),
        ("AMXInt4_MOE", "bf16", 0.2),
        ("Int8_KERNEL_MOE", "bf16", 0.03),
        ("AVX2FP8_MOE", "fp8", 0.01),
        ("AMXFP8PerChannel_MOE", "fp8 rows", 0.01),
        ("AVX2RawInt4_MOE", "int4", 0.01),
        ("AVX2GPTQInt4_MOE", "gptq", 0.01),
        ("AVX2MXFP4_MOE", "mxfp4", 0.01),
        ("AVX2MXFP8_MOE", "mxfp8", 0.01),
    ],
)
@pytest.mark.parametrize("lists", [False, True])
def test_accuracy(name, kind, bound, lists):
    """As its accuracy tests do, with the bounds of this project."""
    random, cpu = np.random.default_rng(5), CPUInfer(2)
    config, keep, numbers = make_config(cpu, random, kind, lists)
    layer = getattr(moe, name)(config)
    order = np.arange(E, dtype="int64")[::-1].copy()
    for given in (0, order.ctypes.data):
        cpu.submit(layer.load_weights_task(given))
        cpu.sync()
        mapped = numbers if given == 0 else [array[order] for array in numbers]
        for n in (1, 16):
            batch = Batch(random, n)
            cpu.submit(layer.forward_task(*batch.arguments(False)))
            cpu.sync()
            assert error_of(from_bf16(batch.output), batch.expected(mapped)) < bound
    assert keep


@pytest.fixture
def loaded():
    """CPUInfer, a layer of BF16, and its weights' numbers."""
    random, cpu = np.random.default_rng(6), CPUInfer(2)
    config, keep, numbers = make_config(cpu, random, "bf16", False)
    layer = moe.AMXBF16_MOE(config)
    cpu.submit(layer.load_weights_task())
    cpu.submit(layer.warm_up_task())
    del keep  # the weights are packed
    return random, cpu, layer, numbers


def test_the_queue(loaded):
    random, cpu, layer, numbers = loaded
    batches = [Batch(random, n) for n in (3, 1, 20)]
    for batch in batches:
        cpu.submit(layer.forward_task(*batch.arguments()))
    cpu.sync(1)  # the first two are done
    cpu.sync()
    for batch in batches:
        assert error_of(from_bf16(batch.output), batch.expected(numbers)) < 0.01
    # incremental adds to what is there, and a task may be submitted again
    before = from_bf16(batches[0].output)
    task = layer.forward_task(*batches[0].arguments(True))
    for turn in (2, 3):
        cpu.submit(task)
        cpu.sync()
        assert error_of(from_bf16(batches[0].output), turn * before) < 0.01
    layer.forward(*batches[1].arguments())
    assert error_of(from_bf16(batches[1].output), batches[1].expected(numbers)) < 0.01


def test_experts_on_a_gpu(loaded):
    random, cpu, layer, numbers = loaded
    mask = np.array([0, 1, 0, 1, 0, 0, 0, 0], "uint8")
    for left_out, given in ((mask.astype(bool), mask.ctypes.data), (np.arange(E) < 3, 3)):
        other = moe.MOEConfig(E, TOP_K, H, INTER, given)
        for name in ("pool", "max_len"):
            setattr(other, name, getattr(layer.config, name))
        weights = [to_bf16(array) for array in numbers]
        other.gate_proj, other.up_proj, other.down_proj = (array.ctypes.data for array in weights)
        partial = moe.AMXBF16_MOE(other)
        cpu.submit(partial.load_weights_task())
        batch = Batch(random, 9)
        cpu.submit(partial.forward_task(*batch.arguments()))
        cpu.sync()
        here = [np.where(left_out[:, None, None], 0, array) for array in numbers]
        assert error_of(from_bf16(batch.output), batch.expected(here)) < 0.01


def test_errors(loaded):
    random, cpu, layer, _numbers = loaded
    batch = Batch(random, 2)
    batch.ids[1, 1] = E
    cpu.submit(layer.forward_task(*batch.arguments()))
    with pytest.raises(ValueError, match="asks for expert 8; there are 0 to 7"):
        cpu.sync()
    cpu.sync()  # said once
    batch.n[0] = 129
    cpu.submit(layer.forward_task(*batch.arguments()))
    with pytest.raises(ValueError, match="129 tokens"):
        cpu.sync()
    config = moe.MOEConfig(E, TOP_K, H, INTER)
    with pytest.raises(ValueError, match="config.pool is None"):
        moe.AMXInt8_MOE(config)
    config.pool = cpu.backend_
    for attempt in (moe.AMXInt8_MOE(config).load_weights_task(),):
        with pytest.raises(ValueError, match="gate_proj is 0"):
            cpu.submit(attempt)
    with pytest.raises(kt_kernel.KTError, match="there are no weights"):
        cpu.submit(moe.AMXInt8_MOE(config).forward_task(*batch.arguments()))
    with pytest.raises(ValueError, match="another CPUInfer"):
        CPUInfer(1).submit(layer.warm_up_task())
    with pytest.raises(TypeError, match="a task must be"):
        cpu.submit((1, 2))
    config.gate_projs = [[8] * E] * 2
    with pytest.raises(ValueError, match="one list of 8 addresses"):
        cpu.submit(moe.AMXBF16_MOE(config).load_weights_task())


def test_worker_pool_config():
    config = kt_kernel_ext.WorkerPoolConfig()
    config.subpool_count, config.subpool_numa_map, config.subpool_thread_count = 1, [0, 1], [2, 2]
    assert CPUInfer(config).context.info.n_threads == 2
    config.subpool_numa_map = [63]
    with pytest.raises(kt_kernel.KTError, match="^subpool_numa_map asks for node 63"):
        CPUInfer(config)


def test_llamafile(tmp_path):
    """The class for ggml's types: here of float32, number 0, with hidden states of float32 too."""
    model, cpu = Model(tmp_path, hidden=H, intermediate=INTER), CPUInfer(2)
    config = moe.MOEConfig(E, model.top_k, H, INTER, 0)
    config.pool, config.gate_type, config.up_type, config.down_type, config.hidden_type = cpu.backend_, 0, 0, 0, 0
    stacks = [from_bf16(model.stacked(0, f"{name}_proj")) for name in ("gate", "up", "down")]
    config.gate_proj, config.up_proj, config.down_proj = (stack.ctypes.data for stack in stacks)
    layer = moe.MOE(config)
    cpu.submit(layer.load_weights_task())
    x, ids, weights = model.batch(4)
    output, n = np.zeros_like(x), np.array([4], "int32")
    pointers = [array.ctypes.data for array in (ids, weights, x, output)]
    cpu.submit(layer.forward_task(n.ctypes.data, model.top_k, *pointers))
    cpu.sync()
    assert error_of(output, model.moe(0, x, ids, weights)) < 0.02
    config.gate_type = 99
    with pytest.raises(ValueError, match="gate_type is 99"):
        cpu.submit(layer.load_weights_task())


def test_on_a_stream(loaded):
    """With the stand-in, whose stream is a thread."""
    random, cpu, layer, numbers = loaded
    runtime = ctypes.CDLL("libcudart.so.13")
    stream = ctypes.c_void_p()
    if runtime.cudaStreamCreate(ctypes.byref(stream)) != 0:
        pytest.skip("libcudart.so.13 is a real one here, which wants a GPU")
    batches = [Batch(random, n) for n in (2, 7)]
    for batch in batches:
        cpu.submit_with_cuda_stream(stream.value, layer.forward_task(*batch.arguments()))
    cpu.sync_with_cuda_stream(stream.value, 1)
    cpu.sync_with_cuda_stream(stream.value)
    assert runtime.cudaStreamSynchronize(stream) == 0
    cpu.sync()
    for batch in batches:
        assert error_of(as_numpy(batch.output), batch.expected(numbers)) < 0.01
    batches[0].ids[0, 0] = E
    cpu.submit_with_cuda_stream(stream.value, layer.forward_task(*batches[0].arguments()))
    cpu.sync_with_cuda_stream(stream.value)
    assert runtime.cudaStreamSynchronize(stream) == 0
    with pytest.raises(ValueError, match="asks for expert 8"):
        cpu.sync()
