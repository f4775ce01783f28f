/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed_point_tmpl.h - a tile with a few rows of integers (fixed_point_rows.h, int8_rows_tmpl.h): products
 * of bytes. A vector of 32 codes takes 1.5 operations to unpack and 4 to multiply and add, where bfloat16
 * takes 14. No int16 gathers more than fits, and the sum of a tile is below 2^24, so float32 holds it
 * exactly: only adding up tiles rounds.
 *
 * Parameters  those of bf16/microkernel_tmpl.h
 */
#ifndef KT_PLUGINS_RAWINT4_FIXED_POINT_TMPL_H
#define KT_PLUGINS_RAWINT4_FIXED_POINT_TMPL_H

#include "plugins/rawint4/encoding.h"

#define PANEL_OWN struct coded_panel
#include "plugins/common/bf16/microkernel_tmpl.h"

/* vpdpbusd broadcasts the quad from memory by itself. */
#if SIMD_NUMBER(SIMD) == SIMD_avx512 && VEC_DOT_WIDE
#define DOT_ADD vi_dot_add_at
#else
#define DOT_ADD vi_dot_add
#endif

/* Unpacks nibbles to unsigned bytes: int4: q; e2m1: 2 * value + 12. */
INLINE void unpack_nibbles(vi codes, const struct decoder *decoder, int encoding, vi w[2])
{
    if ((encoding & 1) == ENCODING_INT4) {
        w[0] = vi_and(codes, vi_set_u8(15));
        w[1] = vi_high4(codes);
    } else {
        w[0] = vi_lookup_low4(decoder->fixed_point_e2m1, codes);
        w[1] = vi_lookup_high4(decoder->fixed_point_e2m1, codes);
    }
}

/* Adds lines begin..end-1 of 8 columns of a tile to sums[row][vector]: an int16 holds 8 times 24 * 128, or
 * 16 times 15 * 128. */
INLINE void add_code_lines(const uint8_t *lines, unsigned begin, unsigned end, const int8_t *const *x,
                           unsigned rows, int encoding, const struct decoder *decoder,
                           vi sums[MAX_ROWS][VEC_PARTS])
{
    const unsigned parts = IS_INT8(encoding) ? 1 : 2;
    vdot dot[2][MAX_ROWS][VEC_PARTS];

    UNROLL_FOR (unsigned i = 0; i < parts * rows * VEC_PARTS; i++)
        dot[i % parts][i / parts / VEC_PARTS][i / parts % VEC_PARTS] = vi_dot_zero();
    UNROLL_FOR (unsigned q = begin; q < end; q++) {
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
            vi w[2];
            unpack_nibbles(vi_keep(vi_load_once(lines + 128 * q + 4 * VEC_ROWS * v)), decoder, encoding, w);
            UNROLL_FOR (unsigned i = 0; i < 2 * parts * rows; i++) {
                unsigned part = i / 2 % parts, r = i / 2 / parts;
                const int8_t *bytes = x[r] + part * TILE_COLUMNS + 8 * q + i % 2 * 4;
                dot[part][r][v] = vi_in_order(DOT_ADD(dot[part][r][v], w[i % 2], bytes));
            }
        }
    }
    UNROLL_FOR (unsigned i = 0; i < rows * VEC_PARTS; i++) {
        unsigned r = i / VEC_PARTS, v = i % VEC_PARTS;
        vi high = vi_dot_sum(dot[0][r][v]);
        if (parts == 2)
            high = vi_add32(vi_shl32(high, 8), vi_dot_sum(dot[1][r][v]));
        sums[r][v] = vi_add32(sums[r][v], high);
    }
}

/* n lines of a pair of tiles, number t of `filled`, from line `begin` on: all 4, except in groups that end
 * inside a tile. */
INLINE void add_fixed_point_lines(const uint8_t *codes, const struct act_rows *x, uint64_t t, uint64_t filled,
                                  unsigned begin, unsigned n, unsigned rows, int encoding,
                                  const struct decoder *decoder, vf sum[MAX_ROWS][VECS])
{
    const unsigned step = VEC_DOT_WIDE || (encoding & 1) == ENCODING_INT4 ? 4 : 2;
    const int8_t *bytes[MAX_ROWS];
    const float *units[MAX_ROWS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        units[r] =
            FIND_SUMS(encoding, x, r, filled) + (HAS_SUBTILE_GROUPS(encoding) ? CODE_VECTORS : 1) * filled;
    UNROLL_FOR (unsigned tile = 0; tile < 2; tile++) {
        vi whole[MAX_ROWS][VEC_PARTS];
        UNROLL_FOR (unsigned r = 0; r < rows; r++) {
            bytes[r] = IS_INT8(encoding) ? x->x[r] + t * TILE_COLUMNS
                                         : (const int8_t *)(units[r] + filled) + t * FIXED_POINT_BYTES;
            /* Else compilers keep all 16 broadcasts of the first tile for the second, in memory. */
            __asm__ volatile("" : "+r"(bytes[r]));
        }
        UNROLL_FOR (unsigned i = 0; i < rows * VEC_PARTS; i++)
            whole[i / VEC_PARTS][i % VEC_PARTS] = vi_splat32(0);
        if (HAS_SUBTILE_GROUPS(encoding)) {
            for (unsigned q = begin; q < begin + n; q++) {
                const int8_t *at[MAX_ROWS];
                UNROLL_FOR (unsigned r = 0; r < rows; r++)
                    at[r] = bytes[r] + 8 * q;
                add_code_lines(codes + 64 * tile + 128 * q, 0, 1, at, rows, encoding, decoder, whole);
            }
        } else {
            UNROLL_FOR (unsigned q = 0; q < 4; q += step)
                add_code_lines(codes + 64 * tile, q, q + step, bytes, rows, encoding, decoder, whole);
        }
        UNROLL_FOR (unsigned i = 0; i < rows * VEC_PARTS; i++) {
            unsigned r = i / VEC_PARTS, v = tile * VEC_PARTS + i % VEC_PARTS;
            sum[r][v] = vf_fma(vf_from_int(whole[r][i % VEC_PARTS]), vf_splat(units[r] + t), sum[r][v]);
        }
    }
}

/* 32 columns of a pair of tiles; what lies `distance` ahead is prefetched meanwhile. */
INLINE void add_fixed_point(const uint8_t *codes, uint64_t distance, const struct act_rows *x, uint64_t t,
                            uint64_t filled, unsigned rows, int encoding, const struct decoder *decoder,
                            vf sum[MAX_ROWS][VECS])
{
    UNROLL_FOR (unsigned i = 0; i < 2 * CODES_SIZE; i += 64)
        PREFETCH_AHEAD(PREFETCH, codes + i, distance);
    add_fixed_point_lines(codes, x, t, filled, 0, 4, rows, encoding, decoder, sum);
}

#endif
