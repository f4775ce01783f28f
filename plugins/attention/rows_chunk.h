/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_chunk.h - the gated delta rule by chunks of rows (the WY form). With G_i the sum of log decays up to
 * row i of the chunk and S the state before it, everything a product of matrices:
 *
 *     A_ij = beta_i e^(G_i - G_j) (k_i . k_j), j < i        P_ij = e^(G_i - G_j) (q_i . k_j), j <= i
 *     D = (I + A)^-1 beta (V - e^G K S)                      by substitution, row after row
 *     output = e^G Q S + P D                                 S = e^G_n S + K^T (e^(G_n - G) D)
 *
 * A and P stand for a head; the rest is done for DELTA_PANEL columns of the state at once, which stay in L1.
 * Products of the keys serve all value heads of a key head. Exponents are differences that are never above
 * 0 where decays are below 1; G is kept in two floats, since a difference of large sums would lose its bits.
 * A row takes nothing from rows behind it, not even zero times NaN.
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_CHUNK_H
#define KT_PLUGINS_ATTENTION_ROWS_CHUNK_H

#include "plugins/attention/rows_delta.h"

#define DELTA_ROWS KT_DELTA_CHUNK
/* A block of a product: so many sums as registers hold beside a row of the second factor. */
#if VEC_ROWS == 16 && !defined VEC_PLAIN
#define CHUNK_MR 8
#define CHUNK_NV 2
#elif VEC_ROWS == 16
#define CHUNK_MR 4
#define CHUNK_NV 1
#else
#define CHUNK_MR 4
#define CHUNK_NV (16 / VEC_ROWS)
#endif
#define CHUNK_COLUMNS (CHUNK_NV * VEC_ROWS)
#define KEY_PAD 16 /* so that rows of keys do not all fall into the same sets of L1 */

_Static_assert(DELTA_ROWS % CHUNK_MR == 0 && DELTA_PANEL % CHUNK_COLUMNS == 0,
               "blocks fill chunks and panels");

/* A factor whose numbers are taken one by one. */
struct factor {
    const float *at;
    uint64_t row, column; /* from one to the next, in numbers */
};

/* A matrix in rows of vectors. */
struct matrix {
    float *at;
    uint64_t row;
};

INLINE void multiply_add(struct factor a, const float *b, uint64_t b_row, uint32_t n, vf *sum)
{
    for (uint32_t k = 0; k < n; k++) {
        vf column[CHUNK_NV];
        UNROLL_FOR (unsigned v = 0; v < CHUNK_NV; v++)
            column[v] = vf_load(b + k * b_row + v * VEC_ROWS);
        UNROLL_FOR (unsigned r = 0; r < CHUNK_MR; r++) {
            vf factor = vf_splat(a.at + r * a.row + k * a.column);
            UNROLL_FOR (unsigned v = 0; v < CHUNK_NV; v++)
                sum[r * CHUNK_NV + v] = vf_fma(factor, column[v], sum[r * CHUNK_NV + v]);
        }
    }
}

INLINE void load_block(struct matrix c, vf *sum)
{
    UNROLL_FOR (unsigned j = 0; j < CHUNK_MR * CHUNK_NV; j++)
        sum[j] = vf_load(c.at + j / CHUNK_NV * c.row + j % CHUNK_NV * VEC_ROWS);
}

INLINE void store_block(struct matrix c, const vf *sum)
{
    UNROLL_FOR (unsigned j = 0; j < CHUNK_MR * CHUNK_NV; j++)
        vf_store(c.at + j / CHUNK_NV * c.row + j % CHUNK_NV * VEC_ROWS, sum[j]);
}

/* C = a B, or C += a B: rows x columns, n products a sum. Whole blocks are written. */
static void multiply_chunk(struct factor a, struct matrix b, struct matrix c, uint32_t rows, uint32_t columns,
                           uint32_t n, bool add)
{
    vf sum[CHUNK_MR * CHUNK_NV];
    for (uint32_t j = 0; j < columns; j += CHUNK_COLUMNS)
        for (uint32_t i = 0; i < rows; i += CHUNK_MR) {
            struct matrix to = {c.at + i * c.row + j, c.row};
            struct factor from = {a.at + i * a.row, a.row, a.column};
            if (add)
                load_block(to, sum);
            else
                UNROLL_FOR (unsigned v = 0; v < CHUNK_MR * CHUNK_NV; v++)
                    sum[v] = vf_set(0.0f);
            multiply_add(from, b.at + j, b.row, n, sum);
            store_block(to, sum);
        }
}

/* c += factor * b for a row of a panel. */
INLINE void add_row(float *c, float factor, const float *b)
{
    vf times = vf_set(factor);
    UNROLL_FOR (unsigned i = 0; i < DELTA_PANEL; i += VEC_ROWS)
        vf_store(c + i, vf_fma(times, vf_load(b + i), vf_load(c + i)));
}

/* C_i += sum over j < i, with `diagonal` j <= i, of a_ij B_j, for n rows of a panel; B may be C. */
static void multiply_lower(const float *a, struct matrix b, struct matrix c, uint32_t n, bool diagonal)
{
    for (uint32_t i = 0; i < n; i += CHUNK_MR) {
        struct factor from = {a + (uint64_t)i * DELTA_ROWS, DELTA_ROWS, 1};
        struct matrix to = {c.at + i * c.row, c.row};
        multiply_chunk(from, b, to, CHUNK_MR, DELTA_PANEL, i, true);
        for (uint32_t r = i; r < i + CHUNK_MR && r < n; r++)
            for (uint32_t j = i; j < r + diagonal; j++)
                add_row(c.at + r * c.row, a[(uint64_t)r * DELTA_ROWS + j], b.at + j * b.row);
    }
}

/* What a thread has in its scratch. */
struct chunk {
    float *key, *query;                      /* [DELTA_ROWS][key_row], zeros behind the last row */
    float *turned;                           /* [key_size][DELTA_ROWS], keys */
    float *key_key, *query_key;              /* [DELTA_ROWS][DELTA_ROWS], products */
    float *lower, *output_lower;             /* [DELTA_ROWS][DELTA_ROWS]: -A, P */
    float *state;                            /* [key_size][DELTA_PANEL] */
    float *delta, *output;                   /* [DELTA_ROWS][DELTA_PANEL]: D, output */
    float *high, *low, *grown, *left, *beta; /* [DELTA_ROWS]: G in two parts, e^G, e^(G_n - G), beta */
    float decay;                             /* e^G_n */
    uint32_t n, key_row;
};

static inline float *take_floats(float **from, uint64_t n)
{
    float *taken = *from;
    *from += n;
    return taken;
}

static struct chunk place_chunk(float *from, uint32_t key_size)
{
    struct chunk chunk = {.key_row = key_size + KEY_PAD};
    chunk.state =
        take_floats(&from, (uint64_t)key_size * DELTA_PANEL); /* first: step_head has it here, too */
    chunk.key = take_floats(&from, (uint64_t)DELTA_ROWS * chunk.key_row);
    chunk.query = take_floats(&from, (uint64_t)DELTA_ROWS * chunk.key_row);
    chunk.turned = take_floats(&from, (uint64_t)key_size * DELTA_ROWS);
    float **square[] = {&chunk.key_key, &chunk.query_key, &chunk.lower, &chunk.output_lower};
    for (unsigned i = 0; i < sizeof square / sizeof *square; i++)
        *square[i] = take_floats(&from, DELTA_ROWS * DELTA_ROWS);
    chunk.delta = take_floats(&from, DELTA_ROWS * DELTA_PANEL);
    chunk.output = take_floats(&from, DELTA_ROWS * DELTA_PANEL);
    float **line[] = {&chunk.high, &chunk.low, &chunk.grown, &chunk.left, &chunk.beta};
    for (unsigned i = 0; i < sizeof line / sizeof *line; i++)
        *line[i] = take_floats(&from, DELTA_ROWS);
    return chunk;
}

static uint64_t rows_delta_scratch(void *instance, uint32_t key_size, uint32_t value_size)
{
    (void)instance;
    (void)value_size;
    uint64_t keys = (uint64_t)key_size * (DELTA_PANEL + 3 * DELTA_ROWS) + 2 * DELTA_ROWS * KEY_PAD;
    return (keys + 4 * DELTA_ROWS * DELTA_ROWS + 2 * DELTA_ROWS * DELTA_PANEL + 5 * DELTA_ROWS) *
           sizeof(float);
}

/* Rows t .. t + n of a key head: its keys and queries together, and their products. */
static inline void load_keys(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t t,
                             struct chunk *chunk)
{
    const uint32_t size = job->key_size, columns = (chunk->n + 15) & ~15u;
    for (uint32_t i = 0; i < DELTA_ROWS; i++) {
        float *k = chunk->key + (uint64_t)i * chunk->key_row,
              *q = chunk->query + (uint64_t)i * chunk->key_row;
        if (i < chunk->n) {
            memcpy(k, row_of(head->key, job->key_stride, t + i), size * sizeof *k);
            memcpy(q, row_of(head->query, job->query_stride, t + i), size * sizeof *q);
        } else {
            memset(k, 0, size * sizeof *k);
            memset(q, 0, size * sizeof *q);
        }
    }
    for (uint32_t c = 0; c < size; c++)
        for (uint32_t i = 0; i < DELTA_ROWS; i++)
            chunk->turned[(uint64_t)c * DELTA_ROWS + i] = chunk->key[(uint64_t)i * chunk->key_row + c];
    struct matrix turned = {chunk->turned, DELTA_ROWS};
    uint32_t whole = (columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS * CHUNK_COLUMNS;
    /* Only what is not above the diagonal is wanted. */
    for (uint32_t i = 0; i < columns; i += 16) {
        uint32_t up_to = (i + 16 + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS * CHUNK_COLUMNS;
        uint64_t row = (uint64_t)i * chunk->key_row, to = (uint64_t)i * DELTA_ROWS;
        multiply_chunk((struct factor){chunk->key + row, chunk->key_row, 1}, turned,
                       (struct matrix){chunk->key_key + to, DELTA_ROWS}, 16, up_to < whole ? up_to : whole,
                       size, false);
        multiply_chunk((struct factor){chunk->query + row, chunk->key_row, 1}, turned,
                       (struct matrix){chunk->query_key + to, DELTA_ROWS}, 16, up_to < whole ? up_to : whole,
                       size, false);
    }
}

/* Decays of a value head, and its two triangles. */
static inline void find_triangles(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t t,
                                  struct chunk *chunk)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < DELTA_ROWS; i++) {
        if (i < chunk->n)
            sum += (double)floor_decay(*row_of(head->log_decay, job->log_decay_stride, t + i));
        chunk->high[i] = (float)sum;
        chunk->low[i] = (float)(sum - (double)chunk->high[i]);
        chunk->beta[i] = i < chunk->n ? *row_of(head->beta, job->beta_stride, t + i) : 0.0f;
    }
    vf last_high = vf_set(chunk->high[DELTA_ROWS - 1]), last_low = vf_set(chunk->low[DELTA_ROWS - 1]);
    chunk->decay = exp_one((float)sum);
    for (uint32_t j = 0; j < DELTA_ROWS; j += VEC_ROWS) {
        vf high = vf_load(chunk->high + j), low = vf_load(chunk->low + j);
        vf_store(chunk->grown + j, vf_exp(high));
        vf_store(chunk->left + j, vf_exp(vf_add(vf_sub(last_high, high), vf_sub(last_low, low))));
    }
    /* Blocks are whole: rows behind the last one have beta 0 and keys 0. */
    for (uint32_t i = 0; i < (chunk->n + CHUNK_MR - 1) / CHUNK_MR * CHUNK_MR; i++) {
        vf high = vf_set(chunk->high[i]), low = vf_set(chunk->low[i]), minus = vf_set(-chunk->beta[i]);
        const uint64_t row = (uint64_t)i * DELTA_ROWS;
        for (uint32_t j = 0; j <= i; j += VEC_ROWS) {
            vf apart = vf_add(vf_sub(high, vf_load(chunk->high + j)), vf_sub(low, vf_load(chunk->low + j)));
            vf decay = vf_exp(apart);
            vf_store(chunk->lower + row + j, vf_mul(vf_mul(minus, decay), vf_load(chunk->key_key + row + j)));
            vf_store(chunk->output_lower + row + j, vf_mul(decay, vf_load(chunk->query_key + row + j)));
        }
    }
}

/* D: what each row adds to the state, from what it would recall of the state before the chunk. */
static inline void find_deltas(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t t,
                               uint32_t first, struct chunk *chunk)
{
    const uint32_t n = panel_columns(job, first);
    struct matrix delta = {chunk->delta, DELTA_PANEL};
    for (uint32_t i = 0; i < chunk->n; i++) {
        const float *v = row_of(head->value, job->value_stride, t + i) + first;
        float *d = chunk->delta + (uint64_t)i * DELTA_PANEL;
        vf grown = vf_set(chunk->grown[i]), beta = vf_set(chunk->beta[i]);
        for (uint32_t c = 0; c < n; c += VEC_ROWS)
            vf_store(d + c, vf_mul(beta, vf_fnma(grown, vf_load(d + c), vf_load(v + c))));
    }
    multiply_lower(chunk->lower, delta, delta, chunk->n, false);
}

/* rows of a panel *= factors */
static inline void scale_rows(float *panel, const float *factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        UNROLL_FOR (unsigned c = 0; c < DELTA_PANEL; c += VEC_ROWS) {
            float *at = panel + (uint64_t)i * DELTA_PANEL + c;
            vf_store(at, vf_mul(vf_set(factor[i]), vf_load(at)));
        }
}

/* Columns from `first` on: outputs of the chunk's rows, and the state behind them. */
static inline void run_panel(const struct kt_rows_delta *job, const struct delta_head *head, uint32_t t,
                             uint32_t first, struct chunk *chunk)
{
    const uint32_t rows = (chunk->n + CHUNK_MR - 1) / CHUNK_MR * CHUNK_MR, size = job->key_size;
    struct matrix state = {chunk->state, DELTA_PANEL}, delta = {chunk->delta, DELTA_PANEL};
    struct matrix output = {chunk->output, DELTA_PANEL};
    load_panel(job, head, first, chunk->state);
    multiply_chunk((struct factor){chunk->key, chunk->key_row, 1}, state, delta, rows, DELTA_PANEL, size,
                   false);
    multiply_chunk((struct factor){chunk->query, chunk->key_row, 1}, state, output, rows, DELTA_PANEL, size,
                   false);
    find_deltas(job, head, t, first, chunk);
    scale_rows(chunk->output, chunk->grown, chunk->n);
    multiply_lower(chunk->output_lower, delta, output, chunk->n, true);
    for (uint32_t i = 0; i < chunk->n; i++)
        copy_numbers((float *)(uintptr_t)row_of(head->output, job->output_stride, t + i) + first,
                     chunk->output + (uint64_t)i * DELTA_PANEL, panel_columns(job, first));
    scale_rows(chunk->delta, chunk->left, chunk->n);
    for (uint64_t i = 0; i < (uint64_t)size * DELTA_PANEL; i += VEC_ROWS)
        vf_store(chunk->state + i, vf_mul(vf_set(chunk->decay), vf_load(chunk->state + i)));
    multiply_chunk((struct factor){chunk->key, 1, chunk->key_row}, delta, state, size, DELTA_PANEL, chunk->n,
                   true);
    store_panel(job, head, first, chunk->state);
}

static inline void run_chunks(const struct kt_rows_delta *job, uint32_t key_head)
{
    struct chunk chunk = place_chunk(job->scratch, job->key_size);
    for (uint32_t t = 0; t < job->n_rows; t += DELTA_ROWS) {
        bool loaded = false;
        chunk.n = job->n_rows - t < DELTA_ROWS ? job->n_rows - t : DELTA_ROWS;
        for (uint32_t i = 0; i < job->n_heads / job->n_key_heads; i++) {
            uint32_t number = nth_head(job, key_head, i);
            if (number < job->first_head || number >= job->end_head)
                continue;
            struct delta_head head = find_head(job, number, key_head);
            if (!loaded)
                load_keys(job, &head, t, &chunk);
            loaded = true;
            find_triangles(job, &head, t, &chunk);
            for (uint32_t first = 0; first < job->value_size; first += DELTA_PANEL)
                run_panel(job, &head, t, first, &chunk);
        }
    }
}

static void rows_delta(void *instance, const struct kt_rows_delta *job)
{
    (void)instance;
    const uint32_t per_key = job->n_heads / job->n_key_heads;
    for (uint32_t key_head = 0; key_head < job->n_key_heads; key_head++) {
        if (job->n_rows >= KT_DELTA_CHUNKED && !job->deterministic) {
            run_chunks(job, key_head);
            continue;
        }
        for (uint32_t i = 0; i < per_key; i++) {
            uint32_t number = nth_head(job, key_head, i);
            if (number >= job->first_head && number < job->end_head) {
                struct delta_head head = find_head(job, number, key_head);
                step_head(job, &head);
            }
        }
    }
}

#endif
