/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/microkernel_sdot_tmpl.h - a group of codes of 4 bits on ARM with sdot. One multiplication of
 * bytes that adds (mla) makes an int8 weight of a code, its scale and its zero, so products go straight to
 * the row's total: nothing begins or ends with a group.
 *
 * Parameters  those of gemm/microkernel_tmpl.h
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_SDOT_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_SDOT_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/int4_group/weights.h"

#ifndef G4_DIRECT
#error "int4_group/microkernel_sdot_tmpl.h: wants SIMD neon with VEC_DOTPROD"
#endif

/* What makes weights of a vector's codes. */
struct coding4 {
    vi scales, offsets;
};

INLINE struct coding4 load_coding(const uint8_t *group, unsigned v)
{
    const uint8_t *bytes = group + v / VEC_PARTS * TILE_ROWS;
    vi scales = g4_scales(bytes, (int)(v % VEC_PARTS));
    return (struct coding4){scales, g4_minus(g4_zeros(bytes, (int)(v % VEC_PARTS)), scales)};
}

/* The first and the last 4 of a line's 8 columns. */
INLINE vi low_weights(vi codes, const struct coding4 *coding)
{
    return g4_dequantize(vi_and(codes, vi_set_u8(15)), coding->scales, coding->offsets);
}

INLINE vi high_weights(vi codes, const struct coding4 *coding)
{
    return g4_dequantize(vi_high4(codes), coding->scales, coding->offsets);
}

/* 32 columns: the four lines at `lines` with the activations at x[r] + from, a byte of scale and zero per
 * row at group. One tile after the other: what both need would take all registers. */
INLINE void multiply_group(const uint8_t *lines, const uint8_t *group, const struct act_rows *x,
                           uint64_t from, uint64_t sums, unsigned rows, unsigned first, unsigned n,
                           bool streamed, uint64_t distance, vi total[MAX_ROWS][VECS])
{
    (void)sums;
    UNROLL_FOR (unsigned i = 0; streamed && i < CODES_SIZE; i += 64)
        PREFETCH_LINE((uintptr_t)lines + distance + i);
    UNROLL_FOR (unsigned tile = 0; tile < n; tile += VEC_PARTS) {
        struct coding4 coding[VEC_PARTS];
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            coding[v] = load_coding(group, first + tile + v);
        UNROLL_FOR (unsigned i = 0; i < 4; i++) {
            int8x16_t a[MAX_ROWS];
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                a[r] = vld1q_s8(x->x[r] + from + i / 2 * 16);
            UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
                vi codes = vi_load(find_codes(lines, first + tile + v) + i * 128);
                vi low = low_weights(codes, &coding[v]), high = high_weights(codes, &coding[v]);
                UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                    vi *sum = &total[r][tile + v];
                    *sum = dot4_quad(*sum, low, a[r], i % 2 * 2);
                    *sum = dot4_quad(*sum, high, a[r], i % 2 * 2 + 1);
                }
            }
        }
    }
}

#endif
