/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes_grids.c - superblocks of the i-quants that are points of a grid, and of ternary weights.
 *
 * A block of the source names points of a grid: 4 or 8 weights at once. Kernels cannot look points up as
 * fast as memory brings them, but the numbers in a grid are few, so packing looks them up, once, and
 * keeps each weight's number: 3 magnitudes and a sign are 3 bits, 8 magnitudes and a sign 4. Kernels
 * turn them into weights by a table of 16 bytes (llamafile.h, format_table). No bit is lost.
 * A group's scale is 2n + 1 there, n being its 3 or 4 bits in the source.
 *
 *              bits a weight: in the source, packed
 *     iq1_s    1.5625   3.3125        iq3_xxs   3.0625   4.3125
 *     iq1_m    1.75     3.5625        iq3_s     3.4375   4.3125
 *     iq2_xxs  2.0625   3.3125        tq1_0     1.6875   2.0625
 *     iq2_xs   2.3125   3.5625        tq2_0     2.0625   2.0625
 *     iq2_s    2.5625   3.5625
 */
#include "core/weights/decode/grids.h"
#include "plugins/common/simd/numbers.h"
#include "plugins/llamafile/codes.h"

/* The source's eight signs of 7 bits: the number of negative weights is even. */
static unsigned complete_signs(uint32_t index)
{
    unsigned signs = index & 127, parity = signs ^ signs >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return signs | (parity & 1) << 7;
}

/* Eight codes: digits of 2 bits with a sign above each. */
static void put_eight(unsigned point, unsigned signs, uint8_t *code)
{
    for (int j = 0; j < 8; j++)
        code[j] = (uint8_t)((point >> 2 * j & 3) | (signs >> j & 1) << 2);
}

/* Four codes: digits of 3 bits with a sign above each. */
static void put_four(unsigned point, unsigned signs, uint8_t *code)
{
    for (int j = 0; j < 4; j++)
        code[j] = (uint8_t)((point >> 4 * j & 7) | (signs >> j & 1) << 3);
}

static uint8_t odd(unsigned n)
{
    return (uint8_t)(2 * n + 1);
}

/* The 4-bit scale i of a list of nibbles. */
static uint8_t odd_nibble(const uint8_t *from, unsigned i)
{
    return odd((unsigned)from[i / 2] >> i % 2 * 4 & 15);
}

static void read_iq2_xxs(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        const uint8_t *group = block + 2 + i / 4 * 8;
        uint32_t rest = load_u32(group + 4);
        put_eight(kt_iq2xxs_grid[group[i % 4]], complete_signs(rest >> 7 * (i % 4)), codes->code + 8 * i);
        codes->scale[i / 4] = odd(rest >> 28);
    }
    memcpy(codes->head, block, 2);
}

static void read_iq2_xs(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned word = load_u16(block + 2 + 2 * i);
        put_eight(kt_iq2xs_grid[word & 511], complete_signs(word >> 9), codes->code + 8 * i);
    }
    for (unsigned i = 0; i < 16; i++)
        codes->scale[i] = odd_nibble(block + 66, i);
    memcpy(codes->head, block, 2);
}

static void read_iq2_s(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned index = block[2 + i] | ((unsigned)block[66 + i / 4] >> i % 4 * 2 & 3) << 8;
        put_eight(kt_iq2s_grid[index], block[34 + i], codes->code + 8 * i);
    }
    for (unsigned i = 0; i < 16; i++)
        codes->scale[i] = odd_nibble(block + 74, i);
    memcpy(codes->head, block, 2);
}

static void read_iq3_xxs(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 64; i++) {
        uint32_t word = load_u32(block + 66 + i / 8 * 4);
        unsigned signs = complete_signs(word >> i / 2 % 4 * 7) >> i % 2 * 4;
        put_four(kt_iq3xxs_grid[block[2 + i]], signs, codes->code + 4 * i);
        codes->scale[i / 8] = odd(word >> 28);
    }
    memcpy(codes->head, block, 2);
}

static void read_iq3_s(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 64; i++) {
        unsigned index = block[2 + i] | ((unsigned)block[66 + i / 8] >> i % 8 & 1) << 8;
        put_four(kt_iq3s_grid[index], (unsigned)block[74 + i / 2] >> i % 2 * 4, codes->code + 4 * i);
    }
    for (unsigned i = 0; i < 8; i++)
        codes->scale[i] = odd_nibble(block + 106, i);
    memcpy(codes->head, block, 2);
}

/* The sign of IQ1: whether eight weights are an eighth smaller or larger. */
static void read_iq1_s(const uint8_t *block, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned word = load_u16(block + 34 + i / 4 * 2);
        unsigned index = block[2 + i] | (word >> i % 4 * 3 & 7) << 8;
        put_eight(kt_iq1s_grid[index], word >> 15 ? 255 : 0, codes->code + 8 * i);
        codes->scale[i / 4] = odd(word >> 12 & 7);
    }
    memcpy(codes->head, block, 2);
}

static void read_iq1_m(const uint8_t *block, struct llamafile_codes *codes)
{
    unsigned d = 0;
    for (unsigned i = 0; i < 4; i++)
        d |= (unsigned)(block[48 + 2 * i + 1] >> 4) << 4 * i;
    store_u16(codes->head, (uint16_t)d);
    for (unsigned i = 0; i < 32; i++) {
        unsigned nibble = (unsigned)block[32 + i / 2] >> i % 2 * 4 & 15;
        put_eight(kt_iq1s_grid[block[i] | (nibble & 7) << 8], nibble >> 3 ? 255 : 0, codes->code + 8 * i);
    }
    for (unsigned i = 0; i < 16; i++)
        codes->scale[i] = odd((unsigned)load_u16(block + 48 + i / 4 * 2) >> i % 4 * 3 & 7);
}

/* The digit of base 3 that multiplying by a power of 3 brings to the front of a byte. */
static uint8_t take_trit(uint8_t byte, unsigned power)
{
    return (uint8_t)((byte * power & 255) * 3 >> 8);
}

/* 32 bytes of 5 digits, 16 bytes of 5, 4 bytes of 4; a run of weights is one digit of each byte. */
static void read_tq1_0(const uint8_t *block, struct llamafile_codes *codes)
{
    static const unsigned powers[5] = {1, 3, 9, 27, 81};
    uint8_t *code = codes->code;
    for (int p = 0; p < 5; p++)
        for (int j = 0; j < 32; j++)
            *code++ = take_trit(block[j], powers[p]);
    for (int p = 0; p < 5; p++)
        for (int j = 32; j < 48; j++)
            *code++ = take_trit(block[j], powers[p]);
    for (int p = 0; p < 4; p++)
        for (int j = 48; j < 52; j++)
            *code++ = take_trit(block[j], powers[p]);
    memcpy(codes->head, block + 52, 2);
}

static void read_tq2_0(const uint8_t *block, struct llamafile_codes *codes)
{
    for (int i = 0; i < SUPERBLOCK; i++)
        codes->code[i] = block[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    memcpy(codes->head, block + 64, 2);
}

void llamafile_codes_read_grid(uint32_t dtype, const uint8_t *block, struct llamafile_codes *codes)
{
    switch (dtype) {
    case KT_DTYPE_IQ1_S:
        read_iq1_s(block, codes);
        break;
    case KT_DTYPE_IQ1_M:
        read_iq1_m(block, codes);
        break;
    case KT_DTYPE_IQ2_XXS:
        read_iq2_xxs(block, codes);
        break;
    case KT_DTYPE_IQ2_XS:
        read_iq2_xs(block, codes);
        break;
    case KT_DTYPE_IQ2_S:
        read_iq2_s(block, codes);
        break;
    case KT_DTYPE_IQ3_XXS:
        read_iq3_xxs(block, codes);
        break;
    case KT_DTYPE_IQ3_S:
        read_iq3_s(block, codes);
        break;
    case KT_DTYPE_TQ1_0:
        read_tq1_0(block, codes);
        break;
    default: /* KT_DTYPE_TQ2_0 */
        read_tq2_0(block, codes);
    }
}
