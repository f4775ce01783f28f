/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c - the vocabulary in the metadata of a GGUF file. */
#define _GNU_SOURCE /* strcasestr */

#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/byte_map.h"
#include "tools/engine/text/tokenizer/load.h"
#include "tools/engine/text/tokenizer/pre.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the longest token that is read; the longest known are runs of 1024 spaces. */
#define MAX_TOKEN 16384

/* A file at work. */
struct gguf {
    struct kt_tokenizer *tokenizer;
    struct kt_checkpoint *checkpoint;
    struct kt_error *error;
    bool is_phi3; /* its special tokens take the white space behind them */
};

#define KEY(name) "tokenizer.ggml." name

/* ---- values ---- */

/* The library says which key is wrong, but not of which file. */
static enum kt_status in_file(const struct gguf *g, enum kt_status status)
{
    return status == KT_OK ? KT_OK : kt_engine_fail_prefix(g->error, status, "%s", g->tokenizer->source);
}

static enum kt_status next_text(const struct gguf *g, const struct kt_value *value, uint64_t *at,
                                const char **text, uint64_t *length)
{
    return in_file(g, kt_value_text(value, at, text, length, g->error));
}

static enum kt_status find_array(const struct gguf *g, const char *key, struct kt_value *value)
{
    enum kt_status status = kt_checkpoint_value_find(g->checkpoint, key, value, g->error);
    if (status == KT_E_NOT_FOUND)
        return kt_engine_fail(g->error, KT_E_FORMAT, "%s: it has no %s", g->tokenizer->source, key);
    if (status == KT_OK && !value->is_array)
        return kt_engine_fail(g->error, KT_E_FORMAT, "%s: %s is not an array", g->tokenizer->source, key);
    return in_file(g, status);
}

/* A value that need not be there: *found says whether it is. */
static enum kt_status find_optional(const struct gguf *g, const char *key, bool is_array,
                                    struct kt_value *value, bool *found)
{
    enum kt_status status = kt_checkpoint_value_find(g->checkpoint, key, value, g->error);
    *found = status == KT_OK;
    if (status == KT_OK && value->is_array != is_array)
        return kt_engine_fail(g->error, KT_E_FORMAT, "%s: %s is %s array", g->tokenizer->source, key,
                              is_array ? "no" : "an");
    return status == KT_E_NOT_FOUND ? KT_OK : in_file(g, status);
}

/* A text, copied; leaves `text` as it is if there is no such key. */
static enum kt_status read_word(const struct gguf *g, const char *key, char *text, size_t size)
{
    struct kt_value value;
    const char *word;
    uint64_t at = 0, length;
    bool found;
    enum kt_status status = find_optional(g, key, false, &value, &found);
    if (status != KT_OK || !found)
        return status;
    status = next_text(g, &value, &at, &word, &length);
    if (status == KT_OK)
        snprintf(text, size, "%.*s", (int)(length < size ? length : size), word);
    return status;
}

static enum kt_status read_id(const struct gguf *g, const char *key, int32_t *id)
{
    struct kt_value value;
    uint64_t number;
    bool found;
    enum kt_status status = find_optional(g, key, false, &value, &found);
    if (status == KT_OK && found)
        status = in_file(g, kt_value_uint(&value, 0, &number, g->error));
    if (status != KT_OK || !found)
        return status;
    if (number >= g->tokenizer->vocab.n && number != UINT32_MAX) /* -1 as some files write it: none */
        return kt_engine_fail(g->error, KT_E_FORMAT, "%s: %s is %" PRIu64 ", but there are %zu tokens",
                              g->tokenizer->source, key, number, g->tokenizer->vocab.n);
    *id = number == UINT32_MAX ? -1 : (int32_t)number;
    return KT_OK;
}

static enum kt_status read_truth(const struct gguf *g, const char *key, bool *truth)
{
    struct kt_value value;
    int value_truth;
    bool found;
    enum kt_status status = find_optional(g, key, false, &value, &found);
    if (status != KT_OK || !found)
        return status;
    status = in_file(g, kt_value_bool(&value, 0, &value_truth, g->error));
    if (status == KT_OK)
        *truth = value_truth != 0;
    return status;
}

/* ---- tokens ---- */

/* Files do not say it of their tokens, as tokenizer.json does. */
static bool takes_space(const struct gguf *g, const char *text, uint64_t length, uint8_t type)
{
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < 3; i++)
        if (strlen(others[i]) == length && memcmp(others[i], text, length) == 0)
            return false;
    return g->is_phi3 && type != KT_TOKEN_NORMAL;
}

static enum kt_status add_found(const struct gguf *g, const char *text, uint64_t length, uint64_t id,
                                uint8_t type)
{
    struct kt_added_token token = {.text = (char *)(uintptr_t)text,
                                   .length = length,
                                   .id = (int32_t)id,
                                   .is_control = type != KT_TOKEN_USER,
                                   .rstrip = takes_space(g, text, length, type)};
    if (length == 0)
        return KT_OK;
    return in_file(g, kt_added_add(&g->tokenizer->added, &token, g->error));
}

static enum kt_status set_token(const struct gguf *g, uint64_t id, const char *text, uint64_t length,
                                uint8_t type)
{
    char bytes[MAX_TOKEN];
    size_t n;
    if (type == KT_TOKEN_CONTROL || type == KT_TOKEN_USER || type == KT_TOKEN_UNKNOWN) {
        enum kt_status status = add_found(g, text, length, id, type);
        if (status != KT_OK)
            return status;
    } else if (g->tokenizer->has_bytes && length <= sizeof(bytes) &&
               kt_byte_map_read(text, length, bytes, &n)) {
        return kt_tokenizer_set(g->tokenizer, id, bytes, n, type, g->error);
    }
    return kt_tokenizer_set(g->tokenizer, id, text, length, type, g->error);
}

static enum kt_status read_types(const struct gguf *g, uint64_t n, struct kt_value *types, bool *has_types)
{
    enum kt_status status = find_optional(g, KEY("token_type"), true, types, has_types);
    if (status != KT_OK)
        return status;
    if (*has_types && types->count != n)
        return kt_engine_fail(g->error, KT_E_FORMAT,
                              "%s: %" PRIu64 " tokens, but " KEY("token_type") " has %" PRIu64 " elements",
                              g->tokenizer->source, n, types->count);
    return KT_OK;
}

static enum kt_status read_tokens(const struct gguf *g)
{
    struct kt_value tokens, types;
    bool has_types;
    uint64_t at = 0;
    enum kt_status status = find_array(g, KEY("tokens"), &tokens);
    if (status == KT_OK)
        status = read_types(g, tokens.count, &types, &has_types);
    for (uint64_t id = 0; status == KT_OK && id < tokens.count; id++) {
        const char *text;
        uint64_t length, type = KT_TOKEN_NORMAL;
        status = next_text(g, &tokens, &at, &text, &length);
        if (status == KT_OK && has_types)
            status = in_file(g, kt_value_uint(&types, id, &type, g->error));
        if (status == KT_OK && (type == 0 || type > KT_TOKEN_BYTE))
            type = KT_TOKEN_NORMAL;
        if (status == KT_OK)
            status = set_token(g, id, text, length, (uint8_t)type);
    }
    if (status != KT_OK)
        return status;
    struct kt_vocab *vocab = &g->tokenizer->vocab;
    if (!kt_vocab_index(vocab, vocab->n))
        return kt_engine_fail(g->error, KT_E_NOMEM, "no memory for a vocabulary");
    for (uint32_t id = 0; id < vocab->n; id++)
        if (vocab->tokens[id].type == KT_TOKEN_NORMAL ||
            (vocab->tokens[id].type == KT_TOKEN_USER && !g->tokenizer->has_bytes))
            kt_vocab_enter(vocab, id);
    return KT_OK;
}

/* ---- byte pairs ---- */

/* A side of a merge as the vocabulary has it; `bytes` has room for it. */
static bool read_side(const struct gguf *g, const char *text, size_t length, char *bytes, size_t *n)
{
    if (g->tokenizer->has_bytes)
        return kt_byte_map_read(text, length, bytes, n);
    memcpy(bytes, text, length);
    *n = length;
    return true;
}

/* The pair "A B", of GPT-2's characters where symbols are bytes. */
static enum kt_status add_merge(const struct gguf *g, uint32_t rank, const char *text, uint64_t length)
{
    const struct kt_vocab *vocab = &g->tokenizer->vocab;
    char bytes[2 * MAX_TOKEN];
    size_t n_left, n_right;
    const char *space = length > 1 ? memchr(text + 1, ' ', length - 1) : NULL;
    int32_t left = -1, right = -1, both = -1;
    if (space && length < sizeof(bytes) && read_side(g, text, (size_t)(space - text), bytes, &n_left) &&
        read_side(g, space + 1, length - (size_t)(space + 1 - text), bytes + n_left, &n_right)) {
        left = kt_vocab_find_any(vocab, bytes, n_left);
        right = kt_vocab_find_any(vocab, bytes + n_left, n_right);
        both = kt_vocab_find_any(vocab, bytes, n_left + n_right);
    }
    if (left < 0 || right < 0 || both < 0)
        return kt_engine_fail(g->error, KT_E_FORMAT,
                              "%s: " KEY("merges") "[%" PRIu32 "], '%.*s', joins no tokens",
                              g->tokenizer->source, rank, (int)(length < 100 ? length : 100), text);
    kt_merges_add(&g->tokenizer->merges, left, right, rank, both);
    return KT_OK;
}

static enum kt_status read_merges(const struct gguf *g)
{
    struct kt_value merges;
    uint64_t at = 0;
    enum kt_status status = find_array(g, KEY("merges"), &merges);
    if (status == KT_OK && merges.count >= KT_MERGE_CONTROL)
        return kt_engine_fail(g->error, KT_E_FORMAT, "%s: more merges than are possible",
                              g->tokenizer->source);
    if (status == KT_OK && !kt_merges_create(&g->tokenizer->merges, merges.count))
        return kt_engine_fail(g->error, KT_E_NOMEM, "no memory for merges");
    for (uint32_t i = 0; status == KT_OK && i < merges.count; i++) {
        const char *text;
        uint64_t length;
        status = next_text(g, &merges, &at, &text, &length);
        if (status == KT_OK)
            status = add_merge(g, i, text, length);
    }
    return status;
}

/* `pre`: how the kind of vocabulary cuts words whatever the file says, or NULL. */
static enum kt_status load_bpe(const struct gguf *g, const char *pre)
{
    struct kt_tokenizer *t = g->tokenizer;
    char name[64] = "";
    enum kt_status status = pre ? KT_OK : read_word(g, KEY("pre"), name, sizeof(name));
    if (status == KT_OK && !pre && !name[0])
        return kt_engine_fail(g->error, KT_E_UNSUPPORTED,
                              "%s: it has no " KEY(
                                  "pre") ", so how it cuts words is unknown; convert it again",
                              t->source);
    t->order = KT_BPE_MERGES;
    if (status == KT_OK)
        status = kt_pre_set(t, pre ? pre : name, g->error);
    if (status == KT_OK)
        status = read_tokens(g);
    return status == KT_OK ? read_merges(g) : status;
}

/* ---- SentencePiece ---- */

static enum kt_status read_scores(const struct gguf *g)
{
    struct kt_tokenizer *t = g->tokenizer;
    struct kt_value scores;
    enum kt_status status = find_array(g, KEY("scores"), &scores);
    if (status == KT_OK && scores.count != t->vocab.n)
        return kt_engine_fail(g->error, KT_E_FORMAT,
                              "%s: %zu tokens, but " KEY("scores") " has %" PRIu64 " elements", t->source,
                              t->vocab.n, scores.count);
    if (status == KT_OK && !(t->scores = calloc(t->vocab.n + 1, sizeof(*t->scores))))
        return kt_engine_fail(g->error, KT_E_NOMEM, "no memory for scores");
    for (uint64_t i = 0; status == KT_OK && i < scores.count; i++) {
        double score = 0;
        status = in_file(g, kt_value_real(&scores, i, &score, g->error));
        if (status == KT_OK && isnan(score)) /* which comes neither before nor after another */
            status = kt_engine_fail(g->error, KT_E_FORMAT,
                                    "%s: " KEY("scores") "[%" PRIu64 "] is not a number", t->source, i);
        t->scores[i] = status == KT_OK ? (float)score : 0;
    }
    return status;
}

static enum kt_status load_spm(const struct gguf *g)
{
    struct kt_tokenizer *t = g->tokenizer;
    struct kt_norm_step *step;
    bool adds_space = true;
    t->kind = KT_TOKENIZER_SPM;
    t->order = KT_BPE_SCORES;
    t->fuses_unknown = true;
    t->adds_bos = true;
    enum kt_status status = read_truth(g, KEY("add_space_prefix"), &adds_space);
    if (status == KT_OK)
        status = read_tokens(g);
    if (status == KT_OK)
        status = read_scores(g);
    t->strips_space = adds_space;
    if (status == KT_OK && adds_space) {
        status = kt_normalizer_add(&t->normalizer, KT_NORM_PREPEND, &step, g->error);
        if (status == KT_OK && !kt_buffer_add_text(&step->text, "\xE2\x96\x81"))
            status = kt_engine_fail(g->error, KT_E_NOMEM, "no memory for a tokenizer");
    }
    if (status == KT_OK)
        status = kt_pre_write_spaces(t, g->error);
    t->unk = 0;
    return status;
}

/* ---- all of it ---- */

/* Keys "tokenizer.chat_template" and "tokenizer.chat_template.NAME". */
static enum kt_status read_chats(const struct gguf *g)
{
    static const char prefix[] = "tokenizer.chat_template";
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < kt_checkpoint_value_count(g->checkpoint) && status == KT_OK; i++) {
        struct kt_value value;
        const char *text;
        uint64_t at = 0, length;
        status = in_file(g, kt_checkpoint_value(g->checkpoint, i, &value, g->error));
        if (status != KT_OK || strncmp(value.key, prefix, sizeof(prefix) - 1) != 0 || value.is_array ||
            value.type != KT_VALUE_TEXT)
            continue;
        const char *name = value.key + sizeof(prefix) - 1;
        if (name[0] != '\0' && name[0] != '.')
            continue;
        status = next_text(g, &value, &at, &text, &length);
        if (status == KT_OK)
            status = kt_tokenizer_add_chat(g->tokenizer, name[0] ? name + 1 : "default", text, length,
                                           g->tokenizer->source, g->error);
    }
    return status;
}

static enum kt_status read_specials(const struct gguf *g)
{
    struct kt_tokenizer *t = g->tokenizer;
    int32_t ends[2] = {-1, -1};
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {{KEY("bos_token_id"), &t->bos},     {KEY("eos_token_id"), &t->eos},
               {KEY("unknown_token_id"), &t->unk}, {KEY("padding_token_id"), &t->pad},
               {KEY("eot_token_id"), &ends[0]},    {KEY("eom_token_id"), &ends[1]}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]) && status == KT_OK; i++)
        status = read_id(g, ids[i].key, ids[i].id);
    if (status == KT_OK)
        status = read_truth(g, KEY("add_bos_token"), &t->adds_bos);
    if (status == KT_OK)
        status = read_truth(g, KEY("add_eos_token"), &t->adds_eos);
    if (strcmp(t->pre, "gemma4") == 0) /* of which the first files say that it has none */
        t->adds_bos = true;
    for (int i = 0; i < 2 && status == KT_OK; i++)
        if (ends[i] >= 0)
            t->vocab.tokens[ends[i]].ends = 1;
    return status;
}

static enum kt_status read_name(struct gguf *g)
{
    char name[256] = "";
    enum kt_status status = read_word(g, "general.name", name, sizeof(name));
    g->is_phi3 = strcasestr(name, "phi-3") || strcasestr(name, "phi3") || strcasestr(name, "phi 3");
    return status;
}

enum kt_status kt_load_gguf(struct kt_tokenizer *tokenizer, struct kt_checkpoint *checkpoint,
                            struct kt_error *error)
{
    struct gguf g = {tokenizer, checkpoint, error, false};
    char model[64] = "";
    enum kt_status status = read_word(&g, KEY("model"), model, sizeof(model));
    if (status == KT_OK)
        status = read_name(&g);
    if (status != KT_OK)
        return status;
    if (!model[0])
        return kt_engine_fail(error, KT_E_NOT_FOUND, "%s: it has no vocabulary (no " KEY("model") ")",
                              tokenizer->source);
    if (strcmp(model, "gpt2") == 0)
        status = load_bpe(&g, NULL);
    else if (strcmp(model, "gemma4") == 0)
        status = load_bpe(&g, "gemma4");
    else if (strcmp(model, "llama") == 0)
        status = load_spm(&g);
    else
        return kt_engine_fail(
            error, KT_E_UNSUPPORTED,
            "%s: a vocabulary of the kind '%s'; gpt2 (byte pairs), gemma4 (pairs of characters) and llama "
            "(SentencePiece) can be read",
            tokenizer->source, model);
    if (status == KT_OK)
        status = read_specials(&g);
    return status == KT_OK ? read_chats(&g) : status;
}
