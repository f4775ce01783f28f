/* SPDX-License-Identifier: Apache-2.0 */
/* prefix.c - sessions in files: what the cache keeps of their tokens, and the ids. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <kt/text.h>
#include <stdlib.h>

enum kt_status kt_session_save(struct kt_session *session, const char *path, const int32_t *ids,
                               struct kt_error *error)
{
    if (!session || !path || !ids)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_save: NULL");
    enum kt_status status = kt_session_check_states(session, "kt_session_save", error);
    if (status != KT_OK)
        return status;
    uint64_t n = kt_session_tokens(session);
    uint8_t *note = malloc(4 * n + 1);
    if (!note)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for %" PRIu64 " ids", n);
    for (uint64_t i = 0; i < 4 * n; i++)
        note[i] = (uint8_t)((uint32_t)ids[i / 4] >> 8 * (i % 4));
    status = kt_kv_sequence_export(session->sequence, path, note, 4 * n, error);
    free(note);
    return status;
}

/* The sequence in a file with what stands beside it, allocated. */
static enum kt_status import(struct kt_model *m, const char *path, uint8_t **note, uint64_t *size,
                             struct kt_kv_sequence **sequence, struct kt_error *error)
{
    *size = 0;
    enum kt_status status = kt_kv_import(m->kv, path, NULL, size, sequence, error);
    if (status == KT_OK)
        *note = calloc(1, 1); /* of no tokens */
    if (status != KT_E_RANGE || *size == 0)
        return status;
    *note = malloc(*size);
    if (!*note)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for %" PRIu64 " bytes of ids", path, *size);
    status = kt_kv_import(m->kv, path, *note, size, sequence, error);
    if (status != KT_OK) {
        free(*note);
        *note = NULL;
    }
    return status;
}

static enum kt_status read_ids(const struct kt_model *m, const char *path, const uint8_t *note, uint64_t n,
                               int32_t *ids, struct kt_error *error)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *b = note + 4 * i;
        uint32_t id = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        if (id >= m->vocabulary)
            return kt_engine_fail(error, KT_E_FORMAT,
                                  "%s: id %" PRIu32 ", number %" PRIu64
                                  ", is not a token of the model, which has %" PRIu64,
                                  path, id, i, m->vocabulary);
        ids[i] = (int32_t)id;
    }
    return KT_OK;
}

enum kt_status kt_session_restore(struct kt_model *model, const char *path, struct kt_session **session,
                                  int32_t **ids, uint64_t *n_ids, struct kt_error *error)
{
    if (!model || !path || !session || !ids || !n_ids)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_restore: NULL");
    struct kt_kv_sequence *sequence = NULL;
    uint8_t *note = NULL;
    uint64_t size;
    enum kt_status status = import(model, path, &note, &size, &sequence, error);
    if (status != KT_OK)
        return status;
    struct kt_session *s = calloc(1, sizeof(*s));
    int32_t *read = malloc(size + 1);
    if (!note || !s || !read) {
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for a session");
    } else {
        *s = (struct kt_session){.model = model, .sequence = sequence};
        if (size != 4 * kt_session_tokens(s))
            status =
                kt_engine_fail(error, KT_E_FORMAT, "%s: %" PRIu64 " bytes of ids beside %" PRIu64 " tokens",
                               path, size, kt_session_tokens(s));
        else
            status = read_ids(model, path, note, size / 4, read, error);
    }
    free(note);
    if (status == KT_OK) {
        *session = s;
        *ids = read;
        *n_ids = size / 4;
        return KT_OK;
    }
    kt_kv_sequence_close(sequence);
    free(s);
    free(read);
    return status;
}
