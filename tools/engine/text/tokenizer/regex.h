/* SPDX-License-Identifier: Apache-2.0 */
/* regex.h - regular expressions as tokenizer.json has them: Oniguruma's, which PCRE2 runs after a few
 * changes. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_REGEX_H
#define KT_ENGINE_TEXT_TOKENIZER_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <kt/types.h>
#include <pcre2.h>
#include <stdbool.h>

struct kt_regex {
    pcre2_code *code;
    bool is_compiled; /**< to machine code */
};

/** What one thread matches in; all zero is none yet. */
struct kt_regex_room {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/** Compiles pattern[0 .. length - 1]. KT_E_UNSUPPORTED names what PCRE2 would read in another way, or does
 * not take. */
enum kt_status kt_regex_create(const char *pattern, size_t length, struct kt_regex *regex,
                               struct kt_error *error);
void kt_regex_free(struct kt_regex *regex);

/** False: no memory. */
bool kt_regex_room_create(struct kt_regex_room *room);
void kt_regex_room_free(struct kt_regex_room *room);

/** The first match from byte `at` of text, which is UTF-8: its bytes are begin .. end - 1. *found is false
 * where there is none. KT_E_RANGE: it takes too many steps. */
enum kt_status kt_regex_find(const struct kt_regex *regex, struct kt_regex_room *room, const char *text,
                             size_t length, size_t at, bool *found, size_t *begin, size_t *end,
                             struct kt_error *error);

#endif
