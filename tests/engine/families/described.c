/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/families/described.h"

#include "tests/support/layer_fixture.h"

#include <stdio.h>
#include <string.h>

/* 0 is what the library takes for 32 and 1. */
static void describe_rope(const struct kt_rope_params *r, FILE *out)
{
    fprintf(out, "rope %u %u base %g factor %g of %g beta %g %g attention %g mscale %g %g llama3 %g %g %u\n",
            r->size, r->scaling, r->base, r->factor, r->original_positions,
            r->beta_fast != 0 ? r->beta_fast : 32, r->beta_slow != 0 ? r->beta_slow : 1, r->attention_factor,
            r->mscale, r->mscale_all_dim, r->low_frequency, r->high_frequency, r->no_truncate);
}

static void describe_attention(const struct kt_attention_config *a, FILE *out)
{
    const struct kt_growth_config *g = &a->growth;
    fprintf(out,
            "    attention %u %u %u %u biases %u norm %u %d %d %d sinks %d gate %u %u %d scale %g %g clip %g",
            a->n_heads, a->n_kv_heads, a->head_size, a->value_size, a->biases, a->norm, a->norms_rotated,
            a->norms_plainly, a->norms_values, a->has_sinks, a->gate, a->gating, a->gate_biases,
            (double)a->scale, (double)a->value_scale, (double)a->clip);
    fprintf(out, " shares %d growth %u %u %g %g\n", a->shares_keys, g->growth, g->first, g->rate, g->length);
}

static void describe(const struct kt_engine_config *c, FILE *out)
{
    const struct kt_latent_config *l = &c->latent;
    const struct kt_delta_config *d = &c->delta;
    const struct kt_indexer_config *x = &c->indexer;
    fprintf(out, "skipped %u mtp %d vocabulary %llu hidden %llu context %llu ties %d eps %g offset %g\n",
            c->n_skipped, c->has_mtp, (unsigned long long)c->vocabulary, (unsigned long long)c->hidden_size,
            (unsigned long long)c->context_length, c->ties, (double)c->eps, (double)c->norm_offset);
    fprintf(out, "pairing %u latent %u %u %u %u %u scales %g %g\n", c->pairing, l->q_rank, l->kv_rank,
            l->nope_size, l->rope_size, l->value_size, (double)l->q_scale, (double)l->kv_scale);
    fprintf(out, "indexer %u %u %u %u\n", x->n_heads, x->size, x->budget, x->pairing);
    fprintf(out, "delta %u %u %u %u %u %u\n", d->n_heads, d->n_key_heads, d->key_size, d->value_size,
            d->width, d->order);
    describe_rope(&c->rope, out);
    describe_rope(&c->window_rope, out);
    fprintf(out, "experts %u %u routing %u groups %u %u %u normalizes %d scale %g correction %d\n",
            c->n_experts, c->top_k, c->router.routing, c->router.n_groups, c->router.top_groups,
            c->router.group_score, c->router.normalizes, (double)c->router.scale, c->router.has_correction);
    fprintf(out, "identities %u shared %d %d biases %d %d widths %llu %llu\n", c->n_identities, c->has_shared,
            c->gates_shared, c->has_expert_biases, c->has_mlp_biases, (unsigned long long)c->dense_width,
            (unsigned long long)c->shared_width);
    fprintf(out, "router near %g cap %g input %d %d scales %d head %d gating %u\n", (double)c->router.near,
            (double)c->router.cap, c->router.scales_input, c->router.weighs_input,
            c->router.has_expert_scales, c->has_head_bias, c->gating);
    fprintf(out, "norm %u %d parallel %d embedding %g logits %g %g beside %d scales %d inputs %u part %g\n",
            c->norm, c->norm_biases, c->is_parallel, (double)c->embedding_scale, (double)c->logits_scale,
            (double)c->logits_cap, c->has_dense_beside, c->has_layer_scales, c->input_size, c->proportional);
    describe_attention(&c->attention, out);
    for (uint32_t i = 0; i <= c->n_layers; i++)
        fprintf(out, "layer %u %d %llu\n", c->layers[i].mixer, c->layers[i].dense,
                (unsigned long long)c->layers[i].window);
    for (uint32_t i = 0; i <= c->n_layers; i++) {
        const struct kt_residual_config *r = c->layers[i].residual;
        fprintf(out, "layer's rope %u chunk %llu shares %u %d norms %u kept %d %d residual %g %g %g %g",
                c->layers[i].rope, (unsigned long long)c->layers[i].chunk, c->layers[i].shares,
                c->layers[i].shares_selection, c->layers[i].norms, c->layers[i].postpones,
                c->layers[i].adds_kept, (double)r[0].keep, (double)r[0].add, (double)r[1].keep,
                (double)r[1].add);
        fprintf(out, " clamp %u %g %g", c->layers[i].clamp.clamp, c->layers[i].clamp.limit,
                c->layers[i].clamp.alpha);
        describe_attention(&c->layers[i].attention, out);
    }
}

enum kt_status described(const char *path, char *text, size_t size)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_checkpoint *checkpoint;
    struct kt_engine_config config;
    ck_assert_msg(kt_checkpoint_open(path, NULL, &checkpoint, &error) == KT_OK, "%s: %s", path,
                  error.message);
    enum kt_status status = kt_engine_config_read(checkpoint, &config, &error);
    FILE *out = fmemopen(text, size, "w");
    ck_assert_ptr_nonnull(out);
    if (status == KT_OK) {
        describe(&config, out);
        kt_engine_config_free(&config);
    } else {
        fprintf(out, "%s", error.message);
    }
    ck_assert_int_eq(fclose(out), 0);
    kt_checkpoint_close(checkpoint);
    return status;
}
