/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_split.h - products of long rows with weights of bfloat16, by tiles (rows_multiply.h has all others).
 *
 * A number of float32 is the sum of three of bfloat16, x = x0 + x1 + x2: each is what those before it leave,
 * rounded, and nothing is left behind the third. So w x0, w x1 and w x2 are exact; sums of the first
 * and of the others, which are 2^-8 of it at most, are tiles of their own, added in double and rounded once.
 * Tiles take subnormal numbers for 0, and what is infinite, or rounds to it as bfloat16, becomes NaN.
 *
 * Rows of weights are those of A as they lie, rows of x columns of B. A sum's products are added in the same
 * order for any number of rows and outputs. (Weights of float32 would have to be split as well, six products.
 * That took four times what reading them from the second cache does, so decodes would be slower.)
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_SPLIT_H
#define KT_PLUGINS_ATTENTION_ROWS_SPLIT_H

#include "plugins/attention/rows_multiply.h"
#include "plugins/common/simd/amx.h"

#define SPLIT_SIZE 1024 /* numbers of a row from which on tiles multiply */
#define SPLIT_COLUMNS 32
#define SPLIT_STEPS 4 /* of SPLIT_COLUMNS: parts of so much of 32 rows of x stay in the first cache */
#define SPLIT_BLOCK (SPLIT_STEPS * SPLIT_COLUMNS)
#define SPLIT_PARTS 3
#define SPLIT_SUMS 4      /* tiles of two products: of w x0, and of w x1 and w x2 */
#define SPLIT_OUTPUTS 128 /* whose sums are kept from block to block */
#define SPLIT_TILE 1024
/* Bytes of a row of weights that are prefetched: from memory for few rows of x, from the second cache for
 * many. */
#define SPLIT_AHEAD 256
#define SPLIT_NEAR 128

/* What one call multiplies: two groups of 16 rows of x by 16 outputs, or one by two times 16 outputs. */
struct split {
    const uint8_t *weight[2]; /* of 16 outputs each */
    int64_t weight_stride[2];
    const uint8_t *x;           /* [steps][1 or 2 groups][SPLIT_PARTS][SPLIT_TILE] */
    uint32_t n, steps;          /* columns, and steps of them */
    uint8_t (*sum)[SPLIT_TILE]; /* [SPLIT_SUMS] */
};

/* Column `column` and those behind it up to a vector, 0 from n on. */
INLINE vf load_until(const uint8_t *row, uint32_t dtype, uint32_t column, uint32_t n)
{
    const uint8_t *from = row + column * number_size(dtype);
    if (column + VEC_ROWS <= n)
        return load_numbers(from, dtype);
    return column < n ? load_some(from, dtype, n - column) : vf_set(0.0f);
}

/* Numbers 2 i and 2 i + 1 of a and b, which follow each other, become pair i of three lines. A NaN of any
 * kind is still one in the last part, which is cut off: there is nothing to round. */
INLINE void split_two(vf a, vf b, vi *part)
{
    const vi line = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const vi half = vi_set32(0x8000), upper = vi_set32((int32_t)0xffff0000);
    vf even = _mm512_permutex2var_ps(a, line, b),
       odd = _mm512_permutex2var_ps(a, vi_or(line, vi_set32(1)), b);
    UNROLL_FOR (unsigned p = 0; p + 1 < SPLIT_PARTS; p++) {
        vi low = vi_and(vi_add32(_mm512_castps_si512(even), half), upper);
        vi high = vi_and(vi_add32(_mm512_castps_si512(odd), half), upper);
        part[p] = vi_or(_mm512_srli_epi32(low, 16), high);
        even = vf_sub(even, _mm512_castsi512_ps(low));
        odd = vf_sub(odd, _mm512_castsi512_ps(high));
    }
    part[SPLIT_PARTS - 1] =
        vi_or(_mm512_srli_epi32(_mm512_castps_si512(even), 16), vi_and(_mm512_castps_si512(odd), upper));
}

/* ---- rows of x ---- */

/* 16 lines of 16 become 16 columns. */
static inline void turn_lines(vi *v)
{
    vi t[16];
    UNROLL_FOR (unsigned i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    UNROLL_FOR (unsigned i = 0; i < 16; i += 4)
        UNROLL_FOR (unsigned j = 0; j < 2; j++) {
            v[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            v[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    UNROLL_FOR (unsigned c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88);
        t[4 + c] = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88);
        t[8 + c] = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd);
        t[12 + c] = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
    }
    UNROLL_FOR (unsigned c = 0; c < 4; c++) {
        v[c] = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        v[8 + c] = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        v[4 + c] = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        v[12 + c] = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);
    }
}

/* 16 rows, of which n are there, and SPLIT_COLUMNS columns of them; the tiles of the parts. */
static NOINLINE void split_tile(const uint8_t *const *row, uint32_t n_rows, uint32_t dtype, uint32_t column,
                                uint32_t n, uint8_t *to)
{
    vi line[SPLIT_PARTS][16], part[SPLIT_PARTS];
    for (uint32_t r = 0; r < 16; r++) {
        vf a = vf_set(0.0f), b = a;
        if (r < n_rows) {
            a = load_until(row[r], dtype, column, n);
            b = load_until(row[r], dtype, column + VEC_ROWS, n);
        }
        split_two(a, b, part);
        UNROLL_FOR (unsigned p = 0; p < SPLIT_PARTS; p++)
            line[p][r] = part[p];
    }
    for (unsigned p = 0; p < SPLIT_PARTS; p++) {
        turn_lines(line[p]);
        UNROLL_FOR (unsigned i = 0; i < 16; i++)
            _mm512_store_si512(to + p * SPLIT_TILE + i * 64, line[p][i]);
    }
}

#define SPLIT_FEW 4 /* rows that are sooner written number by number than turned */

/* The same for few rows; the columns of rows that are not there keep what they have. */
static NOINLINE void split_few(const uint8_t *const *row, uint32_t n_rows, uint32_t dtype, uint32_t column,
                               uint32_t n, uint8_t *to)
{
    vi part[SPLIT_PARTS];
    uint32_t pair[SPLIT_COLUMNS / 2];
    for (uint32_t r = 0; r < n_rows; r++) {
        split_two(load_until(row[r], dtype, column, n), load_until(row[r], dtype, column + VEC_ROWS, n),
                  part);
        UNROLL_FOR (unsigned p = 0; p < SPLIT_PARTS; p++) {
            _mm512_storeu_si512(pair, part[p]);
            UNROLL_FOR (unsigned i = 0; i < SPLIT_COLUMNS / 2; i++)
                memcpy(to + p * SPLIT_TILE + 64 * i + 4 * r, pair + i, sizeof *pair);
        }
    }
}

/* Columns c .. c + n of rows `row` to `row + n_rows`. */
static inline void split_inputs(const struct kt_rows_multiply *job, uint32_t row, uint32_t n_rows, uint32_t c,
                                struct split *s, uint8_t *to)
{
    const uint8_t *from[32];
    for (uint32_t r = 0; r < n_rows; r++)
        from[r] = input_part(&job->input, row + r, 0) + c * number_size(job->input.dtype);
    const uint32_t groups = n_rows > 16 ? 2 : 1;
    s->x = to;
    for (uint32_t step = 0; step < s->steps; step++)
        for (uint32_t g = 0; g < groups; g++)
            (n_rows <= SPLIT_FEW ? split_few
                                 : split_tile)(from + 16 * g, n_rows - 16 * g, job->input.dtype,
                                               step * SPLIT_COLUMNS, s->n,
                                               to + (step * groups + g) * SPLIT_PARTS * SPLIT_TILE);
}

/* ---- products ---- */

#define LOAD_SUMS(f)     \
    do {                 \
        f(0, s->sum[0]); \
        f(1, s->sum[1]); \
        f(2, s->sum[2]); \
        f(3, s->sum[3]); \
    } while (0)

/* Lines of weights that the next calls read. */
INLINE void fetch_weights(const uint8_t *weight, int64_t stride, int64_t ahead)
{
    UNROLL_FOR (unsigned r = 0; r < 16; r++)
        PREFETCH(weight + r * stride + ahead);
}

/* One group of rows, two times 16 outputs: tiles 0 and 1 are sums of the first 16. */
static NOINLINE void multiply_one_group(const struct split *s)
{
    const uint8_t *x = s->x, *first = s->weight[0], *second = s->weight[1];
    const int64_t first_stride = s->weight_stride[0], second_stride = s->weight_stride[1];
    LOAD_SUMS(AMX_LOAD);
    for (uint32_t step = 0; step < s->steps; step++) {
        AMX_LOAD(4, x);
        AMX_LOAD_ROWS(5, first, first_stride);
        AMX_DOT_BF16(0, 5, 4);
        AMX_LOAD_ROWS(6, second, second_stride);
        AMX_DOT_BF16(2, 6, 4);
        fetch_weights(first, first_stride, SPLIT_AHEAD);
        AMX_LOAD(7, x + SPLIT_TILE);
        AMX_DOT_BF16(1, 5, 7);
        AMX_DOT_BF16(3, 6, 7);
        fetch_weights(second, second_stride, SPLIT_AHEAD);
        AMX_LOAD(4, x + 2 * SPLIT_TILE);
        AMX_DOT_BF16(1, 5, 4);
        AMX_DOT_BF16(3, 6, 4);
        first += 2 * SPLIT_COLUMNS;
        second += 2 * SPLIT_COLUMNS;
        x += SPLIT_PARTS * SPLIT_TILE;
    }
    LOAD_SUMS(AMX_STORE);
}

/* Two groups of rows, 16 outputs: tiles 0 and 1 are sums of the first 16 rows. */
static NOINLINE void multiply_two_groups(const struct split *s)
{
    const uint8_t *x = s->x, *weight = s->weight[0];
    const int64_t stride = s->weight_stride[0];
    LOAD_SUMS(AMX_LOAD);
    for (uint32_t step = 0; step < s->steps; step++) {
        AMX_LOAD_ROWS(4, weight, stride);
        fetch_weights(weight, stride, SPLIT_NEAR);
        AMX_LOAD(5, x);
        AMX_DOT_BF16(0, 4, 5);
        AMX_LOAD(6, x + 3 * SPLIT_TILE);
        AMX_DOT_BF16(2, 4, 6);
        AMX_LOAD(7, x + SPLIT_TILE);
        AMX_DOT_BF16(1, 4, 7);
        AMX_LOAD(5, x + 4 * SPLIT_TILE);
        AMX_DOT_BF16(3, 4, 5);
        AMX_LOAD(6, x + 2 * SPLIT_TILE);
        AMX_DOT_BF16(1, 4, 6);
        AMX_LOAD(7, x + 5 * SPLIT_TILE);
        AMX_DOT_BF16(3, 4, 7);
        weight += 2 * SPLIT_COLUMNS;
        x += 2 * SPLIT_PARTS * SPLIT_TILE;
    }
    LOAD_SUMS(AMX_STORE);
}
#undef LOAD_SUMS

INLINE float number_at(const uint8_t *tile, uint32_t output, uint32_t row)
{
    float x;
    memcpy(&x, tile + 64 * output + 4 * row, sizeof x);
    return x;
}

/* n_outputs from `output` on of 16 rows or fewer, from the two sums of each 16 outputs. */
static inline void store_sums(const struct kt_rows_multiply *job, uint32_t row, uint32_t n_rows,
                              uint32_t output, uint32_t n_outputs, uint8_t (*sum)[SPLIT_TILE])
{
    for (uint32_t r = 0; r < n_rows; r++) {
        float *to =
            (float *)(void *)((uint8_t *)job->output + (int64_t)(row + r) * job->output_stride) + output;
        for (uint32_t o = 0; o < n_outputs; o++) {
            double total = (double)number_at(sum[0], o, r) + (double)number_at(sum[1], o, r);
            to[o] = (float)(total + (job->bias ? (double)job->bias[output + o] : 0.0));
        }
    }
}

/* Weights of 16 outputs from `output` on and of s->n columns from c on: where they lie, or whole tiles of
 * what there is of them in `copy`. */
static inline void find_weights(const struct kt_rows_multiply *job, uint32_t output, uint32_t c,
                                unsigned half, struct split *s, uint8_t (*copy)[2 * SPLIT_BLOCK])
{
    const uint32_t there = output >= job->n_outputs ? 0 : job->n_outputs - output;
    const uint8_t *from = (const uint8_t *)job->weight + 2 * (uint64_t)c;
    if (there >= 16 && s->n % SPLIT_COLUMNS == 0) {
        s->weight[half] = from + (int64_t)output * job->weight_stride;
        s->weight_stride[half] = job->weight_stride;
        return;
    }
    memset(copy, 0, sizeof *copy * 16);
    for (uint32_t r = 0; r < 16 && r < there; r++)
        memcpy(copy[r], from + (int64_t)(output + r) * job->weight_stride, 2 * (size_t)s->n);
    s->weight[half] = copy[0];
    s->weight_stride[half] = sizeof *copy;
}

/* One block of columns, from c on, is added to the sums of n_outputs. */
static inline void multiply_block_split(const struct kt_rows_multiply *job, uint32_t n_rows, uint32_t output,
                                        uint32_t n_outputs, uint32_t c, struct split *s,
                                        uint8_t (*sum)[SPLIT_SUMS][SPLIT_TILE])
{
    uint8_t copy[2][16][2 * SPLIT_BLOCK];
    const uint32_t across = n_rows > 16 ? 16 : 32;
    for (uint32_t o = 0; o < n_outputs; o += across) {
        s->sum = sum[o / across];
        find_weights(job, output + o, c, 0, s, copy[0]);
        if (n_rows > 16) {
            multiply_two_groups(s);
            continue;
        }
        find_weights(job, output + o + 16, c, 1, s, copy[1]);
        multiply_one_group(s);
    }
}

/* Up to SPLIT_OUTPUTS outputs from `output` on, of up to 32 rows. */
static NOINLINE void multiply_split(const struct kt_rows_multiply *job, uint32_t row, uint32_t n_rows,
                                    uint32_t output)
{
    _Alignas(64) uint8_t x[2 * SPLIT_STEPS * SPLIT_PARTS * SPLIT_TILE];
    _Alignas(64) uint8_t sum[SPLIT_OUTPUTS / 16][SPLIT_SUMS][SPLIT_TILE];
    const uint32_t left = job->n_outputs - output, n_outputs = left < SPLIT_OUTPUTS ? left : SPLIT_OUTPUTS;
    struct split s = {.n = 0};
    if (n_rows <= SPLIT_FEW)
        memset(x, 0, sizeof x / 2);
    memset(sum, 0, sizeof *sum * ((n_outputs + 15) / 16));
    for (uint32_t c = 0; c < job->size; c += SPLIT_BLOCK) {
        s.n = job->size - c < SPLIT_BLOCK ? job->size - c : SPLIT_BLOCK;
        s.steps = (s.n + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS;
        split_inputs(job, row, n_rows, c, &s, x);
        multiply_block_split(job, n_rows, output, n_outputs, c, &s, sum);
    }
    for (uint32_t o = 0; o < n_outputs; o += 16) {
        uint32_t n = n_outputs - o < 16 ? n_outputs - o : 16;
        uint8_t(*half)[SPLIT_TILE] = n_rows > 16 ? sum[o / 16] : sum[o / 32] + o % 32 / 16 * 2;
        store_sums(job, row, n_rows < 16 ? n_rows : 16, output + o, n, half);
        if (n_rows > 16)
            store_sums(job, row + 16, n_rows - 16, output + o, n, half + 2);
    }
}

/* By the type of weights and the size of rows alone, so that bits depend on nothing else. */
static void rows_multiply_long(void *instance, const struct kt_rows_multiply *job)
{
    if (job->size < SPLIT_SIZE || job->weight_dtype != KT_DTYPE_BF16) {
        rows_multiply(instance, job);
        return;
    }
    amx_enter();
    for (uint32_t row = 0; row < job->n_rows; row += 32)
        for (uint32_t output = 0; output < job->n_outputs; output += SPLIT_OUTPUTS)
            multiply_split(job, row, job->n_rows - row < 32 ? job->n_rows - row : 32, output);
    amx_leave();
}

#endif
