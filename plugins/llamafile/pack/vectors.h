/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.h - half panels by vectors. Blocks of 16 rows are transposed as they are, 4 bytes of each row to a
 * line; then lines of codes are made of lines of the source, 16 rows at once. What it makes is to the byte
 * what weights.c makes of the same rows; formats that it does not take are left to that.
 */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_VECTORS_H
#define KT_PLUGINS_LLAMAFILE_PACK_VECTORS_H

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/gemm/piece.h"

#include <string.h>

/* Superblocks of a row that are read at a time. */
#define PIECE_SUPERBLOCKS (PIECE_BYTES / SUPERBLOCK)

/* A superblock of 16 rows, as a half panel has it, and where the next one goes. */
struct lines {
    _Alignas(64) uint8_t codes[8 * 512];
    _Alignas(64) uint8_t scales[512];
    _Alignas(64) uint8_t head[64];
    _Alignas(64) uint8_t pair[64];              /* heads of 32 bytes, those of two superblocks */
    _Alignas(64) uint8_t source[4 * TILE_SIZE]; /* line i: bytes 4i.. of each row's block */
    uint8_t *to, *heads;                        /* heads: where the line of the last ones is */
};

/* ---- codes ---- */

INLINE vi source_line(const uint8_t *source, unsigned line, int part)
{
    return vi_load(source + 64 * line + part * 4 * VEC_ROWS);
}

/* By so many bits up, or down where it is negative; bits that cross a byte are masked off by the caller. */
INLINE vi move_bits(vi v, int by)
{
    if (by > 0)
        return vi_shl32(v, by);
    return by < -6 ? vi_shr(vi_shr(v, 4), -by - 4) : vi_shr(v, -by);
}

/* Low or high nibbles of two lines, as the low and the high ones of a chunk. */
INLINE void join_nibbles(const uint8_t *source, unsigned first, unsigned second, bool high, uint8_t *to)
{
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        vi a = source_line(source, first, part), b = source_line(source, second, part);
        vi low = high ? vi_shr(a, 4) : a, up = high ? b : vi_shl32(b, 4);
        vi_store(to + part * 4 * VEC_ROWS, vi_select(vi_set_u8(15), low, up));
    }
}

/* A group of 32 columns in 32 bytes of a row. */
INLINE void make_nibbles(const uint8_t *source, bool high, uint8_t *to)
{
    UNROLL_FOR (unsigned c = 0; c < 4; c++)
        join_nibbles(source, 2 * c, 2 * c + 1, high, to + 64 * c);
}

/* ... in 16 bytes: columns 16..31 are their high nibbles. */
INLINE void make_short_nibbles(const uint8_t *source, uint8_t *to)
{
    UNROLL_FOR (unsigned c = 0; c < 4; c++)
        join_nibbles(source, c % 2 * 2, c % 2 * 2 + 1, c >= 2, to + 64 * c);
}

/* Bits `shift` and above it of n lines, `width` of each byte, to one chunk. */
INLINE void make_chunk(const uint8_t *source, unsigned n, int width, int shift, uint8_t *to)
{
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        vi chunk = vi_set_u8(0);
        UNROLL_FOR (unsigned t = 0; t < n; t++) {
            int at = (int)t * width;
            vi mask = vi_set_u8((uint8_t)(((1u << width) - 1) << at));
            chunk = vi_or(chunk, vi_and(move_bits(source_line(source, t, part), at - shift), mask));
        }
        vi_store(to + part * 4 * VEC_ROWS, chunk);
    }
}

INLINE void make_pairs(const uint8_t *source, int shift, uint8_t *to)
{
    make_chunk(source, 4, 2, shift, to);
    make_chunk(source + 4 * 64, 4, 2, shift, to + 64);
}

/* ---- scales and heads ---- */

/* 12 bytes, one after the other, of 16 rows: 8 scales and 8 minima of 6 bits. */
INLINE void make_scales_k4(const uint8_t *source, uint8_t *scales)
{
    _Alignas(64) uint8_t part[3 * 64];
    for (unsigned i = 0; i < 3; i++)
        vec_part_bytes(source + 64 * i, part + 64 * i);
    for (unsigned at = 0; at < 64; at += 4 * VEC_ROWS) {
        vi a = vi_load(part + at), b = vi_load(part + 64 + at), c = vi_load(part + 128 + at);
        vi six = vi_set_u8(63), four = vi_set_u8(15), upper = vi_set_u8(0x30);
        vi_store(scales + at, vi_and(a, six));
        vi_store(scales + 64 + at, vi_or(vi_and(c, four), vi_and(vi_shr(a, 2), upper)));
        vi_store(scales + 128 + at, vi_and(b, six));
        vi_store(scales + 192 + at, vi_or(vi_high4(c), vi_and(vi_shr(b, 2), upper)));
    }
}

/* ---- superblocks ---- */

static void make_q2_k(struct lines *s)
{
    for (unsigned i = 0; i < 4; i++)
        vec_part_bytes(s->source + 64 * i, s->scales + 64 * i);
    UNROLL_FOR (unsigned g = 0; g < 8; g++)
        make_pairs(s->source + 64 * (4 + g / 4 * 8), g % 4 * 2, s->codes + 128 * g);
    vec_part_halves(s->source + 64 * 20, s->head);
}

static void make_q3_k(struct lines *s)
{
    uint8_t packed[12][TILE_ROWS];
    for (unsigned i = 0; i < 3; i++)
        vec_part_bytes(s->source + 64 * (24 + i), packed[4 * i]);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            int low = packed[i % 8][r] >> (i / 8 * 4) & 15, high = packed[8 + i % 4][r] >> (i / 4 * 2) & 3;
            s->scales[TILE_ROWS * i + r] = (uint8_t)((low | high << 4) - 32);
        }
    UNROLL_FOR (unsigned g = 0; g < 8; g++) {
        make_pairs(s->source + 64 * (8 + g / 4 * 8), g % 4 * 2, s->codes + 192 * g);
        make_chunk(s->source, 8, 1, (int)g, s->codes + 192 * g + 128);
    }
    vec_part_halves(s->source + 64 * 27, s->head);
}

static void make_q4_k(struct lines *s)
{
    make_scales_k4(s->source + 64, s->scales);
    UNROLL_FOR (unsigned g = 0; g < 8; g++)
        make_nibbles(s->source + 64 * (4 + g / 2 * 8), g % 2, s->codes + 256 * g);
    vec_part_halves(s->source, s->head);
}

static void make_q5_k(struct lines *s)
{
    make_scales_k4(s->source + 64, s->scales);
    UNROLL_FOR (unsigned g = 0; g < 8; g++) {
        make_nibbles(s->source + 64 * (12 + g / 2 * 8), g % 2, s->codes + 320 * g);
        make_chunk(s->source + 64 * 4, 8, 1, (int)g, s->codes + 320 * g + 256);
    }
    vec_part_halves(s->source, s->head);
}

static void make_q6_k(struct lines *s)
{
    for (unsigned i = 0; i < 4; i++)
        vec_part_bytes(s->source + 64 * (48 + i), s->scales + 64 * i);
    UNROLL_FOR (unsigned g = 0; g < 8; g++) {
        make_nibbles(s->source + 64 * (g / 4 * 16 + g % 2 * 8), g % 4 / 2, s->codes + 384 * g);
        make_pairs(s->source + 64 * (32 + g / 4 * 8), g % 4 * 2, s->codes + 384 * g + 256);
    }
    vec_part_halves(s->source + 64 * 52, s->head);
}

static void make_iq4_xs(struct lines *s)
{
    uint8_t first[4][TILE_ROWS], low[4][TILE_ROWS];
    vec_part_bytes(s->source, first[0]);
    vec_part_bytes(s->source + 64, low[0]);
    for (unsigned i = 0; i < 8; i++)
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            int lower = low[i / 2][r] >> (i % 2 * 4) & 15, upper = first[2 + i / 4][r] >> (i % 4 * 2) & 3;
            s->scales[TILE_ROWS * i + r] = (uint8_t)((lower | upper << 4) - 32);
        }
    UNROLL_FOR (unsigned g = 0; g < 8; g++)
        make_short_nibbles(s->source + 64 * (2 + 4 * g), s->codes + 256 * g);
    vec_part_halves(s->source, s->head);
}

static void make_nibble_blocks(struct lines *s)
{
    UNROLL_FOR (unsigned g = 0; g < 8; g++)
        make_short_nibbles(s->source + 64 * 4 * g, s->codes + 256 * g);
}

static void make_byte_blocks(struct lines *s)
{
    memcpy(s->codes, s->source, sizeof s->codes);
}

typedef void (*make_lines_fn)(struct lines *s);

/* NULL: the format is not taken. */
static make_lines_fn find_lines(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_Q4_0:
    case KT_DTYPE_Q4_1:
    case KT_DTYPE_IQ4_NL:
    case KT_DTYPE_MXFP4:
        return make_nibble_blocks;
    case KT_DTYPE_Q8_0:
        return make_byte_blocks;
    case KT_DTYPE_Q2_K:
        return make_q2_k;
    case KT_DTYPE_Q3_K:
        return make_q3_k;
    case KT_DTYPE_Q4_K:
        return make_q4_k;
    case KT_DTYPE_Q5_K:
        return make_q5_k;
    case KT_DTYPE_Q6_K:
        return make_q6_k;
    case KT_DTYPE_IQ4_XS:
        return make_iq4_xs;
    default:
        return NULL;
    }
}

/* ---- half panels ---- */

/* 16 rows of the source. */
struct line_rows {
    const struct llamafile_format *format;
    const uint8_t *first;
    int64_t row_stride, block_stride;
    unsigned n; /* that exist */
    bool streams;
};

INLINE void put_lines(const struct line_rows *rows, const uint8_t *from, uint64_t size, uint8_t *to)
{
    for (uint64_t at = 0; at < size; at += 64)
        if (rows->streams)
            vec_stream64(to + at, from + at);
        else
            memcpy(to + at, from + at, 64);
}

/* Bytes that a row has in a superblock, without the scales of blocks of 32. */
static uint64_t superblock_bytes(const struct llamafile_format *format)
{
    return format->block == SUPERBLOCK ? format->block_bytes
                                       : 8u * (format->block_bytes - format->scale_bytes);
}

/* n blocks of 32 columns of a row: their codes side by side, their scales as a half panel has them, but for
 * superblocks 512 bytes apart. */
INLINE void split_blocks(const struct line_rows *rows, const uint8_t *from, unsigned codes, uint64_t n,
                         uint8_t *to, uint8_t *scales)
{
    const unsigned size = rows->format->scale_bytes;
    for (uint64_t b = 0; b < n; b++, from += rows->block_stride) {
        uint8_t *scale = scales + b / 8 * 512 + b % 8 * TILE_ROWS * size;
        if (size == 1)
            *scale = *from;
        else
            memcpy(scale, from, 2);
        if (size == 4)
            memcpy(scale + 2 * TILE_ROWS, from + 2, 2);
        memcpy(to + codes * b, from + size, codes);
    }
}

/* Superblocks from number `first` on with n groups of each row. */
static void read_superblocks(const struct line_rows *rows, uint64_t first, uint64_t n, uint8_t *piece,
                             uint8_t *scales)
{
    const struct llamafile_format *format = rows->format;
    const bool large = format->block == SUPERBLOCK;
    const uint64_t blocks = large ? n / 8 : n;
    const uint8_t *from = rows->first + (int64_t)(large ? first : 8 * first) * rows->block_stride;
    if (!large && (rows->n < TILE_ROWS || n % 8))
        memset(scales, 0, PIECE_SUPERBLOCKS * 512);
    for (unsigned row = 0; row < rows->n; row++, from += rows->row_stride, piece += PIECE_STRIDE) {
        fetch_ahead(from, rows->row_stride, blocks * format->block_bytes);
        if (large && rows->block_stride == format->block_bytes)
            memcpy(piece, from, blocks * format->block_bytes);
        else if (large)
            for (uint64_t b = 0; b < blocks; b++)
                memcpy(piece + b * format->block_bytes, from + (int64_t)b * rows->block_stride,
                       format->block_bytes);
        else if (format->bits == 8)
            split_blocks(rows, from, 32, n, piece, scales + format->scale_unit * row);
        else
            split_blocks(rows, from, 16, n, piece, scales + format->scale_unit * row);
    }
}

/* Scales of rows that do not exist, where a format has an offset in them. */
static void clear_scales(const struct line_rows *rows, uint64_t size, uint8_t *scales)
{
    for (uint64_t at = rows->n; rows->n < TILE_ROWS && at < size; at += TILE_ROWS)
        memset(scales + at, 0, TILE_ROWS - rows->n);
}

/* Heads of 32 bytes stand in a line of two superblocks', which is complete with the second. */
static void put_head(const struct line_rows *rows, uint64_t number, bool last, struct lines *s)
{
    if (rows->format->head_bytes == 4) {
        put_lines(rows, s->head, 64, s->heads);
    } else if (rows->format->head_bytes == 2) {
        memcpy(s->pair + number % 2 * 32, s->head, 32);
        if (number % 2 == 0)
            memset(s->pair + 32, 0, 32);
        if (number % 2 || last)
            put_lines(rows, s->pair, 64, s->heads);
    }
}

/* Superblock `number`, of n groups, whose scales are at `from`. */
static void put_superblock(const struct line_rows *rows, unsigned n, uint64_t number, bool last,
                           const uint8_t *from, struct lines *s)
{
    const struct llamafile_format *format = rows->format;
    const uint64_t scales = scales_size(format, n), codes = n * group_size(format);
    const uint64_t heads =
        heads_size(format->head_bytes, number + 1) - heads_size(format->head_bytes, number);
    put_lines(rows, from, scales, s->to);
    s->to += scales;
    s->heads = heads ? s->to : s->heads;
    put_head(rows, number, last, s);
    put_lines(rows, s->codes, codes, s->to + heads);
    s->to += heads + codes;
}

/* Blocks of all columns of 16 rows. */
static void put_quants(const struct line_rows *rows, make_lines_fn make, uint64_t k, struct lines *s)
{
    const struct llamafile_format *format = rows->format;
    const uint64_t superblocks = round_up(k, SUPERBLOCK) / SUPERBLOCK, size = superblock_bytes(format);
    _Alignas(64) uint8_t piece[PIECE_SIZE], scales[PIECE_SUPERBLOCKS * 512];
    if (rows->n < TILE_ROWS)
        memset(piece, 0, sizeof piece);
    for (uint64_t i = 0; i < superblocks; i++) {
        uint64_t left = k / GROUP - 8 * i;
        unsigned at = i % PIECE_SUPERBLOCKS, groups = left < 8 ? (unsigned)left : 8;
        if (at == 0)
            read_superblocks(rows, i, left < 8 * PIECE_SUPERBLOCKS ? left : 8 * PIECE_SUPERBLOCKS, piece,
                             scales);
        for (uint64_t byte = 0; byte < size; byte += 64)
            vec_make_tile(piece + at * size + byte, PIECE_STRIDE, s->source + 16 * byte);
        make(s);
        if (format->block == SUPERBLOCK)
            clear_scales(rows, scales_size(format, 8), s->scales);
        put_superblock(rows, groups, i, i + 1 == superblocks,
                       format->block == SUPERBLOCK ? s->scales : scales + at * 512, s);
    }
}

static void put_floats(const struct line_rows *rows, uint64_t k, uint8_t *to)
{
    const uint64_t size = rows->format->block_bytes, columns = PIECE_BYTES / size;
    _Alignas(64) uint8_t piece[PIECE_SIZE], tile[TILE_SIZE];
    if (rows->n < TILE_ROWS)
        memset(piece, 0, sizeof piece);
    for (uint64_t c = 0; c < k; c += columns) {
        uint64_t n = k - c < columns ? k - c : columns, lines = round_up(n, 2) * size / 4;
        for (unsigned row = 0; row < rows->n; row++) {
            uint8_t *copy = piece + row * PIECE_STRIDE;
            memcpy(copy, rows->first + (int64_t)row * rows->row_stride + c * size, n * size);
            memset(copy + n * size, 0, 4);
        }
        for (uint64_t line = 0; line < lines; line += 16, to += TILE_SIZE) {
            vec_make_tile(piece + 4 * line, PIECE_STRIDE, tile);
            for (uint64_t at = 0; rows->format->dtype == KT_DTYPE_F16 && at < TILE_SIZE; at += 64)
                vec_part_halves(tile + at, tile + at); /* two columns, side by side */
            put_lines(rows, tile, 64 * (lines - line < 16 ? lines - line : 16), to);
        }
    }
}

/* Rows begin.. of a view to a half panel; false: its format is not taken. */
static bool pack_lines(const struct llamafile_format *format, const struct kt_view *view, uint64_t begin,
                       unsigned n, bool streams, uint8_t *half_panel)
{
    const make_lines_fn make = find_lines(format->dtype);
    const struct line_rows rows = {
        .format = format,
        .first = (const uint8_t *)view->data + (int64_t)begin * view->row_stride,
        .row_stride = view->row_stride,
        .block_stride = view->block_stride,
        .n = n,
        .streams = streams,
    };
    struct lines s;
    s.to = half_panel;
    bool floats = format_is_float(format) && view->block_stride == format->block_bytes;
    if (!make && !floats)
        return false;
    if (floats)
        put_floats(&rows, view->cols, half_panel);
    else
        put_quants(&rows, make, view->cols, &s);
    if (streams)
        vec_stream_end();
    return true;
}

#endif
