/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - compares stored weights with their checksums. */
#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/store/store_read.h"

#include <inttypes.h>
#include <kt/linear.h>
#include <stdlib.h>

enum kt_status kt_checkpoint_verify(const struct kt_checkpoint *checkpoint, uint64_t layer,
                                    struct kt_error *error)
{
    struct kt_moe_info info;
    enum kt_status status = kt_checkpoint_moe(checkpoint, layer, &info, error);
    const struct kt_stored *stored = kt_checkpoint_stored(checkpoint, layer);
    if (status != KT_OK)
        return status;
    if (!stored)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: layer %" PRIu64 " is in its source format, which has no checksums",
                       checkpoint->label, layer);
    const struct kt_file *file = &checkpoint->part[stored->part].file;
    const uint64_t *size = stored->object_size;
    void *room = malloc(size[0] > size[1] ? size[0] : size[1]);
    if (!room)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to verify it", file->label);
    for (uint32_t i = 0; i < 2 * info.n_experts && status == KT_OK; i++) {
        enum kt_stage stage = i % 2 ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
        uint64_t offset = kt_stored_offset(stored, i / 2, stage);
        status = kt_file_read(file, offset, room, size[stage], error);
        if (status == KT_OK)
            status = kt_stored_check(checkpoint, stored, i / 2, stage, room, error);
    }
    free(room);
    return status;
}

enum kt_status kt_checkpoint_verify_linear(const struct kt_checkpoint *checkpoint, const char *name,
                                           struct kt_error *error)
{
    struct kt_stored_linear_info info;
    enum kt_status status = kt_checkpoint_linear_find(checkpoint, name, &info, error);
    if (status != KT_OK)
        return status;
    const struct kt_stored *stored = kt_stored_linear(checkpoint, name);
    const struct kt_file *file = &checkpoint->part[stored->part].file;
    void *room = malloc(kt_stored_piece_size(stored, 0));
    if (!room)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to verify it", file->label);
    for (uint64_t i = 0; i < kt_stored_pieces(stored) && status == KT_OK; i++) {
        uint64_t offset = stored->offset + i * KT_STORE_PIECE;
        status = kt_file_read(file, offset, room, kt_stored_piece_size(stored, i), error);
        if (status == KT_OK)
            status = kt_stored_check_piece(checkpoint, stored, i, room, error);
    }
    free(room);
    return status;
}
