/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_cases.h - cases of the output parser, from tests/data/output, and its events as text.
 *
 * A file FORMAT.txt has cases of the format of that name:
 *
 *     == what it is about [reasoning] [no tools]      the prompt ended within reasoning; no tools are known
 *     what the model writes, as it stands, without the last newline
 *     --
 *     the events, one a line, pieces of a kind joined; \n and \\ are written so, \0 is a zero byte
 *
 * Events: R and C text of reasoning and content, F a call's name, and its id behind a space, A its arguments,
 * /F its end, with the id, /R the end of reasoning; "/F!" and "/R!" where the output was cut.
 */
#ifndef KT_TESTS_ENGINE_OUTPUT_CASES_H
#define KT_TESTS_ENGINE_OUTPUT_CASES_H

#include <kt/text.h>

#include <stdbool.h>

struct output_case {
    char *name;
    uint32_t format;
    bool starts_reasoning, has_tools;
    char *input;
    uint64_t length;
    char *events;
};

struct output_cases {
    struct output_case *cases;
    size_t n;
    char *tools; /* tests/data/output/tools.json */
};

/* Of all formats. The test fails where a file cannot be read. */
void output_cases_read(struct output_cases *cases);
void output_cases_free(struct output_cases *cases);

/* A parser for the case. */
struct kt_parser *output_case_open(const struct output_cases *cases, const struct output_case *one);

/* Events, joined, as the files write them. Free it. */
struct output_log {
    char *text;
    size_t length, room;
    uint32_t last; /* kind of the last event */
};
void output_log_add(struct output_log *log, const struct kt_parser_event *events, uint64_t n);

/* What the parser makes of the input in pieces that end at `cuts`, and the end. */
char *output_run(struct kt_parser *parser, const char *input, uint64_t length, const uint64_t *cuts,
                 size_t n_cuts);

/* A file's text with a zero byte behind it; the test fails where there is none. */
char *output_read_file(const char *path);

#endif
