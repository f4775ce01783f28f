/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel.c - finds the layers of the pieces that KT-Kernel's converter wrote, and checks that they fit
 * together. */
#include "core/weights/ktkernel/ktkernel.h"

#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"
#include "core/weights/ktkernel/ktkernel_decode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What to do about pieces that cannot be used. */
#define ADVICE "convert the original checkpoint with `kt convert`"

enum { LABEL = KT_LABEL_SIZE + KT_NAME_SIZE + 32 };

/* ---- names of tensors ----------------------------------------------------------------------- */

/* blk.3.ffn_gate_exps.7.numa.0.weight */
static bool parse_name(const char *name, struct kt_piece *piece)
{
    uint64_t layer, expert, part;
    if (!kt_take_word(&name, "blk.") || !kt_take_number(&name, KT_LARGEST_LAYER, &layer) ||
        !kt_take_word(&name, ".ffn_"))
        return false;
    for (piece->projection = KT_GATE; piece->projection <= KT_DOWN; piece->projection++)
        if (kt_take_word(&name, kt_projection_names[piece->projection]))
            break;
    if (piece->projection > KT_DOWN || !kt_take_word(&name, "_exps.") ||
        !kt_take_number(&name, KT_LARGEST_EXPERTS - 1, &expert) || !kt_take_word(&name, ".numa.") ||
        !kt_take_number(&name, KT_LARGEST_PARTS - 1, &part))
        return false;
    piece->layer = (uint32_t)layer;
    piece->expert = (uint32_t)expert;
    piece->part = (uint32_t)part;
    piece->role = strcmp(name, ".scale") == 0 ? KT_PIECE_SCALE : KT_PIECE_WEIGHT;
    return piece->role == KT_PIECE_SCALE || strcmp(name, ".weight") == 0;
}

static bool matches_tensors(const struct kt_checkpoint *checkpoint)
{
    struct kt_piece piece;
    for (uint64_t i = 0; i < checkpoint->tensors.n; i++)
        if (parse_name(checkpoint->tensors.tensor[i].info.name, &piece))
            return true;
    return false;
}

static enum kt_status map_tensors(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                  struct kt_error *error)
{
    struct kt_pieces pieces = {.n = 0};
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < checkpoint->tensors.n && status == KT_OK; i++) {
        struct kt_tensor *tensor = &checkpoint->tensors.tensor[i];
        struct kt_piece piece = {.size = tensor->info.size, .tensor = tensor};
        if (!parse_name(tensor->info.name, &piece))
            continue;
        uint32_t dtype = piece.role == KT_PIECE_SCALE ? KT_DTYPE_F32 : KT_DTYPE_I8;
        if (tensor->info.dtype != dtype || tensor->info.n_dims != 1)
            status = kt_fail(error, KT_E_FORMAT,
                             "%s: tensor \"%s\" is %s with %" PRIu32 " dimensions; KT-Kernel's are %s "
                             "with 1: " ADVICE,
                             checkpoint->part[tensor->part].file.label, tensor->info.name,
                             kt_dtype_name(tensor->info.dtype), tensor->info.n_dims, kt_dtype_name(dtype));
        else
            status = kt_pieces_add(checkpoint, &pieces, &piece, error);
    }
    if (status == KT_OK)
        status = kt_pieces_map(checkpoint, config, &pieces, error);
    free(pieces.piece);
    return status;
}

/* ---- a layer -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct kt_piece *x = a, *y = b;
    const uint32_t left[] = {x->layer, x->expert, x->part, x->projection, x->role};
    const uint32_t right[] = {y->layer, y->expert, y->part, y->projection, y->role};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    /* So that messages about two methods do not depend on the order of files. */
    return (x->packing > y->packing) - (x->packing < y->packing);
}

/* Is each piece of the layer there once, all of one packing? The pieces are sorted. */
static enum kt_status check_complete(const struct kt_checkpoint *checkpoint, const struct kt_piece *pieces,
                                     uint64_t n, const struct kt_packed *packed, struct kt_error *error)
{
    uint64_t n_expected = (uint64_t)packed->n_experts * packed->n_parts * 6;
    char label[LABEL], other[LABEL];
    for (uint64_t i = 1; i < n; i++)
        if (pieces[i].packing != pieces[0].packing) {
            kt_piece_label(checkpoint, &pieces[0], label, sizeof label);
            kt_piece_label(checkpoint, &pieces[i], other, sizeof other);
            return kt_fail(error, KT_E_FORMAT,
                           "%s and %.200s: layer %" PRIu32
                           " mixes two methods, %s and %s: remove the files of one of them, or " ADVICE,
                           label, other, packed->layer, kt_packing_names[pieces[0].packing],
                           kt_packing_names[pieces[i].packing]);
        }
    for (uint64_t i = 0; i < n_expected; i++) {
        struct kt_piece wanted = kt_packed_piece(packed, i);
        wanted.packing = pieces[0].packing;
        int order = i < n ? compare(&wanted, &pieces[i]) : -1;
        if (order == 0)
            continue;
        wanted.size = 0;
        kt_piece_label(checkpoint, order < 0 ? &wanted : &pieces[i], label, sizeof label);
        if (order > 0)
            return kt_fail(
                error, KT_E_FORMAT,
                "%s exists twice with different sizes: remove the files of an older run, or " ADVICE, label);
        return kt_fail(error, KT_E_FORMAT,
                       "%s is missing: layer %" PRIu32 " has %" PRIu32 " experts in %" PRIu32
                       " NUMA parts, so %" PRIu64 " packed weights and scales, but %" PRIu64
                       " are there: " ADVICE,
                       label, packed->layer, packed->n_experts, packed->n_parts, n_expected, n);
    }
    if (n == n_expected)
        return KT_OK;
    kt_piece_label(checkpoint, &pieces[n_expected], label, sizeof label);
    return kt_fail(error, KT_E_FORMAT,
                   "%s exists twice with different sizes: remove the files of an older run, or " ADVICE,
                   label);
}

/* Do all NUMA parts and experts have pieces of the same sizes? */
static enum kt_status check_even(const struct kt_checkpoint *checkpoint, const struct kt_piece *pieces,
                                 uint64_t n, struct kt_error *error)
{
    char label[LABEL], other[LABEL];
    for (uint64_t i = 6; i < n; i++)
        if (pieces[i].size != pieces[i % 6].size) {
            kt_piece_label(checkpoint, &pieces[i], label, sizeof label);
            kt_piece_label(checkpoint, &pieces[i % 6], other, sizeof other);
            return kt_fail(error, KT_E_FORMAT,
                           "%s has %" PRIu64 " bytes, but %.240s has %" PRIu64
                           "; all experts and NUMA parts of a layer must be alike: " ADVICE,
                           label, pieces[i].size, other, pieces[i % 6].size);
        }
    return KT_OK;
}

/* The scales give the number of rows; from the size of the weights follow the bytes of a row. */
static enum kt_status check_sizes(const struct kt_checkpoint *checkpoint, const struct kt_piece *pieces,
                                  uint64_t rows, uint64_t hidden, struct kt_packed *packed,
                                  struct kt_error *error)
{
    char label[LABEL];
    uint64_t weights = rows * hidden; /* both are at most 2^20 */
    if (packed->packing == KT_PACKING_UNKNOWN && pieces[0].size == weights / 2) {
        packed->packing = KT_PACKING_INT4;
    } else if (packed->packing == KT_PACKING_UNKNOWN) {
        packed->guessed = rows % 64 == 0 && hidden % 64 == 0;
        packed->packing = packed->guessed ? KT_PACKING_INT8 : KT_PACKING_MOE_INT8;
    }
    uint64_t bytes = packed->packing == KT_PACKING_INT4 ? weights / 2 : weights;
    uint64_t wanted[3][2] = {{bytes, 4 * rows}, {bytes, 4 * rows}, {bytes, 4 * hidden}};
    for (int i = 0; i < 6; i++)
        if (pieces[i].size != wanted[i / 2][i % 2]) {
            kt_piece_label(checkpoint, &pieces[i], label, sizeof label);
            return kt_fail(error, KT_E_FORMAT,
                           "%s has %" PRIu64 " bytes; the scales of gate and down stand for %" PRIu64
                           " x %" PRIu64 " weights, which as %s make it %" PRIu64 ": " ADVICE,
                           label, pieces[i].size, rows, hidden, kt_packing_names[packed->packing],
                           wanted[i / 2][i % 2]);
        }
    uint64_t unit = packed->packing == KT_PACKING_INT4 ? 128 : packed->packing == KT_PACKING_INT8 ? 64 : 1;
    if (rows % unit == 0 && hidden % unit == 0)
        return KT_OK;
    kt_piece_label(checkpoint, &pieces[0], label, sizeof label);
    return kt_fail(error, KT_E_FORMAT,
                   "%s: %" PRIu64 " x %" PRIu64 " weights cannot be cut into tiles of %s: both must be "
                   "multiples of %" PRIu64 ": " ADVICE,
                   label, rows, hidden, kt_packing_names[packed->packing], unit);
}

static enum kt_status lay(const struct kt_checkpoint *checkpoint, const struct kt_piece *pieces,
                          struct kt_packed *packed, struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_piece *gate = &pieces[2 * KT_GATE + KT_PIECE_SCALE];
    const struct kt_piece *down = &pieces[2 * KT_DOWN + KT_PIECE_SCALE];
    uint64_t rows = gate->size / 4, hidden = down->size / 4;
    if (gate->size == 0 || down->size == 0 || rows * packed->n_parts > KT_LARGEST_SIZE ||
        hidden > KT_LARGEST_SIZE) {
        const struct kt_piece *wrong =
            gate->size == 0 || (down->size > 0 && hidden <= KT_LARGEST_SIZE) ? gate : down;
        char label[LABEL];
        kt_piece_label(checkpoint, wrong, label, sizeof label);
        return kt_fail(error, KT_E_FORMAT,
                       "%s has %" PRIu64 " bytes of scales in each of %" PRIu32
                       " NUMA parts: no model has 0 rows, or more than %d: " ADVICE,
                       label, wrong->size, packed->n_parts, KT_LARGEST_SIZE);
    }
    enum kt_status status = check_sizes(checkpoint, pieces, rows, hidden, packed, error);
    if (status != KT_OK)
        return status;
    for (int i = 0; i < 6; i++) {
        packed->size[i / 2][i % 2] = pieces[i].size;
        info->size += pieces[i].size * packed->n_parts * packed->n_experts;
    }
    info->layer = packed->layer;
    info->n_experts = packed->n_experts;
    info->hidden_size = hidden;
    info->intermediate_size = rows * packed->n_parts;
    for (int p = KT_GATE; p <= KT_DOWN; p++)
        info->dtype[p] = KT_DTYPE_I8;
    return KT_OK;
}

static enum kt_status check_said(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 const struct kt_moe_info *info, struct kt_error *error)
{
    const struct {
        const struct kt_json_count *said;
        uint64_t found;
        const char *what;
    } facts[] = {{&config->experts, info->n_experts, "experts"},
                 {&config->hidden, info->hidden_size, "hidden size"},
                 {&config->intermediate, info->intermediate_size, "intermediate size"}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (facts[i].said->key && facts[i].said->value != facts[i].found)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: key \"%s\" is %" PRIu64 ", but layer %" PRIu64 " of %s has %s %" PRIu64
                           ": " ADVICE,
                           config->label, facts[i].said->key, facts[i].said->value, info->layer,
                           checkpoint->label, facts[i].what, facts[i].found);
    return KT_OK;
}

static enum kt_status map_layer(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                const struct kt_piece *pieces, uint64_t n, struct kt_moe *moe,
                                struct kt_error *error)
{
    uint32_t n_experts = pieces[n - 1].expert + 1, n_parts = 1;
    for (uint64_t i = 0; i < n; i++)
        if (pieces[i].part >= n_parts)
            n_parts = pieces[i].part + 1;
    struct kt_packed start = {.packing = (enum kt_packing)pieces[0].packing,
                              .layer = pieces[0].layer,
                              .n_experts = n_experts,
                              .n_parts = n_parts};
    enum kt_status status = check_complete(checkpoint, pieces, n, &start, error);
    if (status == KT_OK)
        status = check_even(checkpoint, pieces, n, error);
    if (status != KT_OK)
        return status;
    bool files = !pieces[0].tensor;
    struct kt_packed *packed =
        calloc(1, sizeof *packed + (n_experts + (files ? 0 : (size_t)n)) * sizeof packed->slots[0]);
    if (!packed)
        return kt_fail(error, KT_E_NOMEM,
                       "%s: no memory for the list of %" PRIu32 " experts of layer "
                       "%" PRIu32,
                       checkpoint->label, n_experts, start.layer);
    memcpy(packed, &start, sizeof start);
    moe->map = packed;
    packed->decoded = packed->slots;
    packed->tensor = files ? NULL : (struct kt_tensor **)(void *)(packed->slots + n_experts);
    for (uint64_t i = 0; i < n && !files; i++)
        packed->tensor[i] = pieces[i].tensor;
    moe->info.top_k = (uint32_t)config->top_k.value;
    status = kt_model_config_activation(config, start.layer, &moe->info, error);
    if (status == KT_OK)
        status = lay(checkpoint, pieces, packed, &moe->info, error);
    if (status == KT_OK)
        status = check_said(checkpoint, config, &moe->info, error);
    if (status == KT_OK && moe->info.top_k > n_experts)
        status = kt_fail(error, KT_E_FORMAT,
                         "%s: key \"%s\" is %" PRIu64 ", but layer %" PRIu32 " has %" PRIu32 " experts",
                         config->label, config->top_k.key, config->top_k.value, start.layer, n_experts);
    return status;
}

/* The order of bytes is not known: the files can be listed, but the experts cannot be computed. */
static void refuse(struct kt_checkpoint *checkpoint, const struct kt_piece *piece)
{
    char label[LABEL];
    kt_piece_label(checkpoint, piece, label, sizeof label);
    (void)snprintf(checkpoint->refusal, sizeof checkpoint->refusal,
                   "%s: the order of bytes of method %s is not known here: " ADVICE, label,
                   kt_packing_names[piece->packing]);
}

enum kt_status kt_pieces_map(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                             struct kt_pieces *pieces, struct kt_error *error)
{
    const struct kt_piece *piece = pieces->piece;
    uint64_t layers = 0, n = pieces->n;
    if (n > 0)
        qsort(pieces->piece, n, sizeof *piece, compare);
    for (uint64_t i = 0; i < n; i++) {
        layers += i == 0 || piece[i].layer != piece[i - 1].layer;
        if (piece[i].packing == KT_PACKING_MOE_INT4) {
            refuse(checkpoint, &piece[i]);
            return KT_OK;
        }
    }
    if (layers == 0)
        return KT_OK;
    checkpoint->moe = calloc((size_t)layers, sizeof *checkpoint->moe);
    if (!checkpoint->moe)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the list of %" PRIu64 " layers",
                       checkpoint->label, layers);
    enum kt_status status = KT_OK;
    for (uint64_t i = 0, end; i < n && status == KT_OK; i = end) {
        for (end = i; end < n && piece[end].layer == piece[i].layer; end++)
            continue;
        struct kt_moe *moe = &checkpoint->moe[checkpoint->n_moe++];
        status = map_layer(checkpoint, config, piece + i, end - i, moe, error);
        checkpoint->expert_size += moe->info.size;
    }
    return status;
}

const struct kt_mapper kt_mapper_ktkernel = {.whose = "KT-Kernel's converter",
                                             .matches = matches_tensors,
                                             .map = map_tensors,
                                             .experts = kt_packed_experts,
                                             .release = kt_packed_release};
