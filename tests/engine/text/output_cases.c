/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/text/output_cases.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *output_read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file, "%s cannot be opened", path);
    char *text = NULL;
    size_t length = 0, more = 0;
    do {
        text = realloc(text, length + 65537);
        ck_assert_ptr_nonnull(text);
        more = fread(text + length, 1, 65536, file);
        length += more;
    } while (more);
    (void)fclose(file);
    text[length] = '\0';
    return text;
}

static char *data_path(const char *name, const char *suffix)
{
    static char path[4096];
    const char *folder = getenv("KT_TEST_SOURCE");
    ck_assert_msg(folder, "KT_TEST_SOURCE names the source tree");
    (void)snprintf(path, sizeof path, "%s/tests/data/output/%s%s", folder, name, suffix);
    return path;
}

/* Cuts the word out of a case's name. */
static bool take_flag(char *name, const char *flag)
{
    char *at = strstr(name, flag);
    if (at)
        *at = '\0';
    return at;
}

/* One case, from behind its "== "; returns what follows it. */
static char *read_case(char *text, uint32_t format, struct output_case *one)
{
    char *end = strchr(text, '\n');
    *one = (struct output_case){.name = text, .format = format, .input = end + 1};
    char *line = strncmp(end, "\n--\n", 4) == 0 ? end : strstr(end + 1, "\n--\n"); /* end: an empty input */
    *end = '\0';
    one->has_tools = !take_flag(text, " [no tools]");
    one->starts_reasoning = take_flag(text, " [reasoning]");
    ck_assert_msg(line, "%s: no line of --", text);
    char *events = line + 4;
    one->length = line == end ? 0 : (uint64_t)(line - one->input);
    char *next = strncmp(events, "== ", 3) == 0 ? events : strstr(events, "\n== ");
    size_t length = !next ? strlen(events) : next == events ? 0 : (size_t)(next + 1 - events);
    one->events = strndup(events, length);
    return next ? next + (next == events ? 3 : 4) : NULL;
}

/* LongCat's tags are others' with a word before: "<longcat_tool_call>". */
static char *with_word(char *text)
{
    static const char *const tags[] = {"tool_ca", "arg_key", "arg_value", "think"};
    static const char word[] = "longcat_";
    char *out = malloc(2 * strlen(text) + 1), *to = out;
    ck_assert_ptr_nonnull(out);
    for (const char *at = text; *at; *to++ = *at++)
        for (size_t i = 0; i < sizeof tags / sizeof *tags && at > text; i++)
            if ((at[-1] == '<' || at[-1] == '/') && strncmp(at, tags[i], strlen(tags[i])) == 0) {
                memcpy(to, word, sizeof word - 1);
                to += sizeof word - 1;
            }
    *to = '\0';
    free(text);
    return out;
}

static void read_format(struct output_cases *cases, uint32_t format)
{
    bool is_json = format == KT_OUTPUT_LONGCAT, is_longcat = is_json || format == KT_OUTPUT_LONGCAT_MARKUP;
    const char *name = kt_output_format_name(is_json      ? (uint32_t)KT_OUTPUT_HERMES
                                             : is_longcat ? (uint32_t)KT_OUTPUT_GLM
                                                          : format);
    char *text = output_read_file(data_path(name, ".txt"));
    text = is_longcat ? with_word(text) : text;
    char *at = strstr(text, "== ");
    for (at = at ? at + 3 : NULL; at;) {
        struct output_case one;
        at = read_case(at, format, &one);
        char *input = malloc(one.length + 1);
        ck_assert_ptr_nonnull(input);
        memcpy(input, one.input, one.length);
        one.input = input;
        one.name = strdup(one.name);
        cases->cases = realloc(cases->cases, (cases->n + 1) * sizeof one);
        ck_assert_ptr_nonnull(cases->cases);
        cases->cases[cases->n++] = one;
    }
    free(text);
}

void output_cases_read(struct output_cases *cases)
{
    *cases = (struct output_cases){.n = 0};
    cases->tools = output_read_file(data_path("tools", ".json"));
    for (uint32_t format = 0; kt_output_format_name(format); format++)
        read_format(cases, format);
}

void output_cases_free(struct output_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        free(cases->cases[i].name);
        free(cases->cases[i].input);
        free(cases->cases[i].events);
    }
    free(cases->cases);
    free(cases->tools);
}

struct kt_parser *output_case_open(const struct output_cases *cases, const struct output_case *one)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser = NULL;
    params.format = one->format;
    params.starts_reasoning = one->starts_reasoning;
    if (one->has_tools) {
        params.tools = cases->tools;
        params.tools_length = strlen(cases->tools);
    }
    struct kt_error error = {.status = KT_OK};
    ck_assert_msg(kt_parser_create(&params, &parser, &error) == KT_OK, "%s", error.message);
    return parser;
}

/* libcheck's own assertions write a message each. */
static void must(bool is_so, const char *what)
{
    if (!is_so)
        ck_abort_msg("%s is wrong", what);
}

static void put(struct output_log *log, const char *text, size_t length)
{
    if (log->length + length >= log->room) {
        log->room = 2 * (log->room + length) + 64;
        log->text = realloc(log->text, log->room);
        must(log->text, "memory");
    }
    memcpy(log->text + log->length, text, length);
    log->length += length;
    log->text[log->length] = '\0';
}

static void put_escaped(struct output_log *log, const char *text, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++) {
        if (text[i] == '\n')
            put(log, "\\n", 2);
        else if (text[i] == '\\')
            put(log, "\\\\", 2);
        else if (text[i] == '\0')
            put(log, "\\0", 2);
        else
            put(log, &text[i], 1);
    }
}

void output_log_add(struct output_log *log, const struct kt_parser_event *events, uint64_t n)
{
    static const char *const heads[] = {"?", "R ", "C ", "F ", "A ", "/F", "/R"};
    for (uint64_t i = 0; i < n; i++) {
        const struct kt_parser_event *event = &events[i];
        bool is_text = event->kind == KT_OUTPUT_REASONING || event->kind == KT_OUTPUT_CONTENT ||
                       event->kind == KT_OUTPUT_ARGUMENTS;
        must(event->kind <= KT_OUTPUT_REASONING_END && (!is_text || event->length > 0), "an event");
        if (!is_text || log->last != event->kind) {
            if (log->last)
                put(log, "\n", 1);
            put(log, heads[event->kind], 2);
        }
        log->last = event->kind;
        put(log, "!", event->is_cut);
        put_escaped(log, event->text, event->length);
        put(log, " ", event->id_length > 0);
        put_escaped(log, event->id, event->id_length);
    }
}

char *output_run(struct kt_parser *parser, const char *input, uint64_t length, const uint64_t *cuts,
                 size_t n_cuts)
{
    struct output_log log = {.text = calloc(1, 1), .room = 1};
    const struct kt_parser_event *events;
    uint64_t n, from = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        uint64_t to = i < n_cuts ? cuts[i] : length;
        char *piece = malloc(to - from + 1); /* so that reading beyond it is found */
        must(piece, "memory");
        memcpy(piece, input + from, to - from);
        must(kt_parser_add(parser, piece, to - from, &events, &n, NULL) == KT_OK, "kt_parser_add");
        free(piece);
        output_log_add(&log, events, n);
        from = to;
    }
    must(kt_parser_end(parser, &events, &n, NULL) == KT_OK, "kt_parser_end");
    output_log_add(&log, events, n);
    if (log.last)
        put(&log, "\n", 1);
    return log.text;
}
