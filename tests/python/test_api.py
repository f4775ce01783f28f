# SPDX-License-Identifier: Apache-2.0
"""Context, Checkpoint and Layer, with every kind of array."""

import gc
import inspect
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import DATA, as_numpy, error_of, from_bf16, to_bf16

import kt_kernel

BOUND = 4e-3  # of a layer in bfloat16, relative L2; see tests/kt/kt_lib.sh


class Interface:
    """Only what __array_interface__ says."""

    def __init__(self, array):
        self._array = array
        self.__array_interface__ = array.__array_interface__


class DLPack:
    """Only DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self):
        return self._array.__dlpack__()


def test_context_and_backends(context):
    assert context.info.n_threads == 2
    assert context.info.cpu_variant == kt_kernel.__cpu_variant__
    assert context.info.nodes
    names = {backend.name: backend for backend in context.backends()}
    assert names["reference"].state == "loaded" and "bf16" in names["bf16"].formats
    assert [backend.name for backend in kt_kernel.backends()] == list(names)
    assert kt_kernel.__version__.count(".") == 2
    with pytest.raises(kt_kernel.KTError, match="core.thread") as caught:
        kt_kernel.Context(settings={"core.thread": 2})
    assert caught.value.status == "KT_E_CONFIG"
    with pytest.raises(kt_kernel.KTError, match="node 63"):
        kt_kernel.Context(numa_nodes=[63])
    with pytest.raises(AttributeError):
        kt_kernel.nothing  # noqa: B018


def test_checkpoint():
    with kt_kernel.Checkpoint(DATA / "tiny-moe-q4_k_m.gguf") as found:
        assert found.info.format == "gguf" and found.layers == [0, 1, 2, 3]
        moe = found.moe(3)
        assert (moe.n_experts, moe.top_k, moe.hidden_size, moe.intermediate_size) == (8, 2, 256, 256)
        assert moe.dtypes == ("q4_k", "q4_k", "q6_k") and moe.activation == "silu"
        with pytest.raises(KeyError, match="77"):
            found.moe(77)
    with pytest.raises(kt_kernel.KTError, match="closed"):
        found.moe(0)
    found.close()
    with pytest.raises(OSError, match="/nowhere/at all"):
        kt_kernel.Checkpoint("/nowhere/at all")
    with pytest.raises(ValueError, match="mmap"):
        kt_kernel.Checkpoint(DATA / "tiny-moe-q4_k_m.gguf", io="rad")


def test_loading_tells_its_progress(context):
    found, steps = kt_kernel.Checkpoint(DATA / "tiny-moe-q4_k_m.gguf"), []
    layers = found.load(context, [1, 3], progress=lambda done, total: steps.append((done, total)), max_tokens=16)
    sizes = [found.moe(layer).size for layer in (1, 3)]
    assert list(layers) == [1, 3] and {total for _done, total in steps} == {sum(sizes)}
    assert (sizes[0], sum(sizes)) in steps and steps == sorted(steps) and steps[-1][0] == sum(sizes)
    assert layers[3].info.backend == "llamafile" and layers[3].info.packed_size > 0

    def stop(done, _total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found.load(context, progress=stop)


def test_a_layer_tells_its_progress(model, context, monkeypatch):
    monkeypatch.setattr(kt_kernel.layer, "_PROGRESS_SECONDS", 0)
    checkpoint, steps = kt_kernel.Checkpoint(model.path), []
    other = kt_kernel.Layer(context, checkpoint, 0, backend="AMXINT8")
    batch = model.batch(2)

    def tell(*step):
        steps.append(step)
        assert other.forward(*batch).any()  # a callback may do what it likes

    layer = kt_kernel.Layer(context, checkpoint, 0, backend="AMXINT8", progress=tell)
    assert steps[-1] == (layer.info.packed_size,) * 2 and steps == sorted(steps)
    assert (layer.forward(*batch) == other.forward(*batch)).all()
    assert layer.info.rounding == "int8, a scale for each row"
    assert kt_kernel.Layer(context, checkpoint, 0).info.rounding == ""
    with pytest.raises(ZeroDivisionError):
        kt_kernel.Layer(context, checkpoint, 0, progress=lambda _done, _total: 1 / 0)
    with pytest.raises(kt_kernel.KTUnsupportedError, match="supported are"):
        kt_kernel.Layer(kt_kernel.Context(threads=1, strict=True), checkpoint, 0, backend="FP8", progress=tell)
    wrapper = model.wrapper()
    wrapper.load_weights(progress=lambda *step: steps.append(step))
    assert steps[-1] == (wrapper.moe.info.packed_size,) * 2


def load(context, model, **options):
    return kt_kernel.Layer(context, kt_kernel.Checkpoint(model.path), 0, **{"backend": "bf16", **options})


@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_kinds_of_arrays(context, model, n):
    layer = load(context, model, max_tokens=16)
    x, ids, weights = model.batch(n)
    y = layer.forward(x, ids, weights)
    assert y.dtype == np.float32 and y.shape == x.shape
    if n:
        assert error_of(y, model.moe(0, x, ids, weights)) < BOUND
    half = layer.forward(x.astype("float16"), ids, weights)
    assert half.dtype == np.float16
    bits = layer.forward(to_bf16(x), ids, weights)
    assert bits.dtype == np.uint16 and (not n or error_of(from_bf16(bits), y) < 2**-8)
    for kind in (Interface, DLPack):
        assert (layer.forward(kind(x), kind(ids), kind(weights)) == y).all()
    for other in ("int32", "uint8", "int8"):
        assert (layer.forward(x, ids.astype(other), weights.astype("float64")) == y).all()
    if n:
        assert (layer.forward(x.reshape(1, n, -1), ids, weights) == y).all()


def test_torch(context, model, torch):
    layer = load(context, model)
    x, ids, weights = (torch.from_numpy(array) for array in model.batch(9))
    expected = model.moe(0, x, ids, weights)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        y = layer.forward(x.to(dtype), ids, weights)
        assert y.dtype == dtype and y.device == x.device and error_of(as_numpy(y), expected) < BOUND + 2**-8
    y = layer.forward(x, ids, weights)
    assert torch.equal(layer.forward(x, ids.int(), weights.double()), y)
    wide = torch.zeros(9, 100)
    wide[:, :64] = x
    assert torch.equal(layer.forward(wide[:, :64], ids, weights), y)
    assert torch.equal(layer.forward(x, ids.t().contiguous().t(), weights), y)
    assert torch.equal(layer.forward(x.requires_grad_(), ids, weights.requires_grad_()), y)
    with pytest.raises(ValueError, match="hidden_states is on meta"):
        layer.forward(x.to("meta"), ids, weights)
    with pytest.raises(ValueError, match="complex64"):
        layer.forward(x.to(torch.complex64), ids, weights)


def test_outputs_of_the_caller(context, model):
    layer = load(context, model)
    x, ids, weights = model.batch(5)
    y, out = layer.forward(x, ids, weights), np.ones((5, 64), "float32")
    assert layer.forward(x, ids, weights, out=out) is out and (out == y).all()
    layer.forward(x, ids, weights, out=out, accumulate=True)
    assert np.allclose(out, 2 * y)
    room = np.full((5, 80), 7, "float32")
    layer.forward(x, ids, weights, out=room[:, :64])
    assert (room[:, :64] == y).all() and (room[:, 64:] == 7).all()
    ticket = layer.submit(x, ids, weights, out=out)
    assert ticket.wait() is out and ticket.wait() is out and (out == y).all()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        layer.forward(x, ids, weights, out=out)
    with pytest.raises(ValueError, match="out has 4 tokens"):
        layer.forward(x, ids, weights, out=np.ones((4, 64), "float32"))
    with pytest.raises(ValueError, match="overlap"):
        layer.forward(x, ids, weights, out=x)
    with pytest.raises(ValueError, match="accumulate needs out"):
        layer.forward(x, ids, weights, accumulate=True)


def test_arguments_that_are_wrong(context, model):
    layer = load(context, model)
    x, ids, weights = model.batch(5)
    wrong = {
        r"\[5, 63\], but must be \[tokens, 64\]": (x[:, :63], ids, weights),
        "hidden_states is f64": (x.astype("float64"), ids, weights),
        "hidden_states with strides": (x[:, ::-1], ids, weights),
        r"expert_ids has the shape \[4, 3\]": (x, ids[:4], weights),
        r"expert_ids has the shape \[15\]": (x, ids.ravel(), weights),
        r"router_weights \[5, 2\]": (x, ids, weights[:, :2].copy()),
        "expert_ids is f32, but must be integers": (x, ids.astype("float32"), weights),
        "router_weights is i64, but must be floats": (x, ids, ids),
        "asks for expert 8; there are 0 to 7": (x, ids * 0 + 8, weights),
        "top_k 4 is more than": (x, np.zeros((5, 4), "int64"), np.zeros((5, 4), "float32")),
        "no expert": (x, ids[:, :0], weights[:, :0]),
        "other order of bytes": (x.astype(">f4"), ids, weights),
        r"hidden_states with strides \[0, 4\]": (np.broadcast_to(x[:1], x.shape), ids, weights),
        r"hidden_states with strides \[128, 4\]": (
            np.lib.stride_tricks.as_strided(x, x.shape, (128, 4)), ids, weights),
        "not aligned": (np.frombuffer(x.tobytes() + b"1234", "u1")[1:-3].view("f4").reshape(5, 64), ids, weights),
    }
    for words, arguments in wrong.items():
        with pytest.raises(ValueError, match=words):
            layer.forward(*arguments)
        with pytest.raises(ValueError, match=words):
            layer.submit(*arguments).wait()
    with pytest.raises(TypeError, match="not list"):
        layer.forward(x.tolist(), ids, weights)
    options = {"backend": "AMXINT5", "max_tokens": 0, "skip_mask": np.zeros(7, bool), "expert_map": [0, 1]}
    for name, value in options.items():
        with pytest.raises(ValueError, match=name):
            load(context, model, **{name: value})
    with pytest.raises(ValueError, match="8"):
        load(context, model, expert_map=[0, 1, 2, 3, 4, 5, 6, 8])


def test_masks_and_maps(context, model):
    mask, order = np.zeros(8, bool), np.array([3, 2, 1, 0, 7, 6, 5, 4])
    layer = load(context, model, skip_mask=mask, expert_map=order)
    x, ids, weights = model.batch(6)
    whole = model.moe(0, x, order[ids], weights)
    assert error_of(layer.forward(x, ids, weights), whole) < BOUND
    mask[ids[0, 0]] = True  # while it serves
    left = model.moe(0, x, np.where(ids == ids[0, 0], -1, order[ids]), weights)
    assert error_of(layer.forward(x, ids, weights), left) < BOUND
    mask[:] = False
    layer.reset_usage()
    layer.forward(x, ids, weights)
    assert layer.usage() == np.bincount(ids.ravel(), minlength=8).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint16"])
def test_weights_of_the_caller(context, model, dtype):
    bits = [model.stacked(0, name) for name in ("gate_proj", "up_proj", "down_proj")]
    weights = bits if dtype == "uint16" else [from_bf16(array).astype(dtype) for array in bits]
    layer = kt_kernel.Layer.from_tensors(context, *weights, top_k=3, backend="reference", max_tokens=8)
    x, ids, router = model.batch(3)
    assert error_of(layer.forward(x, ids, router), model.moe(0, x, ids, router)) < BOUND
    with pytest.raises(ValueError, match="must be"):
        kt_kernel.Layer.from_tensors(context, weights[0], weights[1], weights[0], top_k=3)
    with pytest.raises(ValueError, match="activation"):
        kt_kernel.Layer.from_tensors(context, *weights, top_k=3, activation="relu")


def test_lifetimes(model):
    context = kt_kernel.Context(threads=2)
    layer = load(context, model)
    x, ids, weights = model.batch(4)
    y = layer.forward(x, ids, weights)
    tickets = [layer.submit(x, ids, weights) for _ in range(5)]
    context.close()  # the layer keeps it
    assert (layer.forward(x, ids, weights) == y).all()
    assert (tickets[0].wait() == y).all()
    del tickets[2]
    gc.collect()
    layer.close()
    assert (tickets[1].wait() == y).all()  # closing waited
    del tickets
    with pytest.raises(kt_kernel.KTError, match="closed"):
        layer.forward(x, ids, weights)
    layer = load(kt_kernel.Context(threads=2), model)
    for _ in range(600):  # more than the queue is deep: dropped tickets give their places back
        layer.submit(x, ids, weights)
    assert (layer.forward(x, ids, weights) == y).all()


def python(program, **environment):
    words, variables = [sys.executable, "-c", program], {**os.environ, **environment}
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=60)


def test_environment():
    variant = python("import kt_kernel; print(kt_kernel.__cpu_variant__)", KT_KERNEL_CPU_VARIANT="scalar")
    assert variant.stdout == "scalar\n" and not variant.stderr
    debug = python("import kt_kernel; kt_kernel.Context(threads=1)", KT_KERNEL_DEBUG="1")
    assert "config: reading" in debug.stderr and "1 threads on 1 NUMA nodes" in debug.stderr
    missing = python("import kt_kernel", KT_KERNEL_LIBRARY="/nowhere/libktkernel.so.0")
    assert "ImportError: kt_kernel needs libktkernel.so.0" in missing.stderr and "/nowhere" in missing.stderr
    other = python("import kt_kernel", KT_KERNEL_LIBRARY="libc.so.6")
    assert "are not of the same version" in other.stderr
    bare = python("import sys; import kt_kernel; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert bare.stdout == "False False\n"


@pytest.mark.parametrize("how", ["pass", "raise SystemExit(0)", "del wrapper", "del layer, context"])
def test_the_interpreter_ends_while_work_is_submitted(model, how):
    program = f"""
import numpy, kt_kernel
x, ids, weights = numpy.ones((4, 64), "float32"), numpy.zeros((4, 3), int), numpy.ones((4, 3), "float32")
context = kt_kernel.Context(threads=2)
layer = kt_kernel.Layer(context, kt_kernel.Checkpoint({model.path!r}), 0)
tickets = [layer.submit(x, ids, weights) for _ in range(5)]
wrapper = kt_kernel.KTMoEWrapper(0, 8, 3, 64, 96, None, 1, 1, {model.path!r}, 16, method="BF16",
                                 max_deferred_experts_per_token=1)
after = kt_kernel.KTMoEWrapper(1, 8, 3, 64, 96, None, 1, 1, {model.path!r}, 16, method="BF16")
wrapper.load_weights()
wrapper.submit_forward(x, ids, weights)
room = numpy.empty((3, 8 * 64 * 96), "uint8")
wrapper.submit_write_weight_scale_to_buffer(1, 0, [room.ctypes.data], [],
                                            [room[2:].ctypes.data], [])
{how}
"""
    ended = python(program)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr


def test_threads(context, model):
    layer = load(context, model)
    batches = [model.batch(n) for n in (1, 2, 5, 9)]
    expected = [layer.forward(*batch) for batch in batches]
    failures = []

    def serve(index):
        for turn in range(50):
            forward = layer.forward if turn % 2 else lambda *batch: layer.submit(*batch).wait()
            if not (forward(*batches[index]) == expected[index]).all():
                failures.append(index)

    threads = [threading.Thread(target=serve, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_bench():
    rows = kt_kernel.bench(
        backend="bf16", shape=[64, 32, 4, 2], tokens=[1, 2], cycle=2, min_time=0.01, runs=1, threads=1
    )
    assert [row["n_tokens"] for row in rows] == [1, 2] and rows[0]["backend"] == "bf16"
    with pytest.raises(kt_kernel.KTError, match="--cycle"):
        kt_kernel.bench(cycle=1)


def test_everything_says_what_it_is():
    for name in kt_kernel.__all__:
        found = getattr(kt_kernel, name)
        members = vars(found).items() if inspect.isclass(found) else ()
        functions = [member for key, member in members if not key.startswith("_") or key == "__init__"]
        for function in [found, *functions]:
            function = getattr(function, "fget", getattr(function, "__func__", function))
            if not inspect.isfunction(function) or function.__qualname__.startswith("__create_fn__"):
                continue
            assert function.__doc__ or function.__name__ == "__init__", function.__qualname__
            arguments = inspect.signature(function)
            given = {key: one for key, one in arguments.parameters.items() if key not in ("self", "cls")}
            missing = [key for key, one in given.items() if one.annotation is one.empty]
            assert not missing, (function.__qualname__, missing)
            assert function.__name__ == "__init__" or arguments.return_annotation is not arguments.empty, function
        assert name.startswith("__") or found.__doc__, name
