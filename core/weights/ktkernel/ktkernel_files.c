/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktkernel_files.c - packed weights of KT-Kernel's converter, one file for each piece: tens of thousands for
 * a model. Folders are listed once, when the checkpoint is opened; a file is open only while it is read.
 */
#include "core/weights/ktkernel/ktkernel_files.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"
#include "core/weights/ktkernel/ktkernel.h"
#include "core/weights/ktkernel/ktkernel_decode.h"
#include "core/weights/ktkernel/pieces.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A folder that is being listed, with what its path says of the pieces in it. */
struct listing {
    struct kt_checkpoint *checkpoint;
    struct kt_pieces *pieces;
    struct kt_piece piece;
    struct kt_error *error;
};

typedef enum kt_status (*entry_fn)(struct listing *listing, const char *folder, const char *name);

static enum kt_status list(struct listing *listing, const char *folder, entry_fn visit)
{
    enum kt_status status = KT_OK;
    const struct dirent *entry;
    char label[KT_LABEL_SIZE];
    DIR *dir = opendir(folder);
    kt_file_label(folder, label);
    if (!dir)
        return kt_fail(listing->error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    while (status == KT_OK && (errno = 0, entry = readdir(dir)) != NULL)
        status = visit(listing, folder, entry->d_name);
    if (status == KT_OK && errno != 0)
        status =
            kt_fail(listing->error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    (void)closedir(dir);
    return status;
}

static enum kt_status enter(struct listing *listing, const char *folder, const char *name, entry_fn visit)
{
    char *path = kt_path_join(folder, name, listing->error);
    if (!path)
        return KT_E_NOMEM;
    enum kt_status status = list(listing, path, visit);
    free(path);
    return status;
}

/* INT8_gate_7_14680064Byte_quant_.kt; files with other names hold no weights of the forward pass. */
static bool parse_file(const char *name, struct kt_piece *piece)
{
    uint64_t expert;
    for (piece->packing = KT_N_PACKINGS - 1; piece->packing > KT_PACKING_UNKNOWN; piece->packing--)
        if (kt_take_word(&name, kt_packing_names[piece->packing]))
            break;
    if (piece->packing == KT_PACKING_UNKNOWN || !kt_take_word(&name, "_"))
        return false;
    for (piece->projection = KT_GATE; piece->projection <= KT_DOWN; piece->projection++)
        if (kt_take_word(&name, kt_projection_names[piece->projection]))
            break;
    if (piece->projection > KT_DOWN || !kt_take_word(&name, "_") ||
        !kt_take_number(&name, KT_LARGEST_EXPERTS - 1, &expert) || !kt_take_word(&name, "_") ||
        !kt_take_number(&name, INT64_MAX, &piece->size))
        return false;
    piece->expert = (uint32_t)expert;
    piece->role = strcmp(name, kt_piece_suffixes[KT_PIECE_SCALE]) == 0 ? KT_PIECE_SCALE : KT_PIECE_WEIGHT;
    return strcmp(name, kt_piece_suffixes[piece->role]) == 0;
}

static enum kt_status visit_file(struct listing *listing, const char *folder, const char *name)
{
    struct kt_checkpoint *checkpoint = listing->checkpoint;
    (void)folder;
    if (!parse_file(name, &listing->piece))
        return KT_OK;
    checkpoint->n_loose++;
    if (!kt_add(checkpoint->size, listing->piece.size, &checkpoint->size))
        checkpoint->size = UINT64_MAX;
    return kt_pieces_add(checkpoint, listing->pieces, &listing->piece, listing->error);
}

/* Is the name `word` and a number below `end`? */
static bool parse_folder(const char *name, const char *word, uint32_t end, uint32_t *number)
{
    uint64_t value;
    if (!kt_take_word(&name, word) || !kt_take_number(&name, end - 1, &value) || *name)
        return false;
    *number = (uint32_t)value;
    return true;
}

static enum kt_status visit_part(struct listing *listing, const char *folder, const char *name)
{
    if (!parse_folder(name, "_numa_", KT_LARGEST_PARTS, &listing->piece.part))
        return KT_OK;
    return enter(listing, folder, name, visit_file);
}

static enum kt_status visit_layer(struct listing *listing, const char *folder, const char *name)
{
    size_t before = listing->pieces->n;
    if (!parse_folder(name, "_layer_", KT_LARGEST_LAYER + 1, &listing->piece.layer))
        return KT_OK;
    enum kt_status status = enter(listing, folder, name, visit_part);
    if (status == KT_OK && listing->pieces->n == before)
        status = kt_fail(
            listing->error, KT_E_FORMAT,
            "%s: folder %s holds no file like _numa_0/INT8_gate_0_64Byte_quant_.kt: remove it, or convert "
            "the original checkpoint with `kt convert`",
            listing->checkpoint->label, name);
    return status;
}

static enum kt_status map_files(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_error *error)
{
    struct kt_pieces pieces = {.n = 0};
    struct listing listing = {.checkpoint = checkpoint, .pieces = &pieces, .error = error};
    enum kt_status status = list(&listing, checkpoint->folder, visit_layer);
    if (status == KT_OK)
        status = kt_pieces_map(checkpoint, config, &pieces, error);
    free(pieces.piece);
    return status;
}

/* The samples of a layer: its first weights and its last scales. */
static enum kt_status sample(const struct kt_checkpoint *checkpoint, uint64_t number, struct kt_file *file,
                             struct kt_error *error)
{
    const struct kt_packed *packed = checkpoint->moe[number / 2].map;
    uint64_t last = (uint64_t)packed->n_experts * packed->n_parts * 6 - 1;
    struct kt_piece piece = kt_packed_piece(packed, number % 2 ? last : 0);
    return kt_piece_open(checkpoint, &piece, file, error);
}

static bool matches_files(const struct kt_checkpoint *checkpoint)
{
    return checkpoint->format == &kt_format_ktkernel_files;
}

static bool matches_nothing(const uint8_t head[16], uint64_t size)
{
    (void)head;
    (void)size;
    return false;
}

/* Only folders are of this format. */
const struct kt_checkpoint_format kt_format_ktkernel_files = {
    .name = "kt",
    .matches = matches_nothing,
    .sample = sample,
    .no_experts = "no file in its folders _layer_N has a name that KT-Kernel gives",
};

const struct kt_mapper kt_mapper_ktkernel_files = {.whose = "KT-Kernel's converter",
                                                   .matches = matches_files,
                                                   .map = map_files,
                                                   .experts = kt_packed_experts,
                                                   .release = kt_packed_release};
