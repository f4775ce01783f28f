# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and chat templates, on the vocabulary of a small model."""

import ctypes
import os
import pathlib
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import DATA

import kt_kernel
from kt_kernel import tokenizer as module

MODEL = DATA / "tiny-moe-q4_k_m.gguf"
LIBRARY = pathlib.Path(os.environ["KT_KERNEL_LIBRARY"])
ENGINE = LIBRARY.with_name(module.SONAME)
if not ENGINE.is_file():
    pytest.skip("libktengine was not built", allow_module_level=True)
CHATML = (
    "{%- for message in messages %}{{ message.role + '\\n' + message.content + eos_token }}\n{% endfor %}"
    "{%- if tools %}{{ tools | length }} tools\n{% endif %}{%- if add_generation_prompt %}assistant\n{% endif %}"
    "{%- if mood is defined %}{{ mood }}{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer():
    with kt_kernel.Tokenizer(MODEL) as opened:
        yield opened


def chat(**options):
    if not hasattr(ctypes.CDLL(str(ENGINE)), "kt_template_create"):
        pytest.skip("libktengine has no kt_template_create")
    return kt_kernel.Tokenizer(MODEL, **options)


def test_what_it_is(tokenizer):
    assert (tokenizer.kind, tokenizer.pre, tokenizer.source) == ("bpe", "gpt-2", str(MODEL))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (2046, 2047, None)
    assert tokenizer.pad_token_id is None or tokenizer.pad_token_id < len(tokenizer)
    assert (len(tokenizer), tokenizer.adds_bos, tokenizer.normalizes) == (2048, False, False)
    assert tokenizer.ends == tokenizer.ends and 2047 in tokenizer.ends and 398 not in tokenizer.ends
    assert tokenizer.token(398) == kt_kernel.Token(398, b"To", "normal", False)
    assert tokenizer.token(2047) == kt_kernel.Token(2047, b"<|im_end|>", "control", True)
    assert tokenizer.token(195).text == b"\xc3"
    assert tokenizer.find("<|im_end|>") == 2047 and tokenizer.find(b" be") == 304 and tokenizer.find("nowhere") is None
    for wrong in (2048, -1, 1 << 40):
        with pytest.raises(ValueError):
            tokenizer.token(wrong)


def test_text_and_ids(tokenizer):
    assert tokenizer.encode("To be, or not<|im_end|>") == [398, 304, 44, 522, 321, 2047]
    assert tokenizer.encode("or<|im_end|>", specials=False) == [270, 60, 124, 318, 95, 467, 124, 62]
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
    assert tokenizer.encode(b"a\0b") == [97, 0, 98] and tokenizer.decode([97, 0, 98]) == "a\0b"
    assert tokenizer.encode("To be", bos=True) == [398, 304]
    assert tokenizer.decode([398, 304, 2047]) == "To be<|im_end|>"
    assert tokenizer.decode([398, 304, 2047], specials=False) == "To be"
    assert tokenizer.decode(np.array([398, 304])) == tokenizer.decode((398, 304)) == "To be"
    assert tokenizer.decode([195]) == "\N{REPLACEMENT CHARACTER}"
    choose = random.Random(1)
    for _ in range(200):
        text = "".join(chr(choose.choice((choose.randrange(128), choose.randrange(0x3000, 0xD000), 0x1F600)))
                       for _ in range(choose.randrange(40)))  # fmt: skip
        assert tokenizer.decode(tokenizer.encode(text, specials=False)) == text


def test_parts(tokenizer):
    def encode(*parts):
        return tokenizer.encode_parts(parts)

    assert encode(("<|im_end|>", False), ("<|im_end|>", True)) == [2047, *tokenizer.encode("<|im_end|>", specials=False)]
    assert encode(("<|im_", True), ("end|>", True)) == tokenizer.encode("<|im_end|>", specials=False)
    assert encode(("To", False), (" ", True), ("be", True)) == [398, 304]
    assert encode() == []


def test_ids_as_they_come(tokenizer):
    text = "Zoë and \N{GRINNING FACE}: to be<|im_end|>"
    for specials in (True, False):
        shown = tokenizer.detokenizer(specials=specials)
        pieces = [shown.add(number) for number in tokenizer.encode(text)]
        assert "".join(pieces) + shown.end() == (text if specials else text.replace("<|im_end|>", ""))
        assert "" in pieces  # of a character's first bytes
        assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)
    assert shown.add([195]) == "" and shown.end() == "\N{REPLACEMENT CHARACTER}" and shown.end() == ""
    assert shown.add(np.array([398, 304])) == "To be"
    shown = kt_kernel.Tokenizer(MODEL).detokenizer()  # which keeps its tokenizer
    assert shown.add([398, 304]) == "To be"


def test_what_is_wrong(tokenizer, tmp_path):
    with pytest.raises(kt_kernel.KTError, match="nothing.gguf: No such file"):
        kt_kernel.Tokenizer(tmp_path / "nothing.gguf")
    with pytest.raises(kt_kernel.KTError, match="trace.safetensors"):
        kt_kernel.Tokenizer(DATA / "trace.safetensors")
    with pytest.raises(kt_kernel.KTValueError, match="id 2048 is not a token"):
        tokenizer.decode([2048])
    with pytest.raises(kt_kernel.KTValueError, match="beyond 32 bits"):
        tokenizer.decode([1 << 32])
    for wrong in ("text", [1.5], 5, [None]):
        with pytest.raises(TypeError, match="ids must be whole numbers"):
            tokenizer.decode(wrong)
    with pytest.raises(TypeError, match="text must be a string, not int"):
        tokenizer.encode(5)
    closed = kt_kernel.Tokenizer(MODEL)
    closed.close()
    with pytest.raises(kt_kernel.KTError, match="this Tokenizer is closed"):
        closed.encode("x")


def test_a_checkpoint_and_threads():
    with kt_kernel.Checkpoint(MODEL) as checkpoint:
        opened = kt_kernel.Tokenizer(checkpoint)
    expected, found = kt_kernel.Tokenizer(MODEL).encode("To be, or not to be" * 100), []
    threads = [threading.Thread(target=lambda: found.append(opened.encode("To be, or not to be" * 100))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_chat():
    opened, messages = chat(chat_template=CHATML), [{"role": "user", "content": "or<|im_end|> é\u3042"}]
    text = "user\nor<|im_end|> é\u3042<|im_end|>\nassistant\n"
    assert opened.apply_chat_template(messages) == text
    assert opened.apply_chat_template(messages, None, False) == text.replace("assistant\n", "")
    assert opened.apply_chat_template(messages, [{"type": "function"}], mood="glad") == text.replace(
        "assistant", "1 tools\nassistant") + "glad"  # fmt: skip
    assert opened.apply_chat_template(messages, eos_token="!") == "user\nor<|im_end|> é\u3042!\nassistant\n"
    # What the user says ends no turn.
    ids = opened.encode_chat(messages)
    assert opened.decode(ids) == text and ids.count(2047) == 1 and opened.encode(text).count(2047) == 2


def test_a_chat_that_is_refused():
    opened = chat(chat_template="{{ raise_exception('only about ' + topic) }}")
    with pytest.raises(kt_kernel.KTValueError) as caught:
        opened.apply_chat_template([], topic="plays")
    assert str(caught.value) == "only about plays"
    with pytest.raises(TypeError, match="must be what JSON has"):
        opened.apply_chat_template([{"content": object()}])
    with pytest.raises(kt_kernel.KTError, match="chat_template.*1"):
        chat(chat_template="{% if %}").apply_chat_template([])


def test_without_the_library(tmp_path):
    (tmp_path / LIBRARY.name).symlink_to(LIBRARY.resolve())
    program = "import kt_kernel\ntry:\n kt_kernel.Tokenizer('x')\nexcept ImportError as error:\n print('said:', error)"
    environment = {
        **os.environ,
        "KT_KERNEL_LIBRARY": str(tmp_path / LIBRARY.name),
        "LD_LIBRARY_PATH": str(tmp_path),
    }
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    if not ended.stdout:
        pytest.skip("libktengine is installed in this system")
    assert "said: kt_kernel.Tokenizer needs libktengine.so.0" in ended.stdout
    assert "Install kt-kernel-engine (Debian: libktengine0)" in ended.stdout
