# SPDX-License-Identifier: Apache-2.0
"""Whole models: logits beside those of kt generate's float64 oracle, text, sampling, errors."""

import gc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import DATA, error_of

import kt_kernel
from kt_kernel import tokenizer as tokenizers

MODEL = DATA / "tiny-moe-q4_k_m.gguf"
ORACLE = DATA.parent / "logits" / "tiny-moe-q4_k_m.f32"
PROMPT = "KATHARINA:\nI pray you,"
if not pathlib.Path(os.environ["KT_KERNEL_LIBRARY"]).with_name(tokenizers.SONAME).is_file():
    pytest.skip("libktengine was not built", allow_module_level=True)
if not any(backend.name == "attention" and backend.state == "loaded" for backend in kt_kernel.backends()):
    pytest.skip("the plugin attention is not loaded", allow_module_level=True)


@pytest.fixture(scope="module")
def model():
    with kt_kernel.Context(threads=2) as context, kt_kernel.Model(MODEL, context=context, max_sessions=2) as opened:
        yield opened


def test_what_it_is(model):
    info = model.info
    assert (info.family, info.n_layers, info.vocabulary, info.context_length) == ("qwen3moe", 4, 2048, 2048)
    assert info.n_experts > 1 and info.weight_size > 1 << 20 and info.max_tokens == 2048
    assert len(model.tokenizer) == 2048


def test_logits(model):
    ids = [(7 * i * i + 11 * i + 5) % 2000 for i in range(70)]  # as tests/engine/model/make_logits.py has them
    kept = [0, 1, 31, 62, 63, 64, 65, 69]
    logits = model.logits(ids)
    assert logits.shape == (70, 2048) and logits.dtype == np.float32
    expected = np.fromfile(ORACLE, np.float32).reshape(len(kept), -1)
    for row, wanted in zip(logits[kept], expected):
        assert error_of(row, wanted) < 3e-2  # of backends that round again
    assert np.array_equal(model.logits(np.array(ids)), logits)
    assert np.array_equal(model.logits(PROMPT), model.logits(model.tokenizer.encode(PROMPT)))
    assert model.logits([]).shape == (0, 2048)


def test_hidden_states(model):
    ids = list(range(5, 40))
    normed, plain = model.hidden_states(ids), model.hidden_states(ids, norm=False)
    assert normed.shape == plain.shape == (35, 256) and normed.dtype == np.float32
    weights = normed / (plain / np.sqrt((plain**2).mean(1, keepdims=True)))  # those of the norm, for each token
    assert np.allclose(weights, weights[0], rtol=1e-3)
    assert np.array_equal(model.hidden_states(ids, last=3), normed[-3:])
    assert model.hidden_states(ids, last=0).shape == (0, 256)


def test_text(model):
    pieces = list(model.generate(PROMPT, 28))
    assert len(pieces) > 20 and "".join(pieces).startswith(" sir, I will not be so.\n\nPETRUCHIO:\n")
    assert "".join(model.generate(model.tokenizer.encode(PROMPT), 28)) == "".join(pieces)
    assert "".join(model.generate(PROMPT, 28, temperature=0, top_p=0.5)) == "".join(pieces)
    assert "".join(model.generate(PROMPT, 28, top_k=1)) == "".join(pieces)
    assert list(model.generate(PROMPT, 0)) == []
    for how in ("auto", "lookup"):
        assert "".join(model.generate(PROMPT, 28, speculate=how)) == "".join(pieces)
    with pytest.raises(ValueError, match="auto, off"):
        model.generate(PROMPT, 28, speculate="on")
    # the same by logits
    ids = model.tokenizer.encode(PROMPT)
    for _ in range(5):
        ids.append(int(model.logits(ids)[-1].argmax()))
    assert model.tokenizer.decode(ids) == PROMPT + "".join(model.generate(PROMPT, 5))


def test_experts_from_elsewhere(model):
    ids = [5, 9, 13]
    with kt_kernel.Model(MODEL, experts=MODEL) as same:
        assert np.allclose(same.logits(ids), model.logits(ids), atol=1e-3)
    with pytest.raises(kt_kernel.KTError):
        kt_kernel.Model(MODEL, experts=DATA / "mxfp4-l0")  # one layer of another model


def test_stop(model):
    assert "".join(model.generate(PROMPT, 28, stop="t be so.")) == " sir, I will no"
    assert "".join(model.generate(PROMPT, 28, stop=["gentleman", "not"])) == " sir, I will "
    assert "".join(model.generate(PROMPT, 28, stop="never said")) == "".join(model.generate(PROMPT, 28))


def test_sampling(model):
    def write(**options):
        return "".join(model.generate(PROMPT, 30, **options))

    assert write(temperature=1, seed=5) == write(temperature=1, seed=5) != write(temperature=1, seed=6)
    assert write(top_p=0.9, seed=5) == write(top_p=0.9, seed=5, temperature=1)
    assert len({write(temperature=2) for _ in range(3)}) > 1  # seeds of their own
    greedy = write()
    for option in ({"repetition_penalty": 1.5}, {"frequency_penalty": 1.0}, {"presence_penalty": 2},
                   {"logit_bias": {model.tokenizer.find(" sir"): -100.0}}):  # fmt: skip
        assert write(**option) != greedy, option
    assert " sir" not in write(logit_bias={model.tokenizer.find(" sir"): float("-inf")})[:4]
    assert write(dry_multiplier=0.0) == greedy and isinstance(write(dry_multiplier=0.8), str)


def test_wrong(model):
    with pytest.raises(kt_kernel.KTValueError, match="top_p is 1.5"):
        model.generate(PROMPT, top_p=1.5)
    with pytest.raises(TypeError, match="no argument heat"):
        model.generate(PROMPT, heat=1)
    with pytest.raises(TypeError, match="temperature must be a number"):
        model.generate(PROMPT, temperature="hot")
    with pytest.raises(ValueError, match="top_k"):
        model.generate(PROMPT, top_k=-1)
    with pytest.raises(ValueError, match="seed"):
        model.generate(PROMPT, seed=-1)
    with pytest.raises(ValueError, match="stop string 0"):
        model.generate(PROMPT, stop=[""])
    with pytest.raises(ValueError, match="the prompt is empty"):
        model.generate([])
    with pytest.raises(ValueError):
        list(model.generate([5000]))
    with pytest.raises(ValueError, match="2048"):
        model.logits([1] * 3000)
    with pytest.raises(ValueError):
        model.generate(PROMPT, logit_bias={99999: 1.0})
    with pytest.raises(TypeError):
        kt_kernel.Model(MODEL, context=model)
    with pytest.raises(kt_kernel.KTError):
        kt_kernel.Model(DATA / "nowhere")
    assert "".join(model.generate(PROMPT, 3))  # and it goes on


def test_sessions_are_given_back(model):
    """A text that nobody reads to its end takes no room for long."""
    for _ in range(5):
        first = model.generate(PROMPT, 20)
        assert next(first)
        del first
        gc.collect()
    one, two = model.generate(PROMPT, 20), model.generate(PROMPT, 20, temperature=1, seed=5)
    pairs = list(zip(one, two))
    assert pairs and "".join(pair[0] for pair in pairs) == "".join(model.generate(PROMPT, 20))[: len("".join(p[0] for p in pairs))]
    one.close(), two.close()


def test_threads(model):
    """Two texts at once are what each is alone."""
    wanted = {seed: "".join(model.generate(PROMPT, 25, temperature=1, seed=seed)) for seed in (1, 2)}
    found = {}

    def write(seed):
        found[seed] = "".join(model.generate(PROMPT, 25, temperature=1, seed=seed))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == wanted


def test_two_at_once_until_the_room_ends():
    with kt_kernel.Model(MODEL, max_tokens=64, max_sessions=2) as small:
        writers = [small.generate(PROMPT, temperature=0, ignore_eos=True) for _ in range(2)]
        texts = ["", ""]
        for pieces in zip(*writers):
            texts = [text + piece for text, piece in zip(texts, pieces)]
        assert texts[0] == texts[1] and len(texts[0]) > 64


def test_collected_within_a_call(model):
    class Cycle:
        pass

    for _ in range(3):
        held = Cycle()
        held.me, held.writer = held, model.generate(PROMPT, temperature=0)
        next(held.writer)
        del held
        with model._lock:  # as a step holds it
            gc.collect()


def test_closed_while_it_writes():
    model = kt_kernel.Model(MODEL)
    text = model.generate(PROMPT, 5)
    first = next(text)
    model.close()
    assert first + "".join(text)
    with pytest.raises(kt_kernel.KTError, match="closed"):
        model.generate(PROMPT)


def test_the_interpreter_may_end():
    program = "import sys, kt_kernel; text = kt_kernel.Model(sys.argv[1]).generate('To be', 9); print(next(text))"
    ended = subprocess.run([sys.executable, "-c", program, MODEL], capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and ended.stdout.strip(), ended.stderr
