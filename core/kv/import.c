/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/kv/declare.h"
#include "core/kv/rows.h"
#include "core/kv/sequence_file.h"
#include "core/weights/file/file.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct importing {
    struct kt_file file;
    uint64_t at; /* in the file; its size has been compared with the header's */
    XXH3_state_t sum;
    struct kt_kv_header header;
    uint64_t n_pages;
};

static enum kt_status get(struct importing *importing, void *to, uint64_t size, struct kt_error *error)
{
    enum kt_status status = kt_file_read(&importing->file, importing->at, to, size, error);
    if (status == KT_OK)
        (void)XXH3_64bits_update(&importing->sum, to, (size_t)size);
    importing->at += size;
    return status;
}

/* Reads bytes for their checksum alone. */
static enum kt_status skip(struct importing *importing, uint64_t size, struct kt_error *error)
{
    uint8_t room[4096];
    enum kt_status status = KT_OK;
    for (uint64_t n; size > 0 && status == KT_OK; size -= n) {
        n = size < sizeof room ? size : sizeof room;
        status = get(importing, room, n, error);
    }
    return status;
}

static enum kt_status check_sum(struct importing *importing, const char *what, struct kt_error *error)
{
    uint64_t found = XXH3_64bits_digest(&importing->sum), expected = 0, at = importing->at;
    enum kt_status status = get(importing, &expected, sizeof expected, error);
    if (status == KT_OK && found != expected)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": the checksum of %s is %016" PRIx64 ", and %016" PRIx64
                       " was expected: the file is damaged",
                       importing->file.label, at, what, found, expected);
    return status;
}

static enum kt_status fail_at(const struct importing *importing, size_t at, const char *what,
                              struct kt_error *error)
{
    return kt_fail(error, KT_E_FORMAT, "%s: byte %zu: %s", importing->file.label, at, what);
}

/* ---- the header ---- */

/* The size that the file must have by its header. */
static bool whole_size(const struct importing *importing, uint64_t *size)
{
    const struct kt_kv_header *header = &importing->header;
    uint64_t pages;
    *size = sizeof *header + sizeof(uint64_t);
    return kt_add(*size, header->declaration_size, size) && kt_add(*size, header->model_size, size) &&
           kt_add(*size, header->note_size, size) && kt_add(header->page_bytes, sizeof(uint64_t), &pages) &&
           kt_mul(pages, importing->n_pages, &pages) && kt_add(*size, pages, size) &&
           kt_add(*size, header->state_bytes, size) &&
           kt_add(*size, header->state_bytes ? sizeof(uint64_t) : 0, size);
}

static enum kt_status read_header(struct importing *importing, struct kt_error *error)
{
    struct kt_kv_header *header = &importing->header;
    uint64_t size = 0;
    if (importing->file.size < sizeof *header)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte 0: the header takes %zu bytes, but the file ends after %" PRIu64,
                       importing->file.label, sizeof *header, importing->file.size);
    (void)XXH3_64bits_reset(&importing->sum);
    enum kt_status status = get(importing, header, sizeof *header, error);
    if (status != KT_OK)
        return status;
    if (memcmp(header->magic, KT_KV_MAGIC, sizeof header->magic) != 0)
        return fail_at(importing, 0, "not a sequence file", error);
    if (header->version != KT_KV_VERSION)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: byte %zu: version %" PRIu32 " of the format; this library reads version %d",
                       importing->file.label, offsetof(struct kt_kv_header, version), header->version,
                       KT_KV_VERSION);
    if (XXH3_64bits(header, offsetof(struct kt_kv_header, checksum)) != header->checksum)
        return fail_at(importing, offsetof(struct kt_kv_header, checksum),
                       "the checksum of the header is wrong: the file is damaged", error);
    if (header->page_tokens != KT_KV_PAGE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: byte %zu: pages of %" PRIu32 " tokens; this library has pages of %d",
                       importing->file.label, offsetof(struct kt_kv_header, page_tokens), header->page_tokens,
                       KT_KV_PAGE);
    importing->n_pages = kt_kv_pages_for(header->tokens);
    if (!whole_size(importing, &size) || size != importing->file.size)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": the file ends, by its header it has %" PRIu64
                       " bytes: the file is truncated or damaged",
                       importing->file.label, importing->file.size, size);
    return KT_OK;
}

/* ---- the declaration ---- */

static enum kt_status compare(const struct importing *importing, const struct kt_kv_declaration *declared,
                              const uint32_t *words, uint64_t n_words, const char *model,
                              struct kt_error *error)
{
    const struct kt_kv_header *header = &importing->header;
    enum kt_status status = KT_OK;
    if (strcmp(model, declared->model) != 0)
        status = kt_fail(error, KT_E_UNSUPPORTED, "it was made with model \"%s\", this cache with \"%s\"",
                         model, declared->model);
    else
        status = kt_kv_compare(declared, words, n_words, error);
    if (status != KT_OK)
        return kt_fail_prefix(error, status, "%s: a page map of another model", importing->file.label);
    if (header->page_bytes == declared->page_bytes && header->state_bytes == declared->state_bytes &&
        header->fingerprint == declared->fingerprint)
        return KT_OK;
    return fail_at(importing, offsetof(struct kt_kv_header, page_bytes),
                   "sizes or fingerprint are not those of the declaration: the file is damaged", error);
}

/* Reads as much of the declaration as this cache's has, and the model's name. */
static enum kt_status read_declaration(struct importing *importing, const struct kt_kv_declaration *declared,
                                       void *note, uint64_t room, struct kt_error *error)
{
    const struct kt_kv_header *header = &importing->header;
    uint64_t ours = declared->n_words * sizeof(uint32_t);
    uint64_t size = header->declaration_size < ours ? header->declaration_size : ours;
    char model[sizeof declared->model] = "";
    if (header->declaration_size % sizeof(uint32_t) || header->model_size >= sizeof model)
        return fail_at(
            importing, offsetof(struct kt_kv_header, declaration_size),
            "the declaration is not a whole number of u32, or the model's name has more than 255 bytes",
            error);
    uint32_t *words = malloc((size_t)size + 1);
    if (!words)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %" PRIu64 " bytes of a declaration",
                       importing->file.label, size);
    (void)XXH3_64bits_reset_withSeed(&importing->sum, header->checksum);
    enum kt_status status = get(importing, words, size, error);
    if (status == KT_OK)
        status = skip(importing, header->declaration_size - size, error);
    if (status == KT_OK)
        status = get(importing, model, header->model_size, error);
    if (status == KT_OK && note && header->note_size <= room)
        status = get(importing, note, header->note_size, error);
    else if (status == KT_OK)
        status = skip(importing, header->note_size, error);
    if (status == KT_OK)
        status = check_sum(importing, "declaration, model and note", error);
    if (!kt_name_valid(model, strlen(model)))
        memcpy(model, "?", 2);
    uint64_t n_words = header->declaration_size / sizeof(uint32_t);
    if (status == KT_OK)
        status = compare(importing, declared, words, n_words, model, error);
    free(words);
    return status;
}

/* ---- pages and states ---- */

static enum kt_status get_item(struct importing *importing, const struct kt_kv *kv, uint32_t kind,
                               uint32_t item, uint64_t seed, struct kt_error *error)
{
    const struct kt_kv_declaration *declared = &kv->declared;
    const uint64_t *part = kind == KT_KV_STATE ? declared->state_part : declared->page_part;
    enum kt_status status = KT_OK;
    char what[48] = "the states";
    if (kind == KT_KV_ROWS)
        (void)snprintf(what, sizeof what, "page %" PRIu64, seed);
    (void)XXH3_64bits_reset_withSeed(&importing->sum, seed);
    for (uint32_t i = 0; i < declared->first[declared->n_layers]; i++) {
        const struct kt_kv_spot *spot = &declared->spot[i];
        for (uint32_t h = 0; h < spot->field.heads && spot->field.kind == kind && status == KT_OK; h++) {
            uint32_t node;
            char *base = kt_kv_head(kv, spot, h, &node);
            status = get(importing, base + item * part[node], spot->size, error);
        }
    }
    return status == KT_OK ? check_sum(importing, what, error) : status;
}

static enum kt_status fill_sequence(struct importing *importing, struct kt_kv_sequence *sequence,
                                    struct kt_error *error)
{
    uint64_t tokens = importing->header.tokens;
    enum kt_status status = kt_kv_sequence_reserve(sequence, 0, tokens, error);
    for (uint64_t i = 0; i < importing->n_pages && status == KT_OK; i++)
        status = get_item(importing, sequence->kv, KT_KV_ROWS, sequence->pages[i], i, error);
    if (status == KT_OK && importing->header.state_bytes)
        status = get_item(importing, sequence->kv, KT_KV_STATE, sequence->slot, importing->n_pages, error);
    if (status != KT_OK)
        return status;
    kt_kv_rows_clear(sequence, tokens, importing->n_pages); /* whatever the file has there */
    return kt_kv_sequence_commit(sequence, tokens, error);
}

static enum kt_status import(struct importing *importing, struct kt_kv *kv, void *note, uint64_t *note_size,
                             struct kt_kv_sequence **out, struct kt_error *error)
{
    struct kt_kv_sequence *sequence = NULL;
    uint64_t room = note_size ? *note_size : 0;
    enum kt_status status = read_header(importing, error);
    if (status == KT_OK)
        status = read_declaration(importing, &kv->declared, note, room, error);
    if (status != KT_OK)
        return status;
    if (note_size)
        *note_size = importing->header.note_size;
    if (note_size && importing->header.note_size > room)
        return kt_fail(error, KT_E_RANGE,
                       "%s: its note has %" PRIu64 " bytes, and there is room for %" PRIu64,
                       importing->file.label, importing->header.note_size, room);
    status = kt_kv_sequence_open(kv, &sequence, error);
    if (status == KT_OK)
        status = fill_sequence(importing, sequence, error);
    if (status != KT_OK)
        kt_kv_sequence_close(sequence);
    else
        *out = sequence;
    return status;
}

enum kt_status kt_kv_import(struct kt_kv *kv, const char *path, void *note, uint64_t *note_size,
                            struct kt_kv_sequence **sequence, struct kt_error *error)
{
    if (!kv || !path || !sequence || (note && !note_size) || (!note && note_size && *note_size))
        return kt_fail(error, KT_E_INVALID,
                       "kt_kv_import: kv, path and sequence must not be NULL, and a note has a size");
    struct importing importing = {.at = 0};
    enum kt_status status = kt_file_open(path, KT_IO_READ, &importing.file, error);
    if (status != KT_OK)
        return status;
    status = import(&importing, kv, note, note_size, sequence, error);
    kt_file_close(&importing.file);
    return status;
}
