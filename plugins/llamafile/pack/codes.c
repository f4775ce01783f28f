/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes.c - GGUF's quantized blocks, as ggml defines them (ggml-common.h, ggml-quants.c), as one code
 * per weight and the scales beside.
 *
 * The value tables of IQ4_NL and MXFP4 are constants of those formats (kvalues_iq4nl and kvalues_mxfp4
 * of ggml; the latter are the doubled E2M1 numbers of the OCP microscaling specification).
 */
#include "plugins/llamafile/pack/codes.h"

#include "plugins/common/simd/numbers.h"
#include "plugins/common/simd/attributes.h"
#include "plugins/llamafile/pack/compact.h"

const int8_t llamafile_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/* Three magnitudes and, from 4 on, their other sign; IQ1 in eighths, -1, 0 and 1 up or down by one. Twice, as
 * a lookup of 3 bits may find a bit of another code above them. */
const int8_t llamafile_iq1_values[16] = {-7, 1, 9, 0, -9, -1, 7, 0, -7, 1, 9, 0, -9, -1, 7, 0};
const int8_t llamafile_iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0, 8, 25, 43, 0, -8, -25, -43, 0};
/* Eight and their other sign; IQ3_XXS halved. */
const int8_t llamafile_iq3_xxs_values[16] = {2,  6,  10,  14,  18,  22,  26,  31,
                                             -2, -6, -10, -14, -18, -22, -26, -31};
const int8_t llamafile_iq3_s_values[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
const int8_t llamafile_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* `restrict`, and numbers that they know, let compilers make vectors of these loops: loading a model is
 * mostly this, and so is a product of weights that are used in place. */

/* n bytes: low nibbles are the first n codes, high nibbles the others. */
INLINE void read_nibbles(const uint8_t *restrict from, uint8_t *restrict code, int n)
{
    for (int i = 0; i < n; i++) {
        code[i] = from[i] & 15;
        code[i + n] = from[i] >> 4;
    }
}

/* 32 bytes: bits shift, shift + 1, ... below `mask` of each, put in at `to`. */
INLINE void add_bits(const uint8_t *restrict from, int shift, int mask, int to, uint8_t *restrict code)
{
    for (int i = 0; i < 32; i++)
        code[i] |= (uint8_t)((from[i] >> shift & mask) << to);
}

/* 32 bits: bit i is the fifth bit of code i. */
static void add_fifth_bits(const uint8_t *from, uint8_t *code)
{
    uint32_t bits = load_u32(from);
    for (int i = 0; i < 32; i++)
        code[i] |= (uint8_t)((bits >> i & 1) << 4);
}

/* 12 bytes of Q4_K and Q5_K: 8 scales and 8 minima of 6 bits. */
static void read_scales_k4(const uint8_t *from, uint8_t *scale)
{
    for (int i = 0; i < 4; i++) {
        scale[i] = from[i] & 63;
        scale[8 + i] = from[4 + i] & 63;
        scale[4 + i] = (uint8_t)((from[8 + i] & 15) | from[i] >> 6 << 4);
        scale[12 + i] = (uint8_t)(from[8 + i] >> 4 | from[4 + i] >> 6 << 4);
    }
}

/* 64 bytes of 2-bit codes: each 32 bytes hold 4 times 32 of them. */
INLINE void read_pairs(const uint8_t *from, uint8_t *code)
{
    memset(code, 0, SUPERBLOCK);
    for (int i = 0; i < 8; i++)
        add_bits(from + i / 4 * 32, i % 4 * 2, 3, 0, code + 32 * i);
}

static void read_q2_k(const uint8_t *block, struct llamafile_codes *codes)
{
    memcpy(codes->scale, block, 16);
    read_pairs(block + 16, codes->code);
    memcpy(codes->head, block + 80, 4);
}

static void read_q3_k(const uint8_t *block, struct llamafile_codes *codes)
{
    const uint8_t *packed = block + 96;
    read_pairs(block + 32, codes->code);
    for (int i = 0; i < 8; i++)
        add_bits(block, i, 1, 2, codes->code + 32 * i);
    for (int i = 0; i < 16; i++) {
        int low = packed[i % 8] >> (i / 8 * 4) & 15;
        int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        codes->scale[i] = (uint8_t)((low | high << 4) - 32);
    }
    memcpy(codes->head, block + 108, 2);
}

static void read_q4_k(const uint8_t *block, struct llamafile_codes *codes, bool fifth)
{
    const uint8_t *low = block + (fifth ? 48 : 16);
    read_scales_k4(block + 4, codes->scale);
    for (int i = 0; i < 4; i++)
        read_nibbles(low + 32 * i, codes->code + 64 * i, 32);
    for (int i = 0; i < 8 && fifth; i++)
        add_bits(block + 16, i, 1, 4, codes->code + 32 * i);
    memcpy(codes->head, block, 4);
}

static void read_q6_k(const uint8_t *block, struct llamafile_codes *codes)
{
    for (int part = 0; part < 2; part++) {
        read_nibbles(block + 64 * part, codes->code + 128 * part, 64);
        for (int i = 0; i < 4; i++)
            add_bits(block + 128 + 32 * part, 2 * i, 3, 4, codes->code + 128 * part + 32 * i);
    }
    memcpy(codes->scale, block + 192, 16);
    memcpy(codes->head, block + 208, 2);
}

static void read_iq4_xs(const uint8_t *block, struct llamafile_codes *codes)
{
    unsigned high = load_u16(block + 2);
    for (unsigned i = 0; i < 8; i++) {
        unsigned low = block[4 + i / 2] >> (i % 2 * 4) & 15;
        codes->scale[i] = (uint8_t)((low | (high >> (2 * i) & 3) << 4) - 32);
        read_nibbles(block + 8 + 16 * i, codes->code + 32 * i, 16);
    }
    memcpy(codes->head, block, 2);
}

/* Two groups with the float16 before their codes. */
static void read_q2_0(const uint8_t *block, uint8_t *scale, uint8_t *code)
{
    for (unsigned g = 0; g < 2; g++)
        memcpy(scale + 2 * g, block, 2);
    for (unsigned i = 0; i < 2 * GROUP; i++)
        code[i] = (uint8_t)((unsigned)block[2 + i / 4] >> i % 4 * 2 & 3);
}

/* Half an unsigned E4M3 as float16, which has a larger exponent. Of the two NaN 0x7f is 0; 0xff is what
 * would follow 448, since ggml looks at 7 bits only. */
static uint16_t convert_e4m3_half(uint8_t code)
{
    static const uint16_t small[8] = {0x0000, 0x1400, 0x1800, 0x1a00, 0x1c00, 0x1d00, 0x1e00, 0x1f00};
    unsigned magnitude = code & 0x7f;
    if (code == 0x7f)
        return 0;
    return (uint16_t)(magnitude < 8 ? small[magnitude] : (magnitude << 7) + (7u << 10));
}

/* Four scales, then 8 bytes for each 16 weights: two groups. */
static void read_nvfp4(const uint8_t *block, uint8_t *scale, uint8_t *code)
{
    for (int i = 0; i < 4; i++) {
        store_u16(scale + 2 * i, convert_e4m3_half(block[i]));
        read_nibbles(block + 4 + 8 * i, code + 16 * i, 8);
    }
}

static void read_tq2_0(const uint8_t *block, struct llamafile_codes *codes)
{
    for (int i = 0; i < SUPERBLOCK; i++)
        codes->code[i] = block[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    memcpy(codes->head, block + 64, 2);
}

/* Formats whose codes are looked up, or digits of base 3. */
static void read_points(uint32_t dtype, const uint8_t *block, struct llamafile_codes *codes)
{
    struct llamafile_compact compact;
    llamafile_compact_read(dtype, block, 0, &compact);
    llamafile_compact_expand(dtype, &compact, codes);
}

void llamafile_codes_read(const struct llamafile_format *format, const uint8_t *block, unsigned index,
                          struct llamafile_codes *codes)
{
    unsigned group = format->block == SUPERBLOCK ? 0 : index * (format->block / GROUP);
    uint8_t *code = codes->code + GROUP * group, *scale = codes->scale + group * format->scale_bytes;
    if (format->block == GROUP)
        memcpy(scale, block, format->scale_bytes);
    switch (format->dtype) {
    case KT_DTYPE_Q4_0:
    case KT_DTYPE_Q4_1:
    case KT_DTYPE_IQ4_NL:
    case KT_DTYPE_MXFP4:
        read_nibbles(block + format->scale_bytes, code, 16);
        break;
    case KT_DTYPE_Q5_0:
    case KT_DTYPE_Q5_1:
        read_nibbles(block + format->scale_bytes + 4, code, 16);
        add_fifth_bits(block + format->scale_bytes, code);
        break;
    case KT_DTYPE_Q8_0:
        memcpy(code, block + 2, 32);
        break;
    case KT_DTYPE_Q2_K:
        read_q2_k(block, codes);
        break;
    case KT_DTYPE_Q3_K:
        read_q3_k(block, codes);
        break;
    case KT_DTYPE_Q4_K:
    case KT_DTYPE_Q5_K:
        read_q4_k(block, codes, format->dtype == KT_DTYPE_Q5_K);
        break;
    case KT_DTYPE_Q6_K:
        read_q6_k(block, codes);
        break;
    case KT_DTYPE_IQ4_XS:
        read_iq4_xs(block, codes);
        break;
    case KT_DTYPE_NVFP4:
        read_nvfp4(block, scale, code);
        break;
    case KT_DTYPE_Q2_0:
        read_q2_0(block, scale, code);
        break;
    case KT_DTYPE_TQ2_0:
        read_tq2_0(block, codes);
        break;
    default:
        read_points(format->dtype, block, codes);
    }
}

/* A group with float scales: the weight is code * d, or code * d + m. */
static void dequantize_group(const struct llamafile_format *format, const uint8_t *scale, const uint8_t *code,
                             float *out)
{
    float d = format->dtype == KT_DTYPE_MXFP4 ? e8m0_half_to_float(scale[0]) : half_to_float(load_u16(scale));
    for (int i = 0; i < GROUP; i++) {
        switch (format->dtype) {
        case KT_DTYPE_Q8_0:
            out[i] = (float)(int8_t)code[i] * d;
            break;
        case KT_DTYPE_IQ4_NL:
            out[i] = d * (float)llamafile_iq4_values[code[i]];
            break;
        case KT_DTYPE_MXFP4:
            out[i] = (float)llamafile_mxfp4_values[code[i]] * d;
            break;
        case KT_DTYPE_NVFP4:
            out[i] = (float)llamafile_mxfp4_values[code[i]] * half_to_float(load_u16(scale + i / 16 * 2));
            break;
        case KT_DTYPE_Q1_0:
            out[i] = code[i] ? d : -d;
            break;
        case KT_DTYPE_Q4_1:
        case KT_DTYPE_Q5_1:
            out[i] = (float)code[i] * d + half_to_float(load_u16(scale + 2));
            break;
        default:
            out[i] = (float)(code[i] - format->offset) * d;
        }
    }
}

/* A 256-column format's weight: (d * scale) * code, less dmin * min where the format has minima. */
static float dequantize_k(const struct llamafile_format *format, const struct llamafile_codes *codes, int i)
{
    float d = half_to_float(load_u16(codes->head));
    float dmin = half_to_float(load_u16(codes->head + 2));
    int code = codes->code[i];
    switch (format->dtype) {
    case KT_DTYPE_Q2_K:
        return d * (float)(codes->scale[i / 16] & 15) * (float)code -
               dmin * (float)(codes->scale[i / 16] >> 4);
    case KT_DTYPE_Q4_K:
    case KT_DTYPE_Q5_K:
        return d * (float)codes->scale[i / 32] * (float)code - dmin * (float)codes->scale[8 + i / 32];
    case KT_DTYPE_TQ1_0:
    case KT_DTYPE_TQ2_0:
        return d * (float)(code - format->offset);
    default:
        if (format_table(format->dtype))
            return d * format_unit(format->dtype) *
                   (float)(int8_t)codes->scale[i / (SUPERBLOCK / format->scale_bytes)] *
                   (float)format_table(format->dtype)[code];
        return d * (float)(int8_t)codes->scale[i / 16] * (float)(code - format->offset);
    }
}

void llamafile_codes_dequantize(const struct llamafile_format *format, const struct llamafile_codes *codes,
                                unsigned groups, float *out)
{
    if (format->block != SUPERBLOCK) {
        for (unsigned g = 0; g < groups; g++)
            dequantize_group(format, codes->scale + g * format->scale_bytes, codes->code + GROUP * g,
                             out + GROUP * g);
        return;
    }
    for (int i = 0; i < SUPERBLOCK; i++)
        out[i] = dequantize_k(format, codes, i);
}
