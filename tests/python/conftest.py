# SPDX-License-Identifier: Apache-2.0
"""What the tests share: data, small models made here with a float64 reference, and kinds of arrays."""

import json
import math
import os
import pathlib
import struct

import numpy as np
import pytest

import kt_kernel

DATA = pathlib.Path(os.environ["KT_TEST_DATA"]) / "tiny-moe"
_DTYPES = {
    "BF16": "uint16", "F16": "float16", "F32": "float32", "I64": "int64", "I32": "int32", "I8": "int8", "U8": "uint8",
    "F8_E4M3": "uint8", "F8_E8M0": "uint8",
}  # fmt: skip


def pytest_terminal_summary(terminalreporter):
    """Names what was skipped, as tests of this project do."""
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIP: {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")


def read_safetensors(path):
    """name: array; BF16 as its bits."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            array = np.frombuffer(data[8 + length + begin : 8 + length + end], _DTYPES[entry["dtype"]])
            tensors[name] = array.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    """BF16 tensors from their bits."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "BF16", "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def to_bf16(values):
    """Bits of the nearest bfloat16."""
    bits = np.asarray(values, "float32").view("uint32").astype("uint64")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def from_bf16(bits):
    return (np.asarray(bits).astype("uint32") << 16).view("float32")


def error_of(output, expected):
    """Relative L2."""
    output, expected = np.asarray(output, "float64"), np.asarray(expected, "float64")
    return np.linalg.norm(output - expected) / np.linalg.norm(expected)


def as_numpy(array):
    """Any output in float64."""
    if type(array).__module__.startswith("numpy"):
        return (from_bf16(array) if array.dtype == np.uint16 else array).astype("float64")
    return array.detach().cpu().double().numpy()


class Model:
    """Random bfloat16 experts in a folder that kt_kernel opens, and what they compute in float64."""

    def __init__(self, folder, n_layers=1, n_experts=8, hidden=64, intermediate=96, top_k=3, seed=1):
        self.path, self.n_layers, self.n_experts = str(folder), n_layers, n_experts
        self.hidden, self.intermediate, self.top_k = hidden, intermediate, top_k
        self.random = np.random.default_rng(seed)
        wide, high = (intermediate, hidden), (hidden, intermediate)
        shapes = {"gate_proj": wide, "up_proj": wide, "down_proj": high}
        tensors = {
            f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight": to_bf16(
                self.random.normal(size=shape) / math.sqrt(shape[1])
            )
            for layer in range(n_layers)
            for expert in range(n_experts)
            for name, shape in shapes.items()
        }
        write_safetensors(folder / "model.safetensors", tensors)
        config = {
            "model_type": "qwen3_moe", "num_hidden_layers": n_layers, "num_experts": n_experts, "hidden_act": "silu",
            "num_experts_per_tok": top_k, "hidden_size": hidden, "moe_intermediate_size": intermediate,
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config))
        self.weights = {name: from_bf16(array).astype("float64") for name, array in tensors.items()}
        self.bits = tensors

    def stacked(self, layer, name):
        """Bits of all experts' projection, [n_experts, rows, columns]."""
        names = (f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight" for expert in range(self.n_experts))
        return np.stack([self.bits[name] for name in names])

    def expert(self, layer, expert, x):
        weight = {
            name: self.weights[f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight"]
            for name in ("gate_proj", "up_proj", "down_proj")
        }
        gate = x @ weight["gate_proj"].T
        return (gate / (1 + np.exp(-gate)) * (x @ weight["up_proj"].T)) @ weight["down_proj"].T

    def moe(self, layer, x, ids, weights, chosen=lambda _id: True):
        """The sum of the experts that `chosen` takes."""
        x, ids, weights = as_numpy(x), np.asarray(ids), as_numpy(weights)
        output = np.zeros_like(x)
        for token in range(x.shape[0]):
            for expert, weight in zip(ids[token], weights[token]):
                if expert >= 0 and chosen(int(expert)):
                    output[token] += weight * self.expert(layer, int(expert), x[token])
        return output

    def batch(self, n, dtype="float32"):
        """x, ids, weights as numpy arrays; x exact in bfloat16."""
        x = from_bf16(to_bf16(self.random.normal(size=(n, self.hidden))))
        ids = np.argsort(self.random.random((n, self.n_experts)), axis=1)[:, : self.top_k].astype("int64")
        weights = self.random.random((n, self.top_k)).astype("float32")
        return x.astype(dtype), ids, weights

    def wrapper(self, layer=0, mask=None, **options):
        arguments = {
            "layer_idx": layer,
            "num_experts": self.n_experts,
            "num_experts_per_tok": self.top_k,
            "hidden_size": self.hidden,
            "moe_intermediate_size": self.intermediate,
            "gpu_experts_mask": mask,
            "cpuinfer_threads": 2,
            "threadpool_count": 1,
            "weight_path": self.path,
            "chunked_prefill_size": 64,
            "method": "BF16",
        }
        return kt_kernel.KTMoEWrapper(**{**arguments, **options})


@pytest.fixture
def model(tmp_path):
    return Model(tmp_path)


@pytest.fixture
def context():
    with kt_kernel.Context(threads=2) as made:
        yield made


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="python3-torch is not installed")


@pytest.fixture(scope="session")
def trace():
    """x as bits of bfloat16, ids, weights and the output of layer 0."""
    tensors = read_safetensors(DATA / "trace.safetensors")
    names = ("hidden_states", "topk_ids", "topk_weights", "output")
    return tuple(tensors[f"layers.0.{name}"] for name in names)
