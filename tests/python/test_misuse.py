# SPDX-License-Identifier: Apache-2.0
"""What programs do wrong, or all at once: an exception that names it, or what they wanted; never a crash, a wait
without end or another number."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import Model

import kt_kernel
from kt_kernel import KTMoEWrapper


@pytest.fixture
def wrapper(model):
    made = model.wrapper()
    made.load_weights()
    return made


class Lie:
    """An object with an attribute that is not what the protocol says."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class BrokenDLPack:
    def __dlpack__(self):
        raise BufferError("nothing to give")


def test_arrays_that_are_none(model, wrapper, torch):
    x, ids, weights = model.batch(2)
    given = torch.from_numpy(x)
    wrong = {
        "to be negated": torch._neg_view(given),
        "hidden_states: .*storage": given.to_sparse(),
        "hidden_states: 'typestr'": Lie(__array_interface__={"shape": (2, 64)}),
        "hidden_states: .*unpack": Lie(__array_interface__={"shape": (2, 64), "typestr": "<f4", "data": x.tobytes()}),
        "hidden_states: nothing to give": BrokenDLPack(),
        "on a GPU must be torch": Lie(__cuda_array_interface__={}),
    }
    for words, array in wrong.items():
        with pytest.raises(ValueError, match=words):
            wrapper.forward(array, ids, weights)
    with pytest.raises(ValueError, match="topk_weights: .*negated"):
        wrapper.forward(x, ids, torch._neg_view(torch.from_numpy(weights)))
    huge = ids.astype("uint64")
    huge[1, 2] = 1 << 63
    with pytest.raises(ValueError, match="topk_ids has numbers above"):
        wrapper.forward(x, huge, weights)


def test_arguments_of_another_kind(model, wrapper):
    values = {
        "cpuinfer_threads": ["2", 2.5, -1],
        "threadpool_count": ["x", -1],
        "numa_nodes": [[-1], ["a"]],
        "chunked_prefill_size": ["64", 2.5],
        "num_gpu_experts": [2.5, None, -1],
        "swiglu_limit": ["x", float("nan"), -1],
        "method": ["a\0b"],
        "weight_path": ["\0"],
        "mode": ["train"],
    }
    for name, wrong in values.items():
        for value in wrong:
            with pytest.raises(ValueError, match=name):
                model.wrapper(**{name: value})
    for name, value in {"numa_nodes": "0", "weight_path": 5, "method": None}.items():
        with pytest.raises(TypeError, match=name):
            model.wrapper(**{name: value})
    context, checkpoint = wrapper.context, kt_kernel.Checkpoint(model.path)
    for arguments in ((None, checkpoint), (context, model.path), (checkpoint, context)):
        with pytest.raises(TypeError, match=r"must be a kt_kernel\."):
            kt_kernel.Layer(*arguments, 0)
    for attempt in (lambda: kt_kernel.backends(5), lambda: checkpoint.load(context, 0)):
        with pytest.raises(TypeError, match="context must be|layers must be"):
            attempt()
    for options in ({"hidden_size": (1 << 64) + 64}, {"expert_map": [1 << 70] * 8}, {"expert_map": [0.5] * 8}):
        with pytest.raises(ValueError, match=next(iter(options))):
            kt_kernel.Layer(context, checkpoint, 0, **options)
    with pytest.raises(ValueError, match="8 experts of 96 x 96, layer 0 of the checkpoint 8 of 64 x 96"):
        kt_kernel.Layer(context, checkpoint, 0, hidden_size=96)
    on_gpu = Lie(data_ptr=lambda: 8, is_cuda=True)
    for pointers in (None, 5, ["x"], [-5], [1 << 70], [0], [on_gpu]):
        with pytest.raises(ValueError, match="w13_weight_ptrs must be"):
            wrapper.submit_write_weight_scale_to_buffer(1, 0, pointers, [], [8], [])
    ids, scores = np.zeros((2, 3), int), np.zeros((2, 3))
    for arguments in ((ids, scores[:, :2], 1), (ids[0], scores[0], 1), (ids, scores, "1")):
        with pytest.raises(ValueError, match="scores|protected_k"):
            wrapper.select_deferred_experts(*arguments)
    for value in (None, 5, "12"):
        with pytest.raises(TypeError, match="capture_bs"):
            KTMoEWrapper.set_capture_batch_sizes(value)


def test_masks(model, torch):
    wrong = [np.ones(8), np.full(8, np.nan), np.arange(8), torch.ones(8), torch.arange(8), ["a"] * 8, "12345678", True]
    wrapper = model.wrapper(mask=[0, 1] * 4)
    for mask in wrong:
        with pytest.raises(ValueError, match="gpu_experts_mask"):
            model.wrapper(mask=mask)
        with pytest.raises(ValueError, match="gpu_experts_mask"):
            wrapper.gpu_experts_mask = mask
    assert wrapper.gpu_experts_mask.tolist() == [False, True] * 4
    wrapper.gpu_experts_mask = [True] * 8
    assert wrapper.num_gpu_experts == 8 and model.wrapper(mask=np.int64(3)).num_gpu_experts == 3
    # The library reads this memory, so it stays where it is.
    with pytest.raises(ValueError, match="resize"):
        wrapper.gpu_experts_mask.resize(1 << 20, refcheck=False)
    with pytest.raises(RuntimeError, match="resizable"):
        model.wrapper(mask=torch.zeros(8, dtype=torch.bool)).gpu_experts_mask.resize_(1 << 20)


def test_a_layer_keeps_its_mask(model, wrapper):
    batch = model.batch(4)
    layer = kt_kernel.Layer(
        wrapper.context, kt_kernel.Checkpoint(model.path), 0, backend="BF16", skip_mask=np.zeros(8, bool)
    )
    others = [np.ones(8, bool) for _ in range(1000)]
    assert (layer.forward(*batch) == wrapper.forward(*batch)).all() and len(others) == 1000


def test_there_is_no_copy(model, wrapper):
    batch = model.batch(2)
    ticket = wrapper.moe.submit(*batch)
    for single in (wrapper, wrapper.moe, wrapper.context, kt_kernel.Checkpoint(model.path), ticket):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"{type(single).__name__} can be neither copied nor pickled"):
                attempt(single)
    assert (ticket.wait() == wrapper.forward(*batch)).all()
    with pytest.raises(kt_kernel.KTError) as caught:
        kt_kernel.Checkpoint("/nowhere")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (kt_kernel.KTFileError, str(caught.value))
    assert repr(type(again)) == "<class 'kt_kernel.KTFileError'>"


def test_a_failure_is_raised_again(model, wrapper):
    x, ids, weights = model.batch(2)
    ticket = wrapper.moe.submit(x, ids + 8, weights)
    for _ in range(2):
        with pytest.raises(ValueError, match="there are 0 to 7"):
            ticket.wait()


def in_threads(n, function):
    """What the threads raised."""
    failures = []

    def run(index):
        try:
            function(index)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_one_ticket_and_many_threads(model, wrapper):
    batch = model.batch(60)
    expected = wrapper.forward(*batch)

    for _ in range(20):
        ticket = wrapper.moe.submit(*batch)
        outputs = []
        assert not in_threads(4, lambda _index, ticket=ticket: outputs.append(ticket.wait().copy()))
        assert len(outputs) == 4 and all((output == expected).all() for output in outputs)


def test_each_thread_gets_its_own_output(model, wrapper):
    batches = [model.batch(3) for _ in range(4)]
    expected = [wrapper.forward(*batch) for batch in batches]
    together = threading.Barrier(4)

    def serve(index):
        for _ in range(30):
            wrapper.submit_forward(*batches[index])
            together.wait()
            assert (wrapper.sync_forward(batches[index][0]) == expected[index]).all()
            together.wait()

    assert not in_threads(4, serve)


@pytest.mark.parametrize("how", ["load", "close"])
def test_a_layer_goes_while_others_compute(model, wrapper, how):
    batch = model.batch(40)
    expected = wrapper.forward(*batch)
    ended = threading.Event()

    def serve(index):
        if index == 0:
            for _ in range(10):
                layer = wrapper.moe if how == "close" else None
                wrapper.load_weights()
                if layer:
                    layer.close()
            ended.set()
        while not ended.is_set():
            try:
                assert (wrapper.forward(*batch) == expected).all()
            except kt_kernel.KTError as error:
                assert how == "close" and "closed" in str(error)

    assert not in_threads(4, serve)


def test_deferral_from_many_threads(tmp_path):
    model = Model(tmp_path, n_layers=2)
    wrappers = [model.wrapper(layer=layer, max_deferred_experts_per_token=1 - layer) for layer in range(2)]
    for wrapper in wrappers:
        wrapper.load_weights()
    batch = model.batch(1)

    def serve(_index):
        for _ in range(100):
            for wrapper in wrappers:
                wrapper.forward(*batch)

    in_threads(4, serve)  # passes that get in each other's way may be refused
    for _ in range(2):
        first, second = (wrapper.forward(*batch) for wrapper in wrappers)
    immediate, deferred = wrappers[0].select_deferred_experts(*batch[1:], 2)
    x, _ids, weights = batch
    assert np.abs(first - model.moe(0, x, immediate, weights)).max() < 0.02
    assert np.abs(second - model.moe(1, *batch) - model.moe(0, x, deferred, weights)).max() < 0.02


def test_a_model_that_is_made_again(tmp_path):
    """Layers join the model that is being made, not one that happens to lack them."""
    model = Model(tmp_path, n_layers=3)
    old = model.wrapper()
    made = [model.wrapper(layer=layer, max_deferred_experts_per_token=1) for layer in range(3)]
    assert old.model is not made[0].model is made[1].model is made[2].model


def test_a_context_that_was_closed(model, wrapper):
    batch = model.batch(2)
    expected = wrapper.forward(*batch)
    wrapper.context.close()
    assert (wrapper.forward(*batch) == expected).all()
    again = model.wrapper()
    again.load_weights()
    assert (again.forward(*batch) == expected).all()
    KTMoEWrapper.clear_buffer_cache()


def test_a_fork(model, wrapper):
    batch = model.batch(2)
    wrapper.submit_forward(*batch)
    child = os.fork()
    if child == 0:
        try:
            wrapper.forward(*batch)
        except kt_kernel.KTError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (wrapper.sync_forward(batch[0]) == wrapper.forward(*batch)).all()


def test_the_interpreter_ends_while_a_thread_loads(model):
    program = f"""
import threading, kt_kernel
def load():
    while True:
        with kt_kernel.Context(threads=2) as context, kt_kernel.Checkpoint({model.path!r}) as checkpoint:
            layers.append(kt_kernel.Layer(context, checkpoint, 0, backend="AMXINT4"))
layers = []
threading.Thread(target=load, daemon=True).start()
while len(layers) < 3:
    pass
"""
    for _ in range(3):
        words = [sys.executable, "-c", program]
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0 and not ended.stderr, ended.stderr
