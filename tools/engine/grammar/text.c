/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - grammars of whole answers that are not JSON: what a regular expression, a list or rules describe.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/pattern.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- regular expressions ---- */

static uint32_t write_regex(struct kt_form_reader *reader, const char *text, uint32_t next)
{
    struct kt_program alone, *program = reader->program;
    bool looks = strncmp(text, "(?=", 3) == 0 || strncmp(text, "(?!", 3) == 0;
    char *whole = kt_regex_whole(text), *own = malloc(strlen(text) + 2);
    uint32_t op = 0;
    if (!whole || !own)
        kt_form_no_memory(reader);
    else /* what looks ahead does so from the beginning */
        (void)strcpy(stpcpy(own, looks ? "^" : ""), text);
    kt_program_init(&alone); /* "a)(b" is wrong, though "(a)(b)" is not */
    reader->program = &alone;
    if (whole && own)
        (void)kt_form_pattern(reader, own, NULL, 0, UINT32_MAX, kt_op_return(&alone));
    reader->program = program;
    kt_program_free(&alone);
    reader->is_raw = true;
    program->quote = KT_GRAMMAR_BARE;
    if (reader->status == KT_OK)
        op = kt_form_pattern(reader, whole, NULL, 0, UINT32_MAX, next);
    free(whole);
    free(own);
    return op;
}

/* ---- lists ---- */

static uint32_t write_choice(struct kt_form_reader *reader, const char *text, uint64_t length, uint32_t next)
{
    json_error_t where;
    json_t *list = json_loadb(text, length, 0, &where), *one;
    size_t i, n = json_array_size(list);
    char **texts = calloc(n + 1, sizeof(*texts));
    uint32_t op = 0;
    bool done = texts || kt_form_no_memory(reader);
    if (done && n == 0)
        done = kt_form_fail(reader, KT_E_FORMAT, NULL, "this must be a list of strings, one at least");
    json_array_foreach (list, i, one) {
        if (done && !json_is_string(one))
            done = kt_form_fail(reader, KT_E_FORMAT, NULL, "number %zu is no string", i);
        if (done)
            texts[i] = (char *)(uintptr_t)json_string_value(one);
    }
    if (done)
        op = kt_form_choose(reader, NULL, texts, n, next);
    free(texts);
    json_decref(list);
    return op;
}

/* ---- any of them ---- */

enum kt_status kt_grammar_text(uint32_t kind, const char *text, uint64_t length,
                               const struct kt_grammar_params *params, struct kt_grammar **grammar,
                               struct kt_error *error)
{
    static const char *const subjects[] = {"the regular expression", "the choice", "the grammar"};
    struct kt_grammar *made = NULL;
    if (!grammar || !text || kind > KT_GRAMMAR_RULES)
        return kt_engine_fail(error, KT_E_INVALID, "kt_grammar_text: %s",
                              kind > KT_GRAMMAR_RULES ? "kind is not an enum kt_grammar_kind"
                                                      : "grammar or text is NULL");
    if (kt_utf8_valid(text, length) != length)
        return kt_engine_fail(error, KT_E_FORMAT, "%s is not UTF-8", subjects[kind]);
    if (memchr(text, 0, length))
        return kt_engine_fail(error, KT_E_FORMAT, "%s holds a zero byte", subjects[kind]);
    enum kt_status status = kt_grammar_open(params, "kt_grammar_text", &made, error);
    char *copy = status == KT_OK ? strndup(text, length) : NULL;
    if (status == KT_OK && !copy)
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for a grammar");
    if (status == KT_OK) {
        struct kt_form_reader reader = {.program = &made->program, .error = error, .subject = subjects[kind]};
        uint32_t end = kt_op_return(&made->program), body;
        made->program.quote = KT_GRAMMAR_BARE;
        body = kind == KT_GRAMMAR_REGEX    ? write_regex(&reader, copy, end)
               : kind == KT_GRAMMAR_CHOICE ? write_choice(&reader, copy, length, end)
                                           : kt_form_rules(&reader, copy, end);
        status = kt_grammar_finish(made, kt_grammar_exact(&made->program, params, body), &reader);
    }
    free(copy);
    if (status == KT_OK)
        *grammar = made;
    else
        kt_grammar_destroy(made);
    return status;
}
