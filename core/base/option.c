/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/option.h"

#include "core/base/error.h"
#include "core/base/suggest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_LIMIT = 48, OPTION_LIMIT = 256, TEXT_LIMIT = 4096 };

const char *const kt_option_reserved[] = {"enabled", "module", "cpu", "level", "priority", NULL};

static bool parse_bool(const char *text, int64_t *number)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *number = (int64_t)(i % 2);
            return true;
        }
    }
    return false;
}

static bool parse_int(const char *text, int64_t *number)
{
    /* strtoll skips spaces and takes "+5"; a setting is written in one way only. */
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno != 0)
        return false;
    *number = value;
    return true;
}

static bool parse_enum(const char *choices, const char *text, int64_t *number)
{
    size_t length = strlen(text);
    int64_t index = 0;
    for (const char *at = choices;; at++, index++) {
        size_t width = strcspn(at, "|");
        if (width == length && memcmp(at, text, width) == 0) {
            *number = index;
            return true;
        }
        at += width;
        if (*at == '\0')
            return false;
    }
}

static enum kt_status refuse(const struct kt_option *option, const char *text, struct kt_error *error)
{
    char hint[KT_HINT_SIZE];
    switch (option->type) {
    case KT_OPTION_BOOL:
        return kt_fail(error, KT_E_CONFIG, "%s = \"%s\": must be yes or no (or true, false, on, off, 1, 0)",
                       option->key, text);
    case KT_OPTION_INT:
        return kt_fail(error, KT_E_CONFIG, "%s = \"%s\": must be a whole number from %" PRId64 " to %" PRId64,
                       option->key, text, option->minimum, option->maximum);
    case KT_OPTION_ENUM:
        return kt_fail(error, KT_E_CONFIG, "%s = \"%s\": must be one of %s%s%s", option->key, text,
                       option->choices[0] == '|' ? "\"\" (none)" : "", option->choices,
                       kt_hint(text, option->choices, hint, sizeof hint));
    case KT_OPTION_STRING:
        break;
    }
    return kt_fail(error, KT_E_CONFIG, "%s: option of unknown type %d", option->key, (int)option->type);
}

enum kt_status kt_option_parse(const struct kt_option *option, const char *text,
                               struct kt_option_value *value, struct kt_error *error)
{
    int64_t number = 0;
    bool good = false;
    switch (option->type) {
    case KT_OPTION_BOOL:
        good = parse_bool(text, &number);
        break;
    case KT_OPTION_INT:
        good = parse_int(text, &number) && number >= option->minimum && number <= option->maximum;
        break;
    case KT_OPTION_STRING:
        good = true;
        break;
    case KT_OPTION_ENUM:
        good = parse_enum(option->choices, text, &number);
        break;
    }
    if (!good)
        return refuse(option, text, error);
    value->text = text;
    value->number = number;
    return KT_OK;
}

const struct kt_option *kt_option_find(const struct kt_option *options, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    }
    return NULL;
}

bool kt_option_is_word(const char *text, size_t limit)
{
    size_t length = strlen(text);
    return length > 0 && length <= limit && !(text[0] >= '0' && text[0] <= '9') &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

bool kt_option_is_text(const char *text)
{
    return text && strnlen(text, TEXT_LIMIT) < TEXT_LIMIT;
}

static enum kt_status check_one(const struct kt_option *options, uint32_t index, struct kt_error *error)
{
    const struct kt_option *option = &options[index];
    if (!option->key || !kt_option_is_word(option->key, KEY_LIMIT))
        return kt_fail(error, KT_E_PLUGIN,
                       "its option %u has no valid key (lower-case letters, digits and _)", index);
    for (const char *const *word = kt_option_reserved; *word; word++) {
        if (strcmp(*word, option->key) == 0)
            return kt_fail(error, KT_E_PLUGIN, "its option \"%s\" has a name that is the core's own",
                           option->key);
    }
    if (kt_option_find(options, index, option->key))
        return kt_fail(error, KT_E_PLUGIN, "its option \"%s\" is there twice", option->key);
    if (!kt_option_is_text(option->default_text) || !kt_option_is_text(option->help))
        return kt_fail(error, KT_E_PLUGIN, "its option \"%s\" has no default or no help", option->key);
    if ((unsigned)option->type > KT_OPTION_ENUM)
        return kt_fail(error, KT_E_PLUGIN, "its option \"%s\" has the unknown type %u", option->key,
                       (unsigned)option->type);
    if (option->type == KT_OPTION_ENUM && !kt_option_is_text(option->choices))
        return kt_fail(error, KT_E_PLUGIN, "its option \"%s\" has no choices", option->key);
    struct kt_option_value value;
    if (kt_option_parse(option, option->default_text, &value, error) != KT_OK)
        return kt_fail_prefix(error, KT_E_PLUGIN, "the default of an option of its own is wrong");
    return KT_OK;
}

enum kt_status kt_option_check(const struct kt_option *options, uint32_t n, struct kt_error *error)
{
    if (n > OPTION_LIMIT || (n > 0 && !options))
        return kt_fail(error, KT_E_PLUGIN, "it declares %u options%s", n,
                       n > OPTION_LIMIT ? "; 256 are allowed" : ", but gives none");
    for (uint32_t i = 0; i < n; i++) {
        enum kt_status status = check_one(options, i, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}
