/* SPDX-License-Identifier: Apache-2.0 */
/* grids.h - the compact forms: from points of grids and numbers of three digits to weights. compact.c says
 * where their bits are. */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_GRIDS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_GRIDS_H

#include "plugins/llamafile/llamafile.h"
#include "plugins/llamafile/multiply/points.h"

#include "plugins/common/simd/simd.h"

/* What the compiler knows of a format in each instance of the functions below. */
struct traits {
    uint32_t dtype;
    unsigned bits, head_bytes, scale_bytes, block;
    int offset;
    bool compact;
    bool coded; /* a group of a compact form that is codes */
};

/* Of a group whose weights are points: their numbers, of all rows' first ones, of their second ones ...; the
 * scales of the group, or of its halves. */
struct found {
    uint16_t index[8][TILE_ROWS];
    uint8_t scale[2][TILE_ROWS];
};

/* A group of 32 columns: number g of the superblock whose scales these are. */
struct group {
    const uint8_t *codes, *scales;
    unsigned g;
    const struct found *found;
    const uint8_t *const *sums; /* tables of the rows (lookup_sums.h), and where those of the group are */
    uint64_t sums_at;
};

INLINE bool has_points(struct traits t)
{
    return t.compact && !t.coded && compact_points(t.dtype) > 0;
}

/* The traits of groups that are codes. */
INLINE struct traits make_coded(struct traits t)
{
    t.bits = 4;
    t.coded = true;
    return t;
}

/* Bytes of the first n groups of a superblock. */
INLINE uint64_t size_groups(struct traits t, uint64_t n)
{
    uint64_t coded = t.compact ? compact_coded(t.dtype) : 0;
    return 64 * (n * t.bits + (n < coded ? n : coded));
}

INLINE bool has_trits(struct traits t)
{
    return t.compact && t.dtype == KT_DTYPE_TQ1_0;
}

/* Groups with one scale, where scales are not those of a superblock. */
INLINE unsigned group_share(struct traits t)
{
    return t.compact && t.dtype == KT_DTYPE_Q1_0 ? 4 : 1;
}

/* ---- numbers of points ---- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words16 __attribute__((vector_size(32)));

/* Where the bits above a byte of the group's point c stand: in which 16 bytes, one of each row, from which
 * bit on. */
struct upper_bits {
    unsigned byte, shift, mask;
};

INLINE struct upper_bits find_upper_bits(struct traits t, unsigned g, unsigned c)
{
    switch (t.dtype) {
    case KT_DTYPE_IQ1_S: /* two bytes */
        return (struct upper_bits){2 * g, 3 * c, 7};
    case KT_DTYPE_IQ1_M:
        return (struct upper_bits){8 + 2 * g + c / 2, c % 2 * 4, 7};
    case KT_DTYPE_IQ2_XS:
        return (struct upper_bits){8 + g / 2, g % 2 * 4 + c, 1};
    case KT_DTYPE_IQ2_S:
        return (struct upper_bits){8 + g, 2 * c, 3};
    case KT_DTYPE_IQ3_S:
        return (struct upper_bits){g, c, 1}; /* from group 4 on */
    default:
        return (struct upper_bits){0, 0, 0};
    }
}

/* Where the group's n are, and how many bits they have: a scale is 2n + 1. */
INLINE struct upper_bits find_scale_bits(struct traits t, unsigned g, unsigned half)
{
    switch (t.dtype) {
    case KT_DTYPE_IQ1_S:
        return (struct upper_bits){2 * g + 1, 4, 7};
    case KT_DTYPE_IQ1_M:
    case KT_DTYPE_IQ2_XS:
    case KT_DTYPE_IQ2_S:
        return (struct upper_bits){g, 4 * half, 15};
    default:
        return (struct upper_bits){g / 2, g % 2 * 4, 15};
    }
}

/* Have points numbers above 255? */
INLINE bool has_wide_numbers(struct traits t)
{
    return t.dtype != KT_DTYPE_IQ2_XXS && t.dtype != KT_DTYPE_IQ3_XXS;
}

INLINE void find_points(struct traits t, struct group group, struct found *found)
{
    if (!has_points(t) && !t.coded)
        return;
    const unsigned points = has_points(t) && has_wide_numbers(t) ? compact_points(t.dtype) : 0;
    UNROLL_FOR (unsigned c = 0; c < points; c++) {
        const struct upper_bits upper = find_upper_bits(t, group.g, c);
        bytes16 low, high;
        words16 word, more;
        memcpy(&low, group.codes + TILE_ROWS * c, sizeof low);
        word = __builtin_convertvector(low, words16);
        memcpy(&high, group.scales + TILE_ROWS * upper.byte, sizeof high);
        more = __builtin_convertvector(high, words16);
        if (t.dtype == KT_DTYPE_IQ1_S) {
            memcpy(&high, group.scales + TILE_ROWS * (upper.byte + 1), sizeof high);
            more |= __builtin_convertvector(high, words16) << (uint16_t)8;
        }
        if (upper.shift <= 8)
            more <<= (uint16_t)(8 - upper.shift);
        else
            more >>= (uint16_t)(upper.shift - 8);
        word |= more & (uint16_t)(upper.mask << 8);
        memcpy(found->index[c], &word, sizeof word);
    }
    UNROLL_FOR (unsigned half = 0; half < 2; half++) {
        const struct upper_bits bits = find_scale_bits(t, group.g, half);
        bytes16 n;
        memcpy(&n, group.scales + TILE_ROWS * bits.byte, sizeof n);
        n = (n >> (uint8_t)bits.shift & (uint8_t)bits.mask) * (uint8_t)2 + (uint8_t)1;
        memcpy(found->scale[half], &n, sizeof n);
    }
    /* Compilers would take numbers out of vectors, which is twice as much work as loading them; a gather has
     * them there. */
    if (points > 0 && !VEC_GATHERS)
        __asm__("" : "+m"(*found));
}

/* Scales of a group, or of its halves, for the functions that load them. */
INLINE const uint8_t *find_scales(struct traits t, struct group group, bool halves)
{
    if (has_points(t) || t.coded)
        return group.found->scale[0];
    return group.scales + (halves ? 32 : 16) * group.g;
}

/* ---- weights ---- */

/* The line of signs, as singles; of IQ1_S the shifts of all its points, 1 or -1 in each byte. */
INLINE vi load_signs(struct traits t, struct group group, int part)
{
    if (t.dtype == KT_DTYPE_IQ1_M) /* each point has one */
        return vi_set_u8(0);
    if (t.dtype == KT_DTYPE_IQ1_S)
        return vi_or(vi_spread_bit(group.scales + TILE_ROWS * (2 * group.g + 1), 7, part), vi_set_u8(1));
    return vi_load(group.codes + TILE_ROWS * compact_points(t.dtype) + part * 4 * VEC_ROWS);
}

/* The numbers of all rows' point c. */
INLINE struct numbers find_numbers(struct traits t, struct group group, int c)
{
    if (has_wide_numbers(t))
        return (struct numbers){.words = group.found->index[c]};
    return (struct numbers){.bytes = group.codes + (unsigned)(TILE_ROWS * c)};
}

INLINE const uint64_t *find_eights(uint32_t dtype)
{
    return dtype == KT_DTYPE_IQ2_XXS  ? llamafile_iq2_xxs_points
           : dtype == KT_DTYPE_IQ2_XS ? llamafile_iq2_xs_points
           : dtype == KT_DTYPE_IQ2_S  ? llamafile_iq2_s_points
                                      : llamafile_iq1_points;
}

/* Columns 8c..8c+3 and 8c+4..8c+7: of IQ1 plus 9, of others without their signs. */
INLINE void decode_points(struct traits t, struct group group, vi signs, int c, int part, vi w[2])
{
    if (compact_points(t.dtype) == 8) {
        const uint32_t *points =
            t.dtype == KT_DTYPE_IQ3_S ? llamafile_iq3_s_points : llamafile_iq3_xxs_points;
        w[0] = vi_points4(points, find_numbers(t, group, 2 * c), part);
        w[1] = vi_points4(points, find_numbers(t, group, 2 * c + 1), part);
    } else {
        vi_points8(find_eights(t.dtype), find_numbers(t, group, c), part, w);
    }
    if (compact_has_signs(t.dtype))
        return;
    if (t.dtype == KT_DTYPE_IQ1_M) {
        const uint8_t *byte = group.scales + TILE_ROWS * (8 + 2 * group.g + (unsigned)c / 2);
        signs = vi_or(vi_spread_bit(byte, c % 2 * 4 + 3, part), vi_set_u8(1));
    }
    w[0] = vi_add8(w[0], signs);
    w[1] = vi_add8(w[1], signs);
}

/* Are signs applied to activations? */
INLINE bool has_turns(struct traits t)
{
#ifdef VEC_TURNS
    return has_points(t) && compact_has_signs(t.dtype);
#else
    (void)t;
    return false;
#endif
}

/* ---- ternary weights: numbers of three digits of base 3, less 13 ---- */

/* The digits of 13 + n, less 1. */
static const int8_t trit_digits[3][16] = {{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
                                          {0, 0, 1, 1, 1, -1, -1, -1, 0, 0, 0, 1, 1, 1, 0, 0},
                                          {0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, 0, 0}};

/* The lines of a superblock that have group g's signs, and its last 8 columns. */
INLINE const uint8_t *find_trit_signs(struct group group)
{
    return group.scales + 64 * (group.g / 4);
}

INLINE const uint8_t *find_trit_pairs(struct group group)
{
    return group.scales + 128 + 64 * (group.g / 2);
}

/* Columns 4i..4i+3 of a group as weights plus 1: `numbers` as they lie in it, `signs` of the same rows, and
 * the codes of the last columns. */
INLINE vi decode_trits(struct group group, vi numbers, vi signs, vi pairs, int i)
{
    if (i >= 6)
        return vi_and(vi_shr(pairs, 2 * (i - 6)), vi_set_u8(3));
    vi table = vi_table(trit_digits[i % 3]);
    vi digits = i < 3 ? vi_lookup_low4(table, numbers) : vi_lookup_high4(table, numbers);
    return vi_add8(vi_negate(digits, signs, (int)(2 * (group.g % 4)) + i / 3), vi_set_u8(1));
}

#endif
