# SPDX-License-Identifier: Apache-2.0
"""Deliberate errors that neither a configuration nor weights can express: what make_expected.py's `patch` names.

A patch is a function of the model's module of transformers; it gives {name: replacement} for that module; the name
may be that of a method, Class.method.
"""
import contextlib
import itertools
import sys

import torch


def rotate_neighbors(module):
    """Rotated pairs are neighbors instead of half a head apart."""
    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        half = cos.shape[-1] // 2
        cos = cos[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim)
        sin = sin[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim)
        size = cos.shape[-1]

        def turn(x):
            part, rest = x[..., :size], x[..., size:]
            swapped = torch.stack((-part[..., 1::2], part[..., 0::2]), -1).flatten(-2)
            return torch.cat((part * cos + swapped * sin, rest), -1)
        return turn(q), turn(k)
    return {"apply_rotary_pos_emb": rotate}


def rotate_apart(module):
    """Rotated pairs are half a head apart instead of neighbors, the tables being the same."""
    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        pairs = rotate_neighbors(module)["apply_rotary_pos_emb"]

        def gather(x):
            return torch.stack(x.chunk(2, -1), -1).flatten(-2)

        def part(x):
            return torch.cat((x[..., 0::2], x[..., 1::2]), -1)
        return tuple(part(x) for x in pairs(gather(q), gather(k), cos, sin, unsqueeze_dim))
    return {"apply_rotary_pos_emb": rotate}


def norm_before_rope(module):
    """Heads are normed before they are rotated, not after."""
    name, rotate, known = find_class(module, "RMSNorm"), module.apply_rotary_pos_emb, {}
    norm = getattr(module, name).forward

    def keep(q, k, cos, sin, **rest):
        known.update(cos=cos, sin=sin)
        return q, k

    def forward(self, states):
        normed = norm(self, states)
        return rotate(normed, normed, known["cos"], known["sin"])[0] if states.dim() == 4 else normed
    return {"apply_rotary_pos_emb": keep, name + ".forward": forward}


def rotate_all_layers(module):
    """Layers that see all tokens are rotated, too."""
    return {find_class(module, "Attention") + ".is_sliding": property(lambda self: True, lambda self, value: None)}


def rotate_by_one_rope(module):
    """Layers that slide are rotated by the rope of those that do not."""
    name = find_class(module, "RotaryEmbedding")
    original = getattr(module, name).forward

    def forward(self, x, position_ids, layer_type=None):
        return original(self, x, position_ids, "full_attention")
    return {name + ".forward": forward}


def scale_all_ropes(module):
    """The rope of layers that slide is scaled as that of the others."""
    name = find_class(module, "RotaryEmbedding")
    original = getattr(module, name).forward

    def forward(self, x, position_ids, layer_type=None):
        ropes = self.config.rope_parameters
        if layer_type == "sliding_attention" and ropes[layer_type]["rope_type"] == "default":
            ropes[layer_type] = ropes["full_attention"] | {
                key: value for key, value in ropes[layer_type].items() if key != "rope_type"}
            scaled = module.ROPE_INIT_FUNCTIONS[ropes[layer_type]["rope_type"]](self.config, None, layer_type=layer_type)
            self.sliding_attention_inv_freq.copy_(scaled[0])
        return original(self, x, position_ids, layer_type)
    return {name + ".forward": forward}


def clamp_before_silu(module):
    """Limits are of gates before silu, as other models have them."""
    def experts(self, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        return self.act_fn(gate.clamp(max=self.limit)) * up.clamp(min=-self.limit, max=self.limit)

    def network(self, x):
        gate = self.act_fn(self.gate_proj(x).clamp(max=self.limit))
        return self.down_proj(gate * self.up_proj(x).clamp(min=-self.limit, max=self.limit))
    return {"Step3p7Experts._apply_gate": experts, "Step3p7MLP.forward": network}


def leave_out_one(module):
    """Gates multiply u instead of u + 1."""
    def gated(self, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        gate = gate.clamp(max=self.swiglu_limit)
        return up.clamp(min=-self.swiglu_limit, max=self.swiglu_limit) * gate * (gate * self.swiglu_alpha).sigmoid()
    return {"MiniMaxM3VLExperts._apply_gate": gated,
            "MiniMaxM3VLDenseMLP.forward": lambda self, x: self.down_proj(gated(self, self.gate_up_proj(x)))}


def gate_by_sigmoids(module):
    return {"F": Changed(torch.nn.functional, softplus=torch.sigmoid)}


def grow_from_one(module):
    """The first token is at position 1."""
    original = module.get_llama_4_attn_scale
    return {"get_llama_4_attn_scale": lambda positions, *rest: original(positions + 1, *rest)}


def share_by_remainder(module):
    """Head h has keys of head h mod n instead of h / (heads of a group)."""
    def repeat(states, n):
        return states.repeat(1, n, 1, 1)
    return {"repeat_kv": repeat}


def rotate_halves(module):
    """Rotated pairs are half a head apart instead of neighbors (DeepSeek-V2's complex numbers)."""
    def rotate(xq, xk, freqs_cis):
        def turn(x):
            pairs = torch.view_as_complex(torch.stack(x.chunk(2, -1), -1).contiguous())
            return torch.cat(torch.view_as_real(pairs * freqs_cis.unsqueeze(1)).unbind(-1), -1).type_as(x)
        return turn(xq), turn(xk)
    return {"apply_rotary_emb": rotate}


def router_of(module):
    return next(name for name in vars(module) if name.endswith("TopkRouter"))


def route(scores, choice, group_scores, router):
    """The scores of what is chosen; group_scores: of groups of experts, from their `choice`."""
    groups = router.num_group or 1
    parts = choice.view(len(choice), groups, -1)
    best = group_scores(parts).topk(router.topk_group or 1, -1).indices
    kept = torch.zeros(parts.shape[:2], dtype=torch.bool).scatter(1, best, True)
    chosen = parts.masked_fill(~kept[..., None], float("-inf")).flatten(1).topk(router.top_k, -1).indices
    weights = scores.gather(1, chosen)
    if getattr(router, "norm_topk_prob", False):
        weights = weights / weights.sum(-1, keepdim=True)
    return weights * router.routed_scaling_factor, chosen


def best(parts):
    return parts.max(-1).values


def best_two(parts):
    return parts.topk(2, -1).values.sum(-1)


def logits_of(router, hidden):
    return torch.nn.functional.linear(hidden.view(-1, router.hidden_dim).to(router.weight.dtype), router.weight)


def weigh_by_choice(module):
    """Weights have the correction that experts are chosen by."""
    def forward(self, hidden):
        logits = logits_of(self, hidden)
        choice = logits.sigmoid() + self.e_score_correction_bias
        return logits, *route(choice, choice, best_two, self)
    return {router_of(module) + ".forward": forward}


def weigh_softmax_by_choice(module):
    """Weights have the correction that experts are chosen by."""
    def forward(self, hidden):
        logits = torch.nn.functional.linear(hidden, self.weight.to(hidden.dtype))
        weights, chosen = self.moe_statics(logits.softmax(-1)).topk(self.top_k, -1)
        return logits, weights / weights.sum(-1, keepdim=True), chosen
    return {find_class(module, "TopKRouter") + ".forward": forward}


def score_groups_by_best(module):
    """A group of V3 is worth its best expert instead of its best two."""
    def forward(self, hidden):
        logits = logits_of(self, hidden)
        scores = logits.sigmoid()
        return logits, *route(scores, scores + self.e_score_correction_bias, best, self)
    return {router_of(module) + ".forward": forward}


def score_groups_by_best_two(module):
    """A group of V2 is worth its best two experts instead of its best."""
    def forward(self, hidden):
        logits = logits_of(self, hidden)
        scores = logits.softmax(-1)
        return logits, *route(scores, scores, best_two, self)
    return {router_of(module) + ".forward": forward}


def find_class(module, *endings):
    return next(name for name in vars(module) if name.endswith(endings) and "Vision" not in name)


def router_that(weigh):
    """A router's forward: weigh(logits, correction) gives what experts are chosen by and what they weigh."""
    def forward(self, states, correction=None):
        correction = self.e_score_correction_bias if correction is None else correction
        logits = torch.nn.functional.linear(states.reshape(-1, states.shape[-1]).to(self.weight.dtype), self.weight)
        choice, weights = weigh(logits, correction)
        ids = choice.topk(self.top_k, dim=-1)[1]
        weights = weights.gather(1, ids)
        weights = weights / weights.sum(-1, keepdim=True) * getattr(self, "routed_scaling_factor", 1)
        return logits, weights, ids
    return forward


def correction_in_weights(module):
    """What corrects the choice of experts is in their weights, too."""
    def weigh(logits, correction):
        return (logits.sigmoid() + correction,) * 2
    return {find_class(module, "TopkRouter", "TopKRouter") + ".forward": router_that(weigh)}


def softmax_scores(module):
    def weigh(logits, correction):
        return logits.softmax(-1) + correction, logits.softmax(-1)
    return {find_class(module, "TopkRouter", "TopKRouter") + ".forward": router_that(weigh)}


def softmax_over_all(module):
    """Weights of experts are those of all experts, not of the chosen ones."""
    def forward(self, states):
        logits = torch.nn.functional.linear(states, self.weight, getattr(self, "bias", None))
        weights, ids = logits.softmax(-1).topk(self.top_k, dim=-1)
        return logits, weights, ids
    return {find_class(module, "TopKRouter") + ".forward": forward}


def gates_first(module):
    """All columns of gate stand before those of up."""
    name = find_class(module, "Experts")
    original = getattr(module, name)._apply_gate

    def apply_gate(self, gate_up):
        return original(self, torch.stack(gate_up.chunk(2, dim=-1), -1).flatten(-2))
    return {name + "._apply_gate": apply_gate}


def norm_with(variance):
    def forward(self, states):
        return self.weight * states * torch.rsqrt(variance(self, states) + self.variance_epsilon)
    return forward


def norm_whole(module):
    """Heads of a query or a key are normed together instead of each by itself."""
    def variance(self, states):
        return states.pow(2).mean((-2, -1) if states.dim() == 4 else -1, keepdim=True)
    return {find_class(module, "RMSNorm") + ".forward": norm_with(variance)}


def norm_each(module, hidden_size=64, head_size=32):
    """Heads of a query or a key are normed each by itself instead of together."""
    def variance(self, states):
        if states.shape[-1] == hidden_size:
            return states.pow(2).mean(-1, keepdim=True)
        parts = states.pow(2).unflatten(-1, (-1, head_size))
        return parts.mean(-1, keepdim=True).expand_as(parts).flatten(-2)
    return {find_class(module, "RMSNorm") + ".forward": norm_with(variance)}


def norm_by_squares(module):
    """LayerNorm without its mean."""
    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) + self.bias
    return {"nn.LayerNorm.forward": forward}


def norm_dbrx_by_squares(module):
    """LayerNorm without its mean; it has no biases."""
    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
    return {"nn.LayerNorm.forward": forward}


def mix_all(module):
    """The two experts have the weights of a softmax over all."""
    def mix(scores, jitter_eps, training, top_k=2):
        return scores.softmax(-1).topk(top_k, -1)
    return {"sparsemixer": mix}


def embed_plainly(module):
    """Embeddings are not multiplied by the root of their size."""
    return {find_class(module, "ScaledWordEmbedding") + ".forward": torch.nn.Embedding.forward}


def route_normed(module):
    """The router reads what experts read, as other models' do."""
    name = find_class(module, "TextDecoderLayer")
    original = getattr(module, name).forward

    def forward(self, *args, **kwargs):
        inner = self.router.forward
        self.router.forward = lambda x: inner(self.pre_feedforward_layernorm_2(x))
        try:
            return original(self, *args, **kwargs)
        finally:
            del self.router.forward
    return {name + ".forward": forward}


def correct_afmoe_weights(module):
    """What corrects the choice of experts is in their weights, too."""
    def forward(self, states, correction):
        logits = self.gate(states.view(-1, states.shape[-1]))
        weights, ids = (logits.sigmoid() + correction).topk(self.top_k, dim=1)
        return logits, weights / weights.sum(-1, keepdim=True) * self.route_scale, ids
    return {find_class(module, "TokenChoiceRouter") + ".forward": forward}


def choose_by_sigmoids(module):
    """The correction is added to sigmoids instead of logits."""
    def forward(self, states):
        logits = torch.nn.functional.linear(states.reshape(-1, self.hidden_dim), self.weight)
        ids = (logits.sigmoid() + self.e_score_correction_bias).topk(self.top_k, dim=-1)[1]
        return logits, logits.gather(1, ids).sigmoid(), ids
    return {find_class(module, "TopKRouter") + ".forward": forward}


def rotate_cohere_halves(module):
    """Rotated pairs are half a head apart instead of neighbors; cosines stand in pairs."""
    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = (torch.cat((x[..., ::2],) * 2, -1).unsqueeze(unsqueeze_dim) for x in (cos, sin))

        def turn(x):
            first, second = x.chunk(2, -1)
            return x * cos + torch.cat((-second, first), -1) * sin
        return turn(q), turn(k)
    return {"apply_rotary_pos_emb": rotate}


def weigh_outputs(module):
    """Weights multiply what experts give instead of what they read."""
    def forward(self, states):
        states = states.reshape(-1, self.hidden_dim)
        scores, logits = self.router(states)
        out = self.experts(states.repeat(scores.shape[1], 1)) * scores.transpose(0, 1).reshape(-1, 1)
        return self.shared_expert(states) + out.reshape(scores.shape[1], *states.shape).sum(dim=0), logits
    return {"Llama4TextMoe.forward": forward}


def route_longcat(module, weigh):
    """The choice that weigh(probabilities, correction) gives, and its weights."""
    def forward(self, states):
        logits = torch.nn.functional.linear(states.reshape(-1, self.hidden_dim), self.classifier.weight)
        scores = logits.softmax(-1)
        ids = (scores + self.e_score_correction_bias).topk(self.top_k, dim=-1)[1]
        weights = weigh(scores, self.e_score_correction_bias, ids)
        return logits, weights * self.routed_scaling_factor, ids
    return {find_class(module, "TopkRouter") + ".forward": forward}


def weigh_longcat_by_choice(module):
    """Weights have the correction that experts are chosen by."""
    return route_longcat(module, lambda scores, correction, ids: (scores + correction).gather(1, ids))


def normalize_longcat(module):
    """Weights of a token sum up to the factor."""
    def weigh(scores, correction, ids):
        weights = scores.gather(1, ids)
        return weights / weights.sum(-1, keepdim=True)
    return route_longcat(module, weigh)


def leave_out_zeros(module):
    """Experts without weights give nothing instead of what they read."""
    original = module.LongcatFlashExperts.forward

    def forward(self, states, ids, weights):
        return original(self, states, ids, weights * (ids < self.num_routed_experts))
    return {"LongcatFlashExperts.forward": forward}


def add_experts_at_once(module):
    """What experts give is added with the first network, not behind the second one."""
    experts, network, kept = module.LongcatFlashMoE.forward, module.LongcatFlashMLP.forward, []

    def give_nothing(self, states):
        kept.append(experts(self, states))
        return torch.zeros_like(kept[0])

    def forward(self, states):
        return network(self, states) + (kept.pop() if kept else 0)
    return {"LongcatFlashMoE.forward": give_nothing, "LongcatFlashMLP.forward": forward}


def one(module, *names):
    return {f"LongcatFlashMLA.{name}": property(lambda self: 1.0, lambda self, value: None) for name in names}


def leave_out_query_scale(module):
    return one(module, "mla_scale_q_lora")


def leave_out_key_scale(module):
    return one(module, "mla_scale_kv_lora")


def rotate_longcat_apart(module):
    """Rotated pairs are half a head apart instead of neighbors."""
    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)

        def turn(x):
            first, second = x.chunk(2, -1)
            return x * cos + torch.cat((-second, first), -1) * sin
        return turn(q), turn(k)
    return {"apply_rotary_pos_emb_interleave": rotate}


def count_sums_from_zero(module):
    """Plain sums would give the same, as all that reads them norms them first; but their number counts."""
    original = module.depth_scaled_residual_add
    return {"depth_scaled_residual_add": lambda states, residual, n: original(states, residual, n - 1)}


def leave_out_growth(module):
    """Queries of layers without a rope stay as they are."""
    return {"compute_attention_scaling": lambda positions: torch.ones_like(positions).double()[:, None, :, None]}


class Changed:
    """A module but for some of its names."""

    def __init__(self, module, **names):
        self.__dict__.update(names, module=module)

    def __getattr__(self, name):
        return getattr(self.module, name)


def norm_plainly(module):
    """Norms multiply by w instead of by 1 + w."""
    def forward(self, x):
        return (self._norm(x.float()) * self.weight.float()).type_as(x)
    return {f"{name}.forward": forward for name in vars(module) if name.endswith("RMSNorm")}


def leave_out_attention_gate(module):
    return {"torch": Changed(torch, sigmoid=torch.ones_like)}


def leave_out_shared_gate(module):
    return {"F": Changed(torch.nn.functional, sigmoid=torch.ones_like)}


def change_rule(module, change):
    """The delta rule with other arguments."""
    original = module.torch_chunk_gated_delta_rule

    def rule(query, key, value, g, beta, **rest):
        return original(*change(query, key, value, g, beta), **rest)
    return {"torch_chunk_gated_delta_rule": rule}


def share_keys_by_remainder(module):
    """Value head h has key head h mod n instead of h / (heads of a group)."""
    def change(query, key, value, g, beta):
        n = value.shape[2] // query.shape[2]
        return query.repeat(1, 1, n, 1), key.repeat(1, 1, n, 1), value, g, beta
    return change_rule(module, change)


def leave_out_decay(module):
    return change_rule(module, lambda q, k, v, g, beta: (q, k, v, torch.zeros_like(g), beta))


def leave_out_lengths(module):
    """Queries are not made as long as 1; keys are, or the state would grow without bound."""
    original, calls = module.l2norm, itertools.count()
    return {"l2norm": lambda x, **rest: x if next(calls) % 2 == 0 else original(x, **rest)}


def change_convolution(module, change):
    original = module.causal_conv1d_fn

    def convolve(x, weight, bias=None, activation=None, **rest):
        weight, activation = change(weight, activation)
        return original(x, weight, bias, activation=activation, **rest)
    return {"causal_conv1d_fn": convolve}


def convolve_backwards(module):
    return change_convolution(module, lambda weight, activation: (weight.flip(-1), activation))


def convolve_plainly(module):
    return change_convolution(module, lambda weight, activation: (weight, None))


@contextlib.contextmanager
def applied(name, model):
    if not name:
        yield
        return
    module = sys.modules[type(model).__module__]
    kept = []
    for path, replacement in globals()[name](module).items():
        *owners, attribute = path.split(".")
        owner = module
        for name in owners:
            owner = getattr(owner, name)
        kept.append((owner, attribute, vars(owner).get(attribute)))
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in kept:
            if original is None:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)


# ---- indexers ----

def rotate_halves(q, k, cos, sin, unsqueeze_dim=1):
    """Pairs half a part apart, by tables whose halves are the same."""
    def turn(x):
        first, second = x.chunk(2, -1)
        return x * cos.unsqueeze(unsqueeze_dim) + torch.cat((-second, first), -1) * sin.unsqueeze(unsqueeze_dim)
    return turn(q), turn(k)


def indexer_that(module, rotate=None, at_end=False, norm=None, act=torch.relu, weigh=lambda weights: weights,
                 lift=lambda scores: scores, raw=False):
    """An indexer's forward that is right but for what is given."""
    name, known = find_class(module, "Indexer"), {}
    rms = find_class(module, "RMSNorm")
    original = getattr(module, rms).forward
    rotate = rotate or getattr(module, "apply_rotary_pos_emb", module.apply_rotary_pos_emb_interleave)

    def remember(self, states):
        known[states.shape[-1]] = states
        return original(self, states)

    def forward(self, hidden_states, q_resid, position_embeddings, attention_mask, position_ids, cache=None):
        cos, sin = position_embeddings
        size, rope = self.head_dim, self.qk_rope_head_dim
        q = self.wq_b(known[self.q_lora_rank] if raw else q_resid).unflatten(-1, (self.n_heads, size))
        k = self.wk(hidden_states)
        k = (norm(self.k_norm, k) if norm else self.k_norm(k)).unsqueeze(2)
        sizes = [size - rope, rope] if at_end else [rope, size - rope]
        (q0, q1), (k0, k1) = torch.split(q, sizes, -1), torch.split(k, sizes, -1)
        if at_end:
            q1, k1 = rotate(q1, k1, cos, sin, unsqueeze_dim=2)
        else:
            q0, k0 = rotate(q0, k0, cos, sin, unsqueeze_dim=2)
        q, k = torch.cat((q0, q1), -1), torch.cat((k0, k1), -1).squeeze(2)
        scores = act(torch.einsum("bshd,btd->bsht", q, k))
        scores = lift(torch.einsum("bsh,bsht->bst", weigh(self.weights_proj(hidden_states)), scores)) + attention_mask
        return scores.topk(min(self.index_topk, scores.shape[-1]), -1).indices.to(torch.int32)
    return {name + ".forward": forward, rms + ".forward": remember}


def index_by_neighbors(module):
    return indexer_that(module, rotate=module.apply_rotary_pos_emb_interleave)


def index_by_halves(module):
    return indexer_that(module, rotate=rotate_halves)


def index_rotated_at_the_end(module):
    return indexer_that(module, at_end=True)


def index_normed_by_squares(module):
    return indexer_that(module, norm=lambda norm, k: torch.nn.functional.rms_norm(k, k.shape[-1:], norm.weight, norm.eps)
                        + norm.bias)


def index_normed_by_the_models_epsilon(module):
    return indexer_that(module, norm=lambda norm, k: torch.nn.functional.layer_norm(k, k.shape[-1:], norm.weight,
                                                                                    norm.bias, 1e-5))


def index_without_relu(module):
    return indexer_that(module, act=lambda scores: scores)


def index_by_positive_weights(module):
    return indexer_that(module, weigh=torch.relu)


def index_of_raw_latent(module):
    """Its queries are made of the latent before its norm."""
    return indexer_that(module, raw=True)


def index_with_the_first(module):
    """The first row has the largest score."""
    return indexer_that(module, lift=lambda scores: scores + 1e20 * (torch.arange(scores.shape[-1]) == 0))


def share_nothing(module):
    """Layers that share a selection see all rows."""
    name = find_class(module, "Attention")
    original = getattr(module, name).forward

    def forward(self, hidden_states, *args, prev_topk_indices=None, **rest):
        n = hidden_states.shape[1]
        if self.indexer is None:
            prev_topk_indices = torch.arange(n).expand(hidden_states.shape[0], n, n)
        return original(self, hidden_states, *args, prev_topk_indices=prev_topk_indices, **rest)
    return {name + ".forward": forward}


def share_the_first(module):
    """Layers that share a selection have that of the first layer instead of the last that selects."""
    name, known = find_class(module, "Attention"), {}
    original = getattr(module, name).forward

    def forward(self, *args, prev_topk_indices=None, **rest):
        output = original(self, *args, prev_topk_indices=known.get("rows") if self.indexer is None else None, **rest)
        if self.layer_idx == 0:
            known["rows"] = output[2]
        return output
    return {name + ".forward": forward}
