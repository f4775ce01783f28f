/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/error.h"
#include "core/kv/cache.h"
#include "core/kv/sequence_file.h"
#include "core/weights/file/replacement.h"

#include <stddef.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* A part of the file, and its checksum so far. */
struct exporting {
    struct kt_replacement out;
    XXH3_state_t sum;
};

static enum kt_status put(struct exporting *exporting, const void *data, uint64_t size,
                          struct kt_error *error)
{
    (void)XXH3_64bits_update(&exporting->sum, data, (size_t)size);
    if (size && fwrite(data, 1, (size_t)size, exporting->out.file) != size)
        return kt_replacement_fail(&exporting->out, error);
    return KT_OK;
}

static enum kt_status put_sum(struct exporting *exporting, struct kt_error *error)
{
    uint64_t sum = XXH3_64bits_digest(&exporting->sum);
    return put(exporting, &sum, sizeof sum, error);
}

static enum kt_status put_header(struct exporting *exporting, const struct kt_kv_sequence *sequence,
                                 const void *note, uint64_t note_size, struct kt_error *error)
{
    const struct kt_kv_declaration *declared = &sequence->kv->declared;
    struct kt_kv_header header = {
        .version = KT_KV_VERSION,
        .page_tokens = KT_KV_PAGE,
        .tokens = sequence->tokens,
        .page_bytes = declared->page_bytes,
        .state_bytes = declared->state_bytes,
        .declaration_size = declared->n_words * sizeof *declared->words,
        .model_size = strlen(declared->model),
        .note_size = note_size,
        .fingerprint = declared->fingerprint,
    };
    memcpy(header.magic, KT_KV_MAGIC, sizeof header.magic);
    header.checksum = XXH3_64bits(&header, offsetof(struct kt_kv_header, checksum));
    enum kt_status status = put(exporting, &header, sizeof header, error);
    (void)XXH3_64bits_reset_withSeed(&exporting->sum, header.checksum);
    if (status == KT_OK)
        status = put(exporting, declared->words, header.declaration_size, error);
    if (status == KT_OK)
        status = put(exporting, declared->model, header.model_size, error);
    if (status == KT_OK)
        status = put(exporting, note, note_size, error);
    if (status == KT_OK)
        status = put_sum(exporting, error);
    return status;
}

/* All heads of a kind: item `item` of pages or states. */
static enum kt_status put_item(struct exporting *exporting, const struct kt_kv *kv, uint32_t kind,
                               uint32_t item, uint64_t seed, struct kt_error *error)
{
    const struct kt_kv_declaration *declared = &kv->declared;
    const uint64_t *part = kind == KT_KV_STATE ? declared->state_part : declared->page_part;
    enum kt_status status = KT_OK;
    (void)XXH3_64bits_reset_withSeed(&exporting->sum, seed);
    for (uint32_t i = 0; i < declared->first[declared->n_layers]; i++) {
        const struct kt_kv_spot *spot = &declared->spot[i];
        for (uint32_t h = 0; h < spot->field.heads && spot->field.kind == kind && status == KT_OK; h++) {
            uint32_t node;
            const char *base = kt_kv_head(kv, spot, h, &node);
            status = put(exporting, base + item * part[node], spot->size, error);
        }
    }
    return status == KT_OK ? put_sum(exporting, error) : status;
}

static enum kt_status put_all(struct exporting *exporting, const struct kt_kv_sequence *sequence,
                              const void *note, uint64_t note_size, struct kt_error *error)
{
    uint32_t n_pages = (uint32_t)kt_kv_pages_for(sequence->tokens);
    enum kt_status status = put_header(exporting, sequence, note, note_size, error);
    for (uint32_t i = 0; i < n_pages && status == KT_OK; i++)
        status = put_item(exporting, sequence->kv, KT_KV_ROWS, sequence->pages[i], i, error);
    if (status == KT_OK && sequence->kv->declared.state_bytes)
        status = put_item(exporting, sequence->kv, KT_KV_STATE, sequence->slot, n_pages, error);
    return status;
}

enum kt_status kt_kv_sequence_export(struct kt_kv_sequence *sequence, const char *path, const void *note,
                                     uint64_t note_size, struct kt_error *error)
{
    if (!sequence || !path || !*path || (note_size && !note))
        return kt_fail(error, KT_E_INVALID,
                       "kt_kv_sequence_export: sequence, path and a note that has a size must not be NULL or "
                       "empty");
    if (sequence->reserved)
        return kt_fail(
            error, KT_E_STATE,
            "%llu tokens are reserved at position %llu: commit them or truncate the sequence before "
            "it is written to a file",
            (unsigned long long)sequence->reserved, (unsigned long long)sequence->tokens);
    struct exporting exporting;
    (void)XXH3_64bits_reset(&exporting.sum);
    enum kt_status status = kt_replacement_open(path, &exporting.out, error);
    if (status == KT_OK)
        status = put_all(&exporting, sequence, note, note_size, error);
    if (status == KT_OK)
        status = kt_replacement_finish(&exporting.out, error);
    kt_replacement_cancel(&exporting.out);
    return status;
}
