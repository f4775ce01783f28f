/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode.c - text to ids: added tokens are cut out, what is between them is normalized, in which more added
 * tokens may be, and cut into words, and each word into tokens.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/words.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Places of symbols are 32 bits wide. */
#define MAX_TEXT (UINT64_C(1) << 31)

static enum kt_status fail_memory(const struct kt_encoding *e)
{
    return kt_engine_fail(e->error, KT_E_NOMEM, "no memory for the ids of a text");
}

/* ---- a piece without added tokens ---- */

static enum kt_status encode_piece(struct kt_encoding *e, struct kt_marked text, struct kt_norm_place place)
{
    const struct kt_tokenizer *t = e->tokenizer;
    if (text.length == 0 && place.ends)
        return KT_OK;
    enum kt_status status =
        kt_normalize(&t->piece_steps, &e->room->piece, &e->room->regexes, &place, text, &e->piece, e->error);
    if (status != KT_OK)
        return status;
    text = e->piece;
    if (!t->has_bytes && t->splitter.n == 0)
        return kt_encode_uncut(e, text.text, text.length);
    return kt_split_run(&t->splitter, &e->room->regexes, text.text, text.length, kt_encode_word, e, e->error);
}

/* ---- text between added tokens ---- */

/* What lies between the last token and the next one, or the end; nothing where they overlap. */
static struct kt_marked cut_marked(struct kt_marked text, size_t begin, size_t end)
{
    return (struct kt_marked){text.text + begin, text.marks ? text.marks + begin : NULL,
                              end > begin ? end - begin : 0};
}

static enum kt_status encode_valid(struct kt_encoding *e, struct kt_marked text, struct kt_norm_place place)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct kt_added_search search = {.at = 0};
    struct kt_added_match match;
    enum kt_status status =
        kt_normalize(&t->normalizer, &e->room->norm, &e->room->regexes, &place, text, &text, e->error);
    struct kt_norm_place piece = {place.is_first, place.begins, true};
    size_t at = 0;
    while (status == KT_OK && kt_added_find(&t->added_normalized, text, e->is_content, &search, &match)) {
        status = encode_piece(e, cut_marked(text, at, match.begin), piece);
        if (status == KT_OK)
            status = kt_encoding_add(e, match.token->id);
        at = match.end;
        piece = (struct kt_norm_place){false, true, true};
    }
    piece.ends = place.ends;
    return status == KT_OK ? encode_piece(e, cut_marked(text, at, text.length), piece) : status;
}

/* Bytes that are not characters are words of their own. */
static enum kt_status encode_segment(struct kt_encoding *e, struct kt_marked text, bool is_first)
{
    enum kt_status status = KT_OK;
    for (size_t at = 0; at < text.length && status == KT_OK;) {
        size_t valid = kt_utf8_valid(text.text + at, text.length - at), broken = 0;
        const struct kt_norm_place place = {is_first && at == 0, at == 0, at + valid == text.length};
        if (valid > 0 || place.begins)
            status = encode_valid(e, cut_marked(text, at, at + valid), place);
        at += valid;
        while (at + broken < text.length &&
               kt_utf8_valid(text.text + at + broken,
                             text.length - at - broken < 4 ? text.length - at - broken : 4) == 0)
            broken++;
        for (size_t i = 0; i < broken && status == KT_OK; i++)
            status = kt_encoding_add_unknown(e, text.text + at + i, 1);
        at += broken;
    }
    return status;
}

static enum kt_status encode_text(struct kt_encoding *e, struct kt_marked text)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct kt_added_search search = {.at = 0};
    struct kt_added_match match;
    enum kt_status status = KT_OK;
    size_t at = 0;
    while (status == KT_OK && kt_added_find(&t->added, text, e->is_content, &search, &match)) {
        status = encode_segment(e, cut_marked(text, at, match.begin), at == 0);
        if (status == KT_OK)
            status = kt_encoding_add(e, match.token->id);
        at = match.end;
    }
    return status == KT_OK ? encode_segment(e, cut_marked(text, at, text.length), at == 0) : status;
}

/* ---- parts ---- */

/* Several parts in one piece, with marks if they are of both kinds. */
static enum kt_status join_parts(struct kt_encoding *e, const struct kt_text_part *parts, uint64_t n_parts,
                                 bool has_both, struct kt_marked *text)
{
    struct kt_room *room = e->room;
    room->text.length = room->marks.length = 0;
    for (uint64_t i = 0; i < n_parts; i++) {
        if (!kt_buffer_add(&room->text, parts[i].text, parts[i].length))
            return fail_memory(e);
        if (!has_both)
            continue;
        if (!kt_buffer_reserve(&room->marks, parts[i].length))
            return fail_memory(e);
        memset(room->marks.data + room->marks.length, parts[i].is_content != 0, parts[i].length);
        room->marks.length += parts[i].length;
    }
    *text = (struct kt_marked){room->text.data, has_both ? room->marks.data : NULL, room->text.length};
    return KT_OK;
}

static enum kt_status check_parts(const struct kt_text_part *parts, uint64_t n_parts, bool *has_content,
                                  bool *has_both, struct kt_error *error)
{
    uint64_t total = 0, content = 0;
    for (uint64_t i = 0; i < n_parts; i++) {
        if (!parts[i].text && parts[i].length > 0)
            return kt_engine_fail(error, KT_E_INVALID, "part %llu of the text is NULL",
                                  (unsigned long long)i);
        if (parts[i].length > MAX_TEXT - total)
            return kt_engine_fail(error, KT_E_RANGE, "a text of more than 2 GiB");
        total += parts[i].length;
        content += parts[i].is_content ? parts[i].length : 0;
    }
    *has_content = content > 0;
    *has_both = content > 0 && content < total;
    return KT_OK;
}

static enum kt_status encode_parts(struct kt_encoding *e, const struct kt_text_part *parts, uint64_t n_parts)
{
    struct kt_marked text = {.text = NULL};
    bool has_content = false, has_both = false;
    enum kt_status status = check_parts(parts, n_parts, &has_content, &has_both, e->error);
    if (status != KT_OK || n_parts == 0)
        return status;
    if (n_parts == 1)
        text = (struct kt_marked){parts[0].text, NULL, parts[0].length};
    else
        status = join_parts(e, parts, n_parts, has_both, &text);
    e->is_content = has_content && !has_both;
    return status == KT_OK && text.length > 0 ? encode_text(e, text) : status;
}

/* BOS before the ids, unless the text has brought its own. */
static enum kt_status put_bos(struct kt_encoding *e)
{
    int32_t bos = e->tokenizer->bos;
    if (!e->tokenizer->adds_bos || bos < 0 || (e->n > 0 && e->ids[0] == bos))
        return KT_OK;
    enum kt_status status = kt_encoding_add(e, bos);
    if (status != KT_OK)
        return status;
    memmove(e->ids + 1, e->ids, (e->n - 1) * sizeof(*e->ids));
    e->ids[0] = bos;
    return KT_OK;
}

enum kt_status kt_tokenizer_encode(const struct kt_tokenizer *tokenizer, const struct kt_text_part *parts,
                                   uint64_t n_parts, uint32_t flags, int32_t **ids, uint64_t *n_ids,
                                   struct kt_error *error)
{
    if (!tokenizer || (!parts && n_parts > 0) || !ids || !n_ids || (flags & ~(uint32_t)KT_ENCODE_BOS))
        return kt_engine_fail(error, KT_E_INVALID, "kt_tokenizer_encode: NULL, or an unknown flag");
    /* The rooms are a cache: of two calls at once, each gets one of its own. */
    struct kt_tokenizer *owner = (struct kt_tokenizer *)(uintptr_t)tokenizer;
    struct kt_encoding e = {.tokenizer = tokenizer, .room = kt_room_take(owner), .error = error};
    if (!e.room)
        return fail_memory(&e);
    enum kt_status status = encode_parts(&e, parts, n_parts);
    if (status == KT_OK && (flags & KT_ENCODE_BOS))
        status = put_bos(&e);
    kt_room_give_back(owner, e.room);
    if (status != KT_OK) {
        free(e.ids);
        return status;
    }
    *ids = e.ids;
    *n_ids = e.n;
    return KT_OK;
}

void kt_ids_free(int32_t *ids)
{
    free(ids);
}
