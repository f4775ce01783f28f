/* SPDX-License-Identifier: Apache-2.0 */
/* latent.c - sizes of multi-head latent attention. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>

/*
 * Files of two kinds: those whose keys and values are counted as the cache has them, one head of kv_rank +
 * rope and kv_rank numbers, say a head's own sizes by names of their own; in older ones the usual names do.
 */
static void read_gguf_sizes(struct kt_settings *s, struct kt_latent_config *l)
{
    uint64_t keys = kt_settings_uint(s, "attention.key_length_mla", NULL, 0);
    uint64_t values = kt_settings_uint(s, "attention.value_length_mla", NULL, 0);
    if (keys == 0)
        keys = kt_settings_need(s, "attention.key_length", NULL);
    if (values == 0)
        values = kt_settings_need(s, "attention.value_length", NULL);
    l->rope_size = (uint32_t)kt_settings_need(s, "rope.dimension_count", NULL);
    if (s->status == KT_OK && keys <= l->rope_size)
        kt_settings_fail(s, KT_E_FORMAT, "keys of %" PRIu64 " numbers, %u of them rotated", keys,
                         l->rope_size);
    l->nope_size = (uint32_t)keys - l->rope_size;
    l->value_size = (uint32_t)values;
}

static void read_sizes(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_latent_config *l = &c->latent;
    l->q_rank = (uint32_t)kt_settings_uint(s, "attention.q_lora_rank", "q_lora_rank", 0);
    l->kv_rank = (uint32_t)kt_settings_need(s, "attention.kv_lora_rank", "kv_lora_rank");
    if (s->is_gguf) {
        read_gguf_sizes(s, l);
    } else {
        l->nope_size = (uint32_t)kt_settings_need(s, NULL, "qk_nope_head_dim");
        l->rope_size = (uint32_t)kt_settings_need(s, NULL, "qk_rope_head_dim");
        l->value_size = (uint32_t)kt_settings_need(s, NULL, "v_head_dim");
    }
    const struct {
        const char *what;
        uint32_t value, least, most;
    } bounds[] = {{"the rank of queries", l->q_rank, 0, 65536},
                  {"the rank of keys and values", l->kv_rank, 1, 8192},
                  {"numbers of a key that are not rotated", l->nope_size, 1, 1024},
                  {"rotated numbers of a key", l->rope_size, 2, 1024},
                  {"numbers of a value", l->value_size, 1, 1024}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            kt_settings_fail(s, KT_E_FORMAT, "%s: %u, which must be %u to %u", bounds[i].what,
                             bounds[i].value, bounds[i].least, bounds[i].most);
}

void kt_engine_config_latent(struct kt_settings *s, struct kt_engine_config *c)
{
    read_sizes(s, c);
    c->attention.n_kv_heads = c->attention.n_heads;
    c->attention.head_size = c->latent.nope_size + c->latent.rope_size;
    c->rope.size = c->latent.rope_size;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].mixer = KT_MIXER_LATENT;
}
