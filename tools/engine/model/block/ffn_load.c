/* SPDX-License-Identifier: Apache-2.0 */
/* ffn_load.c - loads the network of a layer, or its experts and what is shared by all tokens. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/ffn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A network that has gate and up in one matrix, or (`both` false) in two; the last name is that of down.
 * `width`: rows of the gate; 0: as many as the file has. */
static enum kt_status load_network(struct kt_model *m, const char names[3][KT_WEIGHT_NAME], bool both,
                                   uint64_t width, struct network *network, struct kt_error *error)
{
    struct kt_view view;
    uint64_t hidden = m->config.hidden_size;
    if (m->assumed && width == 0)
        return kt_engine_fail(error, KT_E_NOT_FOUND, "the width of %s is in the files of weights only",
                              names[0]);
    enum kt_status status = m->assumed ? kt_assume_numbers(m, both ? 2 * width : width, hidden, &view, error)
                                       : kt_checkpoint_weight(m->checkpoint, names[0], &view, NULL, error);
    if (status != KT_OK)
        return status;
    uint64_t rows = both ? view.rows / 2 : view.rows;
    if ((width > 0 && rows != width) || (both && view.rows % 2 != 0))
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has %" PRIu64 " rows, but the configuration has %" PRIu64, names[0],
                              view.rows, both ? 2 * width : width);
    network->width = rows;
    kt_model_need(m, KT_BUFFER_GATE, view.rows);
    kt_model_need(m, KT_BUFFER_UP, rows);
    status = kt_load_linear(m, names[0], view.rows, hidden, both ? &network->both : &network->gate, error);
    if (status == KT_OK && !both)
        status = kt_load_linear(m, names[1], rows, hidden, &network->up, error);
    return status == KT_OK ? kt_load_linear(m, names[2], hidden, rows, &network->down, error) : status;
}

/* A network whose GGUF names end in `suffix`, and whose names in config.json begin with `json`. */
static enum kt_status load_named(struct kt_model *m, uint32_t layer, const char *suffix, const char *json,
                                 uint64_t width, struct network *network, struct kt_error *error)
{
    const struct kt_family_names *own = &m->config.family->names;
    bool both =
        m->config.is_gguf ? (*suffix ? own->gguf_shared_both : own->gguf_both) : own->json_both != NULL;
    const struct kt_name parts[] = {{both ? "up" : "gate", own->json_both ? own->json_both : "gate_proj"},
                                    {"up", "up_proj"},
                                    {"down", own->json_down ? own->json_down : "down_proj"}};
    char names[3][KT_WEIGHT_NAME];
    for (int i = 0; i < 3; i++) {
        char gguf[40], other[80];
        snprintf(gguf, sizeof(gguf), "ffn_%s%s", parts[i].gguf, suffix);
        snprintf(other, sizeof(other), "%s.%s", json, parts[i].json);
        kt_weight_name(m, layer, gguf, other, names[i]);
    }
    return load_network(m, names, both, width, network, error);
}

static enum kt_status load_router(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                  struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    const struct kt_family_names *names = &c->family->names;
    const char *router = names->json_router ? names->json_router : "mlp.gate";
    const float *bias = NULL;
    struct kt_view view;
    char name[KT_WEIGHT_NAME];
    /* Its exact name, as the scale beside it may be that of its input. */
    kt_weight_name(m, layer, "ffn_gate_inp", router, name);
    if (c->is_gguf && c->router.scales_input)
        strcat(name, ".weight");
    enum kt_status status = kt_load_exact(m, name, router_size(c), c->hidden_size, &ffn->router, error);
    if (status == KT_OK && !m->assumed)
        status = kt_checkpoint_weight(m->checkpoint, name, &view, &bias, error);
    if (status == KT_OK && bias) {
        snprintf(name + strlen(name), 6, ".bias");
        status = kt_load_numbers(m, name, 1, router_size(c), &ffn->router_bias, error);
    }
    if (status == KT_OK && c->router.has_expert_scales)
        status = kt_load_vector(m, layer, NULL, "router.per_expert_scale", 1, c->n_experts,
                                &ffn->expert_scales, error);
    if (status == KT_OK && c->router.has_correction)
        status = kt_load_vector(m, layer, "exp_probs_b.bias",
                                names->json_correction ? names->json_correction
                                                       : "mlp.gate.e_score_correction_bias",
                                1, router_size(c), &ffn->correction, error);
    return status;
}

static enum kt_status load_shared(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                  struct kt_error *error)
{
    const struct kt_family_names *names = &m->config.family->names;
    enum kt_status status =
        load_named(m, layer, "_shexp", names->json_shared ? names->json_shared : "mlp.shared_experts",
                   m->config.shared_width, &ffn->dense, error);
    if (status == KT_OK && m->config.gates_shared)
        status = kt_load_vector(m, layer, "ffn_gate_inp_shexp",
                                names->json_shared_gate ? names->json_shared_gate : "mlp.shared_expert_gate",
                                1, m->config.hidden_size, &ffn->shared_gate, error);
    return status;
}

static enum kt_status check_biases(const struct kt_model *m, uint32_t layer, const struct kt_ffn *ffn,
                                   struct kt_error *error)
{
    static const char *const projections[] = {"gate", "up", "down"};
    struct kt_moe_info info;
    enum kt_status status =
        kt_checkpoint_moe(m->expert_source, kt_file_layer(&m->config, layer), &info, error);
    if (status == KT_OK && !ffn->router_bias)
        return kt_engine_fail(error, KT_E_FORMAT, "layer %u: the router has no bias, which %s models have",
                              layer, m->config.family->name);
    for (uint32_t p = 0; p < 3 && status == KT_OK; p++)
        if (!(info.has_bias >> p & 1))
            status = kt_engine_fail(error, KT_E_FORMAT,
                                    "layer %u: experts have no bias of %s, which %s models have", layer,
                                    projections[p], m->config.family->name);
    return status;
}

static enum kt_status load_layer_network(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                         struct kt_error *error)
{
    const char *name = m->config.family->names.json_network;
    return load_named(m, layer, "", name ? name : "mlp", m->config.dense_width, &ffn->dense, error);
}

/* Those of experts and of what is beside them. */
static enum kt_status load_norms(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                 struct kt_error *error)
{
    const struct {
        enum kt_norm_place place;
        struct kt_hidden_norm *norm;
    } all[] = {{KT_NORM_AFTER_DENSE, &ffn->dense_after},
               {KT_NORM_BEFORE_EXPERTS, &ffn->experts_before},
               {KT_NORM_AFTER_EXPERTS, &ffn->experts_after},
               {KT_NORM_ROUTER, &ffn->router_before}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && status == KT_OK; i++)
        status = kt_load_layer_norm(m, layer, all[i].place, all[i].norm, error);
    if (m->config.router.scales_input)
        ffn->router_before.scale = (float)(1 / sqrt((double)m->config.hidden_size));
    if (ffn->experts_after.is_there || m->config.layers[layer].postpones)
        kt_model_need(m, KT_BUFFER_EXPERTS, m->config.hidden_size);
    return status;
}

static enum kt_status load_experts(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                   struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    enum kt_status status = load_router(m, layer, ffn, error);
    if (status == KT_OK)
        status = load_norms(m, layer, ffn, error);
    if (status == KT_OK && c->has_shared)
        status = load_shared(m, layer, ffn, error);
    else if (status == KT_OK && c->has_dense_beside)
        status = load_layer_network(m, layer, ffn, error);
    if (status == KT_OK && m->assumed)
        status = kt_assume_params(m, &params, error);
    else if (status == KT_OK)
        status = kt_checkpoint_layer_params(m->expert_source, kt_file_layer(c, layer), &params, error);
    if (status != KT_OK)
        return status;
    if (params.n_experts != c->n_experts || params.hidden_size != c->hidden_size)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "layer %u has %u experts of a hidden size of %" PRIu64
                              ", the configuration says %u and %" PRIu64,
                              layer, params.n_experts, params.hidden_size, c->n_experts, c->hidden_size);
    status = c->has_expert_biases && !m->assumed ? check_biases(m, layer, ffn, error) : KT_OK;
    if (status != KT_OK)
        return status;
    if (c->gating == KT_GATING_GELU)
        params.activation = KT_ACTIVATION_GELU_TANH;
    kt_model_need(m, KT_BUFFER_LOGITS, router_size(c));
    kt_model_need(m, KT_BUFFER_WEIGHTS, c->top_k);
    kt_model_need(m, KT_BUFFER_SELF, c->n_identities > 0);
    return kt_load_experts(m, kt_file_layer(c, layer), &params, &ffn->experts, error);
}

/* A dense layer's experts would be in nobody's sums. */
static enum kt_status load_dense(struct kt_model *m, uint32_t layer, struct kt_ffn *ffn,
                                 struct kt_error *error)
{
    struct kt_moe_info info;
    uint64_t number = kt_file_layer(&m->config, layer), parts = m->config.family->parts;
    bool is_first = parts == 0 || layer % parts == 0;
    if (m->config.n_experts > 0 && m->checkpoint && is_first &&
        kt_checkpoint_moe(m->checkpoint, number, &info, NULL) == KT_OK)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "layer %u has %u experts, but is dense by the configuration", layer,
                              info.n_experts);
    return load_layer_network(m, layer, ffn, error);
}

/* The g whose silu is that; above 0, silu grows. */
static double invert_silu(double silu)
{
    double low = 0, high = silu + 1; /* g / (1 + exp(-g)) is more than g - 1 */
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        if (middle / (1 + exp(-middle)) < silu)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static struct clamp make_clamp(const struct kt_clamp_config *c)
{
    struct clamp clamp = {.gate_most = (float)c->limit, .up_most = (float)c->limit};
    if (c->clamp == KT_CLAMP_GATED) {
        clamp.gate_most = (float)invert_silu(c->limit);
        clamp.scale = 1;
    } else if (c->clamp == KT_CLAMP_OAI) { /* alpha g sigmoid(alpha g) is what silu makes of alpha g */
        clamp.shift = 1;
        clamp.scale = (float)c->alpha;
    }
    return clamp;
}

enum kt_status kt_ffn_load(struct kt_model *m, uint32_t layer, struct kt_block *block, struct kt_error *error)
{
    block->ffn = kt_model_alloc(m, 1, sizeof(*block->ffn));
    if (!block->ffn)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    block->ffn->clamp = make_clamp(&m->config.layers[layer].clamp);
    return m->config.layers[layer].dense ? load_dense(m, layer, block->ffn, error)
                                         : load_experts(m, layer, block->ffn, error);
}
