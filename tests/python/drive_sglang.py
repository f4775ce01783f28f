# SPDX-License-Identifier: Apache-2.0
"""The KTransformers layer of the package sglang-kt over kt_kernel, with tensors on the CPU: run by test_sglang_kt.py.

The layer is SGLang's own, and so are its masks, its mapping of ids and its staging buffer. In place of what there is
with CUDA only stand: streams and events (work is done when it is asked for), SGLang's kernels (sgl_kernel), its
process groups (one rank), and the experts "on the GPU", which the reference computes. Exit status 77: a package that
sglang-kt needs is missing.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import pathlib
import sys
import types

os.environ["TORCHDYNAMO_DISABLE"] = "1"
import numpy as np
import torch
from conftest import Model, as_numpy

import kt_kernel

LAYERS, BOUND = 3, 8e-3  # of the largest number: experts and sums in bfloat16


# ---- what there is with CUDA only ----


class Name(type):
    """A class of which anything can be asked."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {})


class Kernels(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sgl_kernel":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Kernels(spec.name)

    def exec_module(self, module):
        pass


class Stream:
    cuda_stream = 0x5EED

    def __init__(self, device=None):
        pass

    def wait_stream(self, stream):
        pass

    def wait_event(self, event):
        pass


class Event:
    def record(self, stream):
        pass


def without_cuda():
    sys.meta_path.insert(0, Finder())
    torch.cuda.get_device_capability = lambda *_device: (0, 0)
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream = lambda _device=None: Stream()
    torch.cuda.stream = lambda _stream: contextlib.nullcontext()
    torch.cuda.synchronize = lambda _device=None: None
    torch.Tensor.record_stream = lambda _self, _stream: None


without_cuda()
try:
    from sglang.srt.layers.moe import kt_ep_wrapper as kt
    from sglang.srt.layers.moe.moe_runner.base import MoeRunnerConfig
    from sglang.srt.layers.moe.token_dispatcher.standard import StandardCombineInput, StandardDispatchOutput
    from sglang.srt.layers.moe.topk import StandardTopKOutput
    from sglang.srt.layers.quantization.base_config import FusedMoEMethodBase
except ModuleNotFoundError as error:
    print(f"sglang-kt needs {error.name}, which is not installed")
    sys.exit(77)

assert kt.KTRANSFORMERS_AVAILABLE and kt.KTMoEWrapper is kt_kernel.KTMoEWrapper
kt.get_tensor_model_parallel_rank = lambda: 0


class Experts(FusedMoEMethodBase):
    """Those on the GPU: number g of them is the model's expert gpu_index_to_logical[g]."""

    def __init__(self, model, layer_idx):
        self.model, self.layer_idx = model, layer_idx
        self.method = None  # the KTEPWrapperMethod around it

    def create_weights(self, layer, num_experts, **_options):
        assert num_experts == self.num_gpu_experts
        layer.register_parameter("here", torch.nn.Parameter(torch.zeros(1), requires_grad=False))

    def create_moe_runner(self, layer, moe_runner_config):
        assert moe_runner_config.num_local_experts == self.num_gpu_experts

    def process_weights_after_loading(self, layer):
        pass

    def apply(self, layer, dispatch_output):
        x, top = dispatch_output.hidden_states, dispatch_output.topk_output
        logical = self.method.gpu_index_to_logical.numpy()
        ids = top.topk_ids.numpy()
        ids = np.where(ids < 0, -1, logical[ids]) if len(logical) else np.full_like(ids, -1)
        output = self.model.moe(self.layer_idx, x, ids, top.topk_weights)
        return StandardCombineInput(hidden_states=torch.from_numpy(output).to(x.dtype))


def make_layer(model, index, mask, max_deferred):
    """SGLang's steps: construct, create_weights, create_moe_runner, process_weights_after_loading."""
    config = kt.KTConfig(
        layer_idx=index,
        gpu_experts_mask=mask,
        cpuinfer_threads=2,
        threadpool_count=1,
        weight_path=model.path,
        chunked_prefill_size=64,
        max_deferred_experts_per_token=max_deferred,
        method="BF16",
        num_layers=LAYERS,
    )
    experts = Experts(model, index)
    method = experts.method = kt.KTEPWrapperMethod(experts, config)
    layer = torch.nn.Module()
    layer.top_k, layer.num_experts, layer.moe_tp_size = model.top_k, model.n_experts, 1
    layer.intermediate_size_per_partition = model.intermediate
    layer.moe_runner_config = MoeRunnerConfig(activation="silu", routed_scaling_factor=2.5)
    method.create_weights(
        layer,
        num_experts=model.n_experts,
        hidden_size=model.hidden,
        intermediate_size_per_partition=model.intermediate,
        params_dtype=torch.bfloat16,
    )
    method.create_moe_runner(layer, layer.moe_runner_config)
    return method, layer


def batch_of(model, n):
    x, ids, weights = model.batch(n)
    return torch.from_numpy(x).bfloat16(), torch.from_numpy(ids).int(), torch.from_numpy(weights)


def run(method, layer, x, ids, weights):
    top = StandardTopKOutput(weights, ids, torch.zeros(x.shape[0], 1))
    output = method.apply(layer, StandardDispatchOutput(x.clone(), None, top)).hidden_states
    assert output.dtype == torch.bfloat16 and output.shape == x.shape
    return as_numpy(output)


def compare(output, expected):
    error = np.abs(output - expected).max() / np.abs(expected).max()
    assert error <= BOUND, error


def check_sums(model, layers):
    for n in (1, 3, 20, 1):
        for index, (method, layer) in enumerate(layers):
            batch = batch_of(model, n)
            compare(run(method, layer, *batch), model.moe(index, *batch))


def check_update(model, layers):
    """SGLang's dynamic update: the experts that a batch asks for most go to the GPU."""
    for index, (method, layer) in enumerate(layers):
        batch = batch_of(model, 10)
        chosen = kt.select_top_experts_from_batch(batch[1], model.n_experts, method.num_gpu_experts)
        mask, to_gpu, to_logical = kt.update_gpu_expert_mappings(chosen, model.n_experts, torch.device("cpu"))
        method.gpu_experts_mask = mask
        method.gpu_experts_mask_cuda.copy_(mask)
        method.logical_to_gpu_index_cuda.copy_(to_gpu)
        method.gpu_index_to_logical = to_logical
        kt.update_kt_wrapper_masks(method.wrapper, mask)
        assert (method.wrapper.gpu_experts_mask == mask).all()
        compare(run(method, layer, *batch), model.moe(index, *batch))


def check_deferral(model, layers):
    """Deferred experts come with the next layer's output; the last layer defers none. Returns how many there were."""
    pending, n_deferred = 0.0, 0
    for index, (method, layer) in enumerate(layers):
        x, ids, weights = batch_of(model, 1)
        on_gpu = method.gpu_experts_mask.numpy()
        later = np.full_like(ids.numpy(), -1)
        if index + 1 < LAYERS:
            protected = model.top_k - 1
            later = method.wrapper.select_deferred_experts(ids, weights, protected)[1].numpy()
        later = np.where((later >= 0) & ~on_gpu[later], later, -1)
        now = np.where(later >= 0, -1, ids.numpy())
        n_deferred += (later >= 0).sum()
        compare(run(method, layer, x, ids, weights), model.moe(index, x, now, weights) + pending)
        pending = model.moe(index, x, later, weights)
    assert not np.any(pending)
    return n_deferred


def main():
    torch.manual_seed(1)
    model = Model(pathlib.Path(sys.argv[1]), n_layers=LAYERS, seed=3)
    masks = kt_kernel.generate_gpu_experts_masks(torch.rand(LAYERS, model.n_experts), 9)
    uniform = kt.generate_uniform_masks(LAYERS, model.n_experts, 2 * LAYERS, 0, 1)
    for all_masks, max_deferred in ((masks, 0), (uniform, 0), (torch.zeros_like(masks), 0), (masks, 1)):
        layers = [make_layer(model, i, all_masks[i], max_deferred) for i in range(LAYERS)]
        for method, layer in layers:
            method.process_weights_after_loading(layer)
            assert method.wrapper.num_gpu_experts == int(all_masks[method.kt_config.layer_idx].sum())
        if max_deferred:
            assert check_deferral(model, layers) + check_deferral(model, layers) > 0
        else:
            check_sums(model, layers)
            check_update(model, layers)
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("sglang-kt", "torch", "numpy"))
    print("works:", ", ".join(versions))


main()
