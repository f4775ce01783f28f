/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.c - valid random blocks of GGUF's formats. The simple formats quantize Gaussian numbers; the
 * others get uniform random quants and scales that give the weights the requested deviation and a mean near
 * 0. Layouts: ggml-common.h of ggml.
 */
#include "tools/check/format.h"
#include "tools/check/number.h"
#include "tools/kt/bench/bench.h"

#include <math.h>
#include <string.h>

#define N 32 /* weights of a simple block */

/* The number with the largest absolute value. */
static float extreme(const float *x)
{
    float best = 0;
    for (int i = 0; i < N; i++)
        best = fabsf(x[i]) > fabsf(best) ? x[i] : best;
    return best;
}

static int clamp(float value, int low, int high)
{
    long rounded = lrintf(value);
    return rounded < low ? low : rounded > high ? high : (int)rounded;
}

static void put_nibbles(unsigned char *out, const int *codes)
{
    for (int i = 0; i < N / 2; i++)
        out[i] = (unsigned char)((codes[i] & 15) | (codes[i + N / 2] & 15) << 4);
}

static void put_fifth_bits(unsigned char *out, const int *codes)
{
    uint32_t bits = 0;
    for (int i = 0; i < N; i++)
        bits |= (uint32_t)(codes[i] >> 4 & 1) << i;
    memcpy(out, &bits, sizeof bits);
}

/* Codes around `middle`, where middle - 1 and -middle are the ends: q4_0, q5_0. */
static float code_signed(const float *x, int middle, int *codes)
{
    float d = extreme(x) / (float)-middle;
    for (int i = 0; i < N; i++)
        codes[i] = d == 0 ? middle : clamp(x[i] / d, -middle, middle - 1) + middle;
    return d;
}

/* Codes from the smallest number to the largest: q4_1, q5_1. */
static float code_range(const float *x, int top, int *codes, float *low)
{
    float high = x[0];
    *low = x[0];
    for (int i = 1; i < N; i++) {
        high = fmaxf(high, x[i]);
        *low = fminf(*low, x[i]);
    }
    float d = (high - *low) / (float)top;
    for (int i = 0; i < N; i++)
        codes[i] = d == 0 ? 0 : clamp((x[i] - *low) / d, 0, top);
    return d;
}

static void make_simple(uint32_t dtype, const float *x, unsigned char *out)
{
    int codes[N];
    float low;
    switch (dtype) {
    case KT_DTYPE_Q4_0:
        write_number(out, KT_DTYPE_F16, code_signed(x, 8, codes));
        put_nibbles(out + 2, codes);
        break;
    case KT_DTYPE_Q5_0:
        write_number(out, KT_DTYPE_F16, code_signed(x, 16, codes));
        put_fifth_bits(out + 2, codes);
        put_nibbles(out + 6, codes);
        break;
    case KT_DTYPE_Q4_1:
        write_number(out, KT_DTYPE_F16, code_range(x, 15, codes, &low));
        write_number(out + 2, KT_DTYPE_F16, low);
        put_nibbles(out + 4, codes);
        break;
    case KT_DTYPE_Q5_1:
        write_number(out, KT_DTYPE_F16, code_range(x, 31, codes, &low));
        write_number(out + 2, KT_DTYPE_F16, low);
        put_fifth_bits(out + 4, codes);
        put_nibbles(out + 8, codes);
        break;
    default: { /* KT_DTYPE_Q8_0 */
        float d = fabsf(extreme(x)) / 127.0f;
        write_number(out, KT_DTYPE_F16, d);
        for (int i = 0; i < N; i++)
            out[2 + i] = (unsigned char)(d == 0 ? 0 : clamp(x[i] / d, -127, 127));
    }
    }
}

/* Sixteen scales and minima of 4 bits: each minimum equals its scale, so that with dmin = 1.5 d the weights
 * lie around 0. No scale below 4. */
static void mend_q2_k(unsigned char *block)
{
    for (int i = 0; i < 16; i++) {
        unsigned scale = block[i] % 12u + 4u;
        block[i] = (unsigned char)(scale | scale << 4);
    }
}

/* Eight scales and minima of 6 bits, likewise: bytes 0..3 and 4..7 hold the first four of each and
 * two bits of the last four, bytes 8..11 the rest. */
static void mend_scales(unsigned char *block)
{
    unsigned char *scales = block + 4;
    memcpy(scales + 4, scales, 4);
    for (int i = 8; i < 12; i++)
        scales[i] = (unsigned char)((scales[i] & 15) * 17);
}

/* Quants 0, 1 and 2 mean -1, 0 and 1; a 3, which would mean 2, becomes 1. */
static void mend_pairs(unsigned char *codes, int n)
{
    for (int i = 0; i < n; i++)
        codes[i] &= (unsigned char)~((codes[i] & codes[i] >> 1 & 0x55) << 1);
}

/* Four scales in E4M3, each the nearest below or above 2 d, since a stored scale is twice its value. */
static void put_nvfp4(unsigned char *block, float d)
{
    int exponent;
    float fraction = frexpf(2 * d, &exponent); /* 0.5 to 1; a normal number's exponent is -5 to 9 */
    int code =
        exponent >= -5 ? (exponent + 6) * 8 + clamp((fraction - 0.5f) * 16, 0, 8) : clamp(2 * d * 512, 1, 8);
    memset(block, code < 0x7e ? code : 0x7e, 4);
}

static void mend(uint32_t dtype, unsigned char *block)
{
    if (dtype == KT_DTYPE_Q2_K)
        mend_q2_k(block);
    else if (dtype == KT_DTYPE_Q4_K || dtype == KT_DTYPE_Q5_K)
        mend_scales(block);
    else if (dtype == KT_DTYPE_TQ2_0)
        mend_pairs(block, 64);
    else if (dtype == KT_DTYPE_Q2_0)
        mend_pairs(block + 2, 16);
}

static void make_random(const struct block_format *format, uint32_t size, float sigma,
                        struct bench_random *random, unsigned char *out)
{
    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t bits = bench_random_next(random);
        memcpy(out + at, &bits, size - at < 8 ? size - at : 8);
    }
    /* Scales differ from block to block, as they do in a model. */
    float spread = 0.75f + 0.5f * (float)(bench_random_next(random) >> 40) * 0x1p-24f;
    float d = sigma / format->deviation * spread;
    if (format->dtype == KT_DTYPE_MXFP4)
        out[0] = (unsigned char)(128 + clamp(log2f(d), -100, 100));
    if (format->dtype == KT_DTYPE_NVFP4)
        put_nvfp4(out, d);
    block_set_d(format, out, to_f16(d));
    if (format->dmin >= 0)
        write_number(out + format->dmin, KT_DTYPE_F16, d * format->ratio);
    mend(format->dtype, out);
}

static bool is_simple(uint32_t dtype)
{
    return dtype >= KT_DTYPE_Q4_0 && dtype <= KT_DTYPE_Q8_0;
}

bool bench_blocks_fill(uint32_t dtype, struct bench_random *random, float sigma, uint64_t n_blocks,
                       const float *samples, unsigned char *out)
{
    uint32_t elements, size;
    kt_dtype_block(dtype, &elements, &size);
    const struct block_format *format = block_format(dtype);
    if (format == NULL || (is_simple(dtype) && elements != N))
        return false;
    for (uint64_t block = 0; block < n_blocks; block++, out += size) {
        if (!is_simple(dtype)) {
            make_random(format, size, sigma, random, out);
            continue;
        }
        float x[N];
        for (int i = 0; i < N; i += 4) {
            uint64_t bits = bench_random_next(random);
            for (int j = 0; j < 4; j++)
                x[i + j] = samples[bits >> 16 * j & 0xffff] * sigma;
        }
        make_simple(dtype, x, out);
    }
    return true;
}
