/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - where GGUF's blocks keep what (ggml-common.h of ggml), for those who make and change them. */
#ifndef KT_CHECK_FORMAT_H
#define KT_CHECK_FORMAT_H

#include "tools/check/number.h"

struct block_format {
    uint32_t dtype;
    int d, dmin;         /* where float16 scales are; -1: there is none */
    uint32_t codes, end; /* bytes that hold codes and nothing else; 0, 0: there are none such */
    uint32_t highest;    /* the code of all bits, where a minimum stands beside codes */
    float deviation;     /* of weights of random codes, for d = 1 */
    float ratio;         /* dmin / d for which their mean is near 0 */
};

/* A row for each format of blocks, in the order of struct block_format. Formats whose blocks are made of
 * Gaussian numbers have no deviation. */
/* clang-format off: a row each */
#define BLOCK_FORMATS(ROW)                      \
    ROW(Q4_0, 0, -1, 2, 18, 0, 0, 0)            \
    ROW(Q4_1, 0, 2, 4, 20, 15, 0, 0)            \
    ROW(Q5_0, 0, -1, 2, 22, 0, 0, 0)            \
    ROW(Q5_1, 0, 2, 4, 24, 31, 0, 0)            \
    ROW(Q8_0, 0, -1, 0, 0, 0, 0, 0)             \
    ROW(Q2_K, 80, 82, 16, 80, 3, 11.3f, 1.5f)   \
    ROW(Q3_K, 108, -1, 0, 96, 0, 43.0f, 0)      \
    ROW(Q4_K, 0, 2, 16, 144, 15, 168.0f, 7.5f)  \
    ROW(Q5_K, 0, 2, 16, 176, 31, 336.0f, 15.5f) \
    ROW(Q6_K, 208, -1, 0, 192, 0, 1366.0f, 0)   \
    ROW(IQ4_NL, 0, -1, 0, 0, 0, 67.4f, 0)       \
    ROW(IQ4_XS, 0, -1, 0, 0, 0, 1247.0f, 0)     \
    ROW(MXFP4, -1, -1, 0, 0, 0, 5.85f, 0)       \
    ROW(IQ1_S, 0, -1, 0, 0, 0, 7.2f, 0)         \
    ROW(IQ1_M, -1, -1, 0, 0, 0, 7.2f, 0)        \
    ROW(IQ2_XXS, 0, -1, 0, 0, 0, 53.4f, 0)      \
    ROW(IQ2_XS, 0, -1, 0, 0, 0, 55.9f, 0)       \
    ROW(IQ2_S, 0, -1, 0, 0, 0, 56.4f, 0)        \
    ROW(IQ3_XXS, 0, -1, 0, 0, 0, 142.4f, 0)     \
    ROW(IQ3_S, 0, -1, 0, 0, 0, 140.2f, 0)       \
    ROW(TQ1_0, 52, -1, 0, 52, 0, 0.817f, 0)     \
    ROW(TQ2_0, 64, -1, 0, 64, 0, 0.707f, 0)     \
    ROW(NVFP4, -1, -1, 0, 0, 0, 5.85f, 0)       \
    ROW(Q1_0, 0, -1, 0, 0, 0, 1.0f, 0)          \
    ROW(Q2_0, 0, -1, 2, 18, 0, 0.707f, 0)
/* clang-format on */

/* The dtypes of all, for a list. */
#define BLOCK_DTYPE(dtype, ...) KT_DTYPE_##dtype,

/* NULL: it is no format of blocks. */
const struct block_format *block_format(uint32_t dtype);
/* Writes d, the float16 `bits`, where the format has one. */
void block_set_d(const struct block_format *format, uint8_t *block, uint16_t bits);

#endif
