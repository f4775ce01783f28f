/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c - tells one checkpoint from another without reading all of it. */
#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/table/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Samples of a file: its beginning, which is the header, and places at equal distances. */
enum { SAMPLES = 33, SAMPLE = 16384 };

static enum kt_status add_file(XXH3_state_t *state, const struct kt_file *file, void *room,
                               struct kt_error *error)
{
    uint64_t last = file->size > SAMPLE ? file->size - SAMPLE : 0;
    uint64_t size = file->size - last;
    (void)XXH3_64bits_update(state, &file->size, sizeof file->size);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t at = last / (SAMPLES - 1) * i;
        enum kt_status status = kt_file_read(file, at, room, size, error);
        if (status != KT_OK)
            return status;
        (void)XXH3_64bits_update(state, room, size);
    }
    return KT_OK;
}

/* Files that are not open: their number and total size, and samples of some. */
static enum kt_status add_samples(XXH3_state_t *state, const struct kt_checkpoint *checkpoint, void *room,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    const uint64_t counts[] = {checkpoint->n_loose, checkpoint->size, checkpoint->n_moe};
    (void)XXH3_64bits_update(state, counts, sizeof counts);
    for (uint64_t i = 0; i < 2 * checkpoint->n_moe && status == KT_OK; i++) {
        struct kt_file file;
        status = checkpoint->format->sample(checkpoint, i, &file, error);
        if (status != KT_OK)
            return status;
        status = add_file(state, &file, room, error);
        kt_file_close(&file);
    }
    return status;
}

enum kt_status kt_checkpoint_fingerprint(const struct kt_checkpoint *checkpoint, char text[17],
                                         struct kt_error *error)
{
    if (!checkpoint || !text)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", checkpoint ? "text" : "checkpoint");
    XXH3_state_t *state = XXH3_createState();
    void *room = malloc(SAMPLE);
    enum kt_status status =
        state && room ? KT_OK
                      : kt_fail(error, KT_E_NOMEM, "%s: no memory for a fingerprint", checkpoint->label);
    if (status == KT_OK)
        (void)XXH3_64bits_reset(state);
    for (uint32_t p = 0; p < checkpoint->n_parts && status == KT_OK; p++)
        status = add_file(state, &checkpoint->part[p].file, room, error);
    if (status == KT_OK && checkpoint->format->sample)
        status = add_samples(state, checkpoint, room, error);
    if (status == KT_OK)
        (void)snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    free(room);
    (void)XXH3_freeState(state);
    return status;
}
