# SPDX-License-Identifier: Apache-2.0
"""Tensors "on a GPU": torch's own on the CPU that say otherwise, and whose copies are put on a stream of the stand-in
of tests/gpu, which is found as libcudart is. So all is run in the stream's order."""

import ctypes
import types

import numpy as np
import pytest
from conftest import Model, as_numpy

import kt_kernel
from kt_kernel import KTMoEWrapper, _device

pytest.importorskip("torch", reason="python3-torch is not installed")
import torch

if torch.version.cuda or torch.version.hip:
    pytest.skip("this torch brings a GPU's runtime of its own, so the stand-in is not found", allow_module_level=True)

HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
BOUND = 8e-3


class Runtime:
    """The stand-in's stream, and graphs of it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcudart.so.13")
        stream = ctypes.c_void_p()
        assert self.library.cudaStreamCreate(ctypes.byref(stream)) == 0
        self.stream = stream
        self.functions = []

    def launch(self, function):
        kept = HOST_FN(lambda _data: function())
        self.functions.append(kept)
        assert self.library.cudaLaunchHostFunc(self.stream, kept, None) == 0

    def synchronize(self):
        assert self.library.cudaStreamSynchronize(self.stream) == 0

    def begin_capture(self):
        assert self.library.cudaStreamBeginCapture(self.stream, 0) == 0

    def end_capture(self):
        captured, graph = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.library.cudaStreamEndCapture(self.stream, ctypes.byref(captured)) == 0
        assert self.library.cudaGraphInstantiateWithFlags(ctypes.byref(graph), captured, ctypes.c_ulonglong(0)) == 0
        assert self.library.cudaGraphDestroy(captured) == 0
        return graph

    def replay(self, graph):
        assert self.library.cudaGraphLaunch(graph, self.stream) == 0


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU. What is copied to or from it, or made from it, is in stream order."""

    runtime = None
    is_cuda = True
    device = torch.device("cuda:0")

    @classmethod
    def __torch_function__(cls, function, _types, args=(), kwargs=None):
        plain = torch._C.DisableTorchFunction
        if function is torch.Tensor.copy_:
            target, source = (tensor.as_subclass(torch.Tensor) for tensor in args)
            with plain():
                cls.runtime.launch(lambda: target.copy_(source))
            return args[0]
        if function in (torch.Tensor.to, torch.Tensor.new_full) and len(args) > 1:
            with plain():
                source = args[0].as_subclass(torch.Tensor)
                made = function(source, *args[1:], **(kwargs or {}))
                made = made.clone() if made is source else made
            if function is torch.Tensor.to:
                with plain():
                    cls.runtime.launch(lambda: made.copy_(source))
            return made.as_subclass(cls)
        return super().__torch_function__(function, _types, args, kwargs or {})


def on_gpu(tensor):
    return tensor.clone().as_subclass(OnGpu)


def off_gpu(tensor):
    return tensor.as_subclass(torch.Tensor)


@pytest.fixture
def runtime(monkeypatch):
    made = Runtime()
    OnGpu.runtime = made
    current = types.SimpleNamespace(cuda_stream=made.stream.value)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device=None: current)
    yield made
    made.synchronize()
    KTMoEWrapper.set_capture_batch_sizes([])
    KTMoEWrapper.clear_buffer_cache()
    assert made.library.cudaStreamDestroy(made.stream) == 0


def batch_of(model, n, dtype=torch.bfloat16):
    x, ids, weights = model.batch(n)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(ids).int(), torch.from_numpy(weights)


def compare(output, expected):
    assert np.abs(as_numpy(off_gpu(output)) - expected).max() < BOUND * np.abs(expected).max()


@pytest.mark.parametrize("stream", ["none", "number", "object"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_in_the_streams_order(model, runtime, dtype, stream):
    wrapper = model.wrapper()
    wrapper.load_weights()
    number = runtime.stream.value
    given = {"none": None, "number": number, "object": types.SimpleNamespace(cuda_stream=number)}
    for n in (1, 5, 3, 70, 5):
        batch = batch_of(model, n, dtype)
        x, ids, weights = (on_gpu(tensor) for tensor in batch)
        late = [torch.zeros_like(off_gpu(tensor)) for tensor in (x, ids, weights)]
        held = [tensor.as_subclass(OnGpu) for tensor in late]
        # What the stream does before: only then the batch is there.
        runtime.launch(lambda late=late, batch=batch: [to.copy_(tensor) for to, tensor in zip(late, batch)])
        wrapper.submit_forward(*held, given[stream])
        output = wrapper.sync_forward(held[0], given[stream])
        assert output.is_cuda and output.dtype == dtype and output.shape == batch[0].shape
        runtime.synchronize()
        compare(output, model.moe(0, *batch))


def test_graphs(model, runtime):
    wrapper = model.wrapper()
    wrapper.load_weights()
    KTMoEWrapper.set_capture_batch_sizes([1, 4])
    graphs = {}
    for n in (1, 4):
        inputs = [on_gpu(tensor) for tensor in batch_of(model, n)]
        wrapper.forward(*inputs)  # before a capture buffers must be there, as for all of a graph
        runtime.synchronize()
        runtime.begin_capture()
        output = wrapper.forward(*inputs)
        graphs[n] = (inputs, output, runtime.end_capture())
    assert {key[0] for key in wrapper._gpu._calls} == {1, 4}
    for n in (4, 1, 4, 1, 1):
        inputs, output, graph = graphs[n]
        batch = batch_of(model, n)
        for held, tensor in zip(inputs, batch):
            off_gpu(held).copy_(tensor)
        runtime.replay(graph)
        runtime.synchronize()
        compare(output, model.moe(0, *batch))


def test_layers_in_turns_with_deferral(tmp_path, runtime):
    model = Model(tmp_path, n_layers=3, seed=5)
    wrappers = [model.wrapper(layer=layer, max_deferred_experts_per_token=2 * (layer < 2)) for layer in range(3)]
    for wrapper in wrappers:
        wrapper.load_weights()
    for n in (2, 1, 6):
        pending, results = 0.0, []
        for layer, wrapper in enumerate(wrappers):
            x, ids, weights = batch_of(model, n)
            wrapper.submit_forward(*(on_gpu(tensor) for tensor in (x, ids, weights)))
            output = wrapper.sync_forward(on_gpu(x))
            immediate, deferred = wrapper.select_deferred_experts(ids, weights, 1 if layer < 2 else 3)
            now = model.moe(layer, x, immediate.numpy(), weights) + pending
            pending = model.moe(layer, x, deferred.numpy(), weights)
            results.append((output, now))
        runtime.synchronize()
        for output, expected in results:
            compare(output, expected)


def test_failures_come_with_a_later_call(model, runtime):
    wrapper = model.wrapper()
    wrapper.load_weights()
    x, ids, weights = (on_gpu(tensor) for tensor in batch_of(model, 2))
    with pytest.raises(ValueError, match="there are 0 to 7"):
        wrapper.forward(x, (off_gpu(ids) + 8).as_subclass(OnGpu), weights)  # already, if the stream is fast
        runtime.synchronize()
        wrapper.submit_forward(x, ids, weights)
    runtime.synchronize()
    output = wrapper.forward(x, ids, weights)
    runtime.synchronize()
    compare(output, model.moe(0, off_gpu(x), off_gpu(ids), off_gpu(weights)))
    assert wrapper.sync_forward(x[:0]).shape == (0, 64)
    with pytest.raises(ValueError, match="int32"):
        wrapper.submit_forward(off_gpu(x).int().as_subclass(OnGpu), ids, weights)


def test_wrong_tensors(model, runtime):
    wrapper = model.wrapper()
    wrapper.load_weights()
    x, ids, weights = (on_gpu(tensor) for tensor in batch_of(model, 4))
    wrong = {
        r"hidden_states has the shape \[4, 1\], but must be \[tokens, 64\]": (x[:, :1], ids, weights),
        r"topk_ids is torch.int32 of the shape \[4, 1\], but must be integers \[4, 3\]": (x, ids[:, :1], weights),
        r"topk_ids .* \[3\]": (x, ids[0], weights),
        r"topk_ids is torch.float32": (x, weights, weights),
        r"topk_ids is torch.bool": (x, ids > 0, weights),
        r"topk_weights is torch.float32 of the shape \[1, 3\]": (x, ids, weights[:1]),
        r"topk_weights is torch.int32": (x, ids, ids),
    }
    for words, tensors in wrong.items():
        with pytest.raises(ValueError, match=words):
            wrapper.submit_forward(*tensors)
    with pytest.raises(TypeError, match="topk_ids must be a torch tensor, as hidden_states is, not ndarray"):
        wrapper.submit_forward(x, off_gpu(ids).numpy(), weights)
    for _ in range(2):
        with pytest.raises(kt_kernel.KTError, match="sync_forward of 4 tokens without a submit_forward"):
            wrapper.sync_forward(x)
        wrapper.submit_forward(x, ids, weights)
        with pytest.raises(kt_kernel.KTError, match="sync_forward of 3 tokens"):
            wrapper.sync_forward(x[:3])
        output = wrapper.sync_forward(x)
    runtime.synchronize()
    compare(output, model.moe(0, *(off_gpu(tensor) for tensor in (x, ids, weights))))


def test_two_models_do_not_share_buffers(model, runtime):
    wrappers = [model.wrapper(), model.wrapper(method="AMXINT8")]
    for wrapper in wrappers:
        wrapper.load_weights()
    batches = [batch_of(model, 3) for _ in wrappers]
    for wrapper, batch in zip(wrappers, batches):
        wrapper.submit_forward(*(on_gpu(tensor) for tensor in batch))
    outputs = [wrapper.sync_forward(on_gpu(batch[0])) for wrapper, batch in zip(wrappers, batches)]
    runtime.synchronize()
    for output, batch, bound in zip(outputs, batches, (1, 5)):
        expected = model.moe(0, *batch)
        assert np.abs(as_numpy(off_gpu(output)) - expected).max() < bound * BOUND * np.abs(expected).max()


def test_streams_by_any_name():
    assert _device.stream_number(None) == 0
    assert _device.stream_number(7) == 7
    assert _device.stream_number(ctypes.c_void_p(9)) == 9
    assert _device.stream_number(types.SimpleNamespace(cuda_stream=11)) == 11
