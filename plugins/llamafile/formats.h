/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h - the number formats, one row each: what layout.c, packing and the kernels of all levels know of
 * them.
 *
 *   functions     whose functions multiply it: its own name, or that of another format whose half panels look
 *                 the same
 *   dtype
 *   block, bytes  a block of the source: its columns and bytes
 *   bits          of a code in a half panel; 16 and 32: floats; of compact forms: lines of a group
 *   head          bytes per row and superblock, 0 where block is not 256
 *   scale, unit   bytes of scales per row, in a superblock (block 256) or a group (others), 0: the head's; of
 *                 one scale: rows are interleaved in these
 *   offset        code = weight + offset
 *   compact       is it the compact form, which has numbers of points, trits or single bits?
 *
 * CODES are multiplied as they are, POINTS looked up in a table.
 */
#ifndef KT_PLUGINS_LLAMAFILE_FORMATS_H
#define KT_PLUGINS_LLAMAFILE_FORMATS_H

#define ROW_F32(DO) DO(f32, KT_DTYPE_F32, 1, 4, 32, 0, 0, 0, 0, false)
#define ROW_F16(DO) DO(f16, KT_DTYPE_F16, 1, 2, 16, 0, 0, 0, 0, false)
#define ROW_BF16(DO) DO(bf16, KT_DTYPE_BF16, 1, 2, 16, 0, 0, 0, 0, false)
#define ROW_Q4_0(DO) DO(q4_0, KT_DTYPE_Q4_0, 32, 18, 4, 0, 2, 2, 8, false)
#define ROW_Q8_0(DO) DO(q8_0, KT_DTYPE_Q8_0, 32, 34, 8, 0, 2, 2, 0, false)
#define ROW_Q2_K(DO) DO(q2_k, KT_DTYPE_Q2_K, 256, 84, 2, 4, 16, 1, 0, false)
#define ROW_Q3_K(DO) DO(q3_k, KT_DTYPE_Q3_K, 256, 110, 3, 2, 16, 1, 4, false)
#define ROW_Q4_K(DO) DO(q4_k, KT_DTYPE_Q4_K, 256, 144, 4, 4, 16, 1, 0, false)
#define ROW_Q5_K(DO) DO(q5_k, KT_DTYPE_Q5_K, 256, 176, 5, 4, 16, 1, 0, false)
#define ROW_Q6_K(DO) DO(q6_k, KT_DTYPE_Q6_K, 256, 210, 6, 2, 16, 1, 32, false)
#define ROW_IQ4_NL(DO) DO(iq4_nl, KT_DTYPE_IQ4_NL, 32, 18, 4, 0, 2, 2, 0, false)
#define ROW_IQ4_XS(DO) DO(iq4_xs, KT_DTYPE_IQ4_XS, 256, 136, 4, 2, 8, 1, 0, false)
#define ROW_MXFP4(DO) DO(mxfp4, KT_DTYPE_MXFP4, 32, 17, 4, 0, 1, 1, 12, false)
#define ROW_Q4_1(DO) DO(q4_1, KT_DTYPE_Q4_1, 32, 20, 4, 0, 4, 2, 0, false)
#define ROW_Q5_0(DO) DO(q5_0, KT_DTYPE_Q5_0, 32, 22, 5, 0, 2, 2, 16, false)
#define ROW_Q5_1(DO) DO(q5_1, KT_DTYPE_Q5_1, 32, 24, 5, 0, 4, 2, 0, false)
#define ROW_TQ2_0(DO) DO(tq2_0, KT_DTYPE_TQ2_0, 256, 66, 2, 2, 0, 1, 1, false)
#define ROW_Q2_0(DO) DO(q2_0, KT_DTYPE_Q2_0, 64, 18, 2, 0, 2, 2, 1, false)
#define ROW_IQ1_S(DO) DO(iq1_s, KT_DTYPE_IQ1_S, 256, 50, 3, 2, 8, 1, 0, false)
#define ROW_IQ1_M(DO) DO(iq1_m, KT_DTYPE_IQ1_M, 256, 56, 3, 2, 16, 1, 0, false)
#define ROW_IQ2_XXS(DO) DO(iq2_xxs, KT_DTYPE_IQ2_XXS, 256, 66, 3, 2, 8, 1, 0, false)
#define ROW_IQ2_XS(DO) DO(iq2_xs, KT_DTYPE_IQ2_XS, 256, 74, 3, 2, 16, 1, 0, false)
#define ROW_IQ3_XXS(DO) DO(iq3_xxs, KT_DTYPE_IQ3_XXS, 256, 98, 4, 2, 8, 1, 0, false)
#define ROW_IQ3_S(DO) DO(iq3_s, KT_DTYPE_IQ3_S, 256, 110, 4, 2, 8, 1, 0, false)
#define ROW_NVFP4(DO) DO(nvfp4, KT_DTYPE_NVFP4, 64, 36, 4, 0, 4, 2, 0, false)
#define ROW_TQ1_0(DO) DO(tq2_0, KT_DTYPE_TQ1_0, 256, 54, 2, 2, 0, 1, 1, false)
#define ROW_IQ2_S(DO) DO(iq2_xs, KT_DTYPE_IQ2_S, 256, 82, 3, 2, 16, 1, 0, false)
#define ROW_IQ1_S_COMPACT(DO) DO(iq1_s_compact, KT_DTYPE_IQ1_S, 256, 50, 1, 2, 16, 1, 9, true)
#define ROW_IQ1_M_COMPACT(DO) DO(iq1_m_compact, KT_DTYPE_IQ1_M, 256, 56, 1, 2, 24, 1, 9, true)
#define ROW_IQ2_XXS_COMPACT(DO) DO(iq2_xxs_compact, KT_DTYPE_IQ2_XXS, 256, 66, 2, 2, 4, 1, 0, true)
#define ROW_IQ2_XS_COMPACT(DO) DO(iq2_xs_compact, KT_DTYPE_IQ2_XS, 256, 74, 2, 2, 12, 1, 0, true)
#define ROW_IQ2_S_COMPACT(DO) DO(iq2_s_compact, KT_DTYPE_IQ2_S, 256, 82, 2, 2, 16, 1, 0, true)
#define ROW_IQ3_XXS_COMPACT(DO) DO(iq3_xxs_compact, KT_DTYPE_IQ3_XXS, 256, 98, 3, 2, 4, 1, 0, true)
#define ROW_IQ3_S_COMPACT(DO) DO(iq3_s_compact, KT_DTYPE_IQ3_S, 256, 110, 3, 2, 8, 1, 0, true)
#define ROW_TQ1_0_COMPACT(DO) DO(tq1_0_compact, KT_DTYPE_TQ1_0, 256, 54, 1, 2, 24, 1, 1, true)
#define ROW_Q1_0(DO) DO(q1_0, KT_DTYPE_Q1_0, 128, 18, 1, 0, 2, 2, 1, true)

/* Those whose integer scales multiply pairs of int16 (row_block_shared_scale.h). */
#define EACH_SHARED_SCALE(DO) ROW_Q2_K(DO) ROW_Q3_K(DO) ROW_Q4_K(DO) ROW_Q6_K(DO)
/* Those of signed weights that want rows whose sums are bounded (bounded_sums.h). */
#define EACH_BOUNDED(DO) ROW_IQ4_NL(DO) ROW_IQ4_XS(DO)
/* Those of most models: level avx_vnni has no others of its own, as each takes the compiler as long. */
#define EACH_WIDE_CODES(DO) \
    ROW_Q4_0(DO) ROW_Q8_0(DO) ROW_Q2_K(DO) ROW_Q3_K(DO) ROW_Q4_K(DO) ROW_Q5_K(DO) ROW_Q6_K(DO)
#define EACH_WIDE_POINTS(DO) ROW_IQ4_NL(DO) ROW_IQ4_XS(DO) ROW_MXFP4(DO)
#define EACH_OTHER_CODES(DO) ROW_Q4_1(DO) ROW_Q5_0(DO) ROW_Q5_1(DO) ROW_TQ2_0(DO) ROW_Q2_0(DO)
#define EACH_OTHER_POINTS(DO) \
    ROW_IQ1_S(DO) ROW_IQ1_M(DO) ROW_IQ2_XXS(DO) ROW_IQ2_XS(DO) ROW_IQ3_XXS(DO) ROW_IQ3_S(DO) ROW_NVFP4(DO)
#define EACH_TWIN_OF_CODES(DO) ROW_TQ1_0(DO)
#define EACH_TWIN_OF_POINTS(DO) ROW_IQ2_S(DO)
/* It breaks these lines in another way each time. */
/* clang-format off */
#define EACH_COMPACT_POINTS(DO) \
    ROW_IQ1_S_COMPACT(DO) ROW_IQ1_M_COMPACT(DO) ROW_IQ2_XXS_COMPACT(DO) ROW_IQ2_XS_COMPACT(DO) \
    ROW_IQ2_S_COMPACT(DO) ROW_IQ3_XXS_COMPACT(DO) ROW_IQ3_S_COMPACT(DO) ROW_TQ1_0_COMPACT(DO)
#define EACH_COMPACT_CODES(DO) ROW_Q1_0(DO)
#define EACH_FLOAT_ROW(DO) ROW_F32(DO) ROW_F16(DO) ROW_BF16(DO)
/* Compact forms last: those that have one are found by it only if it is asked for. */
#define EACH_ROW(DO) \
    EACH_FLOAT_ROW(DO) EACH_WIDE_CODES(DO) EACH_WIDE_POINTS(DO) EACH_OTHER_CODES(DO) EACH_OTHER_POINTS(DO) \
    EACH_TWIN_OF_CODES(DO) EACH_TWIN_OF_POINTS(DO) EACH_COMPACT_POINTS(DO) EACH_COMPACT_CODES(DO)
/* clang-format on */

#endif
