/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/engine/launch/words.h"

#include "tools/engine/base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void no_memory(const struct kt_words *words) __attribute__((noreturn));
static void no_memory(const struct kt_words *words)
{
    exit(kt_cli_error(words->cli, "out of memory"));
}

static void add(struct kt_words *words, const char *format, va_list arguments)
{
    char *text;
    const char **grown = kt_array_grow((void *)words->word, &words->capacity, words->n + 2, sizeof(*grown));
    if (!grown || vasprintf(&text, format, arguments) < 0)
        no_memory(words);
    words->word = grown;
    grown[words->n++] = text;
    grown[words->n] = NULL;
}

void kt_words_add(struct kt_words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(words, format, arguments);
    va_end(arguments);
}

/* Is the word one of the names, alone or with "=value"? */
static bool is_named(const char *word, const char *names)
{
    size_t length = strcspn(word, "=");
    for (const char *name = names; *name; name += strspn(name, " ")) {
        size_t n = strcspn(name, " ");
        if (n == length && strncmp(word, name, n) == 0)
            return true;
        name += n;
    }
    return false;
}

const char *kt_words_users(const struct kt_words *words, const char *names)
{
    const char *found = NULL;
    for (size_t i = 0; i < words->n_users; i++) {
        const char *word = words->users[i], *equals = strchr(word, '=');
        if (!is_named(word, names))
            continue;
        bool has_value = i + 1 < words->n_users && strncmp(words->users[i + 1], "--", 2) != 0;
        found = equals ? equals + 1 : has_value ? words->users[i + 1] : "";
    }
    return found;
}

void kt_words_option(struct kt_words *words, const char *names, const char *format, ...)
{
    va_list arguments;
    if (kt_words_users(words, names))
        return;
    kt_words_add(words, "%.*s", (int)strcspn(names, " "), names);
    if (!format)
        return;
    va_start(arguments, format);
    add(words, format, arguments);
    va_end(arguments);
}

void kt_words_finish(struct kt_words *words)
{
    for (size_t i = 0; i < words->n_users; i++)
        kt_words_add(words, "%s", words->users[i]);
}

/* A word of other characters is put into single quotes, where only these themselves are special. */
static bool quote(struct kt_buffer *buffer, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=,@%";
    if (*word && word[strspn(word, plain)] == '\0')
        return kt_buffer_add_text(buffer, word);
    bool ok = kt_buffer_add_text(buffer, "'");
    for (; ok && *word; word++)
        ok = *word == '\'' ? kt_buffer_add_text(buffer, "'\\''") : kt_buffer_add(buffer, word, 1);
    return ok && kt_buffer_add_text(buffer, "'");
}

char *kt_words_quote(const struct kt_words *words, bool hides_keys)
{
    static const char keys[] = "--api-key --admin-api-key";
    struct kt_buffer buffer = {.data = NULL};
    for (size_t i = 0; i < words->n; i++) {
        const char *word = words->word[i];
        if (hides_keys && i > 0 && is_named(words->word[i - 1], keys) && !strchr(words->word[i - 1], '='))
            word = "KEY";
        else if (hides_keys && is_named(word, keys) && strchr(word, '='))
            word = "--api-key=KEY";
        if ((i > 0 && !kt_buffer_add_text(&buffer, " ")) || !quote(&buffer, word))
            no_memory(words);
    }
    if (!kt_buffer_add(&buffer, "", 1))
        no_memory(words);
    return buffer.data;
}

void kt_words_free(struct kt_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        free((char *)(uintptr_t)words->word[i]);
    free((void *)words->word);
}
