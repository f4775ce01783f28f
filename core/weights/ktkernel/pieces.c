/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c - one piece of packed weights: its name, its place, its file. */
#include "core/weights/ktkernel/pieces.h"

#include "core/base/error.h"
#include "core/weights/file/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kt_projection_names[3] = {"gate", "up", "down"};

const char *const kt_packing_names[KT_N_PACKINGS] = {
    [KT_PACKING_UNKNOWN] = "?",         [KT_PACKING_INT8] = "INT8",         [KT_PACKING_INT4] = "INT4",
    [KT_PACKING_MOE_INT8] = "MOE_INT8", [KT_PACKING_MOE_INT4] = "MOE_INT4",
};

const char *const kt_piece_suffixes[2] = {"Byte_quant_.kt", "Byte_scale_.kt"};

bool kt_take_number(const char **text, uint64_t largest, uint64_t *number)
{
    const char *at = *text;
    uint64_t value = 0;
    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = 10 * value + (uint64_t)(*at - '0');
        if (value > largest)
            return false;
    }
    *text = at;
    *number = value;
    return true;
}

bool kt_take_word(const char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0)
        return false;
    *text += length;
    return true;
}

enum kt_status kt_pieces_add(struct kt_checkpoint *checkpoint, struct kt_pieces *pieces,
                             const struct kt_piece *piece, struct kt_error *error)
{
    if (pieces->n == pieces->capacity) {
        size_t capacity = pieces->capacity ? pieces->capacity * 2 : 1024;
        struct kt_piece *grown = realloc(pieces->piece, capacity * sizeof *grown);
        if (!grown)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for a list of %zu packed weights",
                           checkpoint->label, capacity);
        pieces->piece = grown;
        pieces->capacity = capacity;
    }
    pieces->piece[pieces->n++] = *piece;
    return KT_OK;
}

void kt_piece_label(const struct kt_checkpoint *checkpoint, const struct kt_piece *piece, char *text,
                    size_t size)
{
    if (piece->tensor)
        (void)snprintf(text, size, "%s: tensor \"%s\"", checkpoint->part[piece->tensor->part].file.label,
                       piece->tensor->info.name);
    else if (checkpoint->n_parts > 0)
        (void)snprintf(text, size,
                       "%s: tensor \"blk.%" PRIu32 ".ffn_%s_exps.%" PRIu32 ".numa.%" PRIu32 ".%s\"",
                       checkpoint->label, piece->layer, kt_projection_names[piece->projection], piece->expert,
                       piece->part, piece->role == KT_PIECE_SCALE ? "scale" : "weight");
    else if (piece->size == 0) /* a missing one, whose size is not known */
        (void)snprintf(text, size,
                       "%s: file _layer_%" PRIu32 "/_numa_%" PRIu32 "/%s_%s_%" PRIu32 "_*Byte_%s_.kt",
                       checkpoint->label, piece->layer, piece->part, kt_packing_names[piece->packing],
                       kt_projection_names[piece->projection], piece->expert,
                       piece->role == KT_PIECE_SCALE ? "scale" : "quant");
    else
        (void)snprintf(text, size,
                       "%s: file _layer_%" PRIu32 "/_numa_%" PRIu32 "/%s_%s_%" PRIu32 "_%" PRIu64
                       "Byte_%s_.kt",
                       checkpoint->label, piece->layer, piece->part, kt_packing_names[piece->packing],
                       kt_projection_names[piece->projection], piece->expert, piece->size,
                       piece->role == KT_PIECE_SCALE ? "scale" : "quant");
}

struct kt_piece kt_packed_piece(const struct kt_packed *packed, uint64_t number)
{
    uint64_t projection = number / 2 % 3, role = number % 2, rest = number / 6;
    return (struct kt_piece){.layer = packed->layer,
                             .expert = (uint32_t)(rest / packed->n_parts),
                             .part = (uint32_t)(rest % packed->n_parts),
                             .projection = (uint8_t)projection,
                             .role = (uint8_t)role,
                             .packing = (uint8_t)packed->packing,
                             .size = packed->size[projection][role],
                             .tensor = packed->tensor ? packed->tensor[number] : NULL};
}

enum kt_status kt_piece_open(const struct kt_checkpoint *checkpoint, const struct kt_piece *piece,
                             struct kt_file *file, struct kt_error *error)
{
    char name[160];
    (void)snprintf(name, sizeof name, "_layer_%" PRIu32 "/_numa_%" PRIu32 "/%s_%s_%" PRIu32 "_%" PRIu64 "%s",
                   piece->layer, piece->part, kt_packing_names[piece->packing],
                   kt_projection_names[piece->projection], piece->expert, piece->size,
                   kt_piece_suffixes[piece->role]);
    char *path = kt_path_join(checkpoint->folder, name, error);
    if (!path)
        return KT_E_NOMEM;
    enum kt_status status = kt_file_open(path, KT_IO_READ, file, error);
    free(path);
    if (status != KT_OK || file->size == piece->size)
        return status;
    status = kt_fail(error, KT_E_FORMAT,
                     "%s: has %" PRIu64 " bytes, but its name has %" PRIu64
                     ": the file is truncated or damaged; convert the original checkpoint with `kt convert`",
                     file->label, file->size, piece->size);
    kt_file_close(file);
    return status;
}
