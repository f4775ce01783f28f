/* SPDX-License-Identifier: Apache-2.0 */
/* ffn.c - what works on each token by itself: a dense network, or experts and what is shared by all tokens.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* down(f(gate) * up), f by the configuration's gating. */
struct network {
    struct kt_linear *gate, *up, *down; /* NULL: there is none */
    struct kt_linear *both;             /* gate and up in one, instead of them */
    uint64_t width;
};

/* What becomes of a gate and an up before the gating: scale min(gate, most), and (clamp(up) + shift) divided
 * by the scale. */
struct clamp {
    float gate_most, up_most, shift, scale; /* scale 0: nothing */
};

struct kt_ffn {
    struct network dense; /* the layer's, or the experts' shared one, or the one beside them */
    struct clamp clamp;   /* of its numbers */
    struct kt_hidden_norm dense_after, experts_before, experts_after, router_before;
    float *expert_scales;     /* [n_experts], or NULL */
    float *shared_gate;       /* [hidden_size], or NULL */
    struct kt_numbers router; /* [n_experts][hidden_size] */
    float *router_bias;       /* [n_experts], or NULL */
    float *correction;        /* [n_experts], or NULL */
    struct kt_layer *experts; /* NULL: a dense layer */
};

/* ---- loading ---- */

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

/* Experts that a router chooses from. */
static uint32_t router_size(const struct kt_engine_config *c)
{
    return c->n_experts + c->n_identities;
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

/* ---- running ---- */

static void clamp_row(const struct clamp *c, float *gate, float *up, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float u = up[i] > c->up_most ? c->up_most : up[i] < -c->up_most ? -c->up_most : up[i];
        gate[i] = (gate[i] > c->gate_most ? c->gate_most : gate[i]) * c->scale;
        up[i] = (u + c->shift) / c->scale;
    }
}

static enum kt_status gate_rows(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct network *network = &s->block->ffn->dense;
    const struct clamp *clamp = &s->block->ffn->clamp;
    const uint64_t width = network->width, stride = network->both ? 2 * width : width;
    float *output = m->buffers[KT_BUFFER_UP] + range.begin * width;
    float *gate = m->buffers[KT_BUFFER_GATE] + range.begin * stride;
    float *up = network->both ? gate + width : output;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = m->config.gating;
    job.n_rows = range.end - range.begin;
    job.size = (uint32_t)width;
    job.input = (struct kt_rows_input){.data = up, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = gate, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = output, .dtype = KT_DTYPE_F32};
    job.gate.stride = job.input.stride = (int64_t)(stride * sizeof(float));
    for (uint32_t r = 0; r < job.n_rows && clamp->scale != 0; r++)
        clamp_row(clamp, gate + r * stride, up + r * stride, width);
    return kt_rows_gate(m->rows, &job, error);
}

/* What the shared expert's output is multiplied by, a number for each token, is multiplied into the rows that
 * its last matrix reads: all is linear from there on. */
static enum kt_status gate_shared(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_ffn *ffn = s->block->ffn;
    uint64_t hidden = m->config.hidden_size, width = ffn->dense.width;
    float *rows = m->buffers[KT_BUFFER_UP] + range.begin * width;
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    product.n_rows = range.end - range.begin;
    product.n_outputs = 1;
    product.size = (uint32_t)hidden;
    product.weight_dtype = KT_DTYPE_F32;
    product.input =
        (struct kt_rows_input){.data = m->buffers[KT_BUFFER_H] + range.begin * hidden, .dtype = KT_DTYPE_F32};
    product.weight = ffn->shared_gate;
    product.output = m->buffers[KT_BUFFER_LOGITS] + range.begin;
    job.gating = KT_GATING_SIGMOID;
    job.n_rows = product.n_rows;
    job.size = (uint32_t)width;
    job.one_gate = 1;
    job.input = (struct kt_rows_input){.data = rows, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = product.output, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .dtype = KT_DTYPE_F32};
    enum kt_status status = gate_rows(s, range, error);
    if (status == KT_OK)
        status = kt_rows_multiply(m->rows, &product, error);
    return status == KT_OK ? kt_rows_gate(m->rows, &job, error) : status;
}

static enum kt_status run_network(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct network *n = &s->block->ffn->dense;
    const struct kt_linear_output both[] = {kt_slice_output(n->both ? n->both : n->gate, b[KT_BUFFER_GATE],
                                                            false),
                                            kt_slice_output(n->up, b[KT_BUFFER_UP], false)};
    const struct kt_linear_output down = kt_slice_result(s, KT_HALF_FFN, n->down);
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_H], both, n->both ? 1 : 2, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, s->block->ffn->shared_gate ? gate_shared : gate_rows, error);
    return status == KT_OK ? kt_slice_multiply(s, b[KT_BUFFER_UP], &down, 1, error) : status;
}

/* Logits of some tokens for some experts. */
static enum kt_status multiply_router(const struct kt_slice *s, struct kt_range tokens,
                                      struct kt_range experts, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_ffn *ffn = s->block->ffn;
    uint64_t size = m->config.hidden_size, n_experts = router_size(&m->config);
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    product.n_rows = tokens.end - tokens.begin;
    product.n_outputs = experts.end - experts.begin;
    product.size = (uint32_t)size;
    product.weight_dtype = ffn->router.dtype;
    product.input =
        (struct kt_rows_input){.data = m->buffers[KT_BUFFER_H] + tokens.begin * size, .dtype = KT_DTYPE_F32};
    product.weight = ffn->router.data + experts.begin * ffn->router.row_size;
    product.bias = ffn->router_bias ? ffn->router_bias + experts.begin : NULL;
    product.output = m->buffers[KT_BUFFER_LOGITS] + tokens.begin * n_experts + experts.begin;
    product.output_stride = (int64_t)(n_experts * sizeof(float));
    return kt_rows_multiply(m->rows, &product, error);
}

/* Experts that give what they read are none to the library: their weights are summed up. */
static void take_identities(const struct kt_model *m, struct kt_range tokens)
{
    const uint32_t top_k = m->config.top_k;
    for (uint64_t t = tokens.begin; t < tokens.end; t++) {
        int64_t *ids = m->experts + t * top_k;
        float *weights = m->buffers[KT_BUFFER_WEIGHTS] + t * top_k, sum = 0;
        for (uint32_t k = 0; k < top_k; k++)
            if (ids[k] >= (int64_t)m->config.n_experts) {
                sum += weights[k];
                ids[k] = -1;
            }
        m->buffers[KT_BUFFER_SELF][t] = sum;
    }
}

static void cap_logits(float *logits, uint64_t n, float cap)
{
    for (uint64_t i = 0; i < n && cap > 0; i++)
        logits[i] = cap * tanhf(logits[i] / cap);
}

static enum kt_status choose_experts(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_engine_config *c = &m->config;
    struct kt_rows_route job = KT_ROWS_ROUTE_INIT;
    job.routing = c->router.routing;
    job.n_rows = tokens.end - tokens.begin;
    job.n_experts = router_size(c);
    job.top_k = c->top_k;
    job.n_groups = c->router.n_groups;
    job.top_groups = c->router.top_groups;
    job.group_score = c->router.group_score;
    job.normalize = c->router.normalizes;
    job.scale = c->router.scale;
    job.near = c->router.near;
    float *logits = m->buffers[KT_BUFFER_LOGITS] + (uint64_t)tokens.begin * job.n_experts;
    cap_logits(logits, (uint64_t)job.n_rows * job.n_experts, c->router.cap);
    job.logits = logits;
    job.correction = s->block->ffn->correction;
    job.ids = m->experts + (uint64_t)tokens.begin * c->top_k;
    job.weights = m->buffers[KT_BUFFER_WEIGHTS] + (uint64_t)tokens.begin * c->top_k;
    enum kt_status status = kt_rows_route(m->rows, &job, error);
    const float *scales = s->block->ffn->expert_scales;
    for (uint64_t i = 0; scales && i < (uint64_t)job.n_rows * job.top_k && status == KT_OK; i++)
        job.weights[i] *= scales[job.ids[i]];
    if (status == KT_OK && c->n_identities > 0)
        take_identities(m, tokens);
    return status;
}

static enum kt_status norm(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    return s->model->config.is_parallel
               ? KT_OK
               : kt_slice_norm_tokens(s, &s->block->places[KT_HALF_FFN].before, tokens, error);
}

/* What a router reads: what networks read, or what is normed for it. */
static enum kt_status norm_for_router(const struct kt_slice *s, struct kt_range tokens,
                                      struct kt_error *error)
{
    const struct kt_hidden_norm *own = &s->block->ffn->router_before;
    return own->is_there ? kt_slice_norm_tokens(s, own, tokens, error) : norm(s, tokens, error);
}

static enum kt_status norm_for_experts(const struct kt_slice *s, struct kt_range tokens,
                                       struct kt_error *error)
{
    return kt_slice_norm_tokens(s, &s->block->ffn->experts_before, tokens, error);
}

/* What is normed is in the second cache when the router reads it. */
static enum kt_status norm_and_route(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_range all = {.begin = 0, .end = router_size(&s->model->config)};
    enum kt_status status = norm_for_router(s, tokens, error);
    if (status == KT_OK)
        status = multiply_router(s, tokens, all, error);
    return status == KT_OK ? choose_experts(s, tokens, error) : status;
}

/* Threads share a router by so many experts, as tiles multiply no fewer: 16 take 6.9 us, 8 of them 10.6. */
#define EXPERTS_AT_ONCE 16

static enum kt_status multiply_for_experts(const struct kt_slice *s, struct kt_range groups,
                                           struct kt_error *error)
{
    const struct kt_range all = {.begin = 0, .end = s->n_tokens};
    uint32_t n = router_size(&s->model->config), end = groups.end * EXPERTS_AT_ONCE;
    const struct kt_range experts = {.begin = groups.begin * EXPERTS_AT_ONCE, .end = end < n ? end : n};
    return multiply_router(s, all, experts, error);
}

/* The router of few tokens is a matrix to be read, 2 MB of 256 experts: it is divided over the threads from
 * so many numbers on. */
#define LARGE_ROUTER 2048

static enum kt_status prepare(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_engine_config *c = &s->model->config;
    const struct kt_range all = {.begin = 0, .end = s->n_tokens};
    if (!s->block->ffn->experts)
        return kt_slice_run_tokens(s, norm, error);
    if (!kt_slice_is_small(s) || router_size(c) * c->hidden_size < LARGE_ROUTER)
        return kt_slice_run_tokens(s, norm_and_route, error);
    enum kt_status status = norm_for_router(s, all, error);
    if (status == KT_OK)
        status = kt_slice_run_items(s, (router_size(c) + EXPERTS_AT_ONCE - 1) / EXPERTS_AT_ONCE,
                                    multiply_for_experts, error);
    return status == KT_OK ? choose_experts(s, all, error) : status;
}

/* The weight of a token's only expert goes into what that reads. */
static enum kt_status weigh_input(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    uint64_t size = m->config.hidden_size;
    float *rows = m->buffers[KT_BUFFER_H] + tokens.begin * size;
    float *weights = m->buffers[KT_BUFFER_WEIGHTS] + tokens.begin;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = KT_GATING_PLAIN;
    job.n_rows = tokens.end - tokens.begin;
    job.size = (uint32_t)size;
    job.one_gate = 1;
    job.input = (struct kt_rows_input){.data = rows, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = weights, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .dtype = KT_DTYPE_F32};
    enum kt_status status = kt_rows_gate(m->rows, &job, error);
    for (uint32_t t = 0; t < job.n_rows && status == KT_OK; t++)
        weights[t] = 1;
    return status;
}

/* Where experts put what they give; *adds: to what stands there. */
static enum kt_buffer place_of_experts(const struct kt_slice *s, bool *adds)
{
    const struct kt_ffn *ffn = s->block->ffn;
    bool alone = ffn->experts_after.is_there || s->block->config->postpones;
    bool to_stream = kt_slice_adds(s, KT_HALF_FFN);
    *adds = !alone && (to_stream || ffn->dense.down);
    return alone ? KT_BUFFER_EXPERTS : to_stream ? KT_BUFFER_X : KT_BUFFER_RESULT;
}

/* What experts give that give what they read. */
static enum kt_status run_identities(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const uint64_t size = m->config.hidden_size;
    bool adds;
    float *out = m->buffers[place_of_experts(s, &adds)] + tokens.begin * size;
    const float *in = m->buffers[KT_BUFFER_H] + tokens.begin * size;
    (void)error;
    for (uint64_t t = tokens.begin; t < tokens.end; t++, in += size, out += size)
        for (uint64_t i = 0; i < size; i++)
            out[i] = (adds ? out[i] : 0) + m->buffers[KT_BUFFER_SELF][t] * in[i];
    return KT_OK;
}

static enum kt_status run_experts(const struct kt_slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    struct kt_forward forward = KT_FORWARD_INIT;
    bool adds;
    enum kt_buffer place = place_of_experts(s, &adds);
    enum kt_status status =
        m->config.n_identities > 0 ? kt_slice_run_tokens(s, run_identities, error) : KT_OK;
    if (status != KT_OK)
        return status;
    double start = kt_slice_now();
    forward.n_tokens = s->n_tokens;
    forward.expert_ids = m->experts;
    forward.router_weights = m->buffers[KT_BUFFER_WEIGHTS];
    forward.input = m->buffers[KT_BUFFER_H];
    forward.output = m->buffers[place];
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    forward.accumulate = adds || m->config.n_identities > 0;
    status = kt_layer_forward(s->block->ffn->experts, &forward, error);
    m->times.experts += kt_slice_now() - start;
    return status;
}

/* Norms what the dense network beside experts gave, and what these gave before it is added to that. */
static enum kt_status settle_dense(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    float *f = s->model->buffers[KT_BUFFER_RESULT] + tokens.begin * s->model->config.hidden_size;
    return kt_slice_norm_hidden(s->model, f, &s->block->ffn->dense_after, f, tokens.end - tokens.begin,
                                error);
}

static enum kt_status settle_experts(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    uint64_t size = s->model->config.hidden_size, n = (tokens.end - tokens.begin) * size;
    float *f = s->model->buffers[KT_BUFFER_RESULT] + tokens.begin * size;
    float *own = s->model->buffers[KT_BUFFER_EXPERTS] + tokens.begin * size;
    enum kt_status status = kt_slice_norm_hidden(s->model, own, &s->block->ffn->experts_after, own,
                                                 tokens.end - tokens.begin, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        f[i] += own[i];
    return status;
}

enum kt_status kt_ffn_run(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_ffn *ffn = s->block->ffn;
    enum kt_status status = prepare(s, error);
    if (status == KT_OK && ffn->router_before.is_there)
        status = kt_slice_run_tokens(s, norm, error);
    if (status == KT_OK && ffn->dense.down)
        status = run_network(s, error);
    if (status == KT_OK && ffn->dense_after.is_there)
        status = kt_slice_run_tokens(s, settle_dense, error);
    if (status == KT_OK && ffn->experts_before.is_there)
        status = kt_slice_run_tokens(s, norm_for_experts, error);
    if (status == KT_OK && ffn->experts && s->model->config.router.weighs_input)
        status = kt_slice_run_tokens(s, weigh_input, error);
    if (status == KT_OK && ffn->experts)
        status = run_experts(s, error);
    return status == KT_OK && ffn->experts_after.is_there ? kt_slice_run_tokens(s, settle_experts, error)
                                                          : status;
}

static enum kt_status add_kept(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const uint64_t size = s->model->config.hidden_size, end = tokens.end * size;
    float *x = s->model->buffers[KT_BUFFER_X];
    const float *kept = s->model->buffers[KT_BUFFER_EXPERTS];
    (void)error;
    for (uint64_t i = tokens.begin * size; i < end; i++)
        x[i] += kept[i];
    return KT_OK;
}

enum kt_status kt_ffn_add_kept(const struct kt_slice *s, struct kt_error *error)
{
    return s->block->config->adds_kept ? kt_slice_run_tokens(s, add_kept, error) : KT_OK;
}
