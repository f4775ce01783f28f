/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_block.h - rows of F32, BF16 or F16 as blocks of float32 in whole vectors: where a row is float32
 * already, a block is the row itself.
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_BLOCK_H
#define KT_PLUGINS_ATTENTION_ROWS_BLOCK_H

#include "plugins/common/simd/simd.h"

#include <kt/rows.h>
#include <stdbool.h>

/* Brings a line that is written soon: reading it first, where another core has written it, would be a way to
 * that core more. CPUs that do not know prefetchw, which compilers want to be told of, skip it. */
#ifdef __x86_64__
#define PREFETCH_WRITE(address) __asm__ volatile("prefetchw %0" ::"m"(*(const char *)(address)))
#else
#define PREFETCH_WRITE(address) __builtin_prefetch((address), 1, 3)
#endif

/* Numbers of a block: short enough that several stay in L1. */
#define ROW_BLOCK 256

/* How many of `left` numbers the next block has, and its vectors. */
#define ROW_BLOCK_OF(left) ((left) < ROW_BLOCK ? (left) : ROW_BLOCK)
#define ROW_VECTORS(n) (((n) + VEC_ROWS - 1) / VEC_ROWS)

INLINE uint64_t number_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : 2;
}

INLINE vf load_numbers(const uint8_t *from, uint32_t dtype)
{
    return dtype == KT_DTYPE_F32    ? vf_load(from)
           : dtype == KT_DTYPE_BF16 ? vf_from_bf16(from)
                                    : vf_from_half(from);
}

/* n numbers, less than a vector; the other lanes get 0. */
static inline vf load_some(const uint8_t *from, uint32_t dtype, uint32_t n)
{
    uint8_t part[4 * VEC_ROWS] = {0};
    memcpy(part, from, n * number_size(dtype));
    return load_numbers(part, dtype);
}

/* n numbers, at most ROW_BLOCK, and `fill` behind them up to a whole vector: at `from`, or in `copy`. */
static inline const float *read_block(const void *from, uint32_t dtype, uint32_t n, float fill, float *copy)
{
    const uint8_t *bytes = from;
    uint32_t whole = n - n % VEC_ROWS;
    if (dtype == KT_DTYPE_F32 && whole == n)
        return from;
    if (dtype == KT_DTYPE_F32)
        memcpy(copy, bytes, n * sizeof *copy);
    else if (dtype == KT_DTYPE_BF16)
        for (uint32_t i = 0; i < whole; i += VEC_ROWS)
            vf_store(copy + i, vf_from_bf16(bytes + 2 * i));
    else
        for (uint32_t i = 0; i < whole; i += VEC_ROWS)
            vf_store(copy + i, vf_from_half(bytes + 2 * i));
    if (whole < n) {
        vf_store(copy + whole, load_some(bytes + whole * number_size(dtype), dtype, n - whole));
        for (uint32_t i = n; i < whole + VEC_ROWS; i++)
            copy[i] = fill;
    }
    return copy;
}

/* Where n numbers that become a block at `to` are computed: there, or in `copy`. */
static inline float *begin_block(void *to, uint32_t dtype, uint32_t n, float *copy)
{
    return dtype == KT_DTYPE_F32 && n % VEC_ROWS == 0 ? to : copy;
}

/* Stores them, unless they are there. */
static inline void end_block(void *to, uint32_t dtype, uint32_t n, const float *from)
{
    uint8_t *bytes = to, half[2 * VEC_ROWS];
    if (from == to)
        return;
    if (dtype == KT_DTYPE_F32) {
        memcpy(to, from, n * sizeof *from);
        return;
    }
    uint32_t whole = n - n % VEC_ROWS;
    if (dtype == KT_DTYPE_BF16)
        for (uint32_t i = 0; i < whole; i += VEC_ROWS)
            vf_store_bf16(bytes + 2 * i, vf_load(from + i));
    else
        for (uint32_t i = 0; i < whole; i += VEC_ROWS)
            vf_store_half(bytes + 2 * i, vf_load(from + i));
    if (whole == n)
        return;
    if (dtype == KT_DTYPE_BF16)
        vf_store_bf16(half, vf_load(from + whole));
    else
        vf_store_half(half, vf_load(from + whole));
    memcpy(bytes + 2 * whole, half, 2 * (n - whole));
}

INLINE const uint8_t *input_part(const struct kt_rows_input *input, uint32_t row, uint32_t part)
{
    return (const uint8_t *)input->data + (int64_t)row * input->stride + (int64_t)part * input->part_stride;
}

INLINE uint8_t *output_part(const struct kt_rows_output *output, uint32_t row, uint32_t part)
{
    return (uint8_t *)output->data + (int64_t)row * output->stride + (int64_t)part * output->part_stride;
}

#endif
