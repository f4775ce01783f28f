/* SPDX-License-Identifier: Apache-2.0 */
/* json_steps.c - normalizer, pre_tokenizer and decoder of a tokenizer.json. What is not computed as Hugging
 * Face's tokenizers do is refused by its name. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/load.h"

#include <ctype.h>
#include <string.h>

#define MAX_DEPTH 8

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "?";
}

static bool is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static enum kt_status refuse(const struct kt_tokenizer *t, const char *what, const json_t *object,
                             struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s: a %s of the type '%.60s', which is not computed here",
                          t->source, what, type_of(object));
}

static bool copy_text(const json_t *text, struct kt_buffer *out)
{
    return json_is_string(text) && kt_buffer_add(out, json_string_value(text), json_string_length(text)) &&
           kt_buffer_add_text(out, "");
}

/* ---- normalizer ---- */

static enum kt_status add_form(struct kt_tokenizer *t, enum kt_norm_kind kind, struct kt_error *error)
{
    struct kt_norm_step *step;
    return kt_normalizer_add(&t->normalizer, kind, &step, error);
}

static enum kt_status add_replace(struct kt_tokenizer *t, const json_t *object, struct kt_error *error)
{
    struct kt_norm_step *step;
    const json_t *pattern = json_object_get(object, "pattern"), *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    enum kt_status status = kt_normalizer_add(&t->normalizer, KT_NORM_REPLACE, &step, error);
    if (status != KT_OK)
        return status;
    if (!copy_text(json_object_get(object, "content"), &step->text))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: a Replace without content", t->source);
    if (json_is_string(regex))
        return kt_regex_create(json_string_value(regex), json_string_length(regex), &step->regex, error);
    if (!json_is_string(string) || json_string_length(string) == 0 || !copy_text(string, &step->what))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: a Replace without pattern", t->source);
    return KT_OK;
}

static enum kt_status read_normalizer(struct kt_tokenizer *t, const json_t *object, int depth,
                                      struct kt_error *error)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *type = type_of(object);
    enum kt_status status = KT_OK;
    struct kt_norm_step *step;
    size_t i;
    json_t *inner;
    if (!object || json_is_null(object))
        return KT_OK;
    for (i = 0; i < 4; i++)
        if (strcmp(type, forms[i]) == 0)
            return add_form(t, (enum kt_norm_kind)(KT_NORM_NFC + (int)i), error);
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        json_array_foreach (json_object_get(object, "normalizers"), i, inner) {
            status = status == KT_OK ? read_normalizer(t, inner, depth + 1, error) : status;
        }
        return status;
    }
    if (strcmp(type, "Replace") == 0)
        return add_replace(t, object, error);
    if (strcmp(type, "Prepend") == 0) {
        status = kt_normalizer_add(&t->normalizer, KT_NORM_PREPEND, &step, error);
        if (status == KT_OK && !copy_text(json_object_get(object, "prepend"), &step->text))
            return kt_engine_fail(error, KT_E_FORMAT, "%s: a Prepend without text", t->source);
        return status;
    }
    if (strcmp(type, "Strip") == 0) {
        status = kt_normalizer_add(&t->normalizer, KT_NORM_STRIP, &step, error);
        if (status == KT_OK) {
            step->left = is_true(object, "strip_left");
            step->right = is_true(object, "strip_right");
        }
        return status;
    }
    return refuse(t, "normalizer", object, error);
}

/* ---- pre_tokenizer ---- */

static const char gpt2_words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* A text that is looked for as it stands, as a regular expression. */
static bool quote(const json_t *text, struct kt_buffer *out)
{
    const char *at = json_string_value(text), *end = at + json_string_length(text);
    bool taken = true;
    for (; at < end && taken; at++) {
        if ((unsigned char)*at < 0x80 && !isalnum((unsigned char)*at))
            taken = kt_buffer_add(out, "\\", 1);
        taken = taken && kt_buffer_add(out, at, 1);
    }
    return taken;
}

/* What becomes of matches, by the name that files have for it. */
static enum kt_status read_behavior(const struct kt_tokenizer *t, const json_t *object,
                                    enum kt_split_behavior *behavior, struct kt_error *error)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char *name = json_string_value(json_object_get(object, "behavior"));
    for (int i = 0; name && i < 5; i++) {
        *behavior = (enum kt_split_behavior)i;
        if (strcmp(names[i], name) == 0)
            return KT_OK;
    }
    return kt_engine_fail(error, KT_E_FORMAT, "%s: a %s with the behavior '%.40s'", t->source,
                          type_of(object), name ? name : "?");
}

static enum kt_status read_split(struct kt_tokenizer *t, const json_t *object, struct kt_error *error)
{
    const json_t *pattern = json_object_get(object, "pattern"), *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    enum kt_split_behavior behavior;
    if (!json_is_string(regex) && !json_is_string(string))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: a Split without pattern", t->source);
    enum kt_status status = read_behavior(t, object, &behavior, error);
    if (status != KT_OK)
        return status;
    if (json_is_string(regex))
        return kt_split_add(&t->splitter, json_string_value(regex), json_string_length(regex), behavior,
                            is_true(object, "invert"), error);
    struct kt_buffer quoted = {.data = NULL};
    status = KT_E_NOMEM;
    if (quote(string, &quoted))
        status = kt_split_add(&t->splitter, quoted.data ? quoted.data : "", quoted.length, behavior,
                              is_true(object, "invert"), error);
    else
        (void)kt_engine_fail(error, status, "no memory for a tokenizer");
    kt_buffer_free(&quoted);
    return status;
}

/* Puts a text before each piece that does not begin with it. */
static enum kt_status add_before(struct kt_tokenizer *t, const char *text, size_t length, bool first_only,
                                 struct kt_error *error)
{
    struct kt_norm_step *step;
    enum kt_status status = kt_normalizer_add(&t->piece_steps, KT_NORM_PREPEND, &step, error);
    if (status != KT_OK)
        return status;
    step->unless_there = true;
    step->first_only = first_only;
    if (!kt_buffer_add(&step->text, text, length))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a tokenizer");
    return KT_OK;
}

static enum kt_status read_bytes(struct kt_tokenizer *t, const json_t *object, struct kt_error *error)
{
    const json_t *uses_regex = json_object_get(object, "use_regex");
    enum kt_status status = KT_OK;
    t->has_bytes = true;
    if (is_true(object, "add_prefix_space")) {
        if (t->splitter.n > 0)
            return kt_engine_fail(error, KT_E_UNSUPPORTED,
                                  "%s: ByteLevel with add_prefix_space after other steps", t->source);
        status = add_before(t, " ", 1, false, error);
    }
    if (status != KT_OK || (uses_regex && !json_is_true(uses_regex)))
        return status;
    return kt_split_add(&t->splitter, gpt2_words, sizeof(gpt2_words) - 1, KT_SPLIT_ISOLATED, false, error);
}

/* Unicode's punctuation and the rest of ASCII's signs. */
static enum kt_status read_punctuation(struct kt_tokenizer *t, const json_t *object, struct kt_error *error)
{
    static const char pattern[] = "[\\p{P}!-/:-@\\[-`{-~]";
    enum kt_split_behavior behavior = KT_SPLIT_ISOLATED;
    enum kt_status status =
        json_object_get(object, "behavior") ? read_behavior(t, object, &behavior, error) : KT_OK;
    return status == KT_OK ? kt_split_add(&t->splitter, pattern, sizeof(pattern) - 1, behavior, false, error)
                           : status;
}

/* Metaspace's scheme, in newer files by name, in older ones by a truth. */
static const char *read_scheme(const json_t *object)
{
    const char *scheme = json_string_value(json_object_get(object, "prepend_scheme"));
    const json_t *adds = json_object_get(object, "add_prefix_space");
    return scheme ? scheme : json_is_false(adds) ? "never" : "always";
}

static enum kt_status read_metaspace(struct kt_tokenizer *t, const json_t *object, struct kt_error *error)
{
    const json_t *mark = json_object_get(object, "replacement"), *splits = json_object_get(object, "split");
    const char *scheme = read_scheme(object);
    struct kt_norm_step *step;
    if (t->splitter.n > 0 || !json_is_string(mark) || json_string_length(mark) == 0)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "%s: Metaspace after other steps or without replacement", t->source);
    enum kt_status status = kt_normalizer_add(&t->piece_steps, KT_NORM_REPLACE, &step, error);
    if (status == KT_OK && !(kt_buffer_add_text(&step->what, " ") && copy_text(mark, &step->text)))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for a tokenizer");
    if (status == KT_OK && strcmp(scheme, "never") != 0)
        status = add_before(t, json_string_value(mark), json_string_length(mark),
                            strcmp(scheme, "first") == 0, error);
    if (status != KT_OK || json_is_false(splits))
        return status;
    return kt_split_add(&t->splitter, json_string_value(mark), json_string_length(mark),
                        KT_SPLIT_MERGED_WITH_NEXT, false, error);
}

static enum kt_status read_pre(struct kt_tokenizer *t, const json_t *object, int depth,
                               struct kt_error *error)
{
    const char *type = type_of(object);
    enum kt_status status = KT_OK;
    size_t i;
    json_t *inner;
    if (!object || json_is_null(object))
        return KT_OK;
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        json_array_foreach (json_object_get(object, "pretokenizers"), i, inner) {
            status = status == KT_OK ? read_pre(t, inner, depth + 1, error) : status;
        }
        return status;
    }
    if (t->has_bytes)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s: a pre_tokenizer, %.60s, behind ByteLevel",
                              t->source, type);
    if (strcmp(type, "Split") == 0)
        return read_split(t, object, error);
    if (strcmp(type, "ByteLevel") == 0)
        return read_bytes(t, object, error);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(t, object, error);
    if (strcmp(type, "Digits") == 0) {
        bool alone = is_true(object, "individual_digits");
        return kt_split_add(&t->splitter, "\\p{N}", 5, alone ? KT_SPLIT_ISOLATED : KT_SPLIT_CONTIGUOUS, false,
                            error);
    }
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(t, object, error);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return kt_split_add(&t->splitter, "\\s", 2, KT_SPLIT_REMOVED, false, error);
    return refuse(t, "pre_tokenizer", object, error);
}

/* ---- decoder ---- */

/* Does it drop the space that a normalizer or Metaspace has put before the text? */
static bool drops_space(const json_t *object, int depth)
{
    const char *type = type_of(object);
    size_t i;
    json_t *inner;
    if (strcmp(type, "Strip") == 0) {
        const char *content = json_string_value(json_object_get(object, "content"));
        return content && strcmp(content, " ") == 0 &&
               json_integer_value(json_object_get(object, "start")) == 1;
    }
    if (strcmp(type, "Metaspace") == 0)
        return strcmp(read_scheme(object), "never") != 0;
    json_array_foreach (json_object_get(object, "decoders"), i, inner) {
        if (depth < MAX_DEPTH && drops_space(inner, depth + 1))
            return true;
    }
    return false;
}

enum kt_status kt_load_json_steps(struct kt_tokenizer *t, const json_t *root, struct kt_error *error)
{
    (void)strcpy(t->pre, "custom");
    enum kt_status status = read_normalizer(t, json_object_get(root, "normalizer"), 0, error);
    if (status == KT_OK)
        status = read_pre(t, json_object_get(root, "pre_tokenizer"), 0, error);
    t->strips_space = drops_space(json_object_get(root, "decoder"), 0);
    if (!t->has_bytes)
        t->pre[0] = '\0';
    return status;
}
