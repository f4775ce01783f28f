/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - a command line, word by word. */
#ifndef KT_ENGINE_LAUNCH_WORDS_H
#define KT_ENGINE_LAUNCH_WORDS_H

#include "tools/kt/base/cli.h"

/* Words that are put together from computed options, and those that the user has after `--`, which win. */
struct kt_words {
    const struct kt_cli *cli;
    char *const *users; /* not owned */
    size_t n_users;
    const char **word; /* owned, with the texts, and NULL behind them */
    size_t n, capacity;
};

void kt_words_add(struct kt_words *words, const char *format, ...) KT_PRINTF(2, 3);

/* The value that the user has for an option, "" for one without; NULL: none. `names` are its names, "--tp
 * --tp-size", of which the first is the one that is added here. */
const char *kt_words_users(const struct kt_words *words, const char *names);

/* Adds an option, and its value unless `format` is NULL, where the user has none. */
void kt_words_option(struct kt_words *words, const char *names, const char *format, ...) KT_PRINTF(3, 4);

/* Adds what the user has. */
void kt_words_finish(struct kt_words *words);

/* As a shell reads it: one line; where others may read it, without API keys. Returns text; free(). */
char *kt_words_quote(const struct kt_words *words, bool hides_keys);

void kt_words_free(struct kt_words *words);

#endif
