/* SPDX-License-Identifier: Apache-2.0 */
/*
 * awq.c - transposes AWQ's words of eight rows to rows of nibbles. Quantized values and zero points stay the
 * same; only their places change. Scales are shown as they are in the file.
 */
#include "core/weights/safetensors/awq.h"

#include "core/base/error.h"
#include "core/weights/model/family.h"
#include "core/weights/table/tensors.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, TILE = 16, ALIGNMENT = 64 };

/* Nibble i of a word belongs to row order[i]. */
static const unsigned order[WORD] = {0, 2, 4, 6, 1, 3, 5, 7};

static uint64_t align(uint64_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t size_of(const struct kt_matrix *matrix)
{
    if (matrix->coding != KT_CODING_AWQ)
        return 0;
    return align(matrix->rows * (matrix->cols / 2)) + align(matrix->zeros.size);
}

/* Where a projection's weights begin in an expert's memory; its zeros follow. */
static uint64_t offset_of(const struct kt_expert_map *map, int projection)
{
    uint64_t offset = 0;
    for (int p = KT_GATE; p < projection; p++)
        offset += size_of(&map->matrix[p]);
    return offset;
}

/* Transposes eight columns of `n` words; a line of the source has `words`. */
static void turn(const uint32_t *source, uint64_t words, uint64_t n, uint8_t *to, uint64_t row_size)
{
    for (uint64_t w = 0; w < n; w++) {
        uint32_t rows[WORD] = {0};
        for (unsigned k = 0; k < WORD; k++) {
            uint32_t word = le32toh(source[k * words + w]);
            for (unsigned i = 0; i < WORD; i++)
                rows[order[i]] |= (word >> 4 * i & 15) << 4 * k;
        }
        for (unsigned r = 0; r < WORD; r++) {
            uint32_t line = htole32(rows[r]);
            memcpy(to + (w * WORD + r) * row_size, &line, sizeof line);
        }
    }
}

static void turn_weights(const struct kt_matrix *matrix, const uint32_t *source, uint8_t *to)
{
    uint64_t words = matrix->rows / WORD, row_size = matrix->cols / 2;
    for (uint64_t w = 0; w < words; w += TILE)
        for (uint64_t k = 0; k < matrix->cols; k += WORD)
            turn(source + k * words + w, words, words - w < TILE ? words - w : TILE,
                 to + w * WORD * row_size + k / 2, row_size);
}

static void spread_zeros(const struct kt_matrix *matrix, const uint32_t *source, uint8_t *to)
{
    uint64_t words = matrix->zeros.size / WORD;
    for (uint64_t w = 0; w < words; w++) {
        uint32_t word = le32toh(source[w]);
        for (unsigned i = 0; i < WORD; i++)
            to[w * WORD + order[i]] = word >> 4 * i & 15;
    }
}

static enum kt_status decode(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                             uint32_t expert, int projection, uint8_t *memory, struct kt_error *error)
{
    const struct kt_matrix *matrix = &map->matrix[projection];
    const void *weights, *zeros;
    uint8_t *to = memory + offset_of(map, projection);
    enum kt_status status =
        kt_tensor_data(checkpoint, kt_map_tensor(map, expert, projection, KT_ROLE_WEIGHT), &weights, error);
    if (status == KT_OK)
        status =
            kt_tensor_data(checkpoint, kt_map_tensor(map, expert, projection, KT_ROLE_ZERO), &zeros, error);
    if (status != KT_OK)
        return status;
    turn_weights(matrix, weights, to);
    spread_zeros(matrix, zeros, to + align(matrix->rows * (matrix->cols / 2)));
    return KT_OK;
}

enum kt_status kt_awq_decode(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                             uint32_t expert, struct kt_error *error)
{
    uint64_t size = offset_of(map, KT_DOWN) + size_of(&map->matrix[KT_DOWN]);
    enum kt_status status = KT_OK;
    void *memory = NULL;
    if (size == 0 || map->decoded[expert])
        return KT_OK;
    if (posix_memalign(&memory, ALIGNMENT, (size_t)size) != 0)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of expert %" PRIu32,
                       checkpoint->label, size, expert);
    for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++)
        if (map->matrix[p].coding == KT_CODING_AWQ)
            status = decode(checkpoint, map, expert, p, memory, error);
    if (status == KT_OK)
        map->decoded[expert] = memory;
    else
        free(memory);
    return status;
}

void kt_awq_show(const struct kt_expert_map *map, uint32_t expert, int projection, struct kt_view *view)
{
    const struct kt_matrix *matrix = &map->matrix[projection];
    const uint8_t *weights = (const uint8_t *)map->decoded[expert] + offset_of(map, projection);
    view->data = weights;
    view->zeros = matrix->zeros;
    view->zeros.data = weights + align(matrix->rows * (matrix->cols / 2));
}
