/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - the parts of a model, layer by layer: made and planned, without what is large. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_name usual[KT_NORM_PLACES] = {
    [KT_NORM_BEFORE_MIXER] = {"attn_norm", "input_layernorm"},
    [KT_NORM_AFTER_MIXER] = {"post_attention_norm", "post_attention_layernorm"},
    [KT_NORM_BEFORE_FFN] = {"ffn_norm", "post_attention_layernorm"},
    [KT_NORM_AFTER_FFN] = {"post_ffw_norm", "post_feedforward_layernorm"},
    [KT_NORM_AFTER_DENSE] = {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    [KT_NORM_BEFORE_EXPERTS] = {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    [KT_NORM_AFTER_EXPERTS] = {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    [KT_NORM_ROUTER] = {"ffn_gate_inp.scale", "router.scale"},
};

enum kt_status kt_load_layer_norm(struct kt_model *m, uint32_t layer, enum kt_norm_place place,
                                  struct kt_hidden_norm *norm, struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    const struct kt_name *own = &c->family->names.norms[place];
    char name[KT_WEIGHT_NAME];
    if (!(c->layers[layer].norms >> place & 1))
        return KT_OK;
    kt_weight_name(m, layer, own->gguf ? own->gguf : usual[place].gguf,
                   own->json ? own->json : usual[place].json, name);
    return kt_load_norm(m, name, norm, error);
}

static float or_one(float factor)
{
    return factor != 0 ? factor : 1;
}

/* The number that a whole layer is multiplied by: of what its last half leaves. */
static enum kt_status load_scale(struct kt_model *m, uint32_t layer, struct kt_place *last,
                                 struct kt_error *error)
{
    float *scale = NULL;
    uint64_t index;
    char name[KT_WEIGHT_NAME];
    kt_weight_name(m, layer, "layer_output_scale.weight", "layer_scalar", name);
    if (!m->config.has_layer_scales ||
        (m->config.is_gguf && kt_checkpoint_find(m->checkpoint, name, &index, NULL) != KT_OK))
        return KT_OK;
    enum kt_status status = kt_load_numbers(m, name, 1, 1, &scale, error);
    if (status == KT_OK) {
        last->keep *= *scale;
        last->add *= *scale;
    }
    return status;
}

static enum kt_status load_place(struct kt_model *m, uint32_t layer, enum kt_half half,
                                 struct kt_place *place, struct kt_error *error)
{
    const struct kt_residual_config *residual = &m->config.layers[layer].residual[half];
    bool is_ffn = half == KT_HALF_FFN;
    place->keep = or_one(residual->keep);
    place->add = or_one(residual->add);
    enum kt_status status = kt_load_layer_norm(m, layer, is_ffn ? KT_NORM_BEFORE_FFN : KT_NORM_BEFORE_MIXER,
                                               &place->before, error);
    if (status == KT_OK)
        status = kt_load_layer_norm(m, layer, is_ffn ? KT_NORM_AFTER_FFN : KT_NORM_AFTER_MIXER, &place->after,
                                    error);
    if (place->after.is_there || place->keep != 1 || place->add != 1)
        kt_model_need(m, KT_BUFFER_RESULT, m->config.hidden_size);
    return status;
}

enum kt_status kt_block_load(struct kt_model *m, uint32_t layer, struct kt_block *b, struct kt_error *error)
{
    b->config = &m->config.layers[layer];
    b->mixer = kt_mixer_find(b->config->mixer);
    enum kt_status status = load_place(m, layer, KT_HALF_MIXER, &b->places[KT_HALF_MIXER], error);
    if (status == KT_OK)
        status = b->mixer->load(m, layer, b, error);
    if (status == KT_OK)
        status = load_place(m, layer, KT_HALF_FFN, &b->places[KT_HALF_FFN], error);
    if (status == KT_OK)
        status = kt_ffn_load(m, layer, b, error);
    if (status == KT_OK && m->inputs)
        status = kt_layer_input_load(m, layer, b, error);
    if (status == KT_OK)
        status =
            load_scale(m, layer, b->input ? kt_layer_input_place(b->input) : &b->places[KT_HALF_FFN], error);
    return status;
}

/* ---- before and behind the layers ---- */

void kt_end_name(const struct kt_engine_config *c, const char *gguf, const char *json, char *name)
{
    snprintf(name, KT_WEIGHT_NAME, "%s%s", c->is_gguf ? "" : c->json_stem, c->is_gguf ? gguf : json);
}

static enum kt_status load_ends(struct kt_model *m, struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    const char *head = c->is_gguf                                          ? "output"
                       : strncmp(c->json_stem, "language_model.", 15) == 0 ? "language_model.lm_head"
                                                                           : "lm_head";
    char embedding[KT_WEIGHT_NAME], norm[KT_WEIGHT_NAME];
    const float *bias = NULL;
    struct kt_view view;
    kt_end_name(c, "token_embd",
                c->family->names.json_embedding ? c->family->names.json_embedding : "embed_tokens",
                embedding);
    kt_end_name(c, "output_norm",
                c->family->names.json_final_norm ? c->family->names.json_final_norm : "norm", norm);
    enum kt_status status = m->assumed
                                ? kt_assume_numbers(m, c->vocabulary, c->hidden_size, &m->embedding, error)
                                : kt_checkpoint_weight(m->checkpoint, embedding, &m->embedding, NULL, error);
    if (status != KT_OK)
        return status;
    if (m->embedding.cols != c->hidden_size || m->embedding.rows > INT32_MAX)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has rows of %" PRIu64 " numbers, the hidden size is %" PRIu64, embedding,
                              m->embedding.cols, c->hidden_size);
    if (c->vocabulary > 0 && m->embedding.rows != c->vocabulary)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has rows for %" PRIu64 " tokens, vocab_size of config.json is %" PRIu64,
                              embedding, m->embedding.rows, c->vocabulary);
    kt_model_mark_weight(m, embedding, false);
    m->vocabulary = m->embedding.rows;
    if (m->assumed)
        status = c->ties ? KT_E_NOT_FOUND : KT_OK;
    else
        status = kt_checkpoint_weight(m->checkpoint, head, &view, &bias, error);
    bool has_head = status == KT_OK;
    if (!has_head && (status != KT_E_NOT_FOUND || (!c->is_gguf && !c->ties)))
        return status;
    if (c->has_head_bias && !m->assumed && (!has_head || !bias))
        return kt_engine_fail(error, KT_E_FORMAT, "%s has no bias, which %s models have", head,
                              c->family->name);
    /* A head in the file counts, though config.json may tie it to the embedding: it need not be a copy. */
    status = kt_load_linear(m, has_head ? head : embedding, m->vocabulary, c->hidden_size, &m->head, error);
    return status == KT_OK ? kt_load_norm(m, norm, &m->final_norm, error) : status;
}

/* Angles of all positions, if a layer is rotated by them. */
static enum kt_status make_table(struct kt_model *m, uint32_t which, const struct kt_rope_params *rope,
                                 float scale, struct kt_error *error)
{
    uint64_t n = m->params.max_tokens * rope->size;
    bool is_used = which == KT_LAYER_ROPE;
    for (uint32_t i = 0; i < m->config.n_layers + m->config.has_mtp; i++)
        is_used |= m->config.layers[i].rope == which;
    if (!is_used)
        return KT_OK;
    float *table = m->ropes[which] = kt_model_alloc(m, n, sizeof(*table));
    if (!table)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the angles of %" PRIu64 " positions",
                              m->params.max_tokens);
    enum kt_status status = kt_rope_table(rope, 0, (uint32_t)m->params.max_tokens, table, 0, error);
    for (uint64_t i = 0; i < n && scale != 0 && status == KT_OK; i++)
        table[i] *= scale;
    return status;
}

static enum kt_status load_rope(struct kt_model *m, struct kt_error *error)
{
    struct kt_rope_params *rope = &m->config.rope;
    struct kt_view view;
    float *divisors = m->config.divisors;
    enum kt_status status = KT_E_NOT_FOUND;
    const char *name = m->config.family->has_longrope ? "rope_factors_short" : "rope_freqs";
    if (m->config.is_gguf)
        status = kt_checkpoint_weight(m->checkpoint, name, &view, NULL, error);
    /* Of ropes by type, one list may serve for both: as long as the longer one, of which this has the first.
     */
    const uint64_t n = rope->size / 2, longest = m->config.window_rope.size / 2;
    if (status == KT_OK)
        status =
            kt_load_numbers(m, name, 1, view.cols == longest && longest > n ? longest : n, &divisors, error);
    if (status == KT_OK && m->config.family->has_longrope) /* for longer contexts than are taken */
        kt_model_mark_weight(m, "rope_factors_long", false);
    if (status != KT_OK && status != KT_E_NOT_FOUND)
        return status;
    rope->divisors = divisors;
    status = make_table(m, KT_LAYER_ROPE, rope, m->config.rope_scale, error);
    return status == KT_OK ? make_table(m, KT_LAYER_ROPE_WINDOW, &m->config.window_rope, 0, error) : status;
}

enum kt_status kt_model_load(struct kt_model *model, struct kt_error *error)
{
    struct kt_checkpoint_info info = {.n_tensors = 0};
    if (model->checkpoint)
        kt_checkpoint_info(model->checkpoint, &info);
    model->used = kt_model_alloc(model, info.n_tensors, 1);
    model->blocks = kt_model_alloc(model, model->config.n_layers, sizeof(*model->blocks));
    if (!model->used || !model->blocks)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    enum kt_status status = load_ends(model, error);
    if (status == KT_OK && model->config.input_size > 0)
        status = kt_inputs_load(model, error);
    if (status == KT_OK)
        status = load_rope(model, error);
    for (uint32_t i = 0; i < model->config.n_layers && status == KT_OK; i++)
        status = kt_block_load(model, i, &model->blocks[i], error);
    if (status == KT_OK && model->config.has_mtp)
        status = kt_mtp_load(model, error);
    if (status == KT_OK && !model->assumed)
        status = kt_refuse_biases(model, error);
    return status == KT_OK && !model->assumed ? kt_model_refuse_unused(model, error) : status;
}
