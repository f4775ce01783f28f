# SPDX-License-Identifier: Apache-2.0
"""KTMoEWrapper: every method's weights, both signatures, masks, errors, experts for GPUs."""

import inspect
import subprocess
import threading

import numpy as np
import pytest
from conftest import DATA, Model, as_numpy, error_of, from_bf16, read_safetensors

import kt_kernel
from kt_kernel import KTMoEWrapper, generate_gpu_experts_masks

# method, checkpoint, where its own output in float64 is recorded, bound (see tests/kt/kt_lib.sh; those that
# quantize have the error of their format, see plugins/amx_int4/README)
PUBLISHED = 4e-3 + 2**-9
METHODS = [
    ("RAWINT4", "int4-g32-l0", "int4-g32-l0", PUBLISHED),
    ("GPTQ_INT4", "gptq-g128-l0", "gptq-g128-l0", PUBLISHED),
    ("MXFP4", "mxfp4-l0", "mxfp4-l0", PUBLISHED),
    ("MXFP8", "mxfp8-l0", "mxfp8-l0", PUBLISHED),
    ("FP8", "fp8-block-l0", "fp8-block-l0", PUBLISHED),
    ("FP8_PERCHANNEL", "fp8-channel-l0", "fp8-channel-l0", PUBLISHED),
    ("LLAMAFILE", "tiny-moe-q8_0-l0-l3.gguf", None, 0.01),
    ("LLAMAFILE", "tiny-moe-q4_k_m.gguf", None, 0.025),
    ("BF16", "tiny-moe-bf16-l0-l3.gguf", None, PUBLISHED),
    ("AMXINT8", "tiny-moe-bf16-l0-l3.gguf", None, 0.02),
    ("MOE_INT8", "fp8-block-l0", "fp8-block-l0", 0.02),
    ("AMXINT4", "tiny-moe-bf16-l0-l3.gguf", None, 0.07),
    ("MOE_INT4", "fp8-channel-l0", "fp8-channel-l0", 0.07),
    ("amx_int8", "mxfp8-l0", "mxfp8-l0", 0.02),
]


def expected_of(recorded, trace):
    return read_safetensors(DATA / f"{recorded}-output.safetensors")["layers.0.output"] if recorded else trace[3]


def tiny(path, method, **options):
    wrapper = KTMoEWrapper(0, 8, 2, 256, 256, None, 2, 1, str(path), 128, method=method, **options)
    wrapper.load_weights(np.arange(8))
    return wrapper


@pytest.mark.parametrize(("method", "path", "recorded", "bound"), METHODS)
def test_methods(method, path, recorded, bound, trace):
    wrapper = tiny(DATA / path, method)
    x, ids, weights = trace[:3]
    expected = expected_of(recorded, trace)
    y = wrapper.forward(x, ids, weights)
    assert error_of(from_bf16(y), expected) < bound
    wrapper.submit_forward(x[:3], ids[:3], weights[:3], 0)
    assert error_of(from_bf16(wrapper.sync_forward(x[:3], None)), expected[:3]) < 1.5 * bound


def test_methods_that_need_a_setting(monkeypatch, trace):
    """As MOE_INT4 on ARM, where one backend has two methods."""
    needs = {b"AMXINT4": b"plugin.amx_int4.group_size=64"}
    monkeypatch.setattr(kt_kernel.layer.lib, "kt_method_setting", needs.get)
    path = DATA / "tiny-moe-bf16-l0-l3.gguf"
    plain, wished = tiny(path, "AMXINT8"), tiny(path, "AMXINT4")
    assert wished.context is not plain.context
    assert wished.context.backend_options("amx_int4")["group_size"] == "64"
    assert wished.context.backend_options("nobody") == {}
    with kt_kernel.Context() as other, kt_kernel.Checkpoint(path) as model:
        with pytest.raises(kt_kernel.KTValueError, match="needs plugin.amx_int4.group_size = 64, but the context has 32"):
            kt_kernel.Layer(other, model, 0, backend="AMXINT4")


def test_a_store_of_kt_convert(tmp_path, trace):
    words = ["kt", "convert", "--input", str(DATA / "fp8-block-l0"), "--output", str(tmp_path)]
    words += ["--method", "AMXINT8"]
    subprocess.run(words, check=True, capture_output=True)
    x, ids, weights = trace[:3]
    stored = tiny(tmp_path, "AMXINT8").forward(x, ids, weights)
    assert (stored == tiny(DATA / "fp8-block-l0", "AMXINT8").forward(x, ids, weights)).all()


def test_torch_gives_torch(trace, torch):
    wrapper = tiny(DATA / "fp8-block-l0", "FP8")
    x, ids, weights = (torch.from_numpy(array.copy()) for array in (from_bf16(trace[0]), *trace[1:3]))
    y = wrapper.forward(x.bfloat16(), ids.int(), weights, 0)
    assert y.dtype == torch.bfloat16 and y.shape == (128, 256)
    assert error_of(as_numpy(y), expected_of("fp8-block-l0", trace)) < PUBLISHED
    again = wrapper.forward(x.bfloat16().view(4, 32, 256), ids, weights)
    assert torch.equal(again, y)


def test_both_signatures(model):
    arguments = (0, 8, 3, 64, 96)
    rest = {"cpuinfer_threads": 2, "threadpool_count": 1, "weight_path": model.path, "chunked_prefill_size": 32}
    old = KTMoEWrapper(*arguments, num_gpu_experts=2, **rest, method="BF16")
    positional = KTMoEWrapper(*arguments, 2, 2, 1, model.path, 32, method="BF16")
    new = KTMoEWrapper(*arguments, gpu_experts_mask=np.arange(8) < 2, **rest, method="BF16")
    none = KTMoEWrapper(*arguments, None, **rest, method="BF16")
    x, ids, weights = model.batch(6)
    expected = model.moe(0, x, ids, weights, lambda expert: expert >= 2)
    for wrapper in (old, positional, new):
        assert wrapper.num_gpu_experts == 2 and wrapper.gpu_experts_mask.tolist() == [True] * 2 + [False] * 6
        wrapper.load_weights()
        assert error_of(wrapper.forward(x, ids, weights), expected) < 4e-3
    assert none.num_gpu_experts == 0
    assert (none.layer_idx, none.method, none.max_deferred_experts_per_token) == (0, "BF16", 0)
    assert none.moe is None and none.cpu_infer is old.cpu_infer
    assert new.moe.info.backend == "bf16"


def test_arguments_have_their_names_and_places():
    names = """self layer_idx num_experts num_experts_per_tok hidden_size moe_intermediate_size gpu_experts_mask
        cpuinfer_threads threadpool_count weight_path chunked_prefill_size cpu_save max_deferred_experts_per_token method
        numa_nodes mode num_gpu_experts lora_rank lora_alpha lora_dropout max_cache_depth group_size zero_point
        full_weight_grad swiglu_limit swiglu_alpha"""
    of = inspect.signature
    assert list(of(KTMoEWrapper.__init__).parameters) == names.split()
    methods = {
        "load_weights": "physical_to_logical_map_cpu progress",
        "load_weights_from_tensors": "gate_proj up_proj down_proj physical_to_logical_map_cpu",
        "submit_forward": "hidden_states topk_ids topk_weights cuda_stream",
        "sync_forward": "hidden_states cuda_stream",
        "forward": "hidden_states topk_ids topk_weights cuda_stream",
        "select_deferred_experts": "expert_ids scores protected_k",
        "submit_write_weight_scale_to_buffer": "gpu_tp_count expert_id w13_weight_ptrs w13_scale_ptrs w2_weight_ptrs "
        "w2_scale_ptrs",
        "sync_write_weight_scale_to_buffer": "",
    }
    for name, arguments in methods.items():
        assert list(of(getattr(KTMoEWrapper, name)).parameters) == ["self", *arguments.split()]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_mask_is_one_buffer(model, kind, request):
    torch = request.getfixturevalue("torch") if kind == "torch" else None
    given = torch.zeros(8, dtype=torch.uint8) if torch else np.zeros(8, "uint8")
    wrapper = model.wrapper(mask=given)
    wrapper.load_weights(torch.arange(8) if torch else None)
    x, ids, weights = model.batch(5)
    arrays = [torch.from_numpy(array) for array in (x, ids, weights)] if torch else [x, ids, weights]
    kept = wrapper.gpu_experts_mask
    given[:] = 1  # the caller's own is not looked at
    for on_gpu in ([], [0, 3], [5], range(8)):
        mask = np.isin(np.arange(8), list(on_gpu))
        if torch:
            wrapper.gpu_experts_mask.copy_(torch.from_numpy(mask))
        else:
            wrapper.gpu_experts_mask[:] = mask
        expected = model.moe(0, x, ids, weights, lambda expert, mask=mask: not mask[expert])
        y = as_numpy(wrapper.forward(*arrays))
        assert np.abs(y - expected).max() < 4e-3 * max(1, np.abs(expected).max())
        assert wrapper.num_gpu_experts == len(list(on_gpu))
    wrapper.gpu_experts_mask = np.arange(8) == 2
    assert wrapper.gpu_experts_mask is kept and kept.tolist().index(True) == 2
    with pytest.raises(ValueError, match=r"\[7\]"):
        wrapper.gpu_experts_mask = np.zeros(7, bool)


def test_weights_from_tensors(model, torch):
    bits = [model.stacked(0, name).view("int16") for name in ("gate_proj", "up_proj", "down_proj")]
    stacked = [torch.from_numpy(array).view(torch.bfloat16) for array in bits]
    order = torch.tensor([1, 0, 3, 2, 5, 4, 7, 6])
    x, ids, weights = model.batch(8)
    expected = model.moe(0, x, order.numpy()[ids], weights)
    for method, bound in (("AMXINT8", 0.02), ("BF16", 4e-3), ("MOE_INT8", 0.02)):
        wrapper = model.wrapper(method=method, weight_path="")
        wrapper.load_weights_from_tensors(*stacked, order)
        assert error_of(wrapper.forward(x, ids, weights), expected) < bound
    with pytest.raises(ValueError, match=r"gate_proj has the shape \[8, 64, 96\]"):
        wrapper.load_weights_from_tensors(stacked[2], stacked[1], stacked[0], order)


@pytest.mark.parametrize("method", ["AMXINT8", "AMXINT4", "MOE_INT8"])
def test_weights_from_tensors_are_saved(tmp_path, method):
    """As KT-Kernel's converter calls it: quantize, save, and load that in another run."""
    (tmp_path / "model").mkdir()
    model, folder = Model(tmp_path / "model", n_layers=2), str(tmp_path / "saved" / "deep")
    order = np.array([1, 0, 3, 2, 5, 4, 7, 6])
    batch, outputs, saved = model.batch(5), [], []
    for layer in range(2):
        wrapper = model.wrapper(layer=layer, method=method, weight_path=folder, cpu_save=True)
        tensors = [model.stacked(layer, name) for name in ("gate_proj", "up_proj", "down_proj")]
        wrapper.load_weights_from_tensors(*tensors, order)
        outputs.append(wrapper.forward(*batch))
        wrapper.load_weights(order)
        assert (wrapper.forward(*batch) == outputs[layer]).all()
        saved.append(wrapper)
    for layer in range(2):
        wrapper = model.wrapper(layer=layer, method=method, weight_path=folder)
        wrapper.load_weights(order)
        assert (wrapper.forward(*batch) == outputs[layer]).all()
    subprocess.run(["kt", "verify", folder], check=True, capture_output=True)
    with pytest.raises(ValueError, match="weight_path, which is empty"):
        model.wrapper(cpu_save=True, weight_path="")
    with pytest.raises(ValueError, match=r"model.safetensors, which is of no store"):
        model.wrapper(method=method, cpu_save=True).load_weights_from_tensors(*tensors)
    with pytest.raises(NotImplementedError, match="cannot be stored"):
        model.wrapper(method="reference", cpu_save=True, weight_path=str(tmp_path / "x")).load_weights_from_tensors(
            *tensors
        )


def test_activation(model):
    x, ids, weights = model.batch(4)
    plain, limited = model.wrapper(), model.wrapper(swiglu_limit=0.05)
    oai = model.wrapper(swiglu_limit=0.5, swiglu_alpha=1.702)
    for wrapper in (plain, limited, oai):
        wrapper.load_weights()
    outputs = [wrapper.forward(x, ids, weights) for wrapper in (plain, limited, oai)]
    assert error_of(outputs[0], model.moe(0, x, ids, weights)) < 4e-3
    assert np.linalg.norm(outputs[1]) < 0.2 * np.linalg.norm(outputs[0]) < np.linalg.norm(outputs[2])
    for wrong in ({"swiglu_alpha": 1.7}, {"swiglu_limit": -1.0}):
        with pytest.raises(ValueError, match="swiglu"):
            model.wrapper(**wrong)


def test_what_is_wrong(model, tmp_path):
    wrong = {
        'method="AMXINT5" is not known; methods are AMXINT4': {"method": "AMXINT5"},
        "num_experts is 0": {"num_experts": 0},
        r"gpu_experts_mask has the shape \[9\]": {"mask": np.zeros(9, bool)},
        "num_gpu_experts is 9": {"num_gpu_experts": 9},
        r"numa_nodes \[0\] are 1, but threadpool_count is 2": {"numa_nodes": [0], "threadpool_count": 2},
        "layer_idx is -1": {"layer_idx": -1},
        "num_experts is 4294967304": {"num_experts": (1 << 32) + 8},
        "hidden_size is 64.5": {"hidden_size": 64.5},
        "max_deferred_experts_per_token is -1": {"max_deferred_experts_per_token": -1},
    }
    for words, options in wrong.items():
        with pytest.raises(ValueError, match=words):
            model.wrapper(**options)
    with pytest.raises(kt_kernel.KTError, match="node 63"):
        model.wrapper(numa_nodes=[63])
    unloaded = model.wrapper()
    x, ids, weights = model.batch(2)
    for call in (
        lambda: unloaded.forward(x, ids, weights),
        lambda: unloaded.submit_write_weight_scale_to_buffer(1, 0, [1], [], [1], []),
    ):
        with pytest.raises(kt_kernel.KTError, match="load_weights"):
            call()
    loads = {
        "/nowhere/model": {"weight_path": "/nowhere/model"},
        "weight_path is empty": {"weight_path": ""},
        "layer 5": {"layer_idx": 5},
        "n_experts|experts": {"num_experts": 9},
        "32 x 96": {"hidden_size": 32},
        "supported are": {"method": "FP8"},
    }
    for words, options in loads.items():
        with pytest.raises(kt_kernel.KTError, match=words):
            model.wrapper(**options).load_weights()
    for order in (np.arange(8, dtype="int32"), np.arange(9), np.full(8, 8)):
        with pytest.raises(ValueError, match="map"):
            unloaded.load_weights(order)
    unloaded.load_weights()
    with pytest.raises(kt_kernel.KTError, match="without a submit_forward"):
        unloaded.sync_forward(x)
    unloaded.submit_forward(x, ids + 8, weights)
    with pytest.raises(ValueError, match="there are 0 to 7"):
        unloaded.sync_forward(x)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(kt_kernel.KTError, match="model.safetensors"):
        model.wrapper().load_weights()


def test_training_is_refused(model):
    for attempt in (
        lambda: model.wrapper(mode="sft"),
        lambda: model.wrapper(method="AMXBF16_SFT"),
        lambda: model.wrapper(method="AMXINT4_1KGroup_SFT_SkipLoRA"),
        lambda: kt_kernel.AMXSFTMoEWrapper(),
        KTMoEWrapper.clear_sft_buffer_cache,
    ):
        with pytest.raises(NotImplementedError, match="no training"):
            attempt()
    with pytest.raises(NotImplementedError, match="GPTQ_INT4"):
        model.wrapper(method="SYCL_GPTQ_INT4")


def test_more_pools_than_nodes(model, caplog):
    wrapper = model.wrapper(threadpool_count=64)
    assert wrapper.context.info.n_nodes < 64 and "threadpool_count is 64" in caplog.text


def test_two_models_and_threads(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    other = Model(tmp_path / "b", n_experts=5, hidden=96, intermediate=64, top_k=2, seed=2)
    models = [Model(tmp_path / "a"), other]
    wrappers = [model.wrapper(cpuinfer_threads=threads) for model, threads in zip(models, (1, 2))]
    failures = []
    for wrapper in wrappers:
        wrapper.load_weights()

    def serve(model, wrapper):
        for n in (1, 4, 9, 2):
            x, ids, weights = model.batch(n)
            expected = model.moe(0, x, ids, weights)
            for _ in range(20):
                wrapper.submit_forward(x, ids, weights)
                if error_of(wrapper.sync_forward(x), expected) > 4e-3:
                    failures.append(n)

    threads = [threading.Thread(target=serve, args=pair) for pair in zip(models, wrappers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert wrappers[0].context is not wrappers[1].context
    # Two wrappers of one layer are two models.
    assert models[0].wrapper().model is not models[0].wrapper(method="AMXINT8").model


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_selecting_deferred_experts(model, kind, request):
    torch = request.getfixturevalue("torch") if kind == "torch" else None
    make = torch.tensor if torch else np.array
    ids = make([[4, 1, 7], [1, 2, 3], [-1, 5, 6]])
    scores = make([[0.5, 0.3, 0.2], [0.1, 0.45, 0.45], [0.6, 0.2, 0.2]])
    wrapper = model.wrapper()
    immediate, deferred = wrapper.select_deferred_experts(ids, scores, 1)
    assert immediate.tolist() == [[4, -1, -1], [-1, 2, -1], [-1, -1, -1]]
    assert deferred.tolist() == [[-1, 1, 7], [1, -1, 3], [-1, 5, 6]]
    immediate, deferred = wrapper.select_deferred_experts(ids, scores, 2)
    assert immediate.tolist() == [[4, 1, -1], [1, 2, 3], [-1, 5, -1]]
    for k in (3, 9):
        assert wrapper.select_deferred_experts(ids, scores, k)[1].tolist() == [[-1] * 3] * 3
    assert wrapper.select_deferred_experts(ids, scores, -1)[0].tolist() == [[-1] * 3] * 3


def test_masks_by_frequency(request):
    use = [[5, 0, 9, 1], [9, 9, 2, 0]]
    assert generate_gpu_experts_masks(np.array(use), 3).tolist() == [
        [False, False, True, False],
        [True, True, False, False],
    ]
    assert generate_gpu_experts_masks(np.array(use) / 7, 1).tolist()[0] == [False, False, True, False]
    assert not generate_gpu_experts_masks(use, 0).any() and generate_gpu_experts_masks(use, 99).all()
    for wrong in ([[-1, 0]], [[float("nan")]], [1, 2], [[]]):
        with pytest.raises(ValueError, match="activation_freq"):
            generate_gpu_experts_masks(np.array(wrong), 1)
    torch = request.getfixturevalue("torch")
    masks = generate_gpu_experts_masks(torch.tensor(use), 2)
    assert masks.dtype == torch.bool and masks.sum() == 2


def source_of(path, method, expert, ranks):
    """What each rank's buffers must hold: w13, its scales, w2, its scales, as bytes."""
    files = sorted((DATA / path).glob("*.safetensors"))
    tensors = {name: array for file in files for name, array in read_safetensors(file).items()}
    found = {}
    for part, names in {"gate": ("gate_proj", "w1"), "up": ("up_proj", "w3"), "down": ("down_proj", "w2")}.items():
        of_part = {
            name.rsplit(".", 1)[1]: array
            for name, array in tensors.items()
            if f"experts.{expert}." in name and name.split(".")[-2] in names
        }
        weight = next(of_part[key] for key in ("weight_packed", "weight") if key in of_part)
        scale = next(of_part[key] for key in ("weight_scale_inv", "weight_scale", "scale") if key in of_part)
        if method == "MXFP4":
            scale = scale.astype("uint16") << 7  # as bfloat16
        if method.startswith("FP8") and scale.dtype == np.uint16:
            scale = from_bf16(scale)
        found[part] = (weight, scale.reshape(scale.shape[0], -1))
    for rank in range(ranks):
        pairs = zip(found["gate"], found["up"])
        w13 = [b"".join(np.split(array, ranks)[rank].tobytes() for array in pair) for pair in pairs]
        columns = []
        for array in found["down"]:
            step = array.shape[1] // ranks
            columns.append(array[:, step * rank : step * (rank + 1)] if step else array)
        yield [*w13, *(array.tobytes() for array in columns)]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("method", "path"), [row[:2] for row in METHODS[:6] if row[0] != "GPTQ_INT4"])
def test_experts_for_gpus(method, path, ranks):
    wrapper = tiny(DATA / path, method)
    for expert in (0, 5):
        expected = list(source_of(path, method, expert, ranks))
        rooms = [[np.full(len(data) + 8, 0xEE, "uint8") for data in rank] for rank in expected]
        pointers = [[rank[index].ctypes.data for rank in rooms] for index in range(4)]
        wrapper.submit_write_weight_scale_to_buffer(ranks, expert, *pointers)
        wrapper.sync_write_weight_scale_to_buffer()
        for rank, wanted in zip(rooms, expected):
            for room, data in zip(rank, wanted):
                assert room[:-8].tobytes() == data
                assert (room[-8:] == 0xEE).all()
    with pytest.raises(ValueError, match="w2_weight_ptrs must be"):
        wrapper.submit_write_weight_scale_to_buffer(ranks, 0, pointers[0], pointers[1], [], pointers[3])
    with pytest.raises(ValueError, match="expert_id is 4294967296"):
        wrapper.submit_write_weight_scale_to_buffer(ranks, 1 << 32, *pointers)
    with pytest.raises(ValueError, match="expert 8"):
        wrapper.submit_write_weight_scale_to_buffer(ranks, 8, *pointers)


def test_experts_that_cannot_be_written(model):
    wrapper = model.wrapper(method="AMXINT8")
    wrapper.load_weights()
    with pytest.raises(NotImplementedError):
        wrapper.submit_write_weight_scale_to_buffer(1, 0, [1], [1], [1], [1])


def test_capture_sizes():
    KTMoEWrapper.set_capture_batch_sizes([1, 4])
    assert KTMoEWrapper.get_capture_batch_sizes() == [1, 4]
    with pytest.raises(ValueError, match="batch size"):
        KTMoEWrapper.set_capture_batch_sizes([0])
    assert KTMoEWrapper.get_capture_batch_sizes() == [1, 4]
    KTMoEWrapper.set_capture_batch_sizes([])
    KTMoEWrapper.clear_buffer_cache()
    KTMoEWrapper.force_release_loader()
