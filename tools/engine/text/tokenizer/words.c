/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/words.h"

#include "tools/engine/base/fail.h"
#include "tools/engine/text/utf8.h"

#include <string.h>

static enum kt_status fail_memory(const struct kt_encoding *e)
{
    return kt_engine_fail(e->error, KT_E_NOMEM, "no memory for the ids of a text");
}

enum kt_status kt_encoding_add(struct kt_encoding *e, int32_t id)
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

static enum kt_status fail_unknown(const struct kt_encoding *e, char byte)
{
    return kt_engine_fail(e->error, KT_E_UNSUPPORTED,
                          "%s: the vocabulary can write no byte 0x%02X and has no unknown token",
                          e->tokenizer->source, (unsigned char)byte);
}

/* Has each of these bytes a token? */
static bool has_bytes_of(const struct kt_tokenizer *t, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (t->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    return true;
}

enum kt_status kt_encoding_add_unknown(struct kt_encoding *e, const char *text, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    enum kt_status status = KT_OK;
    if (has_bytes_of(t, text, length)) {
        for (size_t i = 0; i < length && status == KT_OK; i++)
            status = kt_encoding_add(e, t->byte_ids[(unsigned char)text[i]]);
        return status;
    }
    if (t->unk < 0)
        return fail_unknown(e, text[0]);
    if (!(e->after_unknown && t->fuses_unknown))
        status = kt_encoding_add(e, t->unk);
    e->after_unknown = true;
    return status;
}

/* ---- a word as symbols ---- */

static bool add_symbol(struct kt_encoding *e, size_t at, size_t length, int32_t id)
{
    return kt_bpe_add(&e->room->bpe, (uint32_t)at, (uint32_t)length, id);
}

/* Bytes, or characters of SentencePiece's, known or not. */
static enum kt_status lay_out_plain(struct kt_encoding *e, const char *word, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t size = t->has_bytes ? 0 : kt_utf8_read(word + at, length - at, &code);
        int32_t id = size ? kt_vocab_find(&t->vocab, word + at, size) : t->byte_ids[(unsigned char)word[at]];
        size += size == 0;
        if (!add_symbol(e, at, size, id))
            return fail_memory(e);
        at += size;
    }
    return KT_OK;
}

/* Unknown characters that have not become a symbol yet. */
struct unknown {
    size_t at, length; /* 0: there is none */
};

static bool add_pending(struct kt_encoding *e, struct unknown *unknown)
{
    bool taken = unknown->length == 0 || add_symbol(e, unknown->at, unknown->length, e->tokenizer->unk);
    unknown->length = 0;
    return taken;
}

static enum kt_status take_unknown(struct kt_encoding *e, const char *word, size_t at, size_t size,
                                   struct unknown *unknown)
{
    const struct kt_tokenizer *t = e->tokenizer;
    bool taken = true;
    e->met_unknown = true;
    if (t->unk < 0)
        return fail_unknown(e, word[at]);
    if (unknown->length > 0 && t->fuses_unknown) {
        unknown->length += size;
        return KT_OK;
    }
    taken = add_pending(e, unknown);
    *unknown = (struct unknown){at, size};
    return taken ? KT_OK : fail_memory(e);
}

/* As Hugging Face's tokenizers do, for merges by rank: what a vocabulary lacks becomes its bytes or the
 * unknown token before anything is joined, so merges may join these, too; an unknown token waits for the next
 * known character, and bytes go before it. */
static enum kt_status lay_out_merged(struct kt_encoding *e, const char *word, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct unknown unknown = {0, 0};
    enum kt_status status = KT_OK;
    bool taken = true;
    for (size_t at = 0, size; at < length && taken && status == KT_OK; at += size) {
        uint32_t code;
        size = t->has_bytes ? 0 : kt_utf8_read(word + at, length - at, &code);
        int32_t id =
            size ? kt_vocab_find_any(&t->vocab, word + at, size) : t->byte_ids[(unsigned char)word[at]];
        size += size == 0;
        if (id >= 0) {
            taken = add_pending(e, &unknown) && add_symbol(e, at, size, id);
        } else if (has_bytes_of(t, word + at, size)) {
            for (size_t i = at; i < at + size && taken; i++)
                taken = add_symbol(e, i, 1, t->byte_ids[(unsigned char)word[i]]);
        } else {
            status = take_unknown(e, word, at, size, &unknown);
        }
    }
    if (status == KT_OK && !(taken && add_pending(e, &unknown)))
        status = fail_memory(e);
    return status;
}

/* ---- a word ---- */

static bool is_content(const struct kt_encoding *e, const char *word, size_t length)
{
    const char *marks = e->piece.marks;
    return e->is_content || (marks && memchr(marks + (word - e->piece.text), 1, length));
}

/* The token that all of a word is, or -1; control tokens are none of content's. */
static int32_t find_whole(struct kt_encoding *e, const char *word, size_t length, bool content)
{
    const struct kt_vocab *vocab = &e->tokenizer->vocab;
    int32_t id = kt_vocab_find_any(vocab, word, length);
    if (id < 0 || !(vocab->tokens[id].flags & KT_VOCAB_NO_CONTENT))
        return id;
    e->met_control = true;
    return content ? -1 : id;
}

static enum kt_status join_word(struct kt_encoding *e, const char *word, size_t length, bool content)
{
    const struct kt_tokenizer *t = e->tokenizer;
    struct kt_bpe_room *room = &e->room->bpe;
    const struct kt_bpe bpe = {t->order, &t->vocab, &t->merges, t->scores, content};
    room->n = 0;
    room->met_control = false;
    enum kt_status status =
        t->order == KT_BPE_MERGES ? lay_out_merged(e, word, length) : lay_out_plain(e, word, length);
    if (status != KT_OK)
        return status;
    if (!kt_bpe_run(&bpe, room, word))
        return fail_memory(e);
    e->met_control |= room->met_control;
    for (uint32_t i = 0; room->n > 0 && i != UINT32_MAX && status == KT_OK;) {
        const struct kt_symbol *symbol = &room->symbols[i];
        status = symbol->id >= 0 ? kt_encoding_add(e, symbol->id)
                                 : kt_encoding_add_unknown(e, word + symbol->at, symbol->length);
        i = symbol->next;
    }
    return status;
}

static enum kt_status cut_word(struct kt_encoding *e, const char *word, size_t length, bool is_whole)
{
    bool content = is_content(e, word, length);
    e->met_control = e->met_unknown = false;
    if (is_whole && e->tokenizer->ignores_merges) {
        int32_t id = find_whole(e, word, length, content);
        if (id >= 0)
            return kt_encoding_add(e, id);
    }
    return join_word(e, word, length, content);
}

/* A word, or if not is_whole a part of one, which no token joins with the next part. The cache has those
 * whose ids depend on nothing but their bytes. */
static enum kt_status encode_known(struct kt_encoding *e, const char *word, size_t length, bool is_whole)
{
    bool hit;
    if (length > KT_CACHE_BYTES || e->after_unknown)
        return cut_word(e, word, length, is_whole);
    struct kt_cache_slot *slot = kt_cache_find(e->room->cache, word, length, &hit);
    enum kt_status status = KT_OK;
    if (hit) {
        for (size_t i = 0; i < slot->n_ids && status == KT_OK; i++)
            status = kt_encoding_add(e, slot->ids[i]);
        return status;
    }
    size_t before = e->n;
    status = cut_word(e, word, length, is_whole);
    if (status != KT_OK || e->after_unknown || e->met_control || (e->met_unknown && !is_whole) ||
        e->n - before > KT_CACHE_IDS)
        return status;
    slot->length = (uint8_t)length;
    slot->n_ids = (uint8_t)(e->n - before);
    memcpy(slot->word, word, length);
    memcpy(slot->ids, e->ids + before, (e->n - before) * sizeof(*e->ids));
    return KT_OK;
}

enum kt_status kt_encode_word(void *data, const char *word, size_t length)
{
    return encode_known(data, word, length, true);
}

/* ---- a text that is one word ---- */

static const char spm_space[] = "\xE2\x96\x81"; /* U+2581 */

/* Could a token continue from the character before byte `at` > 0 to the one there? */
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

/* An unknown character's token does not stay in its part: then the text is to be taken as a whole. */
static bool must_be_whole(const struct kt_encoding *e)
{
    return e->met_unknown && e->tokenizer->order == KT_BPE_MERGES;
}

enum kt_status kt_encode_uncut(struct kt_encoding *e, const char *text, size_t length)
{
    const struct kt_tokenizer *t = e->tokenizer;
    enum kt_status status = KT_OK;
    size_t begin = 0, before = e->n;
    e->met_control = e->met_unknown = false;
    if (length == 0)
        return KT_OK;
    if (t->ignores_merges) {
        int32_t id = find_whole(e, text, length, is_content(e, text, length));
        if (id >= 0)
            return kt_encoding_add(e, id);
    }
    for (size_t at = 1, end = t->never_cuts ? 0 : length; at < end; at++) {
        if (can_join(t, text, length, at))
            continue;
        status = encode_known(e, text + begin, at - begin, false);
        begin = at;
        if (status != KT_OK || must_be_whole(e))
            break;
    }
    if (status == KT_OK && !must_be_whole(e))
        status = encode_known(e, text + begin, length - begin, false);
    if (status != KT_OK || begin == 0 || !must_be_whole(e))
        return status;
    e->n = before;
    return join_word(e, text, length, is_content(e, text, length));
}
