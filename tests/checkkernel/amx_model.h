/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_model.h - the tiles of plugins/common/simd/amx.h in plain C, so that a kernel's own source runs, and
 * is checked, where the CPU has none. Follows the instruction set reference; what it would fault on
 * is counted.
 */
#ifndef KT_TESTS_AMX_MODEL_H
#define KT_TESTS_AMX_MODEL_H

#include <stdlib.h>

struct amx_model {
    int configured;
    unsigned faults;
    unsigned long products;
    uint8_t rows[8];
    uint16_t bytes_per_row[8];
    uint8_t tile[8][16][64];
};

extern _Thread_local struct amx_model amx_model;

static inline int model_has(int tile)
{
    if (amx_model.configured && amx_model.rows[tile] && amx_model.bytes_per_row[tile])
        return 1;
    amx_model.faults++;
    return 0;
}

static inline void model_configure(const struct amx_config *config)
{
    memset(&amx_model.tile, 0, sizeof amx_model.tile);
    amx_model.configured = config->palette == 1 && config->start_row == 0;
    amx_model.faults += !amx_model.configured;
    for (int i = 0; i < 8; i++) {
        amx_model.rows[i] = config->rows[i];
        amx_model.bytes_per_row[i] = config->bytes_per_row[i];
        amx_model.faults += config->rows[i] > 16 || config->bytes_per_row[i] > 64;
    }
    for (int i = 8; i < 16; i++)
        amx_model.faults += config->rows[i] || config->bytes_per_row[i];
}

static inline void model_load(int tile, const uint8_t *from, int64_t stride)
{
    if (!model_has(tile))
        return;
    memset(amx_model.tile[tile], 0, sizeof amx_model.tile[tile]);
    for (int r = 0; r < amx_model.rows[tile]; r++)
        memcpy(amx_model.tile[tile][r], from + stride * r, amx_model.bytes_per_row[tile]);
}

static inline void model_store(int tile, uint8_t *to, int64_t stride)
{
    if (!model_has(tile))
        return;
    for (int r = 0; r < amx_model.rows[tile]; r++)
        memcpy(to + stride * r, amx_model.tile[tile][r], amx_model.bytes_per_row[tile]);
}

static inline void model_zero(int tile)
{
    if (model_has(tile))
        memset(amx_model.tile[tile], 0, sizeof amx_model.tile[tile]);
}

/* Signed bytes of a, unsigned ones of b. */
static inline void model_dot_su(int sum, int a, int b)
{
    if (!model_has(sum) || !model_has(a) || !model_has(b))
        return;
    amx_model.products++;
    amx_model.faults += sum == a || sum == b || a == b;
    for (int m = 0; m < amx_model.rows[sum]; m++)
        for (int k = 0; k < amx_model.bytes_per_row[a] / 4; k++)
            for (int n = 0; n < amx_model.bytes_per_row[sum] / 4; n++) {
                uint32_t total;
                memcpy(&total, &amx_model.tile[sum][m][4 * n], 4);
                for (int i = 0; i < 4; i++)
                    total += (uint32_t)((int8_t)amx_model.tile[a][m][4 * k + i] *
                                        (int)amx_model.tile[b][k][4 * n + i]);
                memcpy(&amx_model.tile[sum][m][4 * n], &total, 4);
            }
}

static inline float model_bf16(const uint8_t *from)
{
    uint8_t whole[4] = {0, 0, from[0], from[1]};
    float value;
    memcpy(&value, whole, sizeof value);
    return value > -0x1p-126f && value < 0x1p-126f ? 0.0f : value;
}

/* The numbers of a tile, widened once for all products that they are in. */
static inline void model_widen(int tile, int rows, float numbers[16][32])
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < amx_model.bytes_per_row[tile] / 2; i++)
            numbers[r][i] = model_bf16(&amx_model.tile[tile][r][2 * i]);
}

/* Each part adds up products of its place, with one rounding each: by vectors, because tests
 * spend much of their time here. */
static inline void model_multiply_row(const float *left, const float right[16][32], int pairs, float part[32])
{
#if defined __FMA__ && !defined __clang__
    typedef float eight __attribute__((vector_size(32)));
    eight sum[4] = {{0}}, factor;
    for (int k = 0; k < pairs; k++) {
        float even = left[2 * k], odd = left[2 * k + 1];
        eight pair = {even, odd, even, odd, even, odd, even, odd};
        for (int n = 0; n < 4; n++) {
            memcpy(&factor, right[k] + 8 * n, sizeof factor);
            sum[n] = __builtin_ia32_vfmaddps256(pair, factor, sum[n]);
        }
    }
    memcpy(part, sum, sizeof sum);
#else
    memset(part, 0, 32 * sizeof *part);
    for (int k = 0; k < pairs; k++)
        for (int n = 0; n < 32; n++)
            part[n] = __builtin_fmaf(left[2 * k + n % 2], right[k][n], part[n]);
#endif
}

/* Even and odd places add up by themselves, then both to what was there; subnormal factors are 0. */
static inline void model_dot_bf16(int sum, int a, int b)
{
    if (!model_has(sum) || !model_has(a) || !model_has(b))
        return;
    amx_model.products++;
    amx_model.faults += sum == a || sum == b || a == b;
    int pairs = amx_model.bytes_per_row[a] / 4, columns = amx_model.bytes_per_row[sum] / 4;
    float left[16][32], right[16][32] = {{0}};
    model_widen(a, amx_model.rows[sum], left);
    model_widen(b, pairs, right);
    for (int m = 0; m < amx_model.rows[sum]; m++) {
        float part[32], total;
        model_multiply_row(left[m], right, pairs, part);
        for (int n = 0; n < columns; n++) {
            memcpy(&total, &amx_model.tile[sum][m][4 * n], 4);
            total += part[2 * n] + part[2 * n + 1];
            memcpy(&amx_model.tile[sum][m][4 * n], &total, 4);
        }
    }
}

static inline void model_release(void)
{
#ifdef AMX_MODEL_ABORTS /* for tests that cannot look at the count */
    if (amx_model.faults)
        abort();
#endif
    amx_model.configured = 0;
}

#define AMX_CONFIGURE(config) model_configure(config)
#define AMX_RELEASE() model_release()
#define AMX_ZERO(tile) model_zero(tile)
#define AMX_LOAD_ROWS(tile, address, stride) model_load((tile), (const uint8_t *)(address), (int64_t)(stride))
#define AMX_LOAD_ROWS_ONCE(tile, address, stride) AMX_LOAD_ROWS((tile), (address), (stride))
#define AMX_STORE_ROWS(tile, address, stride) model_store((tile), (uint8_t *)(address), (int64_t)(stride))
#define AMX_LOAD(tile, address) AMX_LOAD_ROWS((tile), (address), 64)
#define AMX_LOAD_ONCE(tile, address) AMX_LOAD((tile), (address))
#define AMX_STORE(tile, address) AMX_STORE_ROWS((tile), (address), 64)
#define AMX_DOT_SU(sum, a, b) model_dot_su((sum), (a), (b))
#define AMX_DOT_BF16(sum, a, b) model_dot_bf16((sum), (a), (b))

#endif
