# SPDX-License-Identifier: Apache-2.0
"""The calls of SGLang's KTransformers layer, replayed with torch tensors on the CPU and a stream that is none:
the sum with the "GPU's" experts is the float64 reference's, with deferral that of the rule."""

import numpy as np
import pytest
from conftest import Model, as_numpy

from kt_kernel import KTMoEWrapper, generate_gpu_experts_masks

pytest.importorskip("torch", reason="python3-torch is not installed")
import torch

LAYERS, DENSE = 4, 1  # layer 1 has no experts
BOUND = 8e-3  # of the largest number: experts and sums in bfloat16


class Stream:
    """What SGLang's cpu_stream is to the wrapper: an object with an address."""

    cuda_stream = 0x5EED


class Layer:
    """SGLang's layer of experts, with its own calls in its own order."""

    def __init__(self, model, layer, mask, threads, max_deferred, method="BF16"):
        self.model, self.layer = model, layer
        self.wrapper = KTMoEWrapper(
            layer_idx=layer,
            num_experts=model.n_experts,
            num_experts_per_tok=model.top_k,
            hidden_size=model.hidden,
            moe_intermediate_size=model.intermediate,
            gpu_experts_mask=mask,
            cpuinfer_threads=threads,
            threadpool_count=1,
            numa_nodes=None,
            weight_path=model.path,
            chunked_prefill_size=64,
            swiglu_limit=0.0,
            swiglu_alpha=0.0,
            method=method,
            max_deferred_experts_per_token=0 if layer == LAYERS - 1 else max_deferred,
        )
        self.staging = torch.zeros(64, model.hidden, dtype=torch.bfloat16)

    def process_weights_after_loading(self):
        self.wrapper.load_weights(torch.arange(self.model.n_experts, dtype=torch.int64))

    def apply(self, x, ids, weights):
        """The output, and what the wrapper was asked for."""
        staged = self.staging[: x.shape[0]]
        staged.copy_(x)
        mask = self.wrapper.gpu_experts_mask.clone().numpy()
        self.wrapper.submit_forward(staged, ids, weights, Stream())
        on_gpu = self.model.moe(self.layer, x, ids, weights, lambda expert: mask[expert])
        on_cpu = self.wrapper.sync_forward(staged, Stream())
        assert on_cpu.dtype == torch.bfloat16 and on_cpu.shape == x.shape
        return on_gpu + as_numpy(on_cpu), mask


def layers_of(model, masks, threads=2, max_deferred=0):
    layers = [
        Layer(model, layer, masks[layer], threads, max_deferred) for layer in range(LAYERS) if layer != DENSE
    ]
    for layer in layers:
        layer.process_weights_after_loading()
    return layers


def batch_of(model, n):
    x, ids, weights = model.batch(n)
    return torch.from_numpy(x).bfloat16(), torch.from_numpy(ids).int(), torch.from_numpy(weights)


def compare(output, expected):
    assert np.abs(output - expected).max() <= BOUND * np.abs(expected).max()


@pytest.fixture
def whole(tmp_path):
    return Model(tmp_path, n_layers=LAYERS, seed=3)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_gpu_and_cpu_add_up(whole, n):
    masks = generate_gpu_experts_masks(torch.rand(LAYERS, whole.n_experts), 12)
    layers = layers_of(whole, masks)
    KTMoEWrapper.set_capture_batch_sizes([1, 2, 4])
    try:
        for turn in range(3):
            for layer in layers:
                x, ids, weights = batch_of(whole, n)
                output, mask = layer.apply(x, ids, weights)
                compare(output, whole.moe(layer.layer, x, ids, weights))
                assert layer.wrapper.num_gpu_experts == mask.sum()
            # Dynamic update after a prefill: the same number of other experts, in place.
            for layer in layers:
                layer.wrapper.gpu_experts_mask.copy_(torch.roll(layer.wrapper.gpu_experts_mask, turn + 1))
    finally:
        KTMoEWrapper.set_capture_batch_sizes([])


def shares(model, x, ids, weights, mask, n_deferred):
    """What a layer computes at once (the GPU's experts included) and what it leaves to the next, in float64."""
    ids = ids.numpy()
    order = np.argsort(-weights.numpy(), axis=1, kind="stable")[:, : model.top_k - n_deferred]
    immediate = set(np.take_along_axis(ids, order, axis=1).ravel().tolist()) | set(np.flatnonzero(mask).tolist())
    now = {expert for expert in range(model.n_experts) if expert in immediate}
    return now, set(range(model.n_experts)) - now


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("max_deferred", [1, 2, 3, (1, 2), (2, 1), (0, 2)])
def test_deferred_experts(whole, n, max_deferred):
    masks = torch.zeros(LAYERS, whole.n_experts, dtype=torch.bool)
    masks[:, 6] = True
    numbers = max_deferred if isinstance(max_deferred, tuple) else (max_deferred, max_deferred)
    layers = layers_of(whole, masks, max_deferred=numbers[0])
    for _ in range(3):
        pending, numbers = 0.0, numbers[::-1]
        for layer, number in zip(layers, numbers):
            layer.wrapper.max_deferred_experts_per_token = number
        for layer, number in zip(layers, (*numbers, 0)):
            x, ids, weights = batch_of(whole, n)
            output, mask = layer.apply(x, ids, weights)
            now, later = shares(whole, x, ids, weights, mask, number)
            compare(output, whole.moe(layer.layer, x, ids, weights, now.__contains__) + pending)
            pending = whole.moe(layer.layer, x, ids, weights, later.__contains__)
        assert not np.any(pending)


def test_a_draft_model_after_the_last_layer(whole):
    """The last layer of the model itself defers nothing, so what is pending does not reach the draft's."""
    masks = torch.zeros(LAYERS, whole.n_experts, dtype=torch.bool)
    first, last, draft = (Layer(whole, layer, masks[layer], 2, 2) for layer in (0, 2, 3))
    last.wrapper.max_deferred_experts_per_token = 0
    for layer in (first, last, draft):
        layer.process_weights_after_loading()
    for n in (2, 1):
        x, ids, weights = batch_of(whole, n)
        output, mask = first.apply(x, ids, weights)
        now, later = shares(whole, x, ids, weights, mask, 2)
        assert later
        compare(output, whole.moe(0, x, ids, weights, now.__contains__))
        pending = whole.moe(0, x, ids, weights, later.__contains__)
        x, ids, weights = batch_of(whole, n)
        compare(last.apply(x, ids, weights)[0], whole.moe(2, x, ids, weights) + pending)
        for _ in range(2):
            compare(draft.apply(x, ids, weights)[0], whole.moe(3, x, ids, weights))


def test_a_draft_that_is_abandoned(whole):
    """A pass may begin behind a layer that defers nothing, whatever the one before left."""
    masks = torch.zeros(LAYERS, whole.n_experts, dtype=torch.bool)
    last, draft, after = (Layer(whole, layer, masks[layer], 2, 2 * (layer > 0)) for layer in (0, 2, 3))
    for layer in (last, draft, after):
        layer.process_weights_after_loading()
    for _ in range(3):
        x, ids, weights = batch_of(whole, 1)
        output, mask = draft.apply(x, ids, weights)
        now, later = shares(whole, x, ids, weights, mask, 2)
        assert later
        compare(output, whole.moe(2, x, ids, weights, now.__contains__))


def test_layerwise_prefill(whole):
    """Expert after expert into two buffers in turns, as rank 0 does for the ranks of a GPU."""
    wrapper = whole.wrapper()
    wrapper.load_weights(torch.arange(whole.n_experts))
    half, hidden = whole.intermediate // 2, whole.hidden
    w13 = torch.zeros(2, 2, 2 * half, hidden, dtype=torch.int16)
    w2 = torch.zeros(2, 2, hidden, half, dtype=torch.int16)

    def submit(expert):
        turn = expert % 2
        pointers = [[buffer[turn, rank].data_ptr() for rank in range(2)] for buffer in (w13, w2)]
        wrapper.submit_write_weight_scale_to_buffer(2, expert, pointers[0], [], pointers[1], [])

    gate, up, down = (whole.stacked(0, name).view("int16") for name in ("gate_proj", "up_proj", "down_proj"))
    submit(0)
    for expert in range(whole.n_experts):
        wrapper.sync_write_weight_scale_to_buffer()
        got13, got2 = w13[expert % 2].numpy().copy(), w2[expert % 2].numpy().copy()
        if expert + 1 < whole.n_experts:
            submit(expert + 1)
        for rank in range(2):
            rows = slice(half * rank, half * (rank + 1))
            assert (got13[rank] == np.concatenate([gate[expert, rows], up[expert, rows]])).all()
            assert (got2[rank] == down[expert][:, rows]).all()
    wrapper.sync_write_weight_scale_to_buffer()


def test_the_log_says_that_a_layer_is_loaded(whole, caplog):
    """kt run --engine sglang looks for it: tools/engine/launch/watch.c."""
    masks = torch.zeros(LAYERS, whole.n_experts, dtype=torch.bool)
    with caplog.at_level("INFO", "kt_kernel"):
        layers_of(whole, masks)
    assert sum(record.getMessage().startswith("kt_kernel: layer ") for record in caplog.records) == LAYERS - 1
