# SPDX-License-Identifier: Apache-2.0
"""Linear and linears, against float64."""

import gc
import threading

import numpy as np
import pytest
from conftest import DATA, as_numpy, error_of, to_bf16, write_safetensors

import kt_kernel

COLS = 96
EXACT = COLS * 2**-24  # sums in float32 of products that float32 holds
ROUNDED = {"float32": EXACT, "bfloat16": 2**-8, "float16": 2**-11}


def random(*shape, seed=1):
    """Numbers that bfloat16 and float16 hold."""
    return np.random.default_rng(seed).integers(-64, 65, shape).astype("float32") / 32


def as_dtype(array, name):
    return to_bf16(array) if name == "bfloat16" else array.astype(name)


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("backend", ["reference", "bf16", None])
def test_values(context, name, backend):
    w, b, x = random(130, COLS), random(130, seed=2), random(7, COLS, seed=3)
    linear = kt_kernel.Linear(context, as_dtype(w, name), as_dtype(b, name), backend=backend, max_tokens=4)
    expected = x.astype("float64") @ w.T + b
    assert backend in (linear.info.backend, None) or name != "bfloat16"
    assert (linear.info.rows, linear.info.cols, linear.info.rounding) == (130, COLS, "")
    assert (linear.weights() == w).all() and (linear.weights(3, 2) == w[3:5]).all()
    assert linear.weights(130).shape == (0, COLS)
    for kind, bound in ROUNDED.items():
        y = linear.forward(as_dtype(x, kind))
        assert y.dtype == {"bfloat16": np.uint16}.get(kind, kind) and y.shape == (7, 130)
        assert error_of(as_numpy(y), expected) < bound
        assert error_of(as_numpy(linear.forward(x, out_dtype=kind)), expected) < bound
    assert (linear.forward(x, out_dtype=np.float32) == linear.forward(x)).all()
    assert (linear.forward(x, out_dtype=np.dtype("float32")) == linear.forward(x)).all()
    assert (linear.forward(x.reshape(1, 7, COLS)) == linear.forward(x)).all()
    assert linear.forward(x[0]).shape == (130,) and linear.forward(x[:0]).shape == (0, 130)
    apart = np.zeros((7, 2 * COLS), dtype="float32")
    apart[:, :COLS] = x
    assert (linear.forward(apart[:, :COLS]) == linear.forward(x)).all()
    out = np.full((7, 200), 5, dtype="float32")
    assert linear.forward(x, out[:, :130]).base is out
    assert (out[:, :130] == linear.forward(x)).all() and (out[:, 130:] == 5).all()
    assert linear.forward(x, out[:, :130], accumulate=True) is not None
    assert error_of(out[:, :130], 2 * expected) < EXACT


def test_without_a_bias_and_split_by_columns(context):
    w, x = random(33, COLS), random(3, COLS, seed=2)
    plain = kt_kernel.Linear(context, w).forward(x)
    assert error_of(plain, x.astype("float64") @ w.T) < EXACT
    assert (kt_kernel.Linear(context, w, split="cols").forward(x) == plain).all()


def test_several_over_one_input(context):
    shapes = [48, 32, 200, 1, 64, 5, 16, 96]
    made = [
        kt_kernel.Linear(context, random(rows, COLS, seed=rows), random(rows, seed=7), name=f"w{rows}")
        for rows in shapes
    ]
    x = random(9, COLS, seed=9)
    for linear, y in zip(made, kt_kernel.linears(made, x)):
        assert (y == linear.forward(x)).all()
    q, k = kt_kernel.linears(made[:2], to_bf16(x), out_dtype="float32")
    assert q.dtype == k.dtype == np.float32
    outs = [np.ones((9, rows), dtype="float32") for rows in shapes[:2]]
    found = kt_kernel.linears(made[:2], x, outs, accumulate=True)
    assert found[0] is outs[0] and error_of(outs[1], 1 + made[1].forward(x).astype("float64")) < EXACT
    with pytest.raises(ValueError, match="linears are 9, but must be 1 to 8"):
        kt_kernel.linears([*made, made[0]], x)
    with pytest.raises(ValueError, match="linears are 0"):
        kt_kernel.linears([], x)
    with pytest.raises(TypeError, match=r"linears\[1\] must be a kt_kernel.Linear, not int"):
        kt_kernel.linears([made[0], 3], x)
    with pytest.raises(ValueError, match="outs are 1, linears 2"):
        kt_kernel.linears(made[:2], x, outs[:1])
    with pytest.raises(ValueError, match=r"outs\[1\] has the shape \[9, 48\], but must be \[tokens, 32\]"):
        kt_kernel.linears(made[:2], x, [outs[0], outs[0]])
    with pytest.raises(ValueError, match=r"outs\[1\] and outs\[0\] overlap"):
        kt_kernel.linears([made[0], made[0]], x, [outs[0], outs[0]])
    narrow = kt_kernel.Linear(context, random(4, 32))
    with pytest.raises(ValueError, match=r"linears\[1\] has 32 columns, linears\[0\] 96"):
        kt_kernel.linears([made[0], narrow], x)
    with kt_kernel.Context(threads=1) as other:
        stranger = kt_kernel.Linear(other, random(4, COLS), name="stranger")
        with pytest.raises(ValueError, match="w48 and stranger are not of one context"):
            kt_kernel.linears([made[0], stranger], x)


def test_of_a_checkpoint(context, tmp_path):
    w, b = random(40, COLS), random(40, seed=2)
    name = "model.layers.0.self_attn.q_proj"
    write_safetensors(tmp_path / "model.safetensors", {f"{name}.weight": to_bf16(w), f"{name}.bias": to_bf16(b)})
    checkpoint = kt_kernel.Checkpoint(tmp_path / "model.safetensors")
    linear = kt_kernel.Linear(context, checkpoint, name=name)
    checkpoint.close()
    x = random(5, COLS, seed=3)
    assert error_of(linear.forward(x), x.astype("float64") @ w.T + b) < EXACT
    with kt_kernel.Checkpoint(DATA / "tiny-moe-q4_k_m.gguf") as model:
        with pytest.raises(KeyError, match="blk.9.attn_q"):
            kt_kernel.Linear(context, model, name="blk.9.attn_q")
        with pytest.raises(ValueError, match="name must say which"):
            kt_kernel.Linear(context, model)
        with pytest.raises(ValueError, match="bias must be None"):
            kt_kernel.Linear(context, model, b, name="output")
        linears = [
            kt_kernel.Linear(context, model, name=f"blk.0.attn_{which}", backend=backend)
            for which in "qkv"
            for backend in ("reference", "llamafile")
        ]
    del model
    gc.collect()
    x = np.random.default_rng(5).normal(size=(3, 256)).astype("float32")
    for linear, y in zip(linears, kt_kernel.linears(linears, x)):
        bound = 0.02 if linear.info.backend == "llamafile" else 256 * 2**-24  # its activations are int8
        assert error_of(y, x.astype("float64") @ linear.weights().astype("float64").T) < bound


def test_wrong_arguments(context):
    w, x = random(8, COLS), random(2, COLS)
    short = np.zeros(7, "float32")
    linear = kt_kernel.Linear(context, w)
    wrong = {
        r"weight has the shape \[8\]": lambda: kt_kernel.Linear(context, w[:, 0].copy()),
        r"weight has the shape \[0, 96\]": lambda: kt_kernel.Linear(context, w[:0]),
        "weight is not dense": lambda: kt_kernel.Linear(context, w.T),
        "weight is f64": lambda: kt_kernel.Linear(context, w.astype("float64")),
        r"bias has the shape \[7\], but must be dense \[8\]": lambda: kt_kernel.Linear(context, w, short),
        "bias is i64": lambda: kt_kernel.Linear(context, w, np.zeros(8, "int64")),
        'split is "both"': lambda: kt_kernel.Linear(context, w, split="both"),
        "max_tokens is 0": lambda: kt_kernel.Linear(context, w, max_tokens=0),
        'no method or backend "nothing here"': lambda: kt_kernel.Linear(context, w, backend="nothing here"),
        r"x has the shape \[2, 95\], but must be \[tokens, 96\]": lambda: linear.forward(x[:, 1:]),
        "x is i32": lambda: linear.forward(x.astype("int32")),
        "accumulate needs out": lambda: linear.forward(x, accumulate=True),
        'out_dtype is "int8"': lambda: linear.forward(x, out_dtype="int8"),
        "out_dtype is that of out": lambda: linear.forward(x, np.zeros((2, 8), "float32"), out_dtype="float32"),
        "out has 3 tokens, x 2": lambda: linear.forward(x, np.zeros((3, 8), "float32")),
        "out and x overlap": lambda: linear.forward(x, x[:, :8]),
        "row is 9": lambda: linear.weights(9),
        "n_rows is 8": lambda: linear.weights(1, 8),
    }
    for words, act in wrong.items():
        with pytest.raises(ValueError, match=words):
            act()
    with pytest.raises(TypeError, match="weight must be a torch tensor"):
        kt_kernel.Linear(context, [[1.0]])
    with pytest.raises(TypeError, match=r"context must be a kt_kernel\.Context"):
        kt_kernel.Linear(None, w)
    linear.close()
    with pytest.raises(kt_kernel.KTError, match="this Linear is closed"):
        linear.forward(x)


def test_from_several_threads(context):
    linear, x = kt_kernel.Linear(context, random(64, COLS)), random(5, COLS, seed=2)
    expected, wrong = linear.forward(x), []

    def work():
        for _ in range(50):
            if (linear.forward(x) != expected).any():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_torch(context, torch):
    w, b, x = (torch.from_numpy(array) for array in (random(24, COLS), random(24, seed=2), random(3, COLS, seed=3)))
    expected = as_numpy(x) @ as_numpy(w).T + as_numpy(b)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        linear = kt_kernel.Linear(context, w.to(dtype), b.to(dtype))
        name = str(dtype).removeprefix("torch.")
        y = linear.forward(x.to(dtype))
        assert y.dtype == dtype and error_of(as_numpy(y), expected) < ROUNDED[name]
        assert linear.forward(x, out_dtype=dtype).dtype == dtype
        assert linear.forward(x[:0]).shape == (0, 24)
