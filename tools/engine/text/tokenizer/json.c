/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - tokenizer.json: the vocabulary, the merges, the added tokens; json_steps.c has the rest. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/byte_map.h"
#include "tools/engine/text/tokenizer/load.h"

#include <inttypes.h>
#include <string.h>

/* Bytes of the longest token that is read; the longest known are runs of 1024 spaces. */
#define MAX_TOKEN 16384

/* ---- vocabulary ---- */

static bool is_byte_name(const char *text, size_t length)
{
    return length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           strspn(text + 3, "0123456789ABCDEF") == 2;
}

/* A key of the vocabulary; *known: text can become it. */
static enum kt_status set_token(struct kt_tokenizer *t, const char *text, size_t length, uint64_t id,
                                bool has_byte_names, bool *known, struct kt_error *error)
{
    char bytes[MAX_TOKEN];
    size_t n;
    *known = true;
    if (t->has_bytes) {
        if (length <= sizeof(bytes) && kt_byte_map_read(text, length, bytes, &n))
            return kt_tokenizer_set(t, id, bytes, n, KT_TOKEN_NORMAL, error);
        *known = false;
    }
    bool is_byte = has_byte_names && is_byte_name(text, length);
    return kt_tokenizer_set(t, id, text, length, is_byte ? KT_TOKEN_BYTE : KT_TOKEN_NORMAL, error);
}

static enum kt_status read_vocab(struct kt_tokenizer *t, json_t *vocab, bool has_byte_names,
                                 struct kt_error *error)
{
    const char *text;
    size_t length;
    json_t *id;
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: model.vocab is no object with tokens", t->source);
    if (!kt_vocab_index(&t->vocab, json_object_size(vocab)))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a vocabulary");
    json_object_keylen_foreach(vocab, text, length, id)
    {
        bool known;
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return kt_engine_fail(error, KT_E_FORMAT, "%s: model.vocab: '%.60s' has no id", t->source, text);
        enum kt_status status =
            set_token(t, text, length, (uint64_t)json_integer_value(id), has_byte_names, &known, error);
        if (status != KT_OK)
            return status;
        if (known)
            kt_vocab_enter(&t->vocab, (uint32_t)json_integer_value(id));
    }
    return KT_OK;
}

/* ---- merges ---- */

/* One side of a pair, as the vocabulary has it. */
static bool read_side(const struct kt_tokenizer *t, const char *text, size_t length, char *out, size_t room,
                      size_t *n)
{
    if (length > room)
        return false;
    if (t->has_bytes)
        return kt_byte_map_read(text, length, out, n);
    memcpy(out, text, length);
    *n = length;
    return true;
}

static bool read_sides(const struct kt_tokenizer *t, const struct kt_merge_sides *sides, char *bytes,
                       size_t *n_left, size_t *n_right)
{
    return read_side(t, sides->left, sides->left_length, bytes, MAX_TOKEN, n_left) &&
           read_side(t, sides->right, sides->right_length, bytes + *n_left, MAX_TOKEN, n_right);
}

/* Merge number i, whose sides are NULL where the file has something else. */
static enum kt_status add_merge(struct kt_tokenizer *t, uint32_t i, const struct kt_merge_sides *sides,
                                struct kt_error *error)
{
    char bytes[2 * MAX_TOKEN];
    size_t n_left, n_right;
    int32_t left = -1, right = -1, both = -1;
    if (sides && read_sides(t, sides, bytes, &n_left, &n_right)) {
        left = kt_vocab_find_any(&t->vocab, bytes, n_left);
        right = kt_vocab_find_any(&t->vocab, bytes + n_left, n_right);
        both = kt_vocab_find_any(&t->vocab, bytes, n_left + n_right);
    }
    if (left < 0 || right < 0 || both < 0)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s: model.merges[%" PRIu32 "] joins no tokens of the vocabulary", t->source,
                              i);
    if (t->vocab.tokens[both].type != KT_TOKEN_CONTROL) /* which only its whole text may become */
        kt_merges_add(&t->merges, left, right, i, both);
    return KT_OK;
}

static bool find_sides(const json_t *merge, struct kt_merge_sides *sides)
{
    if (json_is_string(merge))
        return kt_merge_sides_split(json_string_value(merge), json_string_length(merge), sides);
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *sides = (struct kt_merge_sides){json_string_value(left), json_string_value(right),
                                     json_string_length(left), json_string_length(right)};
    return true;
}

static enum kt_status create_merges(struct kt_tokenizer *t, size_t n, struct kt_error *error)
{
    kt_merges_free(&t->merges);
    return kt_merges_create(&t->merges, n) ? KT_OK
                                           : kt_engine_fail(error, KT_E_NOMEM, "no memory for merges");
}

static enum kt_status read_merges(struct kt_tokenizer *t, const json_t *merges, struct kt_error *error)
{
    size_t n = json_array_size(merges);
    if (!json_is_array(merges) || n >= UINT32_MAX)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: model.merges is no array", t->source);
    enum kt_status status = create_merges(t, n, error);
    for (uint32_t i = 0; i < n && status == KT_OK; i++) {
        struct kt_merge_sides sides;
        bool found = find_sides(json_array_get(merges, i), &sides);
        status = add_merge(t, i, found ? &sides : NULL, error);
    }
    return status;
}

/* What the text alone does not tell, as a tree. */
static enum kt_status read_merges_tree(struct kt_tokenizer *t, const struct kt_merges_text *text,
                                       struct kt_error *error)
{
    json_error_t place;
    json_t *merges = json_loadb(text->text, text->length, JSON_ALLOW_NUL, &place);
    if (!merges && json_error_code(&place) == json_error_out_of_memory)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for merges");
    if (!merges)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: model.merges, its line %d: %s", t->source, place.line,
                              place.text);
    enum kt_status status = read_merges(t, merges, error);
    json_decref(merges);
    return status;
}

static enum kt_status read_merges_text(struct kt_tokenizer *t, const struct kt_merges_text *text,
                                       struct kt_error *error)
{
    char room[2 * (MAX_TOKEN + 4)];
    struct kt_merges_reader reader = {.at = text->text, .end = text->text + text->length};
    struct kt_merge_sides sides;
    enum kt_merges_read found = KT_MERGES_PAIR;
    size_t n = kt_merges_count(text);
    enum kt_status status = create_merges(t, n, error);
    for (uint32_t i = 0; status == KT_OK; i++) {
        found = kt_merges_read(&reader, room, sizeof(room), &sides);
        if (found == KT_MERGES_END)
            return KT_OK;
        if (found == KT_MERGES_UNUSUAL || i == n)
            return read_merges_tree(t, text, error);
        status = add_merge(t, i, &sides, error);
    }
    return status;
}

/* ---- added tokens ---- */

static bool is_set(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

enum kt_status kt_load_added(struct kt_tokenizer *t, uint64_t id, const json_t *token, struct kt_error *error)
{
    const json_t *content = json_object_get(token, "content");
    struct kt_norm_room room = {.text = {{.data = NULL}}};
    struct kt_regex_room regexes = {.data = NULL};
    if (!json_is_string(content) || json_string_length(content) == 0 || id >= KT_VOCAB_MAX)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s: added token %" PRIu64 " has no content, or no such id is possible",
                              t->source, id);
    struct kt_added_token added = {.text = (char *)(uintptr_t)json_string_value(content),
                                   .length = json_string_length(content),
                                   .id = (int32_t)id,
                                   .is_control = is_set(token, "special"),
                                   .lstrip = is_set(token, "lstrip"),
                                   .rstrip = is_set(token, "rstrip"),
                                   .single_word = is_set(token, "single_word")};
    enum kt_status status = kt_tokenizer_set(t, id, added.text, added.length,
                                             added.is_control ? KT_TOKEN_CONTROL : KT_TOKEN_USER, error);
    if (status != KT_OK)
        return status;
    if (!is_set(token, "normalized"))
        return kt_added_add(&t->added, &added, error);
    struct kt_marked text = {added.text, NULL, added.length};
    if (!kt_regex_room_create(&regexes))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for added tokens");
    status = kt_normalize(&t->normalizer, &room, &regexes, true, text, &text, error);
    if (status == KT_OK) {
        added.text = (char *)(uintptr_t)text.text;
        added.length = text.length;
        status = kt_added_add(&t->added_normalized, &added, error);
    }
    if (status == KT_OK) /* decoded as it is found, as Hugging Face's tokenizers do */
        status = kt_tokenizer_show(t, (uint32_t)id, text.text, text.length, error);
    kt_regex_room_free(&regexes);
    kt_norm_room_free(&room);
    return status;
}

static enum kt_status read_added(struct kt_tokenizer *t, const json_t *list, struct kt_error *error)
{
    size_t i;
    json_t *token;
    json_array_foreach (list, i, token) {
        const json_t *id = json_object_get(token, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return kt_engine_fail(error, KT_E_FORMAT, "%s: added_tokens[%zu] has no id", t->source, i);
        enum kt_status status = kt_load_added(t, (uint64_t)json_integer_value(id), token, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

/* ---- all of it ---- */

static enum kt_status check_model(const struct kt_tokenizer *t, const json_t *model, struct kt_error *error)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type"), *dropout = json_object_get(model, "dropout");
    if (!json_is_object(model))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: it has no object 'model'", t->source);
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s: a model of the type '%.40s'; BPE can be read",
                              t->source, json_is_string(type) ? json_string_value(type) : "?");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) > 0)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s: model.dropout, which makes tokens by chance",
                              t->source);
    for (size_t i = 0; i < 2; i++) {
        const json_t *text = json_object_get(model, texts[i]);
        if (json_is_string(text) && json_string_length(text) > 0)
            return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s: model.%s", t->source, texts[i]);
    }
    return KT_OK;
}

/* The first and the last special token that a post_processor puts around a text. */
static void read_post(struct kt_tokenizer *t, const json_t *post, int depth)
{
    size_t i;
    json_t *inner;
    const json_t *single = json_object_get(post, "single");
    json_array_foreach (json_object_get(post, "processors"), i, inner) {
        if (depth < 4)
            read_post(t, inner, depth + 1);
    }
    size_t n = json_array_size(single);
    if (n < 2)
        return;
    const json_t *first = json_object_get(json_object_get(json_array_get(single, 0), "SpecialToken"), "id");
    const json_t *last =
        json_object_get(json_object_get(json_array_get(single, n - 1), "SpecialToken"), "id");
    if (json_is_string(first)) {
        t->adds_bos = true;
        t->bos = kt_tokenizer_find(t, json_string_value(first), json_string_length(first));
    }
    t->adds_eos |= json_is_string(last);
}

enum kt_status kt_load_json(struct kt_tokenizer *t, const json_t *root, const struct kt_merges_text *merges,
                            struct kt_error *error)
{
    const json_t *model = json_object_get(root, "model");
    enum kt_status status = check_model(t, model, error);
    if (status == KT_OK)
        status = kt_load_json_steps(t, root, error);
    if (status != KT_OK)
        return status;
    t->kind = t->has_bytes ? KT_TOKENIZER_BPE : KT_TOKENIZER_SPM;
    t->order = KT_BPE_MERGES;
    t->ignores_merges = is_set(model, "ignore_merges");
    t->fuses_unknown = is_set(model, "fuse_unk");
    status = read_vocab(t, json_object_get(model, "vocab"), is_set(model, "byte_fallback"), error);
    if (status == KT_OK)
        status = read_added(t, json_object_get(root, "added_tokens"), error);
    if (status == KT_OK)
        status = merges->text ? read_merges_text(t, merges, error)
                              : read_merges(t, json_object_get(model, "merges"), error);
    const json_t *unk = json_object_get(model, "unk_token");
    if (status == KT_OK && json_is_string(unk))
        t->unk = kt_tokenizer_find(t, json_string_value(unk), json_string_length(unk));
    if (status == KT_OK)
        read_post(t, json_object_get(root, "post_processor"), 0);
    return status;
}
