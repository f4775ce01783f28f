/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - ids to text, all at once or as they come. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/tokenizer.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

struct kt_detokenizer {
    const struct kt_tokenizer *tokenizer;
    uint32_t flags;
    bool has_begun;
    struct kt_buffer bytes; /* what was not shown yet */
    struct kt_buffer text;  /* what is shown now */
};

static enum kt_status check_ids(const struct kt_tokenizer *t, const int32_t *ids, uint64_t n_ids,
                                struct kt_error *error)
{
    for (uint64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= t->vocab.n || t->vocab.tokens[ids[i]].type == 0)
            return kt_engine_fail(error, KT_E_RANGE, "id %d is not a token of %s, whose ids are 0 to %zu",
                                  ids[i], t->source, t->vocab.n - 1);
    return KT_OK;
}

static bool add_token(struct kt_detokenizer *d, int32_t id)
{
    const struct kt_vocab *vocab = &d->tokenizer->vocab;
    const struct kt_vocab_token *token = &vocab->tokens[id];
    const char *text = vocab->bytes.data + token->shown_at;
    size_t length = token->shown_length;
    if (length == 0 || ((d->flags & KT_DECODE_NO_CONTROL) && token->type == KT_TOKEN_CONTROL))
        return true;
    size_t dropped = !d->has_begun && d->tokenizer->strips_space && text[0] == ' ';
    d->has_begun = true;
    return kt_buffer_add(&d->bytes, text + dropped, length - dropped);
}

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Moves what is whole from bytes to text; at the end, what is not too. */
static bool show(struct kt_detokenizer *d, bool at_end)
{
    size_t at = 0, length = d->bytes.length;
    if (!kt_buffer_reserve(&d->text, 3 * length + 1)) /* so that nothing fails below */
        return false;
    while (at < length) {
        bool is_cut;
        size_t n = kt_utf8_valid(d->bytes.data + at, length - at);
        (void)kt_buffer_add(&d->text, d->bytes.data + at, n);
        at += n;
        if (at == length)
            break;
        n = kt_utf8_broken(d->bytes.data + at, length - at, &is_cut);
        if (is_cut && !at_end)
            break;
        (void)kt_buffer_add(&d->text, replacement, 3);
        at += n;
    }
    if (at > 0)
        memmove(d->bytes.data, d->bytes.data + at, length - at);
    d->bytes.length = length - at;
    return kt_buffer_add_text(&d->text, "");
}

enum kt_status kt_detokenizer_create(const struct kt_tokenizer *tokenizer, uint32_t flags,
                                     struct kt_detokenizer **detokenizer, struct kt_error *error)
{
    if (!tokenizer || !detokenizer || (flags & ~(uint32_t)KT_DECODE_NO_CONTROL))
        return kt_engine_fail(error, KT_E_INVALID, "kt_detokenizer_create: NULL, or an unknown flag");
    struct kt_detokenizer *d = calloc(1, sizeof(*d));
    if (!d)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a detokenizer");
    d->tokenizer = tokenizer;
    d->flags = flags;
    *detokenizer = d;
    return KT_OK;
}

void kt_detokenizer_destroy(struct kt_detokenizer *detokenizer)
{
    if (!detokenizer)
        return;
    kt_buffer_free(&detokenizer->bytes);
    kt_buffer_free(&detokenizer->text);
    free(detokenizer);
}

static enum kt_status hand_out(struct kt_detokenizer *d, bool at_end, const char **text, uint64_t *length,
                               struct kt_error *error)
{
    d->text.length = 0;
    if (!show(d, at_end))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for text");
    *text = d->text.data;
    *length = d->text.length;
    return KT_OK;
}

enum kt_status kt_detokenizer_add(struct kt_detokenizer *detokenizer, const int32_t *ids, uint64_t n_ids,
                                  const char **text, uint64_t *length, struct kt_error *error)
{
    if (!detokenizer || (!ids && n_ids > 0) || !text || !length)
        return kt_engine_fail(error, KT_E_INVALID, "kt_detokenizer_add: NULL");
    enum kt_status status = check_ids(detokenizer->tokenizer, ids, n_ids, error);
    if (status != KT_OK)
        return status;
    size_t before = detokenizer->bytes.length;
    bool has_begun = detokenizer->has_begun;
    for (uint64_t i = 0; i < n_ids; i++) {
        if (!add_token(detokenizer, ids[i])) {
            detokenizer->bytes.length = before;
            detokenizer->has_begun = has_begun;
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for text");
        }
    }
    return hand_out(detokenizer, false, text, length, error);
}

enum kt_status kt_detokenizer_end(struct kt_detokenizer *detokenizer, const char **text, uint64_t *length,
                                  struct kt_error *error)
{
    if (!detokenizer || !text || !length)
        return kt_engine_fail(error, KT_E_INVALID, "kt_detokenizer_end: NULL");
    enum kt_status status = hand_out(detokenizer, true, text, length, error);
    if (status == KT_OK)
        detokenizer->has_begun = false;
    return status;
}

enum kt_status kt_tokenizer_decode(const struct kt_tokenizer *tokenizer, const int32_t *ids, uint64_t n_ids,
                                   uint32_t flags, char **text, uint64_t *length, struct kt_error *error)
{
    if (!tokenizer || (!ids && n_ids > 0) || !text || !length || (flags & ~(uint32_t)KT_DECODE_NO_CONTROL))
        return kt_engine_fail(error, KT_E_INVALID, "kt_tokenizer_decode: NULL, or an unknown flag");
    struct kt_detokenizer d = {.tokenizer = tokenizer, .flags = flags};
    enum kt_status status = check_ids(tokenizer, ids, n_ids, error);
    if (status != KT_OK)
        return status;
    bool taken = true;
    for (uint64_t i = 0; i < n_ids && taken; i++)
        taken = add_token(&d, ids[i]);
    taken = taken && show(&d, true);
    kt_buffer_free(&d.bytes);
    if (!taken) {
        kt_buffer_free(&d.text);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the text of %llu ids",
                              (unsigned long long)n_ids);
    }
    *text = d.text.data;
    *length = d.text.length;
    return KT_OK;
}

void kt_text_free(char *text)
{
    free(text);
}
