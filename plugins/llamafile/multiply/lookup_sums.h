/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup_sums.h - weights of one or two bits whose products are not multiplied but looked up, where the set
 * of vectors has that (VEC_SUMS): tables of the sums that a row's activations make with them. A product makes
 * them in its scratch, for a row block at a time.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_LOOKUP_SUMS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_LOOKUP_SUMS_H

#include "plugins/llamafile/multiply/grids.h"
#include "plugins/llamafile/multiply/dots.h"

/* Has a projection's format sums? */
INLINE bool has_sums(uint32_t dtype, bool compact)
{
#ifdef VEC_SUMS
    return dtype == KT_DTYPE_Q1_0 || (dtype == KT_DTYPE_TQ1_0 && compact);
#else
    (void)dtype;
    (void)compact;
    return false;
#endif
}

/* Bytes of tables of a group: of both nibbles of half a line of codes and, of TQ1_0, of a nibble of half a
 * line of last columns. */
INLINE uint64_t size_group_sums(uint32_t dtype)
{
    return UINT64_C(64) * (dtype == KT_DTYPE_Q1_0 ? 4 : 6);
}

/* ... of a row's K columns, for one format; of all formats of a stage. */
INLINE uint64_t size_row_sums(const struct kt_layout *layout, enum kt_stage stage, uint32_t dtype)
{
    return has_sums(dtype, layout->words[WORD_COMPACT])
               ? stage_k(layout, stage) / GROUP * size_group_sums(dtype)
               : 0;
}

/* Where a projection's tables are in those of a row: of gate and up, if they are not alike, up's come second.
 */
INLINE uint64_t sums_offset(const struct kt_layout *layout, enum kt_projection projection)
{
    const struct kt_format *format = layout->shape.format;
    const enum kt_projection first = tile_projection(&layout->shape, KT_STAGE_GATE_UP, 0);
    if (projection != KT_UP || format[first].dtype == format[KT_UP].dtype)
        return 0;
    return size_row_sums(layout, KT_STAGE_GATE_UP, format[first].dtype);
}

INLINE uint64_t size_sums(const struct kt_layout *layout, enum kt_stage stage)
{
    enum kt_projection last = stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP;
    return sums_offset(layout, last) + size_row_sums(layout, stage, layout->shape.format[last].dtype);
}

#ifndef VEC_SUMS
INLINE void add_two_groups(struct traits t, int rows, struct group group, const uint8_t *const *x,
                           uint64_t at, vf total[][VEC_PARTS], vf sums[][VEC_PARTS])
{
    (void)t, (void)rows, (void)group, (void)x, (void)at, (void)total, (void)sums;
}
#else
/* ---- tables: in the order in which look_up_dots reads them ---- */

/* -1 or 1 for each bit. */
static const struct sum_weights sign_weights = {{{-1, -1, 1, -1, -1, 1, 1, 1, -1, -1, 1, -1, -1, 1, 1, 1},
                                                 {-1, -1, 1, -1, -1, 1, 1, 1, -1, -1, 1, -1, -1, 1, 1, 1}},
                                                {{-1, -1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                                 {-1, 1, -1, 1, -1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}};

/* trit_digits of three activations. */
static const struct sum_weights trit_weights = {{{0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, -1, 1, -1, 1, -1},
                                                 {1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}},
                                                {{0, 0, 1, 0, -1, 0, 0, 0, 1, 0, -1, 0, 0, 0, 1, 0},
                                                 {-1, 0, 0, 0, 1, 0, -1, 0, 0, 0, 1, 0, 0, 0, 0, 0}}};

/* Two codes of 2 bits, less 1, of the last two activations. */
static const struct sum_weights pair_weights = {{{0}, {0}},
                                                {{-1, -1, 0, -1, 1, -1, 0, 0, -1, 0, 0, 0, 1, 0, 0, 0},
                                                 {-1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}};

/* Of the 64 activations of two groups: of Q1_0 a table each for the first group and for the second; of TQ1_0
 * two for the columns of neighboring bytes, of one group and then of the other. */
INLINE void make_pair_sums(uint32_t dtype, const int8_t *x, uint8_t *to)
{
    if (dtype == KT_DTYPE_Q1_0) {
        UNROLL_FOR (unsigned i = 0; i < 8; i++) { /* nibble i % 2 of byte i / 2 */
            const int8_t *const half[2] = {x + 16 * (i % 2), x + GROUP + 16 * (i % 2)};
            vec_make_sums(half, (const unsigned[2]){i / 2, i / 2}, &sign_weights, false, to + 64 * i);
        }
        return;
    }
    UNROLL_FOR (unsigned i = 0; i < 12;
                i++) { /* nibble i % 2 of bytes 0 and 1, then of 2 and 3, then pairs */
        const int8_t *group = x + GROUP * (i / 6), *from = group + (i % 6 < 4 ? i % 2 * 12 : 16);
        unsigned byte = i % 6 < 4 ? i % 6 / 2 * 2 : i % 2 * 2;
        const int8_t *const both[2] = {from, from};
        vec_make_sums(both, (const unsigned[2]){byte, byte + 1}, i % 6 < 4 ? &trit_weights : &pair_weights,
                      true, to + 64 * i);
    }
}

/* Of `groups` groups of a row of activations. A function by itself: it is called once for many panels. */
static NOINLINE void make_row_sums(uint32_t dtype, const uint8_t *act, uint64_t groups, uint8_t *to)
{
    for (uint64_t g = 0; g < groups; g += 2, to += 2 * size_group_sums(dtype)) {
        const int8_t *x = (const int8_t *)act + g / 8 * ACT_SIZE + ACT_Q + g % 8 * GROUP;
        if (dtype == KT_DTYPE_Q1_0)
            make_pair_sums(KT_DTYPE_Q1_0, x, to);
        else
            make_pair_sums(KT_DTYPE_TQ1_0, x, to);
    }
}

/* ---- dot products of two groups: those of dots.h, to the bit ---- */

/* In one register, which compilers would add up again for each table. */
INLINE const uint8_t *find_tables(struct group group, int row, uint64_t at)
{
    const uint8_t *tables = group.sums[row] + group.sums_at + at;
    __asm__("" : "+r"(tables));
    return tables;
}

INLINE void look_up_bits(int rows, struct group group, vf out[2][8][VEC_PARTS])
{
    vi codes[8];
    UNROLL_FOR (int i = 0; i < 4; i++) {
        vi both = vi_load_codes(group.codes + 16 * i, group.codes + 64 + 16 * i);
        codes[2 * i] = vi_code4(both, 0);
        codes[2 * i + 1] = vi_code4(both, 4);
    }
    UNROLL_FOR (int r = 0; r < rows; r++) {
        const uint8_t *tables = find_tables(group, r, 0);
        struct byte_sums sums = {vi_set_u8(0), vi_set_u8(0)};
        vi dots[2][2];
        UNROLL_FOR (int i = 0; i < 8; i++)
            sums = vi_add_sums(sums, tables + 64 * i, codes[i]);
        vi_end_sums(sums, dots[0], dots[1]);
        UNROLL_FOR (int i = 0; i < 4; i++)
            out[i / 2][r][i % 2] = vf_from_int(dots[i / 2][i % 2]);
    }
}

/* Group `second` of the two. */
INLINE void look_up_trits(int rows, struct group group, unsigned second, vf out[8][VEC_PARTS])
{
    vi codes[6], signs[4];
    UNROLL_FOR (int i = 0; i < 2; i++) {
        vi both = vi_keep(vi_load(group.codes + 64 * second + 32 * i));
        codes[2 * i] = vi_code4(both, 0);
        codes[2 * i + 1] = vi_code4(both, 4);
        vi_take_signs(vi_load(find_trit_signs(group) + 32 * i), group.g % 4 * 2 + 2 * second, signs + 2 * i);
        codes[4 + i] = vi_code4(vi_load(find_trit_pairs(group) + 32 * i), 4 * second);
    }
    UNROLL_FOR (int r = 0; r < rows; r++) {
        const uint8_t *tables = find_tables(group, r, second * size_group_sums(KT_DTYPE_TQ1_0));
        struct byte_sums sums = {vi_set_u8(0), vi_set_u8(0)};
        vi dots[2];
        UNROLL_FOR (int i = 0; i < 4; i++)
            sums = vi_add_turned_sums(sums, tables + 64 * i, codes[i], signs[i]);
        UNROLL_FOR (int i = 4; i < 6; i++)
            sums = vi_add_sums(sums, tables + 64 * i, codes[i]);
        vi_end_turned_sums(sums, dots);
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            out[r][part] = vf_from_int(dots[part]);
    }
}

/* Adds groups g and g + 1. */
INLINE void add_two_groups(struct traits t, int rows, struct group group, const uint8_t *const *x,
                           uint64_t at, vf total[][VEC_PARTS], vf sums[][VEC_PARTS])
{
    vf dots[2][8][VEC_PARTS];
    if (t.dtype == KT_DTYPE_Q1_0)
        look_up_bits(rows, group, dots);
    UNROLL_FOR (unsigned i = 0; i < 2; i++) {
        const uint64_t scale = at + ACT_SCALE + 4 * (group.g + i);
        if (t.dtype != KT_DTYPE_Q1_0)
            look_up_trits(rows, group, i, dots[i]);
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
            vf d = vf_set(0.0f);
            if (t.dtype == KT_DTYPE_Q1_0)
                d = load_d(t, group.scales, group.g, part); /* that of both groups */
            UNROLL_FOR (int r = 0; r < rows; r++) {
                vf factor = vf_splat(x[r] + scale);
                if (t.dtype == KT_DTYPE_Q1_0)
                    total[r][part] = vf_fma(dots[i][r][part], vf_mul(d, factor), total[r][part]);
                else
                    sums[r][part] = vf_fma(dots[i][r][part], factor, sums[r][part]);
            }
        }
    }
}

/* Rows begin..end-1 of a product, to its scratch. */
static void make_sums(const struct kt_product *job, enum kt_stage stage, uint32_t begin, uint32_t end)
{
    const struct kt_layout *layout = job->layout;
    const uint64_t size = size_sums(layout, stage);
    for (uint32_t row = begin; row < end && size; row++) {
        const uint8_t *act =
            (const uint8_t *)job->act + (job->index ? job->index[row] : row) * layout->act_row_size[stage];
        uint8_t *to = (uint8_t *)job->scratch + (row - begin) * size;
        for (int p = (int)tile_projection(&layout->shape, stage, 0);
             p <= (int)tile_projection(&layout->shape, stage, 1); p++) {
            uint32_t dtype = layout->shape.format[p].dtype;
            if (has_sums(dtype, layout->words[WORD_COMPACT]))
                make_row_sums(dtype, act, stage_k(layout, stage) / GROUP,
                              to + sums_offset(layout, (enum kt_projection)p));
        }
    }
}

/* Room in scratch for as many rows as leave half of L2 to other things; row blocks are no larger. */
static void lay_out_sums(const struct instance *self, struct kt_layout *layout)
{
    uint64_t room = 0;
    for (int stage = first_stage(&layout->shape); stage <= KT_STAGE_DOWN; stage++) {
        uint64_t size = size_sums(layout, (enum kt_stage)stage);
        if (!size)
            continue;
        uint64_t rows = self->l2_size / 2 / size / 4 * 4;
        rows = rows < 4 ? 4 : rows > 28 ? 28 : rows;
        if (rows < layout->words[WORD_ROW_BLOCK + stage])
            layout->words[WORD_ROW_BLOCK + stage] = rows;
        if (room < rows * size)
            room = rows * size;
    }
    layout->scratch_size += room;
}

#endif
#endif
