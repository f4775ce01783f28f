/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check/format.h"

/* Formats whose blocks are made of Gaussian numbers have no deviation. */
static const struct block_format formats[] = {
    {KT_DTYPE_Q4_0, 0, -1, 2, 18, 0, 0, 0},
    {KT_DTYPE_Q4_1, 0, 2, 4, 20, 15, 0, 0},
    {KT_DTYPE_Q5_0, 0, -1, 2, 22, 0, 0, 0},
    {KT_DTYPE_Q5_1, 0, 2, 4, 24, 31, 0, 0},
    {KT_DTYPE_Q8_0, 0, -1, 0, 0, 0, 0, 0},
    {KT_DTYPE_Q2_K, 80, 82, 16, 80, 3, 11.3f, 1.5f},
    {KT_DTYPE_Q3_K, 108, -1, 0, 96, 0, 43.0f, 0},
    {KT_DTYPE_Q4_K, 0, 2, 16, 144, 15, 168.0f, 7.5f},
    {KT_DTYPE_Q5_K, 0, 2, 16, 176, 31, 336.0f, 15.5f},
    {KT_DTYPE_Q6_K, 208, -1, 0, 192, 0, 1366.0f, 0},
    {KT_DTYPE_IQ4_NL, 0, -1, 0, 0, 0, 67.4f, 0},
    {KT_DTYPE_IQ4_XS, 0, -1, 0, 0, 0, 1247.0f, 0},
    {KT_DTYPE_MXFP4, -1, -1, 0, 0, 0, 5.85f, 0},
    {KT_DTYPE_IQ1_S, 0, -1, 0, 0, 0, 7.2f, 0},
    {KT_DTYPE_IQ1_M, -1, -1, 0, 0, 0, 7.2f, 0},
    {KT_DTYPE_IQ2_XXS, 0, -1, 0, 0, 0, 53.4f, 0},
    {KT_DTYPE_IQ2_XS, 0, -1, 0, 0, 0, 55.9f, 0},
    {KT_DTYPE_IQ2_S, 0, -1, 0, 0, 0, 56.4f, 0},
    {KT_DTYPE_IQ3_XXS, 0, -1, 0, 0, 0, 142.4f, 0},
    {KT_DTYPE_IQ3_S, 0, -1, 0, 0, 0, 140.2f, 0},
    {KT_DTYPE_TQ1_0, 52, -1, 0, 52, 0, 0.817f, 0},
    {KT_DTYPE_TQ2_0, 64, -1, 0, 64, 0, 0.707f, 0},
    {KT_DTYPE_NVFP4, -1, -1, 0, 0, 0, 5.85f, 0},
    {KT_DTYPE_Q1_0, 0, -1, 0, 0, 0, 1.0f, 0},
    {KT_DTYPE_Q2_0, 0, -1, 2, 18, 0, 0.707f, 0},
};

const struct block_format *block_format(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype)
            return &formats[i];
    return NULL;
}

void block_set_d(const struct block_format *format, uint8_t *block, uint16_t bits)
{
    if (format->d >= 0)
        memcpy(block + format->d, &bits, sizeof bits);
    for (int i = 0; i < 4 && format->dtype == KT_DTYPE_IQ1_M; i++) /* the upper four bits of four words */
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
}
