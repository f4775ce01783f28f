/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/families/described.h"

#include "tests/support/layer_fixture.h"

#include <stdio.h>
#include <string.h>

static void describe(const struct kt_engine_config *c, FILE *out)
{
    const struct kt_attention_config *a = &c->attention;
    const struct kt_latent_config *l = &c->latent;
    const struct kt_delta_config *d = &c->delta;
    const struct kt_rope_params *r = &c->rope;
    fprintf(out, "skipped %u mtp %d vocabulary %llu hidden %llu context %llu ties %d eps %g offset %g\n",
            c->n_skipped, c->has_mtp, (unsigned long long)c->vocabulary, (unsigned long long)c->hidden_size,
            (unsigned long long)c->context_length, c->ties, (double)c->eps, (double)c->norm_offset);
    fprintf(out, "attention %u %u %u biases %u norm %u sinks %d gate %d pairing %u\n", a->n_heads,
            a->n_kv_heads, a->head_size, a->biases, a->norm, a->has_sinks, a->has_gate, c->pairing);
    fprintf(out, "latent %u %u %u %u %u temperature %g %g\n", l->q_rank, l->kv_rank, l->nope_size,
            l->rope_size, l->value_size, l->temperature, l->temperature_length);
    fprintf(out, "delta %u %u %u %u %u %u\n", d->n_heads, d->n_key_heads, d->key_size, d->value_size,
            d->width, d->order);
    /* 0 is what the library takes for 32 and 1. */
    fprintf(out, "rope %u %u base %g factor %g of %g beta %g %g attention %g mscale %g %g llama3 %g %g %u\n",
            r->size, r->scaling, r->base, r->factor, r->original_positions,
            r->beta_fast != 0 ? r->beta_fast : 32, r->beta_slow != 0 ? r->beta_slow : 1, r->attention_factor,
            r->mscale, r->mscale_all_dim, r->low_frequency, r->high_frequency, r->no_truncate);
    fprintf(out, "experts %u %u routing %u groups %u %u %u normalizes %d scale %g correction %d\n",
            c->n_experts, c->top_k, c->router.routing, c->router.n_groups, c->router.top_groups,
            c->router.group_score, c->router.normalizes, (double)c->router.scale, c->router.has_correction);
    fprintf(out, "shared %d %d biases %d %d widths %llu %llu\n", c->has_shared, c->gates_shared,
            c->has_expert_biases, c->has_mlp_biases, (unsigned long long)c->dense_width,
            (unsigned long long)c->shared_width);
    for (uint32_t i = 0; i <= c->n_layers; i++)
        fprintf(out, "layer %u %d %llu\n", c->layers[i].mixer, c->layers[i].dense,
                (unsigned long long)c->layers[i].window);
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
