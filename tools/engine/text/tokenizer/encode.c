/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode.c - text to ids: added tokens are cut out, what is between them is normalised, in which more added
 * tokens may be, and cut into words, and each word into tokens.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/room.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Places of symbols are 32 bits wide. */
#define MAX_TEXT (UINT64_C(1) << 31)

/* One call at work. */
struct encoding {
    const struct kt_tokenizer *tokenizer;
    struct kt_room *room;
    int32_t *ids;
    size_t n, capacity;
    bool after_unknown; /* the last id is the unknown token's, of a character */
    struct kt_error *error;
};

static enum kt_status fail_memory(const struct encoding *e)
{
    return kt_engine_fail(e->error, KT_E_NOMEM, "no memory for the ids of a text");
}

static enum kt_status add_id(struct encoding *e, int32_t id)
{
    if (e->n == e->capacity) {
        int32_t *grown = kt_array_grow(e->ids, &e->capacity, e->n + 1, sizeof(*grown));
        if (!grown)
            return fail_memory(e);
        e->ids = grown;
    }
    e->ids[e->n++] = id;
    e->after_unknown = false;
    return KT_OK;
}

/* ---- a word ---- */

/* What no token has: its bytes, or else the unknown token. */
static enum kt_status add_unknown(struct encoding *e, const char *text, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    enum kt_status status = KT_OK;
    size_t n = 0;
    while (n < length && t->byte_ids[(unsigned char)text[n]] >= 0)
        n++;
    if (n == length) {
        for (size_t i = 0; i < length && status == KT_OK; i++)
            status = add_id(e, t->byte_ids[(unsigned char)text[i]]);
        return status;
    }
    if (t->unk < 0)
        return kt_engine_fail(e->error, KT_E_UNSUPPORTED,
                              "%s: the vocabulary can write no byte 0x%02X and has no unknown token",
                              t->source, (unsigned char)text[n]);
    if (!(e->after_unknown && t->fuses_unknown))
        status = add_id(e, t->unk);
    e->after_unknown = true;
    return status;
}

/* The word as symbols: bytes or characters. */
static bool lay_out(struct encoding *e, const char *word, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    e->room->bpe.n = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t size = t->has_bytes ? 0 : kt_utf8_read(word + at, length - at, &code);
        int32_t id = size ? kt_vocab_find(&t->vocab, word + at, size) : t->byte_ids[(unsigned char)word[at]];
        size += size == 0;
        if (!kt_bpe_add(&e->room->bpe, (uint32_t)at, (uint32_t)size, id))
            return false;
        at += size;
    }
    return true;
}

static enum kt_status cut_word(struct encoding *e, const char *word, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    const struct kt_bpe bpe = {t->order, &t->vocab, &t->merges, t->scores};
    if (t->ignores_merges) {
        int32_t id = kt_vocab_find(&t->vocab, word, length);
        if (id >= 0)
            return add_id(e, id);
    }
    if (!lay_out(e, word, length) || !kt_bpe_run(&bpe, &e->room->bpe, word))
        return fail_memory(e);
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i != UINT32_MAX && status == KT_OK;) {
        const struct kt_symbol *symbol = &e->room->bpe.symbols[i];
        status = symbol->id >= 0 ? add_id(e, symbol->id) : add_unknown(e, word + symbol->at, symbol->length);
        i = symbol->next;
    }
    return status;
}

static enum kt_status encode_word(void *data, const char *word, size_t length)
{
    struct encoding *e = data;
    bool hit;
    if (length > KT_CACHE_BYTES)
        return cut_word(e, word, length);
    struct kt_cache_slot *slot = kt_cache_find(e->room->cache, word, length, &hit);
    enum kt_status status = KT_OK;
    if (hit) {
        for (size_t i = 0; i < slot->n_ids && status == KT_OK; i++)
            status = add_id(e, slot->ids[i]);
        return status;
    }
    size_t before = e->n;
    bool after_unknown = e->after_unknown;
    status = cut_word(e, word, length);
    /* An unknown character may have been joined with one before. */
    if (status != KT_OK || after_unknown || e->after_unknown || e->n - before > KT_CACHE_IDS)
        return status;
    slot->length = (uint8_t)length;
    slot->n_ids = (uint8_t)(e->n - before);
    memcpy(slot->word, word, length);
    memcpy(slot->ids, e->ids + before, (e->n - before) * sizeof(*e->ids));
    return KT_OK;
}

/* ---- a piece without added tokens ---- */

static const char spm_space[] = "\xE2\x96\x81"; /* U+2581 */

/* Could a token of SentencePiece's go on from the character before byte `at` > 0 to the one there? */
static bool can_join(const struct kt_tokenizer *t, const char *text, size_t length, size_t at)
{
    unsigned char before = (unsigned char)text[at - 1], here = (unsigned char)text[at];
    if ((here & 0xC0) == 0x80) /* within a character */
        return true;
    if (!(t->joined[before][here / 8] >> here % 8 & 1))
        return false;
    if (!t->cuts_at_spaces || length - at < 3 || memcmp(text + at, spm_space, 3) != 0)
        return true;
    return at >= 3 && memcmp(text + at - 3, spm_space, 3) == 0;
}

static enum kt_status encode_uncut(struct encoding *e, const char *text, size_t length)
{
    enum kt_status status = KT_OK;
    size_t begin = 0;
    for (size_t at = 1; at < length && status == KT_OK; at++) {
        if (can_join(e->tokenizer, text, length, at))
            continue;
        status = encode_word(e, text + begin, at - begin);
        begin = at;
    }
    return status == KT_OK ? encode_word(e, text + begin, length - begin) : status;
}

static enum kt_status encode_piece(struct encoding *e, struct kt_marked text, bool is_first)
{
    const struct kt_tokenizer *t = e->tokenizer;
    text.marks = NULL;
    if (text.length == 0)
        return KT_OK;
    enum kt_status status =
        kt_normalize(&t->piece_steps, &e->room->piece, &e->room->regexes, is_first, text, &text, e->error);
    if (status != KT_OK)
        return status;
    if (!t->has_bytes && t->splitter.n == 0)
        return encode_uncut(e, text.text, text.length);
    return kt_split_run(&t->splitter, &e->room->regexes, text.text, text.length, encode_word, e, e->error);
}

/* ---- text between added tokens ---- */

static struct kt_marked cut_marked(struct kt_marked text, size_t begin, size_t end)
{
    return (struct kt_marked){text.text + begin, text.marks ? text.marks + begin : NULL, end - begin};
}

static enum kt_status encode_valid(struct encoding *e, struct kt_marked text, bool is_content, bool is_first)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct kt_added_match match;
    enum kt_status status =
        kt_normalize(&t->normalizer, &e->room->norm, &e->room->regexes, is_first, text, &text, e->error);
    size_t at = 0;
    while (status == KT_OK && kt_added_find(&t->added_normalized, text, is_content, at, &match)) {
        status = encode_piece(e, cut_marked(text, at, match.begin), is_first && at == 0);
        if (status == KT_OK)
            status = add_id(e, match.token->id);
        at = match.end;
    }
    if (status == KT_OK)
        status = encode_piece(e, cut_marked(text, at, text.length), is_first && at == 0);
    return status;
}

/* Bytes that are no characters are words of their own. */
static enum kt_status encode_segment(struct encoding *e, struct kt_marked text, bool is_content,
                                     bool is_first)
{
    enum kt_status status = KT_OK;
    for (size_t at = 0; at < text.length && status == KT_OK;) {
        size_t valid = kt_utf8_valid(text.text + at, text.length - at), broken = 0;
        if (valid > 0)
            status = encode_valid(e, cut_marked(text, at, at + valid), is_content, is_first && at == 0);
        at += valid;
        while (at + broken < text.length &&
               kt_utf8_valid(text.text + at + broken,
                             text.length - at - broken < 4 ? text.length - at - broken : 4) == 0)
            broken++;
        for (size_t i = 0; i < broken && status == KT_OK; i++)
            status = add_unknown(e, text.text + at + i, 1);
        at += broken;
    }
    return status;
}

static enum kt_status encode_text(struct encoding *e, struct kt_marked text, bool is_content)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct kt_added_match match;
    enum kt_status status = KT_OK;
    size_t at = 0;
    while (status == KT_OK && kt_added_find(&t->added, text, is_content, at, &match)) {
        status = encode_segment(e, cut_marked(text, at, match.begin), is_content, at == 0);
        if (status == KT_OK)
            status = add_id(e, match.token->id);
        at = match.end;
    }
    return status == KT_OK ? encode_segment(e, cut_marked(text, at, text.length), is_content, at == 0)
                           : status;
}

/* ---- parts ---- */

/* Several parts in one piece, with marks if they are of both kinds. */
static enum kt_status join_parts(struct encoding *e, const struct kt_text_part *parts, uint64_t n_parts,
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

static enum kt_status encode_parts(struct encoding *e, const struct kt_text_part *parts, uint64_t n_parts)
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
    return status == KT_OK && text.length > 0 ? encode_text(e, text, has_content && !has_both) : status;
}

/* BOS before the ids, unless the text has brought its own. */
static enum kt_status put_bos(struct encoding *e)
{
    int32_t bos = e->tokenizer->bos;
    if (!e->tokenizer->adds_bos || bos < 0 || (e->n > 0 && e->ids[0] == bos))
        return KT_OK;
    enum kt_status status = add_id(e, bos);
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
    struct encoding e = {.tokenizer = tokenizer, .room = kt_room_take(owner), .error = error};
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
