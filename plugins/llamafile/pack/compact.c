/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c - superblocks of the i-quants that are points of a grid, of ternary weights and of single bits,
 * as the source has them, and as codes of the roomy form.
 *
 * A block of the source names points of a grid: 4 or 8 weights at once. The numbers in a grid are few, so the
 * roomy form keeps each weight's number: 3 magnitudes and a sign are 3 bits, 8 magnitudes and a sign 4, and
 * kernels look them up in a table of 16 bytes (llamafile.h, format_table). The compact form keeps the points'
 * numbers. No bit is lost in either.
 *
 *              bits a weight: in the source, compact, roomy
 *     iq1_s    1.5625   1.5625   3.3125        iq3_xxs   3.0625   3.3125   4.3125
 *     iq1_m    1.75     1.8125   3.5625        iq3_s     3.4375   3.8125   4.3125
 *     iq2_xxs  2.0625   2.1875   3.3125        tq1_0     1.6875   1.8125   2.0625
 *     iq2_xs   2.3125   2.4375   3.5625        q1_0      1.125    1.125    -
 *     iq2_s    2.5625   2.5625   3.5625
 *
 * TQ1_0 becomes numbers of 4 bits with a sign, for three weights each, and codes of 2 bits for the last 8
 * columns of a group, which kernels can look up; llamafile.h says which columns.
 *
 * Bytes of llamafile_compact.scale, n being those of the source's scale (a group's scale is 2n + 1):
 *     iq2_xxs, iq3_xxs   4: n of group 2i in the low nibble of byte i, of 2i + 1 in the high one
 *     iq3_s              the same 4; 4: ninth bit of point j of groups 4 to 7 in bit j; 4: of groups 0 to 3,
 *                        which half panels have as codes
 *     iq2_xs             8: n of the halves of group i in the nibbles of byte i; 4: ninth bits of 8 points
 *     iq2_s              the same 8; 8: two bits of each of the group's 4 points
 *     iq1_s              8 words, low byte first: 3 bits of each of 4 points, 3 of n, 1 of the shift
 *     iq1_m              8 like iq2_xs; 16: in each nibble 3 bits of a point, 1 of its shift
 *     tq1_0              8: byte 4h + j has signs of groups 4h to 4h + 3, two bits each: of byte j's numbers;
 *                        16: byte 4p + j has codes of columns 24 + j and 28 + j, of group 2p in the low
 *                        nibble, of 2p + 1 in the high one
 *     q1_0               2 float16, each for 128 weights
 */
#include "plugins/llamafile/pack/compact.h"

#include "core/weights/decode/grids.h"
#include "plugins/common/simd/numbers.h"

/* ---- from the source ---- */

/* A group's 32 signs, column by column, as the row's lane of a line of singles, and back: bit 4i + b of one
 * is bit 8b + i of the other. */
static uint32_t turn_signs(uint32_t signs)
{
    uint32_t lane = 0;
    for (unsigned b = 0; b < 4; b++) {
        uint32_t bits = signs >> b & UINT32_C(0x11111111);
        bits = (bits | bits >> 3) & UINT32_C(0x03030303);
        bits = (bits | bits >> 6) & UINT32_C(0x000f000f);
        lane |= ((bits | bits >> 12) & 255) << 8 * b;
    }
    return lane;
}

static uint32_t turn_signs_back(uint32_t lane)
{
    uint32_t signs = 0;
    for (unsigned b = 0; b < 4; b++)
        for (unsigned i = 0; i < 8; i++)
            signs |= (lane >> (8 * b + i) & 1) << (4 * i + b);
    return signs;
}

/* The source's eight signs of 7 bits: the number of negative weights is even. */
static uint8_t complete_signs(uint32_t index)
{
    unsigned signs = index & 127, parity = signs ^ signs >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(signs | (parity & 1) << 7);
}

static void read_iq2_xxs(const uint8_t *block, struct llamafile_compact *to)
{
    memset(to->scale, 0, 4);
    for (unsigned g = 0; g < 8; g++) {
        const uint8_t *group = block + 2 + 8 * g;
        uint32_t rest = load_u32(group + 4);
        memcpy(to->index + 4 * g, group, 4);
        for (unsigned i = 0; i < 4; i++)
            to->sign[4 * g + i] = complete_signs(rest >> 7 * i);
        to->scale[g / 2] |= (uint8_t)(rest >> 28 << g % 2 * 4);
    }
    memcpy(to->head, block, 2);
}

static void read_iq2_xs(const uint8_t *block, struct llamafile_compact *to)
{
    memcpy(to->scale, block + 66, 8);
    memset(to->scale + 8, 0, 4);
    for (unsigned i = 0; i < 32; i++) {
        unsigned word = load_u16(block + 2 + 2 * i);
        to->index[i] = (uint8_t)word;
        to->scale[8 + i / 8] |= (uint8_t)((word >> 8 & 1) << i % 8);
        to->sign[i] = complete_signs(word >> 9);
    }
    memcpy(to->head, block, 2);
}

static void read_iq2_s(const uint8_t *block, struct llamafile_compact *to)
{
    memcpy(to->index, block + 2, 32);
    memcpy(to->sign, block + 34, 32);
    memcpy(to->scale, block + 74, 8);
    memcpy(to->scale + 8, block + 66, 8);
    memcpy(to->head, block, 2);
}

static void read_iq3_xxs(const uint8_t *block, struct llamafile_compact *to)
{
    memcpy(to->index, block + 2, 64);
    memset(to->scale, 0, 4);
    for (unsigned g = 0; g < 8; g++) {
        uint32_t word = load_u32(block + 66 + 4 * g);
        for (unsigned i = 0; i < 4; i++)
            to->sign[4 * g + i] = complete_signs(word >> 7 * i);
        to->scale[g / 2] |= (uint8_t)(word >> 28 << g % 2 * 4);
    }
    memcpy(to->head, block, 2);
}

static void read_iq3_s(const uint8_t *block, struct llamafile_compact *to)
{
    memcpy(to->index, block + 2, 64);
    memcpy(to->sign, block + 74, 32);
    memcpy(to->scale, block + 106, 4);
    memcpy(to->scale + 4, block + 70, 4);
    memcpy(to->scale + 8, block + 66, 4);
    memcpy(to->head, block, 2);
}

static void read_iq1_s(const uint8_t *block, struct llamafile_compact *to)
{
    memcpy(to->index, block + 2, 32);
    memcpy(to->scale, block + 34, 16);
    memcpy(to->head, block, 2);
}

/* Four words have three bits of the scale of each of four halves, and a quarter of the float16. */
static void read_iq1_m(const uint8_t *block, struct llamafile_compact *to)
{
    unsigned d = 0;
    memcpy(to->index, block, 32);
    memcpy(to->scale + 8, block + 32, 16);
    for (unsigned i = 0; i < 4; i++) {
        unsigned word = load_u16(block + 48 + 2 * i);
        d |= word >> 12 << 4 * i;
        to->scale[2 * i] = (uint8_t)((word & 7) | (word >> 3 & 7) << 4);
        to->scale[2 * i + 1] = (uint8_t)((word >> 6 & 7) | (word >> 9 & 7) << 4);
    }
    store_u16(to->head, (uint16_t)d);
}

/* The digit of base 3 that multiplying by a power of 3 brings to the front of a byte. */
static uint8_t take_trit(uint8_t byte, unsigned power)
{
    return (uint8_t)((byte * power & 255) * 3 >> 8);
}

/* 32 bytes of 5 digits, 16 bytes of 5, 4 bytes of 4; a run of weights is one digit of each byte. */
static void take_trits(const uint8_t *from, uint8_t *code)
{
    static const unsigned powers[5] = {1, 3, 9, 27, 81};
    for (int p = 0; p < 5; p++)
        for (int j = 0; j < 32; j++)
            *code++ = take_trit(from[j], powers[p]);
    for (int p = 0; p < 5; p++)
        for (int j = 32; j < 48; j++)
            *code++ = take_trit(from[j], powers[p]);
    for (int p = 0; p < 4; p++)
        for (int j = 48; j < 52; j++)
            *code++ = take_trit(from[j], powers[p]);
}

/* Byte j of a group: two numbers, their signs, two codes of the last columns. */
static void read_tq1_0(const uint8_t *block, struct llamafile_compact *to)
{
    uint8_t codes[SUPERBLOCK];
    take_trits(block, codes);
    memset(to->scale, 0, 24);
    for (unsigned i = 0; i < 32; i++) {
        unsigned g = i / 4, j = i % 4;
        const uint8_t *code = codes + GROUP * g + j;
        to->index[i] = 0;
        for (unsigned n = 0; n < 2; n++, code += 12) {
            int number = 9 * code[0] + 3 * code[4] + code[8] - 13;
            to->index[i] |= (uint8_t)((number < 0 ? -number : number) << 4 * n);
            to->scale[g / 4 * 4 + j] |= (uint8_t)((number < 0) << (g % 4 * 2 + n));
        }
        to->scale[8 + g / 2 * 4 + j] |= (uint8_t)((code[0] | code[4] << 2) << g % 2 * 4);
    }
    memcpy(to->head, block + 52, 2);
}

static void read_q1_0(const uint8_t *block, unsigned index, struct llamafile_compact *to)
{
    memcpy(to->scale + 2 * index, block, 2);
    for (unsigned g = 0; g < 4; g++)
        store_u32(to->index + 16 * index + 4 * g, turn_signs(load_u32(block + 2 + 4 * g)));
}

void llamafile_compact_read(uint32_t dtype, const uint8_t *block, unsigned index,
                            struct llamafile_compact *to)
{
    switch (dtype) {
    case KT_DTYPE_IQ1_S:
        read_iq1_s(block, to);
        break;
    case KT_DTYPE_IQ1_M:
        read_iq1_m(block, to);
        break;
    case KT_DTYPE_IQ2_XXS:
        read_iq2_xxs(block, to);
        break;
    case KT_DTYPE_IQ2_XS:
        read_iq2_xs(block, to);
        break;
    case KT_DTYPE_IQ2_S:
        read_iq2_s(block, to);
        break;
    case KT_DTYPE_IQ3_XXS:
        read_iq3_xxs(block, to);
        break;
    case KT_DTYPE_IQ3_S:
        read_iq3_s(block, to);
        break;
    case KT_DTYPE_TQ1_0:
        read_tq1_0(block, to);
        break;
    default: /* KT_DTYPE_Q1_0 */
        read_q1_0(block, index, to);
    }
}

/* ---- to codes of the roomy form ---- */

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

/* 2n + 1 of the n nibbles. */
static void put_scales(const uint8_t *from, unsigned n, uint8_t *scale)
{
    for (unsigned i = 0; i < n; i++)
        scale[i] = (uint8_t)(2 * ((unsigned)from[i / 2] >> i % 2 * 4 & 15) + 1);
}

/* Points of 8 weights, whose numbers have `bits` bits more than a byte, packed from `high` on. */
static void expand_eights(const struct llamafile_compact *from, const uint16_t *grid, unsigned bits,
                          const uint8_t *high, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned more = bits ? (unsigned)high[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1) : 0;
        put_eight(grid[from->index[i] | more << 8], from->sign[i], codes->code + 8 * i);
    }
}

static void expand_fours(const struct llamafile_compact *from, const uint16_t *grid, const uint8_t *high,
                         struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 64; i++) {
        unsigned more = high ? (unsigned)high[(i / 8 + 4) % 8] >> i % 8 & 1 : 0;
        put_four(grid[from->index[i] | more << 8], (unsigned)from->sign[i / 2] >> i % 2 * 4,
                 codes->code + 4 * i);
    }
    put_scales(from->scale, 8, codes->scale);
}

/* The sign of IQ1: whether eight weights are an eighth smaller or larger. */
static void expand_iq1_s(const struct llamafile_compact *from, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned word = load_u16(from->scale + i / 4 * 2);
        unsigned index = from->index[i] | (word >> i % 4 * 3 & 7) << 8;
        put_eight(kt_iq1s_grid[index], word >> 15 ? 255 : 0, codes->code + 8 * i);
        codes->scale[i / 4] = (uint8_t)(2 * (word >> 12 & 7) + 1);
    }
}

static void expand_iq1_m(const struct llamafile_compact *from, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned nibble = (unsigned)from->scale[8 + i / 2] >> i % 2 * 4 & 15;
        put_eight(kt_iq1s_grid[from->index[i] | (nibble & 7) << 8], nibble >> 3 ? 255 : 0,
                  codes->code + 8 * i);
    }
    put_scales(from->scale, 16, codes->scale);
}

static void expand_tq1_0(const struct llamafile_compact *from, struct llamafile_codes *codes)
{
    for (unsigned i = 0; i < 32; i++) {
        unsigned g = i / 4, j = i % 4, signs = from->scale[g / 4 * 4 + j];
        unsigned pair = (unsigned)from->scale[8 + g / 2 * 4 + j] >> g % 2 * 4;
        uint8_t *code = codes->code + GROUP * g + j;
        for (unsigned n = 0; n < 2; n++, code += 12) {
            int number = from->index[i] >> 4 * n & 15;
            number = 13 + (signs >> (g % 4 * 2 + n) & 1 ? -number : number);
            code[0] = (uint8_t)(number / 9);
            code[4] = (uint8_t)(number / 3 % 3);
            code[8] = (uint8_t)(number % 3);
        }
        code[0] = pair & 3;
        code[4] = pair >> 2 & 3;
    }
}

static void expand_q1_0(const struct llamafile_compact *from, struct llamafile_codes *codes)
{
    for (unsigned g = 0; g < 8; g++) {
        uint32_t bits = turn_signs_back(load_u32(from->index + 4 * g));
        for (unsigned i = 0; i < GROUP; i++)
            codes->code[GROUP * g + i] = bits >> i & 1;
        memcpy(codes->scale + 2 * g, from->scale + g / 4 * 2, 2);
    }
}

void llamafile_compact_expand(uint32_t dtype, const struct llamafile_compact *from,
                              struct llamafile_codes *codes)
{
    memcpy(codes->head, from->head, 2);
    switch (dtype) {
    case KT_DTYPE_IQ1_S:
        expand_iq1_s(from, codes);
        break;
    case KT_DTYPE_IQ1_M:
        expand_iq1_m(from, codes);
        break;
    case KT_DTYPE_IQ2_XXS:
        expand_eights(from, kt_iq2xxs_grid, 0, NULL, codes);
        put_scales(from->scale, 8, codes->scale);
        break;
    case KT_DTYPE_IQ2_XS:
        expand_eights(from, kt_iq2xs_grid, 1, from->scale + 8, codes);
        put_scales(from->scale, 16, codes->scale);
        break;
    case KT_DTYPE_IQ2_S:
        expand_eights(from, kt_iq2s_grid, 2, from->scale + 8, codes);
        put_scales(from->scale, 16, codes->scale);
        break;
    case KT_DTYPE_IQ3_XXS:
        expand_fours(from, kt_iq3xxs_grid, NULL, codes);
        break;
    case KT_DTYPE_IQ3_S:
        expand_fours(from, kt_iq3s_grid, from->scale + 4, codes);
        break;
    case KT_DTYPE_TQ1_0:
        expand_tq1_0(from, codes);
        break;
    default: /* KT_DTYPE_Q1_0 */
        expand_q1_0(from, codes);
    }
}

/* ---- between a row and a half panel ---- */

static unsigned count_scale_bytes(const struct llamafile_format *format, unsigned groups)
{
    return format->scale_bytes * (format->block == SUPERBLOCK ? 1 : groups * GROUP / format->block);
}

/* A group as codes of 4 bits: chunk c has those of columns 8c..8c+3 below those of 8c+4..8c+7. */
static void store_coded(const uint8_t *code, unsigned row, uint8_t *group)
{
    for (unsigned c = 0; c < 4; c++)
        store_u32(group + 64 * c + 4 * row, load_u32(code + 8 * c) | load_u32(code + 8 * c + 4) << 4);
}

/* Which byte of 16 is the row's: of formats whose sums kernels may look up, four rows are four bytes apart,
 * for the sake of widening them. */
static unsigned place_row(uint32_t dtype, unsigned row)
{
    return dtype == KT_DTYPE_TQ1_0 || dtype == KT_DTYPE_Q1_0 ? 4 * (row % 4) + row / 4 : row;
}

void llamafile_compact_load_codes(const struct llamafile_format *format,
                                  const struct llamafile_compact_place *from, struct llamafile_codes *codes)
{
    const uint32_t mask = UINT32_C(0x0f0f0f0f);
    for (unsigned g = 0; g < compact_coded(format->dtype); g++)
        for (unsigned c = 0; c < 4; c++) {
            uint32_t both = load_u32(from->groups + groups_size(format, g) + 64 * c + 4 * from->row);
            store_u32(codes->code + GROUP * g + 8 * c, both & mask);
            store_u32(codes->code + GROUP * g + 8 * c + 4, both >> 4 & mask);
        }
}

void llamafile_compact_store(const struct llamafile_format *format, const struct llamafile_compact *compact,
                             const struct llamafile_compact_place *to)
{
    unsigned n = count_scale_bytes(format, to->n), unit = format->scale_unit;
    unsigned bytes = compact_bytes(format->dtype), byte = place_row(format->dtype, to->row);
    for (unsigned i = 0; i < n; i += unit)
        memcpy(to->scales + TILE_ROWS * i + (unit == 1 ? byte : unit * to->row), compact->scale + i, unit);
    for (unsigned i = 0; i < format->head_bytes; i += 2)
        memcpy(to->head + TILE_ROWS * i + 2 * to->row, compact->head + i, 2);
    if (compact_coded(format->dtype)) {
        struct llamafile_codes codes;
        llamafile_compact_expand(format->dtype, compact, &codes);
        for (unsigned g = 0; g < compact_coded(format->dtype); g++)
            store_coded(codes.code + GROUP * g, to->row, to->groups + groups_size(format, g));
    }
    for (unsigned g = compact_coded(format->dtype); g < to->n; g++) {
        uint8_t *group = to->groups + groups_size(format, g);
        for (unsigned i = 0; i < bytes; i++)
            group[TILE_ROWS * i + byte] = compact->index[bytes * g + i];
        if (compact_has_signs(format->dtype))
            store_u32(group + TILE_ROWS * bytes + 4 * to->row, turn_signs(load_u32(compact->sign + 4 * g)));
    }
}

void llamafile_compact_load(const struct llamafile_format *format, const struct llamafile_compact_place *from,
                            struct llamafile_compact *compact)
{
    unsigned n = count_scale_bytes(format, from->n), unit = format->scale_unit;
    unsigned bytes = compact_bytes(format->dtype), byte = place_row(format->dtype, from->row);
    for (unsigned i = 0; i < n; i += unit)
        memcpy(compact->scale + i, from->scales + TILE_ROWS * i + (unit == 1 ? byte : unit * from->row),
               unit);
    for (unsigned i = 0; i < format->head_bytes; i += 2)
        memcpy(compact->head + i, from->head + TILE_ROWS * i + 2 * from->row, 2);
    for (unsigned g = compact_coded(format->dtype); g < from->n; g++) {
        const uint8_t *group = from->groups + groups_size(format, g);
        for (unsigned i = 0; i < bytes; i++)
            compact->index[bytes * g + i] = group[TILE_ROWS * i + byte];
        if (compact_has_signs(format->dtype))
            store_u32(compact->sign + 4 * g,
                      turn_signs_back(load_u32(group + TILE_ROWS * bytes + 4 * from->row)));
    }
}
