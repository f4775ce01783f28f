/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - a tokenizer's life, and what it says of itself. */
#define _GNU_SOURCE

#include "tools/engine/text/tokenizer/tokenizer.h"

#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kt_tokenizer *kt_tokenizer_new(void)
{
    struct kt_tokenizer *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    if (pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        return NULL;
    }
    t->bos = t->eos = t->unk = t->pad = -1;
    for (int i = 0; i < 256; i++)
        t->byte_ids[i] = -1;
    return t;
}

void kt_tokenizer_destroy(struct kt_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    kt_rooms_free(tokenizer->rooms);
    kt_vocab_free(&tokenizer->vocab);
    kt_merges_free(&tokenizer->merges);
    kt_normalizer_free(&tokenizer->normalizer);
    kt_normalizer_free(&tokenizer->piece_steps);
    kt_split_free(&tokenizer->splitter);
    kt_added_free(&tokenizer->added);
    kt_added_free(&tokenizer->added_normalized);
    for (size_t i = 0; i < tokenizer->n_chats; i++) {
        free(tokenizer->chats[i].name);
        free(tokenizer->chats[i].text);
        free(tokenizer->chats[i].file);
    }
    free(tokenizer->chats);
    free(tokenizer->scores);
    free(tokenizer->source);
    (void)pthread_mutex_destroy(&tokenizer->lock);
    free(tokenizer);
}

/* ---- what loaders call ---- */

static const char spm_space[] = "\xE2\x96\x81"; /* U+2581, which stands for a space */

/* "<0x0A>" */
static bool read_byte(const char *text, size_t length, unsigned *byte)
{
    char digits[3] = "";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return false;
    memcpy(digits, text + 3, 2);
    if (strspn(digits, "0123456789ABCDEFabcdef") != 2)
        return false;
    *byte = (unsigned)strtoul(digits, NULL, 16);
    return true;
}

/* A token of characters, as it is shown: `out` has room for its length. */
static size_t write_shown(const char *text, size_t length, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        bool is_space = length - i >= 3 && memcmp(text + i, spm_space, 3) == 0;
        out[n++] = is_space ? ' ' : text[i];
        i += is_space ? 3 : 1;
    }
    return n;
}

/* Sets a token whose text is not shown as it is. */
static bool set_shown(struct kt_tokenizer *t, uint32_t id, const char *text, size_t length, const char *shown,
                      size_t shown_length, uint8_t type)
{
    char *spaced = malloc(shown_length + 1);
    size_t n = spaced ? write_shown(shown, shown_length, spaced) : 0;
    bool taken = spaced && kt_vocab_set(&t->vocab, id, text, length, spaced, n, type);
    free(spaced);
    return taken;
}

enum kt_status kt_tokenizer_show(struct kt_tokenizer *t, uint32_t id, const char *text, size_t length,
                                 struct kt_error *error)
{
    const struct kt_vocab_token token = t->vocab.tokens[id];
    char *old = malloc(token.length + 1);
    bool taken = old != NULL;
    if (taken) {
        memcpy(old, kt_vocab_text(&t->vocab, id), token.length);
        taken = t->kind == KT_TOKENIZER_SPM
                    ? set_shown(t, id, old, token.length, text, length, token.type)
                    : kt_vocab_set(&t->vocab, id, old, token.length, text, length, token.type);
    }
    free(old);
    return taken ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for a vocabulary");
}

enum kt_status kt_tokenizer_set(struct kt_tokenizer *t, uint64_t id, const char *text, size_t length,
                                uint8_t type, struct kt_error *error)
{
    if (id >= KT_VOCAB_MAX)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: token %.*s has the id %" PRIu64 ", ids end at %u",
                              t->source, (int)(length < 100 ? length : 100), text, id, KT_VOCAB_MAX - 1);
    bool taken;
    unsigned byte;
    char byte_text[1];
    if (type == KT_TOKEN_BYTE && read_byte(text, length, &byte)) {
        t->byte_ids[byte] = (int32_t)id;
        byte_text[0] = (char)byte;
        taken = kt_vocab_set(&t->vocab, (uint32_t)id, text, length, byte_text, 1, type);
    } else if (t->kind == KT_TOKENIZER_SPM) {
        taken = set_shown(t, (uint32_t)id, text, length, text, length, type);
    } else {
        taken = kt_vocab_set(&t->vocab, (uint32_t)id, text, length, text, length, type);
    }
    return taken ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for a vocabulary");
}

enum kt_status kt_tokenizer_add_chat(struct kt_tokenizer *t, const char *name, const char *text,
                                     size_t length, const char *file, struct kt_error *error)
{
    struct kt_chat_text *chats = kt_array_grow(t->chats, &t->chats_capacity, t->n_chats + 1, sizeof(*chats));
    if (!chats)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a chat template");
    t->chats = chats;
    size_t place = strcmp(name, "default") == 0 ? 0 : t->n_chats;
    struct kt_chat_text chat = {strdup(name), malloc(length + 1), strdup(file), length};
    if (!chat.name || !chat.text || !chat.file) {
        free(chat.name);
        free(chat.text);
        free(chat.file);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a chat template");
    }
    memcpy(chat.text, text, length);
    chat.text[length] = '\0';
    memmove(chats + place + 1, chats + place, (t->n_chats - place) * sizeof(*chats));
    chats[place] = chat;
    t->n_chats++;
    return KT_OK;
}

static bool keep_from_content(struct kt_added *added, int32_t id)
{
    bool found = false;
    for (size_t i = 0; i < added->n; i++) {
        if (added->tokens[i].id == id)
            found = added->tokens[i].is_control = true;
    }
    return found;
}

enum kt_status kt_tokenizer_make_control(struct kt_tokenizer *t, int32_t id, struct kt_error *error)
{
    struct kt_vocab_token *token = &t->vocab.tokens[id];
    bool found = keep_from_content(&t->added, id);
    found = keep_from_content(&t->added_normalized, id) || found;
    if (!found && token->length < 3) /* "!", which some files name for padding, stays what it is */
        return KT_OK;
    token->type = KT_TOKEN_CONTROL;
    if (found)
        return KT_OK;
    struct kt_added_token added = {.text = (char *)(uintptr_t)kt_vocab_text(&t->vocab, (uint32_t)id),
                                   .length = token->length,
                                   .id = id,
                                   .is_control = true};
    return kt_added_add(&t->added, &added, error);
}

/* "<|name|>", or with DeepSeek's wide bars. */
static bool looks_like_control(const char *text, size_t length)
{
    static const char wide[] = "\357\275\234";
    return (length > 4 && memcmp(text, "<|", 2) == 0 && memcmp(text + length - 2, "|>", 2) == 0) ||
           (length > 8 && text[0] == '<' && memcmp(text + 1, wide, 3) == 0 && text[length - 1] == '>' &&
            memcmp(text + length - 4, wide, 3) == 0);
}

/* Added tokens that are not called special, but are a part of the template's language: tags of turns, of
 * tools and of reasoning. They are shown when decoded, as tokens that are not special are, but content never
 * becomes one. */
static void keep_language_from_content(const struct kt_tokenizer *t, struct kt_added *added)
{
    for (size_t i = 0; i < added->n; i++) {
        struct kt_added_token *token = &added->tokens[i];
        bool is_used = looks_like_control(token->text, token->length);
        for (size_t c = 0; c < t->n_chats && !is_used; c++)
            is_used =
                token->length > 2 && memmem(t->chats[c].text, t->chats[c].length, token->text, token->length);
        token->is_control |= is_used;
    }
}

/* Control tokens of these names end a turn, whatever else a file says. */
static const char *const turn_ends[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "</s>",
    "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>", /* DeepSeek's */
    "[EOS]",
    "[EOT]",
    "<end_of_turn>",
    "<|end_of_text|>",
    "<|user|>",
    "<|observation|>",
    "[e~[",
    "<EOT>",
    "_<EOT>",
    "<end_of_utterance>",
    "<turn|>", /* Gemma 4's, as the next one */
    "<|tool_response>",
    "<|calls|>", /* Solar's, as the next one */
    "<|flush|>",
};

static void mark_ends(struct kt_tokenizer *t)
{
    for (size_t i = 0; i < sizeof(turn_ends) / sizeof(turn_ends[0]); i++) {
        int32_t id = kt_tokenizer_find(t, turn_ends[i], strlen(turn_ends[i]));
        if (id >= 0 && t->vocab.tokens[id].type == KT_TOKEN_CONTROL)
            t->vocab.tokens[id].ends = 1;
    }
    /* In the formats of gpt-oss and Solar, <|end|> ends a message of several. */
    int32_t end = kt_tokenizer_find(t, "<|end|>", 7);
    bool has_last =
        (kt_tokenizer_find(t, "<|return|>", 10) >= 0 && kt_tokenizer_find(t, "<|call|>", 8) >= 0) ||
        (kt_tokenizer_find(t, "<|flush|>", 9) >= 0 && kt_tokenizer_find(t, "<|calls|>", 9) >= 0);
    if (end >= 0 && has_last)
        t->vocab.tokens[end].ends = 0;
    if (t->eos >= 0)
        t->vocab.tokens[t->eos].ends = 1;
}

static void join_token(struct kt_tokenizer *t, uint32_t id)
{
    const struct kt_vocab_token *token = &t->vocab.tokens[id];
    const unsigned char *text = (const unsigned char *)kt_vocab_text(&t->vocab, id);
    size_t spaces = 0;
    while (token->length - spaces >= 3 && memcmp(text + spaces, spm_space, 3) == 0)
        spaces += 3;
    if (memmem(text + spaces, token->length - spaces, spm_space, 3))
        t->cuts_at_spaces = false;
    for (uint32_t i = 1; i < token->length; i++)
        t->joined[text[i - 1]][text[i] / 8] |= (uint8_t)(1U << text[i] % 8);
}

static bool is_text(const struct kt_tokenizer *t, uint32_t id)
{
    return t->vocab.tokens[id].type == KT_TOKEN_NORMAL || t->vocab.tokens[id].type == KT_TOKEN_USER;
}

/* Looks where words of SentencePiece's, which has none of its own, can be cut: where no token could go on. */
static void find_cuts(struct kt_tokenizer *t)
{
    t->cuts_at_spaces = true;
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (is_text(t, id))
            join_token(t, id);
    for (unsigned byte = 0; byte < 256; byte++)
        if (t->byte_ids[byte] >= 0)
            t->vocab.tokens[t->byte_ids[byte]].flags |= KT_VOCAB_STANDS_IN;
    if (t->unk >= 0)
        t->vocab.tokens[t->unk].flags |= KT_VOCAB_STANDS_IN;
    for (size_t i = 0; t->merges.slots && i <= t->merges.mask; i++) {
        const struct kt_merge *merge = &t->merges.slots[i];
        if (merge->pair == UINT64_MAX)
            continue;
        if (!is_text(t, (uint32_t)merge->id))
            join_token(t, (uint32_t)merge->id);
        t->never_cuts |=
            ((t->vocab.tokens[merge->pair >> 32].flags | t->vocab.tokens[(uint32_t)merge->pair].flags) &
             KT_VOCAB_STANDS_IN) != 0;
    }
}

static void keep_merges_from_content(struct kt_tokenizer *t)
{
    const struct kt_added *const lists[] = {&t->added, &t->added_normalized};
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (t->vocab.tokens[id].type == KT_TOKEN_CONTROL)
            t->vocab.tokens[id].flags |= KT_VOCAB_NO_CONTENT;
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < lists[i]->n; j++)
            if (lists[i]->tokens[j].is_control)
                t->vocab.tokens[lists[i]->tokens[j].id].flags |= KT_VOCAB_NO_CONTENT;
    for (size_t i = 0; t->merges.slots && i <= t->merges.mask; i++) {
        struct kt_merge *merge = &t->merges.slots[i];
        if (merge->pair != UINT64_MAX && (t->vocab.tokens[merge->id].flags & KT_VOCAB_NO_CONTENT))
            merge->rank |= KT_MERGE_CONTROL;
    }
}

static enum kt_status check_special(const struct kt_tokenizer *t, const char *what, int32_t *id,
                                    struct kt_error *error)
{
    if (*id < 0 || ((size_t)*id < t->vocab.n && t->vocab.tokens[*id].type != 0))
        return KT_OK;
    return kt_engine_fail(error, KT_E_FORMAT, "%s: its %s token has the id %d, which does not exist",
                          t->source, what, *id);
}

enum kt_status kt_tokenizer_finish(struct kt_tokenizer *t, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    if (t->vocab.n == 0)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: the vocabulary has no tokens", t->source);
    const struct {
        const char *what;
        int32_t *id;
    } specials[] = {{"BOS", &t->bos}, {"EOS", &t->eos}, {"unknown", &t->unk}, {"padding", &t->pad}};
    for (size_t i = 0; i < 4 && status == KT_OK; i++)
        status = check_special(t, specials[i].what, specials[i].id, error);
    if (status != KT_OK)
        return status;
    for (unsigned byte = 0; byte < 256 && t->has_bytes; byte++) {
        char text = (char)byte;
        t->byte_ids[byte] = kt_vocab_find_any(&t->vocab, &text, 1);
    }
    if (!t->has_bytes)
        find_cuts(t);
    keep_language_from_content(t, &t->added);
    keep_language_from_content(t, &t->added_normalized);
    keep_merges_from_content(t);
    (void)kt_added_sort(&t->added);
    const struct kt_added_token *twice = kt_added_sort(&t->added_normalized);
    if (twice)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "%s: two added tokens are '%.*s' once normalized, so either may be meant",
                              t->source, (int)twice->length, twice->text);
    mark_ends(t);
    return KT_OK;
}

/* ---- what users ask ---- */

void kt_tokenizer_info(const struct kt_tokenizer *tokenizer, struct kt_tokenizer_info *info)
{
    *info = (struct kt_tokenizer_info){
        .kind = tokenizer->kind,
        .n_tokens = (uint32_t)tokenizer->vocab.n,
        .pre = tokenizer->pre,
        .source = tokenizer->source,
        .bos_token_id = tokenizer->bos,
        .eos_token_id = tokenizer->eos,
        .unk_token_id = tokenizer->unk,
        .pad_token_id = tokenizer->pad,
        .adds_bos = tokenizer->adds_bos,
        .adds_eos = tokenizer->adds_eos,
        .normalizes = tokenizer->normalizer.n > 0 && tokenizer->has_bytes,
    };
}

enum kt_status kt_tokenizer_token(const struct kt_tokenizer *tokenizer, int64_t id, struct kt_token *token,
                                  struct kt_error *error)
{
    if (id < 0 || (uint64_t)id >= tokenizer->vocab.n || tokenizer->vocab.tokens[id].type == 0)
        return kt_engine_fail(error, KT_E_RANGE, "%s has no token %" PRId64 "; its ids are 0 to %zu",
                              tokenizer->source, id, tokenizer->vocab.n - 1);
    const struct kt_vocab_token *found = &tokenizer->vocab.tokens[id];
    *token = (struct kt_token){tokenizer->vocab.bytes.data + found->shown_at, found->shown_length,
                               found->type, found->ends};
    return KT_OK;
}

/* Of added tokens the vocabulary has the text as the file has it. */
static int32_t find_added(const struct kt_vocab *vocab, const struct kt_added *added, const char *text,
                          size_t length)
{
    for (size_t i = 0; i < added->n; i++) {
        const struct kt_added_token *token = &added->tokens[i];
        uint32_t id = (uint32_t)token->id;
        if ((vocab->tokens[id].length == length && memcmp(kt_vocab_text(vocab, id), text, length) == 0) ||
            (token->length == length && memcmp(token->text, text, length) == 0))
            return token->id;
    }
    return -1;
}

int32_t kt_tokenizer_find(const struct kt_tokenizer *tokenizer, const char *text, uint64_t length)
{
    int32_t id = find_added(&tokenizer->vocab, &tokenizer->added, text, length);
    if (id < 0)
        id = find_added(&tokenizer->vocab, &tokenizer->added_normalized, text, length);
    return id < 0 ? kt_vocab_find(&tokenizer->vocab, text, length) : id;
}

bool kt_tokenizer_chat(const struct kt_tokenizer *tokenizer, size_t index, struct kt_chat_source *source)
{
    if (index >= tokenizer->n_chats)
        return false;
    const struct kt_chat_text *chat = &tokenizer->chats[index];
    *source = (struct kt_chat_source){chat->name, chat->text, chat->length, chat->file};
    return true;
}
