#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_expected.py [--long|--compact] [FAMILY...] - logits of tiny random models as Hugging Face transformers has them.

For each family of tests/data/families (all without arguments; more/NAME is one of the second models) it makes the
weights that its table `model` names, opens them with the class of its config.json in float64 and writes expected.f32,
rows of float32, each of which is the size of some logits and 16 sums of them with random signs (README): all logits at
the positions of `keep`; the first 64 at the last of them; those of each deliberate error there. Then long runs: a
number that their ids are drawn by, rows at three positions, how many of the ids are a prompt, and 40 tokens that are
chosen greedily behind that, none of which is among the 8 before it.
Prints what the weights do: how much each block changes the residual, how peaked the routing is, how far each
error is from the truth; and stops where that is too little for a test. It also stops where rounding to bfloat16 could
make a router choose other experts, and prints a `tokens` line for the table with which it cannot. README says how a
table is written.
--long: long runs again, the rest stays. --compact: the same of a file that has all logits in place of sums.
Needs torch, transformers, safetensors and numpy.
"""
import copy
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import patches
from draws import PROJECTIONS, draw, numbers, project, whole_numbers

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "families"
TOLERANCE = 1e-4  # of the test
# The relative rms error of rounding to nearest: half a unit in the last place, uniform, on average over a binade.
BFLOAT16, FLOAT32 = 1.1e-3, 1.1e-3 * 2.0 ** -16
ROUNDINGS = 14  # per layer, as test_families.c counts them for its tolerance
ERROR_LOGITS = 64  # of which sums are recorded
LONGEST, LONG_PLACES, GREEDY = 300, (17, 130, 300), 40  # of long runs
SHORTEST_PROMPT, WITHOUT = 20, 8
MARGIN = 4  # standard deviations of that error
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOP_K = ("num_experts_per_tok", "top_k_experts", "moe_k", "moe_topk", "moe_top_k")
# ---- tables ----

OF_RUNS = ("tokens", "keep", "mtp", "error", "longest")  # lines that `like` leaves out


def change(config, path, value):
    """Sets a value, JSON, or takes it away."""
    *path, last = path.split(".")
    for part in path:
        config = config[int(part) if isinstance(config, list) else part]
    if value is None:
        del config[last]
    else:
        config[int(last) if isinstance(config, list) else last] = json.loads(value)


class Table:
    """What Python needs of a table; the lines key, array, gguf and part are for C."""

    def __init__(self, family):
        self.names, self.tensors, self.errors, self.keep, self.tokens = {}, [], [], [], 0
        self.draws, self.longest, self.changes, like = "", LONGEST, [], family
        for line in (DATA / family / "model").read_text().splitlines():
            like = line.split()[1] if line.startswith("like ") else like
        self.is_second = like != family  # and run in float32 only
        self.read(DATA / family / "model")
        self.config = json.loads((DATA / like / "config.json").read_text())
        for path, value in self.changes:
            change(self.config, path, value)
        inner = self.config.get("ffn_config", {})  # of DBRX
        self.top_k = next((given[key] for given in (self.config, inner) for key in TOP_K if given.get(key)), 0)
        if isinstance(self.top_k, list):
            self.top_k = self.top_k[0]

    def read(self, path, of_other=False):
        for line in path.read_text().splitlines():
            words = line.split()
            if not words or words[0].startswith("#") or (of_other and words[0] in OF_RUNS):
                continue
            if words[0] == "include":
                self.read(DATA / words[1], of_other)
            elif words[0] == "like":
                self.read(DATA / words[1] / "model", True)
            elif words[0] in ("set", "unset"):
                self.changes.append((words[1], words[2] if words[0] == "set" else None))
            elif words[0] == "let":
                self.names.setdefault(words[1], words[2])
            elif words[0] == "tensor":
                self.tensors.append(words[1:])
            elif words[0] == "error":
                self.errors.append(line.split(maxsplit=4)[1:])
            elif words[0] == "tokens":
                self.tokens = int(words[1])
                self.draws = words[2] if len(words) > 2 else ""
            elif words[0] == "keep":
                self.keep = [int(word) for word in words[1:]]
            elif words[0] == "longest":
                self.longest = int(words[1])

    def look_up(self, name, known):
        if name in known:
            return known[name]
        if name in self.names:
            return self.evaluate(self.names[name], known)
        value = self.config
        for part in name.split("."):
            if isinstance(value, list):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return 0 if value is None else value

    def evaluate(self, text, known=None):
        """Sums, products and comparisons of numbers, 'texts' and names of the configuration."""
        known = known or {}
        text = self.substitute(text, known)
        tokens = re.findall(r"'[^']*'|[0-9.]+(?:e-?[0-9]+)?|[A-Za-z_][\w.]*|[=<>]=|[-+*/%<>()]", text)
        code = "".join(repr(self.look_up(t, known)) if re.match("[A-Za-z_]", t) else "//" if t == "/" else t
                       for t in tokens)
        return eval(code, {"__builtins__": {}})  # of a table of this tree

    def substitute(self, text, known):
        return re.sub(r"\{([^}]*)\}", lambda m: str(int(self.evaluate(m[1], known))), text)

    def expand(self):
        """(name, shape, mean, deviation, kind of numbers) of every tensor."""
        for name, shape, scale, *rest in self.tensors:
            condition = rest[rest.index("if") + 1] if "if" in rest else "1"
            mean, deviation = (float(word) for word in scale.split(","))
            for layer in range(self.evaluate("LAYERS") if "{l" in name else 1):
                if not self.evaluate(condition, {"l": layer}):
                    continue
                for expert in range(self.evaluate("EXPERTS") if "{e}" in name else 1):
                    known = {"l": layer, "e": expert}
                    dims = [int(self.evaluate(word, known)) for word in shape.split(",")]
                    kind = next((word for word in ("f32", "u8") if word in rest), "bf16")
                    yield self.substitute(name, known), dims, mean, deviation, kind


# ---- models ----

def unpack_mxfp4(tensors, config):
    """Experts in MXFP4 become those in bfloat16 that transformers would compute with where it has no kernels."""
    for name in [name for name in tensors if name.endswith("_blocks")]:
        plain = name.removesuffix("_blocks")
        tensors[plain] = convert_moe_packed_tensors(tensors.pop(name), tensors.pop(plain + "_scales")).contiguous()
    return {key: value for key, value in config.items() if key != "quantization_config"}


# Classes that transformers has, or whose files it can read, only as the language model of one that sees images; what
# that puts before names of tensors.
WRAPPED = {"Step3p5ForCausalLM": ("Step3p7ForConditionalGeneration", "step3p7", ""),
           "MiniMaxM3VLForCausalLM": ("MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl", "language_model.")}
IMAGES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 56}


def wrap(config, tensors):
    name, kind, begin = WRAPPED[config["architectures"][0]]
    whole = {"architectures": [name], "model_type": kind, "text_config": config, "vision_config": IMAGES,
             "tie_word_embeddings": False}
    return whole, {begin + key: tensor for key, tensor in tensors.items()}


def write_model(folder, table, config, fill=None, swap=None):
    tensors = {}
    for name, dims, mean, deviation, kind in table.expand():
        source = name
        for this, other in (swap, swap[::-1]) if swap else ():
            if this in name:
                source = name.replace(this, other)
        draw_numbers = whole_numbers if kind == "u8" else numbers
        values = draw_numbers(source, int(np.prod(dims)), mean, deviation)
        if fill and fill[0] in name:
            values[:] = fill[1]
        tensor = torch.from_numpy(values.reshape(dims).copy())
        tensors[name] = tensor.to({"f32": torch.float32, "u8": torch.uint8, "bf16": torch.bfloat16}[kind])
    save(folder, tensors, unpack_mxfp4(tensors, config))


def save(folder, tensors, config):
    if config["architectures"][0] in WRAPPED:
        config, tensors = wrap(config, tensors)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make_longcat_loadable():
    """transformers makes room for gates of experts that have no weights, so that published files do not fit."""
    module = transformers.models.longcat_flash.modeling_longcat_flash
    original = module.LongcatFlashExperts.__init__

    def init(self, config):
        original(self, config)
        self.gate_up_proj = torch.nn.Parameter(self.gate_up_proj[:self.num_routed_experts])
    module.LongcatFlashExperts.__init__ = init


def open_model(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    by_type = transformers.AutoModelForCausalLM  # has other classes for a few
    model, info = getattr(transformers, config.architectures[0], by_type).from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    beyond = re.compile(r"model\.layers\.(\d+)\.")  # what predicts further tokens, and transformers leaves out
    n_layers = config.get_text_config().num_hidden_layers
    info["unexpected_keys"] = [key for key in info["unexpected_keys"]
                               if not ((match := beyond.match(key)) and int(match[1]) >= n_layers)]
    images = re.compile(r"model\.(vision_(model|tower)|multi_modal_projector)\.")
    info["missing_keys"] = [key for key in info["missing_keys"] if not images.match(key)]
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(kind):
            sys.exit(f"{config.architectures[0]}: {kind}: {sorted(info[kind])[:8]}")
    return model.eval()


def drawn(table, position, times):
    """Ids for a position: what is drawn for it, and after so many further times."""
    drawn = draw("tokens", table.tokens * (max(times) + 1)) % np.uint64(table.config["vocab_size"])
    return drawn.astype(np.int64)[position + table.tokens * np.array(times)]


def ids(table):
    return drawn(table, np.arange(table.tokens), [DIGITS.index(digit) for digit in table.draws.ljust(table.tokens, "0")])


# ---- routers that rounding cannot change ----

def layers_of(model):
    if hasattr(model, "transformer"):
        return model.transformer.blocks
    return getattr(model.model, "language_model", model.model).layers


def is_router(module):
    return re.search("Router|Gate$", type(module).__name__) is not None


class Routers:
    """While entered, records what each router of the model is given."""

    def __init__(self, model):
        self.modules = [(name, module) for name, module in model.named_modules() if is_router(module)]
        for _, module in self.modules:
            if type(module).__name__ == "DbrxRouter":  # which does not choose
                module.top_k = model.config.ffn_config.moe_top_k
        self.parts = model.config.get_text_config().num_hidden_layers // len(layers_of(model))  # LongCat's layers are two each
        self.inputs = {}

    def __enter__(self):
        self.hooks = [module.register_forward_hook(lambda _, args, output, name=name: self.inputs.update(
            {name: (args[0].reshape(-1, args[0].shape[-1]).clone(), *args[1:])})) for name, module in self.modules]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def fickle(self, unit):
        """The positions at which some router chooses other experts if its input has an error of MARGIN times what
        rounding leaves in it: the k-th and the (k+1)-th expert, or group, are too close. 16 random directions of that
        length stand for all: the largest shift of a difference of two logits among them is above the rms shift."""
        close = set()
        for name, module in self.modules:
            hidden, *rest = self.inputs[name]
            layer = int(re.search(r"(?:layers|blocks)\.(\d+)\.", name)[1])
            size = MARGIN * unit * (ROUNDINGS * self.parts * layer + ROUNDINGS / 2) ** 0.5 / hidden.shape[-1] ** 0.5
            generator = torch.Generator().manual_seed(layer)
            chosen = self.choose(module, hidden, *rest)
            for _ in range(16):
                noise = torch.randn(hidden.shape, generator=generator, dtype=hidden.dtype)
                moved = self.choose(module, hidden + size * hidden.norm(dim=-1, keepdim=True) * noise, *rest)
                close.update((moved != chosen).any(-1).nonzero().flatten().tolist())
        return sorted(close)

    @staticmethod
    def choose(module, *args):
        hidden, *rest = args
        if type(module).__name__ == "AfmoeTokenChoiceRouter":  # which wants sequences
            hidden = hidden[None]
        with torch.no_grad():
            if type(module).__name__ == "DbrxRouter":
                return module.forward(hidden).topk(module.top_k).indices.sort(-1).values
            if type(module).__name__ == "Llama4Router":  # whose scores are 0 but for those chosen
                return module.forward(hidden)[0].topk(module.top_k).indices.sort(-1).values
            return next(out for out in module.forward(hidden, *rest) if not out.is_floating_point()).sort(-1).values


def is_fickle(model, table):
    """Is a router fickle at any of the table's tokens?"""
    with Routers(model) as routers:
        run(model, table)
    return bool(routers.fickle(BFLOAT16))


def settle(model, table):
    """Draws each token again until no router is fickle at it. Whether any had to be. Later ones change nothing before."""
    if not table.top_k or not is_fickle(model, table):
        return False
    times, tokens, at_once = [], np.empty(0, np.int64), 6
    for position in range(table.tokens):
        for first in range(0, len(DIGITS), at_once):
            tried = drawn(table, position, range(first, first + at_once))
            texts = np.concatenate((np.tile(tokens, (at_once, 1)), tried[:, None]), 1)
            with Routers(model) as routers, torch.no_grad():
                model(torch.from_numpy(texts), use_cache=False)
            close = {place // (position + 1) for place in routers.fickle(BFLOAT16) if (place + 1) % (position + 1) == 0}
            settled = next((i for i in range(at_once) if i not in close), None)
            if settled is not None:
                break
        else:
            sys.exit(f"no token at position {position} keeps routers from choosing between experts that are too close")
        times.append(first + settled)
        tokens = texts[settled]
    before, table.draws = table.draws, "".join(DIGITS[n] for n in times).rstrip("0")
    return table.draws != before.rstrip("0")


def run_ids(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens)[None], use_cache=False).logits[0].double().numpy()


def run(model, table):
    return run_ids(model, ids(table))


def compute(table, config=None, fill=None, swap=None, patch=None):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder, table, config or table.config, fill, swap)
        model = open_model(folder)
    with patches.applied(patch, model), Routers(model) as routers:
        logits = run(model, table)
        if close := routers.fickle(FLOAT32):
            sys.exit(f"rounding to float32 changes which experts are chosen for tokens {close}")
    return logits


def compute_error(table, kind, what, value):
    if kind == "patch":
        return compute(table, patch=what)
    if kind == "fill":
        return compute(table, fill=(what, float(value)))
    if kind == "swap":
        return compute(table, swap=(what, value))
    config = copy.deepcopy(table.config)
    change(config, what, value)
    return compute(table, config=config)


# ---- whether the weights are worth a test ----

def check_blocks(table):
    """Each block changes the residual by a tenth; the first expert of a token has more than the second."""
    with tempfile.TemporaryDirectory() as name:
        write_model(pathlib.Path(name), table, table.config)
        model = open_model(pathlib.Path(name))
    residual, changes, shares = [None], {}, []

    def before(module, args, kwargs):
        residual[0] = (args[0] if args else kwargs["hidden_states"]).clone()

    def after(label):
        def hook(module, args, output):
            out = output[0] if isinstance(output, tuple) else output
            out = out.reshape(residual[0].shape)
            changes.setdefault(label, []).append(float(out.norm() / residual[0].norm()))
            residual[0] = residual[0] + out
        return hook

    def routed(module, args, output):
        weights = next((x for x in output if x.is_floating_point() and x.shape[-1] == table.top_k), None)
        shares.append(float((weights.max(-1).values / weights.sum(-1)).mean()) if weights is not None else 0)

    for module in model.modules():
        # Phi's two experts have a softmax each, whose first weights are alike; DBRX's router gives logits.
        if is_router(module) and not hasattr(module, "router_jitter_noise") and not hasattr(module, "moe_jitter_eps"):
            module.register_forward_hook(routed)
    for number, layer in enumerate(layers_of(model)):
        layer.register_forward_pre_hook(before, with_kwargs=True)
        children = {}
        for child, module in layer.named_children():
            is_list = isinstance(module, torch.nn.ModuleList) or child == "norm_attn_norm"
            inner = module.named_children() if is_list else []
            children |= {f"{child}.{name}": m for name, m in inner} if is_list else {child: module}
        # Norms behind blocks say what these add.
        behind = {"post_attention_layernorm", "post_self_attn_layernorm", "post_feedforward_layernorm",
                  "post_mlp_layernorm"} & children.keys()
        has_behind = behind & {"post_feedforward_layernorm", "post_mlp_layernorm"}
        for child, module in children.items():
            if child in behind if has_behind else not re.search(r"layernorm|norm_\d$", child):
                module.register_forward_hook(after(f"{number}.{child}"))
    run(model, table)
    for label, (change,) in changes.items():
        print(f"    {label}: {change:.3f}")
        if change < 0.1:
            sys.exit(f"layer {label} changes the residual by {change:.3f}, less than a tenth")
    print(f"    share of a token's first expert, of {table.top_k}:", *(f"{share:.2f}" for share in shares))
    if table.top_k > 1 and any(share < 1.2 / table.top_k for share in shares):
        sys.exit("the experts of a token count alike")


def distance(got, wanted):
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def make(family):
    table = Table(family)
    print(family)
    with tempfile.TemporaryDirectory() as name:
        write_model(pathlib.Path(name), table, table.config)
        if not table.is_second and settle(open_model(pathlib.Path(name)), table):
            sys.exit(f"{family}: rounding can change which experts are chosen; its table needs\n"
                     f"tokens {table.tokens} {table.draws}")
    if not table.is_second:
        check_blocks(table)
    logits = compute(table)
    last = table.keep[-1]
    rows = [project(logits[position], position) for position in table.keep]
    rows.append(project(logits[last, :ERROR_LOGITS], last))
    for name, kind, what, *value in table.errors:
        wrong = compute_error(table, kind, what, value[0] if value else None)[last, :ERROR_LOGITS]
        far = distance(wrong, logits[last, :ERROR_LOGITS])
        print(f"    {name}: {far:.4f}")
        if not far > 40 * TOLERANCE:
            sys.exit(f"{family}: {name} changes the logits by {far}, at most 40 tolerances")
        rows.append(project(wrong, last))
    write(DATA / family / "expected.f32", np.concatenate(rows + [make_long(table)]))


# ---- longer runs ----

def choose_greedily(model, prompt):
    """40 tokens behind a prompt, each the best but for the last ones, as such models repeat themselves; None where two
    that come near are too alike for float32."""
    tokens = prompt
    for _ in range(GREEDY):
        row = run_ids(model, tokens)[-1]
        row[tokens[-WITHOUT:]] = -np.inf
        best, next_best = np.argsort(row)[:-3:-1]
        if row[best] - row[next_best] < 20 * TOLERANCE * np.std(row[np.isfinite(row)]):
            return None
        tokens = np.append(tokens, best)
    with Routers(model) as routers:
        run_ids(model, tokens)
        return None if routers.fickle(FLOAT32) else tokens[-GREEDY:]


def make_long(table):
    with tempfile.TemporaryDirectory() as name:
        write_model(pathlib.Path(name), table, table.config)
        model = open_model(pathlib.Path(name))
    for seed in range(100):
        tokens = (draw(f"tokens-{seed}", table.longest) % np.uint64(table.config["vocab_size"])).astype(np.int64)
        with Routers(model) as routers:
            logits = run_ids(model, tokens)
            if not routers.fickle(FLOAT32):
                break
    places = [place * table.longest // LONGEST - 1 for place in LONG_PLACES]
    for length in range(SHORTEST_PROMPT, table.longest - GREEDY):
        chosen = choose_greedily(model, tokens[:length])
        if chosen is not None:
            break
    print(f"    long runs: ids {seed}, a prompt of {length}, then", len(set(chosen)), "different ones")
    return np.concatenate([[seed], *(project(logits[place], place) for place in places), [length], chosen])


def make_long_again(family, compacts):
    table = Table(family)
    path = DATA / family / "expected.f32"
    recorded = np.fromfile(path, dtype="<f4")
    vocabulary, last, n_rows = table.config["vocab_size"], table.keep[-1], len(table.keep) + 1 + len(table.errors)
    print(family)
    if compacts and recorded.size == len(table.keep) * vocabulary + len(table.errors) * ERROR_LOGITS:
        logits = recorded[:len(table.keep) * vocabulary].reshape(-1, vocabulary)
        of_errors = recorded[logits.size:].reshape(-1, ERROR_LOGITS)
        recorded = np.concatenate([project(row, position) for row, position in zip(logits, table.keep)] +
                                  [project(row, last) for row in (logits[-1, :ERROR_LOGITS], *of_errors)])
    elif compacts:
        return
    write(path, np.concatenate([recorded[:n_rows * (1 + PROJECTIONS)], make_long(table)]))


def write(path, logits):
    """float32 with 16 bits of mantissa: right to 1e-5, a tenth of the tolerance, for the sake of the tarball."""
    bits = logits.astype("<f4").view("<u4").astype(np.uint64)
    ((bits + 0x7F + (bits >> 8 & 1)) & 0xFFFFFF00).astype("<u4").tofile(path)


def main():
    torch.set_num_threads(1)
    make_longcat_loadable()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    families = sys.argv[1 + len(options):] or sorted(str(path.parent.relative_to(DATA)) for pattern in ("*", "more/*")
                                                     for path in DATA.glob(pattern + "/model"))
    for family in families:
        if options:
            make_long_again(family, "--compact" in options)
        else:
            make(family)


if __name__ == "__main__":
    main()
