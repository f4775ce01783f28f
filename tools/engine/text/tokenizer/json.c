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
        return kt_engine_fail(error, KT_E_FORMAT, "%s: model.vocab is not an object with tokens", t->source);
    if (!kt_vocab_index(&t->vocab, json_object_size(vocab)))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a vocabulary");
    json_object_keylen_foreach(vocab, text, length, id)
    {
        bool known;
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return kt_engine_fail(error, KT_E_FORMAT, "%s: model.vocab: '%.60s' has no id", t->source, text);
        if ((uint64_t)json_integer_value(id) < t->vocab.n &&
            t->vocab.tokens[json_integer_value(id)].type != 0)
            return kt_engine_fail(error, KT_E_UNSUPPORTED,
                                  "%s: model.vocab: '%.60s' has the id of another token", t->source, text);
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
    if (!json_is_array(merges) || n >= KT_MERGE_CONTROL)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: model.merges is not an array", t->source);
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

/* Is the content of an added token the vocabulary's own text of its id? */
static bool is_own_text(const struct kt_tokenizer *t, const struct kt_added_token *added)
{
    const struct kt_vocab_token *token = &t->vocab.tokens[added->id];
    const char *text = kt_vocab_text(&t->vocab, (uint32_t)added->id);
    char bytes[MAX_TOKEN];
    size_t n;
    if (token->length == added->length && memcmp(text, added->text, added->length) == 0)
        return true;
    return t->has_bytes && added->length <= sizeof(bytes) &&
           kt_byte_map_read(added->text, added->length, bytes, &n) && n == token->length &&
           memcmp(text, bytes, n) == 0;
}

/* The added token's id is in the vocabulary: its text stays, which words are looked up by and merges join. */
static enum kt_status enter_added(struct kt_tokenizer *t, const struct kt_added_token *added,
                                  struct kt_error *error)
{
    uint8_t type = added->is_control ? KT_TOKEN_CONTROL : KT_TOKEN_USER;
    if ((size_t)added->id >= t->vocab.n || t->vocab.tokens[added->id].type == 0)
        return kt_tokenizer_set(t, (uint64_t)added->id, added->text, added->length, type, error);
    t->vocab.tokens[added->id].type = type;
    return is_own_text(t, added)
               ? KT_OK
               : kt_tokenizer_show(t, (uint32_t)added->id, added->text, added->length, error);
}

/* Adds a token that is found in normalized text. */
static enum kt_status add_normalized(struct kt_tokenizer *t, struct kt_added_token added,
                                     struct kt_error *error)
{
    struct kt_norm_room room = {.text = {{.data = NULL}}};
    struct kt_regex_room regexes = {.data = NULL};
    struct kt_marked text = {added.text, NULL, added.length};
    struct kt_norm_place place = {true, true, true};
    if (!kt_regex_room_create(&regexes))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for added tokens");
    enum kt_status status = kt_normalize(&t->normalizer, &room, &regexes, &place, text, &text, error);
    bool is_same = text.length == added.length && memcmp(text.text, added.text, added.length) == 0;
    if (status == KT_OK) {
        added.text = (char *)(uintptr_t)text.text;
        added.length = text.length;
        status = kt_added_add(&t->added_normalized, &added, error);
    }
    if (status == KT_OK && !is_same) /* decoded as it is found, as Hugging Face's tokenizers do */
        status = kt_tokenizer_show(t, (uint32_t)added.id, text.text, text.length, error);
    kt_regex_room_free(&regexes);
    kt_norm_room_free(&room);
    return status;
}

enum kt_status kt_load_added(struct kt_tokenizer *t, uint64_t id, const json_t *token, struct kt_error *error)
{
    const json_t *content = json_object_get(token, "content");
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
    enum kt_status status = enter_added(t, &added, error);
    if (status != KT_OK)
        return status;
    return is_set(token, "normalized") ? add_normalized(t, added, error)
                                       : kt_added_add(&t->added, &added, error);
}

/* Ids of added tokens as Hugging Face's tokenizers give them, whatever the file says: that of the
 * vocabulary's token with this text, or else the next one. */
struct added_ids {
    const json_t *vocab;
    uint64_t next;
};

static uint64_t choose_id(struct added_ids *ids, const char *text, size_t length, bool *is_known)
{
    const json_t *known = json_object_getn(ids->vocab, text, length);
    uint64_t size = json_object_size(ids->vocab);
    uint64_t id = known ? (uint64_t)json_integer_value(known) : ids->next > size ? ids->next : size;
    if (id >= ids->next)
        ids->next = id + 1;
    *is_known = known != NULL;
    return id;
}

/* Tokens with one text, of which tokenizers takes some from the first and some from the last. */
static enum kt_status check_again(const struct kt_tokenizer *t, const json_t *token, const json_t *before,
                                  struct kt_error *error)
{
    static const char *const flags[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        if (is_set(token, flags[i]) != is_set(before, flags[i]))
            return kt_engine_fail(error, KT_E_UNSUPPORTED,
                                  "%s: two added tokens are '%.60s', and one of them is %s", t->source,
                                  json_string_value(json_object_get(token, "content")), flags[i]);
    return KT_OK;
}

static enum kt_status add_next(struct kt_tokenizer *t, struct added_ids *ids, const json_t *token,
                               struct kt_error *error)
{
    const json_t *content = json_object_get(token, "content");
    bool is_known;
    uint64_t id = choose_id(ids, json_string_value(content), json_string_length(content), &is_known);
    if (!is_known && id < t->vocab.n && t->vocab.tokens[id].type != 0)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "%s: model.vocab has holes, and the added token '%.60s' gets the id %" PRIu64
                              " of another one",
                              t->source, json_string_value(content), id);
    return kt_load_added(t, id, token, error);
}

static enum kt_status read_added(struct kt_tokenizer *t, const json_t *vocab, const json_t *list,
                                 struct kt_error *error)
{
    struct added_ids ids = {vocab, 0};
    json_t *seen = json_object(), *token;
    enum kt_status status = KT_OK;
    size_t i;
    json_array_foreach (list, i, token) {
        const json_t *id = json_object_get(token, "id"), *content = json_object_get(token, "content");
        const char *text = json_string_value(content);
        size_t length = json_string_length(content);
        const json_t *before = text ? json_object_getn(seen, text, length) : NULL;
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            status = kt_engine_fail(error, KT_E_FORMAT, "%s: added_tokens[%zu] has no id", t->source, i);
        else if (before)
            status = check_again(t, token, before, error);
        else if (length == 0) /* which fails */
            status = kt_load_added(t, (uint64_t)json_integer_value(id), token, error);
        else if (json_object_setn(seen, text, length, token) != 0)
            status = kt_engine_fail(error, KT_E_NOMEM, "no memory for added tokens");
        else
            status = add_next(t, &ids, token, error);
        if (status != KT_OK)
            break;
    }
    json_decref(seen);
    return status;
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

/* Of a character that stands for a missing byte tokenizers takes the bytes: none does so on purpose. */
static enum kt_status check_bytes(const struct kt_tokenizer *t, struct kt_error *error)
{
    for (int byte = 0; byte < 256 && t->has_bytes; byte++) {
        char text = (char)byte;
        if (kt_vocab_find_any(&t->vocab, &text, 1) < 0)
            return kt_engine_fail(error, KT_E_UNSUPPORTED,
                                  "%s: ByteLevel with byte_fallback, and no token of the byte 0x%02X",
                                  t->source, (unsigned)byte);
    }
    return KT_OK;
}

static void read_unknown(struct kt_tokenizer *t, const json_t *vocab, const json_t *unk)
{
    if (!json_is_string(unk))
        return;
    const json_t *id = json_object_getn(vocab, json_string_value(unk), json_string_length(unk));
    t->unk = id ? (int32_t)json_integer_value(id)
                : kt_tokenizer_find(t, json_string_value(unk), json_string_length(unk));
}

enum kt_status kt_load_json(struct kt_tokenizer *t, const json_t *root, const struct kt_merges_text *merges,
                            struct kt_error *error)
{
    const json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    enum kt_status status = check_model(t, model, error);
    if (status == KT_OK)
        status = kt_load_json_steps(t, root, error);
    if (status != KT_OK)
        return status;
    t->kind = t->has_bytes ? KT_TOKENIZER_BPE : KT_TOKENIZER_SPM;
    t->order = KT_BPE_MERGES;
    t->ignores_merges = is_set(model, "ignore_merges");
    t->fuses_unknown = is_set(model, "fuse_unk");
    status = read_vocab(t, vocab, is_set(model, "byte_fallback"), error);
    if (status == KT_OK && is_set(model, "byte_fallback"))
        status = check_bytes(t, error);
    if (status == KT_OK)
        status = read_added(t, vocab, json_object_get(root, "added_tokens"), error);
    if (status == KT_OK)
        status = merges->text ? read_merges_text(t, merges, error)
                              : read_merges(t, json_object_get(model, "merges"), error);
    if (status == KT_OK)
        read_unknown(t, vocab, json_object_get(model, "unk_token"));
    if (status == KT_OK)
        read_post(t, json_object_get(root, "post_processor"), 0);
    return status;
}
