/* SPDX-License-Identifier: Apache-2.0 */
/* rows_rotate.h - rotary positions. <kt/rows.h> has the formulas; both pairings give the same bits. */
#ifndef KT_PLUGINS_ATTENTION_ROWS_ROTATE_H
#define KT_PLUGINS_ATTENTION_ROWS_ROTATE_H

#include "plugins/attention/rows_block.h"

#define ROTATE_MAX 1024

/* A row's table, as vectors want it: NEOX cos and sin of pair i at i; NORM cos, cos and -sin, sin at 2i. */
struct turns {
    float c[ROTATE_MAX + VEC_ROWS], s[ROTATE_MAX + VEC_ROWS];
};

static inline void spread_turns(const float *table, uint32_t pairs, uint32_t pairing, struct turns *turns)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float c = table[2 * i], s = table[2 * i + 1];
        if (pairing == KT_ROPE_NEOX) {
            turns->c[i] = c;
            turns->s[i] = s;
        } else {
            turns->c[2 * i] = turns->c[2 * i + 1] = c;
            turns->s[2 * i] = -s;
            turns->s[2 * i + 1] = s;
        }
    }
}

INLINE void turn_neox(float *a, float *b, const float *c, const float *s)
{
    vf x = vf_load(a), y = vf_load(b), cosine = vf_load(c), sine = vf_load(s);
    vf_store(a, vf_fnma(y, sine, vf_mul(x, cosine)));
    vf_store(b, vf_fma(x, sine, vf_mul(y, cosine)));
}

INLINE void turn_norm(float *a, const float *c, const float *s)
{
    vf x = vf_load(a);
    vf_store(a, vf_fma(vf_swap(x), vf_load(s), vf_mul(x, vf_load(c))));
}

static inline void rotate_neox(float *x, uint32_t pairs, const struct turns *turns)
{
    uint32_t i = 0;
    for (; i + VEC_ROWS <= pairs; i += VEC_ROWS)
        turn_neox(x + i, x + pairs + i, turns->c + i, turns->s + i);
    if (i < pairs) {
        float a[VEC_ROWS] = {0}, b[VEC_ROWS] = {0};
        memcpy(a, x + i, (pairs - i) * sizeof *a);
        memcpy(b, x + pairs + i, (pairs - i) * sizeof *b);
        turn_neox(a, b, turns->c + i, turns->s + i);
        memcpy(x + i, a, (pairs - i) * sizeof *a);
        memcpy(x + pairs + i, b, (pairs - i) * sizeof *b);
    }
}

static inline void rotate_norm(float *x, uint32_t size, const struct turns *turns)
{
    uint32_t i = 0;
    for (; i + VEC_ROWS <= size; i += VEC_ROWS)
        turn_norm(x + i, turns->c + i, turns->s + i);
    if (i < size) {
        float a[VEC_ROWS] = {0};
        memcpy(a, x + i, (size - i) * sizeof *a);
        turn_norm(a, turns->c + i, turns->s + i);
        memcpy(x + i, a, (size - i) * sizeof *a);
    }
}

static void rows_rotate(void *instance, const struct kt_rows_rotate *job)
{
    (void)instance;
    struct turns turns;
    /* Lanes behind the last pair are computed, too. */
    memset(turns.c + (job->pairing == KT_ROPE_NEOX ? job->size / 2 : job->size), 0, sizeof(vf));
    memset(turns.s + (job->pairing == KT_ROPE_NEOX ? job->size / 2 : job->size), 0, sizeof(vf));
    for (uint32_t r = 0; r < job->n_rows; r++) {
        uint32_t t = job->table_row ? job->table_row[r] : r;
        const uint8_t *table = (const uint8_t *)job->table + (int64_t)t * job->table_stride;
        uint8_t *row = (uint8_t *)job->data + (int64_t)r * job->stride;
        spread_turns((const float *)(const void *)table, job->size / 2, job->pairing, &turns);
        for (uint32_t h = 0; h < job->n_heads; h++) {
            float *x = (float *)(void *)(row + (int64_t)h * job->head_stride);
            if (job->pairing == KT_ROPE_NEOX)
                rotate_neox(x, job->size / 2, &turns);
            else
                rotate_norm(x, job->size, &turns);
        }
    }
}

#endif
