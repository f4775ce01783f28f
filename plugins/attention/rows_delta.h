/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_delta.h - the gated delta rule, row after row. <kt/rows.h> has the formulas.
 *
 * Columns of a state do not depend on each other. One row or two of a sequence take the state as it lies,
 * whole rows of it, since reading it is the limit; of more, DELTA_PANEL columns are copied together, so that
 * they stay in L1 for all rows. Both compute a column alike, to the bit.
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_DELTA_H
#define KT_PLUGINS_ATTENTION_ROWS_DELTA_H

#include "plugins/attention/rows_block.h"
#include "plugins/common/gemm/glu.h"

#define DELTA_SIZE 512      /* the most numbers of a key or value */
#define DELTA_PANEL 32      /* columns */
#define DELTA_DIRECT 2      /* so many rows take the state as it lies */
#define DELTA_FLOOR -200.0f /* e^-200 is 0 */
#define RECALL_ROWS 8       /* rows of a state that are added at once */
#define LEARN_ROWS 4

/* A value head's rows; those of its key head with it. */
struct delta_head {
    const float *query, *key, *value, *log_decay, *beta;
    float *output, *state;
};

/* Row `row` of numbers that are `stride` bytes apart. */
INLINE const float *row_of(const float *data, int64_t stride, uint32_t row)
{
    return (const float *)(const void *)((const uint8_t *)data + (int64_t)row * stride);
}

static inline struct delta_head find_head(const struct kt_rows_delta *job, uint32_t head, uint32_t key_head)
{
    return (struct delta_head){
        .query = job->query + (uint64_t)key_head * job->key_size,
        .key = job->key + (uint64_t)key_head * job->key_size,
        .value = job->value + (uint64_t)head * job->value_size,
        .log_decay = job->log_decay + head,
        .beta = job->beta + head,
        .output = job->output + (uint64_t)head * job->value_size,
        .state = (float *)(void *)((uint8_t *)job->state + (int64_t)head * job->state_stride),
    };
}

/* Value head `i` of a key head. */
INLINE uint32_t nth_head(const struct kt_rows_delta *job, uint32_t key_head, uint32_t i)
{
    if (job->order == KT_DELTA_INTERLEAVED)
        return i * job->n_key_heads + key_head;
    return key_head * (job->n_heads / job->n_key_heads) + i;
}

/* Whole vectors, of which there are few: memcpy costs more. */
INLINE void copy_numbers(float *to, const float *from, uint32_t n)
{
    for (uint32_t c = 0; c < n; c += VEC_ROWS)
        vf_store(to + c, vf_load(from + c));
}

INLINE float floor_decay(float log_decay)
{
    return log_decay < DELTA_FLOOR ? DELTA_FLOOR : log_decay; /* NaN stays */
}

INLINE float exp_one(float x)
{
    float lane[VEC_ROWS];
    vf_store(lane, vf_exp(vf_set(x)));
    return lane[0];
}

/* Columns of a state: `columns` of them, a multiple of 16, its rows `step` numbers apart. */
struct delta_state {
    float *at;
    uint64_t step;
    uint32_t columns, rows;
};

/* sum = S^T k */
static inline void recall(const struct delta_state *s, const float *k, float *sum)
{
    for (uint32_t c = 0; c < s->columns; c += VEC_ROWS)
        vf_store(sum + c, vf_set(0.0f));
    for (uint32_t i = 0; i < s->rows; i += RECALL_ROWS) {
        const float *row = s->at + i * s->step;
        vf factor[RECALL_ROWS];
        UNROLL_FOR (unsigned j = 0; j < RECALL_ROWS; j++)
            factor[j] = vf_splat(k + i + j);
        for (uint32_t c = 0; c < s->columns; c += VEC_ROWS) {
            vf half[2];
            UNROLL_FOR (unsigned h = 0; h < 2; h++) {
                half[h] = vf_mul(factor[h], vf_load(row + h * s->step + c));
                UNROLL_FOR (unsigned j = 2 + h; j < RECALL_ROWS; j += 2)
                    half[h] = vf_fma(factor[j], vf_load(row + j * s->step + c), half[h]);
            }
            vf_store(sum + c, vf_add(vf_load(sum + c), vf_add(half[0], half[1])));
        }
    }
}

/* S = decay S + k d^T; out = S^T q */
static inline void learn(const struct delta_state *s, float decay, const float *k, const float *q,
                         const float *d, float *out)
{
    vf keep = vf_set(decay);
    for (uint32_t c = 0; c < s->columns; c += VEC_ROWS)
        vf_store(out + c, vf_set(0.0f));
    for (uint32_t i = 0; i < s->rows; i += LEARN_ROWS) {
        float *row = s->at + i * s->step;
        vf ki[LEARN_ROWS], qi[LEARN_ROWS];
        UNROLL_FOR (unsigned j = 0; j < LEARN_ROWS; j++) {
            ki[j] = vf_splat(k + i + j);
            qi[j] = vf_splat(q + i + j);
        }
        for (uint32_t c = 0; c < s->columns; c += VEC_ROWS) {
            vf sum = vf_set(0.0f), delta = vf_load(d + c);
            UNROLL_FOR (unsigned j = 0; j < LEARN_ROWS; j++) {
                vf new = vf_fma(ki[j], delta, vf_mul(keep, vf_load(row + j * s->step + c)));
                vf_store(row + j * s->step + c, new);
                sum = j ? vf_fma(qi[j], new, sum) : vf_mul(qi[j], new);
            }
            vf_store(out + c, vf_add(vf_load(out + c), sum));
        }
    }
}

/* Row t, of the columns from `first` on. */
static inline void step_row(const struct kt_rows_delta *job, const struct delta_head *head,
                            const struct delta_state *s, uint32_t t, uint32_t first)
{
    float d[DELTA_SIZE], out[DELTA_SIZE];
    const float *k = row_of(head->key, job->key_stride, t), *q = row_of(head->query, job->query_stride, t);
    const float *v = row_of(head->value, job->value_stride, t) + first;
    float *to = (float *)(uintptr_t)row_of(head->output, job->output_stride, t) + first;
    float decay = exp_one(floor_decay(*row_of(head->log_decay, job->log_decay_stride, t)));
    float beta = *row_of(head->beta, job->beta_stride, t);
    recall(s, k, d);
    for (uint32_t c = 0; c < s->columns; c += VEC_ROWS)
        vf_store(d + c, vf_mul(vf_set(beta), vf_fnma(vf_set(decay), vf_load(d + c), vf_load(v + c))));
    learn(s, decay, k, q, d, out);
    copy_numbers(to, out, s->columns);
}

INLINE uint32_t panel_columns(const struct kt_rows_delta *job, uint32_t first)
{
    return job->value_size - first < DELTA_PANEL ? job->value_size - first : DELTA_PANEL;
}

/* Columns from `first` on, to a panel and back; a panel's columns behind the last one are zero. */
static inline void load_panel(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t first,
                              float *panel)
{
    uint32_t n = panel_columns(job, first);
    for (uint32_t i = 0; i < job->key_size; i++) {
        const float *from = head->state + (uint64_t)i * job->value_size + first;
        for (uint32_t c = 0; c < DELTA_PANEL; c += VEC_ROWS)
            vf_store(panel + (uint64_t)i * DELTA_PANEL + c, c < n ? vf_load(from + c) : vf_set(0.0f));
    }
}

static inline void store_panel(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t first,
                               const float *panel)
{
    uint32_t n = panel_columns(job, first);
    for (uint32_t i = 0; i < job->key_size; i++) {
        float *to = head->state + (uint64_t)i * job->value_size + first;
        for (uint32_t c = 0; c < n; c += VEC_ROWS)
            vf_store(to + c, vf_load(panel + (uint64_t)i * DELTA_PANEL + c));
    }
}

/* A head's rows, one after the other. The output may be the values' memory: a row's columns are read before
 * they are written. */
static inline void step_head(const struct kt_rows_delta *job, const struct delta_head *head)
{
    struct delta_state s = {head->state, job->value_size, job->value_size, job->key_size};
    if (job->n_rows <= DELTA_DIRECT) {
        for (uint32_t t = 0; t < job->n_rows; t++)
            step_row(job, head, &s, t, 0);
        return;
    }
    s.at = job->scratch;
    s.step = DELTA_PANEL;
    for (uint32_t first = 0; first < job->value_size; first += DELTA_PANEL) {
        s.columns = panel_columns(job, first);
        load_panel(job, head, first, s.at);
        for (uint32_t t = 0; t < job->n_rows; t++)
            step_row(job, head, &s, t, first);
        store_panel(job, head, first, s.at);
    }
}

#endif
