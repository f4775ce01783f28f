/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/microkernel_sve_tmpl.h - a panel of codes of 4 bits with ARM's SVE, as
 * int4_group/microkernel_sdot_tmpl.h: one multiplication of bytes that adds makes an int8 weight of a code.
 *
 * Parameters  those of gemm/microkernel_tmpl.h
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_SVE_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_SVE_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/int4_group/weights.h"
#include "plugins/common/simd/sve.h"

/* What makes weights of a vector's codes: in all 4 bytes of a row of weights, scale and -scale * zero. */
struct coding_sve {
    sv_u8 scales, offsets;
};

INLINE struct coding_sve load_coding_sve(const uint8_t *group, unsigned v)
{
    const svbool_t all = svptrue_b32();
    svuint32_t bytes = svld1ub_u32(all, group + v * (SVE_SIZE / 4));
    svuint32_t scales = svadd_n_u32_x(all, svand_n_u32_x(all, bytes, 15), 1);
    svuint32_t minus = svmul_u32_x(all, scales, svlsr_n_u32_x(all, bytes, 4));
    scales = svmul_n_u32_x(all, scales, UINT32_C(0x01010101));
    minus = svmul_n_u32_x(all, minus, UINT32_C(0x01010101));
    return (struct coding_sve){svreinterpret_u8_u32(scales),
                               svsubr_n_u8_x(svptrue_b8(), svreinterpret_u8_u32(minus), 0)};
}

INLINE sv8 dequantize_sve(svuint8_t codes, const struct coding_sve *coding)
{
    return svreinterpret_s8_u8(svmla_u8_x(svptrue_b8(), coding->offsets, codes, coding->scales));
}

/* 32 columns: four lines of vectors first..first+n-1 of a pair of tiles. */
INLINE void add_group_sve(const uint8_t *lines, const uint8_t *group, const struct act_rows *x, uint64_t from,
                          unsigned rows, unsigned first, unsigned n, unsigned turns,
                          sv32 total[4][MAX_ROWS][2 * SVE_PARTS])
{
    struct coding_sve coding[2 * SVE_PARTS];
    UNROLL_FOR (unsigned v = first; v < first + n; v++)
        coding[v] = load_coding_sve(group, v);
    UNROLL_FOR (unsigned i = 0; i < 4; i++) {
        sv8 a[MAX_ROWS];
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            a[r] = sve_repeat16(x->x[r] + from + i / 2 * 16);
        UNROLL_FOR (unsigned v = first; v < first + n; v++) {
            svuint8_t codes = sve_load(lines + 128 * i + v / SVE_PARTS * 64 + v % SVE_PARTS * SVE_SIZE);
            sv8 low = dequantize_sve(svand_n_u8_x(svptrue_b8(), codes, 15), &coding[v]);
            sv8 high = dequantize_sve(svlsr_n_u8_x(svptrue_b8(), codes, 4), &coding[v]);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                sv32 *even = &total[2 * i % turns][r][v], *odd = &total[(2 * i + 1) % turns][r][v];
                *even = sve_add_quad(*even, low, a[r], i % 2 * 2);
                *odd = sve_add_quad(*odd, high, a[r], i % 2 * 2 + 1);
            }
        }
    }
}

/* The sums of `rows` rows and vectors first..first+n-1, of 16 bytes, of a panel: constants in each
 * instance. */
INLINE void multiply_int4(const struct panel *panel, const struct act_rows *x, unsigned rows, unsigned first,
                          unsigned n, bool streamed, struct prefetcher *prefetcher,
                          int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const unsigned begin = first * 16 / SVE_SIZE, count = n * 16 / SVE_SIZE, turns = sve_turns(rows * count);
    sv32 total[4][MAX_ROWS][2 * SVE_PARTS];
    UNROLL_FOR (unsigned i = 0; i < turns; i++)
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            UNROLL_FOR (unsigned v = begin; v < begin + count; v++)
                total[i][r][v] = svdup_s32(0);
    for (uint64_t t = 0; t < panel->tiles; t++) {
        const uint8_t *pair = panel->codes + pair_offset(panel->group_shift, t);
        if (!streamed)
            prefetcher_step(prefetcher);
        for (unsigned half = 0; half < 2; half++) {
            const uint8_t *group = panel->codes + group_offset(panel->group_shift, 2 * t + half);
            if (streamed)
                PREFETCH_LINE((uintptr_t)group + panel->distance);
            UNROLL_FOR (unsigned i = 0; streamed && i < CODES_SIZE; i += 64)
                PREFETCH_LINE((uintptr_t)pair + half * CODES_SIZE + panel->distance + i);
            add_group_sve(pair + half * CODES_SIZE, group, x, t * X_STEP + half * SUM_COLUMNS, rows, begin,
                          count, turns, total);
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = begin; v < begin + count; v++) {
            sv32 sum = total[0][r][v];
            UNROLL_FOR (unsigned i = 1; i < turns; i++)
                sum = svadd_s32_x(svptrue_b32(), sum, total[i][r][v]);
            svst1_s32(svptrue_b32(), &out[r][v * (SVE_SIZE / 4)], sum);
        }
}

#endif
