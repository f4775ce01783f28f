/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel_decode.c - decodes KT-Kernel's tiles to rows of int8 and joins its NUMA parts to matrices. */
#include "core/weights/ktkernel/ktkernel_decode.h"

#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"
#include "core/weights/ktkernel/pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A buffer consists of blocks of rows, these of blocks of columns, these of tiles. A tile is two halves of 16
 * rows x 64 bytes, in which bytes 4 w to 4 w + 3 of row r are word 16 w + r. */
enum { BLOCK_COLUMNS = 3584, TILE_ROWS = 32, HALF = 16, HALF_BYTES = 1024, WORDS = 16 };

/* With scales from here on, 1 / scale is finite, so the largest code of the row is known. */
static const float smallest_scale = 1e-37f;

/* A part of a matrix: rows and columns of packed weights, and the place of row 0. */
struct region {
    uint64_t rows, cols;
    int8_t *to;
    uint64_t stride;
};

/* A row of half a tile, in order. */
static inline void collect(const uint8_t *half, uint64_t row, uint8_t line[4 * WORDS])
{
    for (uint64_t w = 0; w < WORDS; w++)
        memcpy(line + 4 * w, half + 4 * (WORDS * w + row), 4);
}

static void expand8(const uint8_t *half, const struct region *region, int8_t *to)
{
    uint8_t line[4 * WORDS];
    for (uint64_t r = 0; r < HALF; r++, to += region->stride) {
        collect(half, r, line);
        memcpy(to, line, sizeof line);
    }
}

/* The scales are for 16 times the 4-bit value. */
static void expand4(const uint8_t *half, const struct region *region, int8_t *to)
{
    uint8_t line[4 * WORDS], codes[8 * WORDS];
    for (uint64_t r = 0; r < HALF; r++, to += region->stride) {
        collect(half, r, line);
        for (unsigned i = 0; i < sizeof line; i++) {
            codes[i] = (uint8_t)(line[i] << 4);
            codes[sizeof line + i] = line[i] & 0xf0;
        }
        memcpy(to, codes, sizeof codes);
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void expand(const uint8_t *packed, enum kt_packing packing, const struct region *region)
{
    bool four = packing == KT_PACKING_INT4;
    uint64_t block_rows = four ? 128 : 64, tile_columns = four ? 128 : 64;
    for (uint64_t row = 0; row < region->rows; row += block_rows)
        for (uint64_t col = 0; col < region->cols; col += BLOCK_COLUMNS) {
            uint64_t rows = least(block_rows, region->rows - row);
            uint64_t cols = least(BLOCK_COLUMNS, region->cols - col);
            for (uint64_t r = 0; r < rows; r += TILE_ROWS)
                for (uint64_t c = 0; c < cols; c += tile_columns) {
                    /* Counted in weights; r and c count inside the block. */
                    uint64_t at = row * region->cols + col * rows + r * cols + c * TILE_ROWS;
                    const uint8_t *tile = packed + (four ? at / 2 : at);
                    int8_t *to = region->to + (row + r) * region->stride + col + c;
                    for (uint64_t half = 0; half < 2; half++)
                        (four ? expand4 : expand8)(tile + half * HALF_BYTES, region,
                                                   to + half * HALF * region->stride);
                }
        }
}

static void copy_rows(const uint8_t *packed, const struct region *region)
{
    for (uint64_t r = 0; r < region->rows; r++)
        memcpy(region->to + r * region->stride, packed + r * region->cols, region->cols);
}

static int largest_code(const int8_t *row, uint64_t n)
{
    enum { LOT = 64 };
    uint8_t most[LOT] = {0}, largest = 0;
    for (; n >= LOT; n -= LOT, row += LOT)
        for (unsigned i = 0; i < LOT; i++) {
            uint8_t code = (uint8_t)(row[i] < 0 ? -row[i] : row[i]);
            most[i] = code > most[i] ? code : most[i];
        }
    for (unsigned i = 0; i < LOT; i++) {
        uint8_t code = (uint8_t)(i >= n ? 0 : row[i] < 0 ? -row[i] : row[i]);
        code = code > most[i] ? code : most[i];
        largest = code > largest ? code : largest;
    }
    return largest;
}

/* ---- an expert ------------------------------------------------------------------------------ */

struct decoding {
    struct kt_checkpoint *checkpoint;
    const struct kt_moe *moe;
    struct kt_packed *packed;
    uint8_t *room; /* for the largest piece, where it is not mapped */
    struct kt_error *error;
};

/* An expert's memory: float scales of gate, up and down [part][row], names, weights of the three. */
enum { NAME_SIZE = 64 };

static uint64_t rows_of(const struct kt_moe_info *info, int projection)
{
    return projection == KT_DOWN ? info->hidden_size : info->intermediate_size;
}

static uint64_t scales_of(const struct kt_packed *packed, int projection)
{
    return packed->size[projection][KT_PIECE_SCALE] / sizeof(float) * packed->n_parts;
}

static uint64_t names_at(const struct kt_packed *packed)
{
    uint64_t n = scales_of(packed, KT_GATE) + scales_of(packed, KT_UP) + scales_of(packed, KT_DOWN);
    return (n * sizeof(float) + 63) / 64 * 64;
}

static int8_t *weights_at(const struct kt_moe *moe, void *memory, int projection)
{
    uint64_t matrix = moe->info.hidden_size * moe->info.intermediate_size;
    return (int8_t *)memory + names_at(moe->map) + 3 * NAME_SIZE + (uint64_t)projection * matrix;
}

static float *scales_at(const struct kt_packed *packed, void *memory, int projection)
{
    float *scales = memory;
    for (int p = KT_GATE; p < projection; p++)
        scales += scales_of(packed, p);
    return scales;
}

/* The bytes of a piece: mapped, or read into `room`. */
static enum kt_status read_piece(const struct decoding *decoding, const struct kt_piece *piece,
                                 const uint8_t **bytes)
{
    struct kt_file loose;
    const struct kt_file *file = &loose;
    uint64_t offset = 0;
    enum kt_status status;
    if (piece->tensor) {
        file = &decoding->checkpoint->part[piece->tensor->part].file;
        offset = piece->tensor->info.offset;
        status = kt_file_check_size(file, decoding->error);
    } else {
        status = kt_piece_open(decoding->checkpoint, piece, &loose, decoding->error);
    }
    if (status != KT_OK)
        return status;
    *bytes = file->map ? file->map + offset : decoding->room;
    if (!file->map)
        status = kt_file_read(file, offset, decoding->room, piece->size, decoding->error);
    if (!piece->tensor)
        kt_file_close(&loose);
    return status;
}

static enum kt_status fail_row(const struct decoding *decoding, const struct kt_piece *piece, uint64_t row,
                               float scale, int largest)
{
    char label[KT_LABEL_SIZE + KT_NAME_SIZE + 32];
    kt_piece_label(decoding->checkpoint, piece, label, sizeof label);
    if (piece->role == KT_PIECE_SCALE)
        return kt_fail(decoding->error, KT_E_FORMAT,
                       "%s: the scale of row %" PRIu64 " is %g, no finite number of at least 0: the file "
                       "is damaged, or convert the original checkpoint with `kt convert`",
                       label, row, (double)scale);
    return kt_fail(decoding->error, KT_E_FORMAT,
                   "%s: the largest code of row %" PRIu64 " is %d, where quantizing to %s makes it %d: "
                   "the file is damaged or packed in another order; convert the original checkpoint "
                   "with `kt convert`",
                   label, row, piece->packing == KT_PACKING_INT4 ? largest / 16 : largest,
                   kt_packing_names[piece->packing], piece->packing == KT_PACKING_INT4 ? 7 : 127);
}

/* The first row whose largest code is not `full`, or region->rows; *looked: the number of rows that were
 * checked. */
static uint64_t find_odd_row(const struct region *region, const float *scales, int full, int *largest,
                             uint64_t *looked)
{
    *looked = 0;
    for (uint64_t r = 0; r < region->rows; r++) {
        if (scales[r] < smallest_scale)
            continue;
        ++*looked;
        *largest = largest_code(region->to + r * region->stride, region->cols);
        if (*largest != full)
            return r;
    }
    return region->rows;
}

static enum kt_status expand_part(const struct decoding *decoding, const struct kt_piece *weight,
                                  const uint8_t *bytes, const struct region *region, const float *scales)
{
    struct kt_packed *packed = decoding->packed;
    int full = packed->packing == KT_PACKING_INT4 ? 7 * 16 : 127, largest = 0, other;
    uint64_t looked;
    if (packed->packing == KT_PACKING_MOE_INT8)
        copy_rows(bytes, region);
    else
        expand(bytes, packed->packing, region);
    uint64_t odd = find_odd_row(region, scales, full, &largest, &looked);
    if (odd < region->rows && packed->guessed) {
        copy_rows(bytes, region);
        if (find_odd_row(region, scales, full, &other, &looked) == region->rows) {
            packed->packing = KT_PACKING_MOE_INT8;
            odd = region->rows;
        }
    }
    if (odd < region->rows)
        return fail_row(decoding, weight, odd, 0, largest);
    packed->guessed &= looked == 0;
    return KT_OK;
}

/* One NUMA part of a projection. */
static enum kt_status decode_part(const struct decoding *decoding, uint32_t expert, uint32_t part,
                                  int projection, void *memory)
{
    const struct kt_moe *moe = decoding->moe;
    const struct kt_packed *packed = decoding->packed;
    uint64_t number = (((uint64_t)expert * packed->n_parts + part) * 3 + (uint64_t)projection) * 2;
    struct kt_piece weight = kt_packed_piece(packed, number);
    struct kt_piece scale = kt_packed_piece(packed, number + 1);
    bool down = projection == KT_DOWN;
    uint64_t slice = moe->info.intermediate_size / packed->n_parts;
    struct region region = {.rows = down ? moe->info.hidden_size : slice,
                            .cols = down ? slice : moe->info.hidden_size,
                            .to = weights_at(moe, memory, projection),
                            .stride = down ? moe->info.intermediate_size : moe->info.hidden_size};
    region.to += part * (down ? region.cols : region.rows * region.stride);
    float *scales = scales_at(packed, memory, projection) + part * region.rows;
    const uint8_t *bytes = NULL;
    enum kt_status status = read_piece(decoding, &scale, &bytes);
    if (status != KT_OK)
        return status;
    memcpy(scales, bytes, scale.size);
    for (uint64_t r = 0; r < region.rows; r++)
        if (!(scales[r] >= 0 && scales[r] < __builtin_inff()))
            return fail_row(decoding, &scale, r, scales[r], 0);
    status = read_piece(decoding, &weight, &bytes);
    return status == KT_OK ? expand_part(decoding, &weight, bytes, &region, scales) : status;
}

static enum kt_status decode_expert(const struct decoding *decoding, uint32_t expert)
{
    const struct kt_packed *packed = decoding->packed;
    const struct kt_moe *moe = decoding->moe;
    void *memory = NULL;
    enum kt_status status = KT_OK;
    uint64_t size =
        names_at(packed) + 3 * NAME_SIZE + 3 * moe->info.hidden_size * moe->info.intermediate_size;
    if (posix_memalign(&memory, 64, (size_t)size) != 0)
        return kt_fail(decoding->error, KT_E_NOMEM,
                       "%s: no memory for the %" PRIu64 " bytes of expert %" PRIu32 " of layer %" PRIu32,
                       decoding->checkpoint->label, size, expert, packed->layer);
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        char *name = (char *)memory + names_at(packed) + p * NAME_SIZE;
        (void)snprintf(name, NAME_SIZE, "layer %" PRIu32 ", expert %" PRIu32 ", %s", packed->layer, expert,
                       kt_projection_names[p]);
        for (uint32_t part = 0; part < packed->n_parts && status == KT_OK; part++)
            status = decode_part(decoding, expert, part, p, memory);
    }
    if (status == KT_OK)
        packed->decoded[expert] = memory;
    else
        free(memory);
    return status;
}

static void show(const struct kt_moe *moe, void *memory, int projection, struct kt_view *view)
{
    const struct kt_packed *packed = moe->map;
    bool down = projection == KT_DOWN;
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = KT_DTYPE_I8;
    view->rows = rows_of(&moe->info, projection);
    view->cols = down ? moe->info.intermediate_size : moe->info.hidden_size;
    view->data = weights_at(moe, memory, projection);
    view->size = view->rows * view->cols;
    view->row_stride = (int64_t)view->cols;
    view->block_stride = 1;
    view->name = (const char *)memory + names_at(packed) + projection * NAME_SIZE;
    view->scales = (struct kt_scales){.data = scales_at(packed, memory, projection),
                                      .size = scales_of(packed, projection) * sizeof(float),
                                      .dtype = KT_DTYPE_F32,
                                      .group_rows = 1,
                                      .group_cols = down ? view->cols / packed->n_parts : view->cols,
                                      .row_stride = sizeof(float),
                                      .col_stride = (int64_t)(view->rows * sizeof(float))};
}

enum kt_status kt_packed_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                                 struct kt_expert *experts, uint32_t n_experts, struct kt_error *error)
{
    struct decoding decoding = {.checkpoint = checkpoint, .moe = moe, .packed = moe->map, .error = error};
    enum kt_status status = KT_OK;
    uint64_t largest = 0;
    for (int i = 0; i < 6; i++)
        if (decoding.packed->size[i / 2][i % 2] > largest)
            largest = decoding.packed->size[i / 2][i % 2];
    decoding.room = malloc((size_t)largest);
    if (!decoding.room)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %" PRIu64 " bytes of packed weights",
                       checkpoint->label, largest);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++)
        if (!decoding.packed->decoded[e])
            status = decode_expert(&decoding, e);
    free(decoding.room);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++) {
        void *memory = decoding.packed->decoded[e];
        experts[e] = (struct kt_expert){.gate_bias = NULL};
        show(moe, memory, KT_GATE, &experts[e].gate);
        show(moe, memory, KT_UP, &experts[e].up);
        show(moe, memory, KT_DOWN, &experts[e].down);
    }
    return status;
}

void kt_packed_release(struct kt_moe *moe)
{
    struct kt_packed *packed = moe->map;
    for (uint32_t e = 0; packed && e < packed->n_experts; e++) {
        free(packed->decoded[e]);
        packed->decoded[e] = NULL;
    }
}
