/* SPDX-License-Identifier: Apache-2.0 */
/* Every case of tests/data/output: whole, split at every byte, byte by byte, and cut at every byte. */
#include "tests/engine/text/output_cases.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct output_cases cases;

static void setup(void)
{
    output_cases_read(&cases);
}

static void teardown(void)
{
    output_cases_free(&cases);
}

static void expect(const struct output_case *one, char *got, const char *wanted, const char *how,
                   uint64_t where)
{
    if (strcmp(got, wanted) != 0)
        ck_abort_msg("%s: %s, %s %llu\n-- wanted\n%s-- got\n%s", kt_output_format_name(one->format),
                     one->name, how, (unsigned long long)where, wanted, got);
    free(got);
}

START_TEST(test_whole)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < cases.n; i++) {
        const struct output_case *one = &cases.cases[i];
        struct kt_parser *parser = output_case_open(&cases, one);
        char *got = output_run(parser, one->input, one->length, NULL, 0);
        if (strcmp(got, one->events) != 0) {
            n_wrong++;
            printf("%s: %s\n-- wanted\n%s-- got\n%s\n", kt_output_format_name(one->format), one->name,
                   one->events, got);
            (void)fflush(stdout);
        } else { /* the parser begins again */
            expect(one, output_run(parser, one->input, one->length, NULL, 0), one->events, "again", 0);
        }
        free(got);
        kt_parser_destroy(parser);
    }
    ck_assert_msg(n_wrong == 0, "%zu of %zu cases are wrong", n_wrong, cases.n);
}
END_TEST

START_TEST(test_split)
{
    for (size_t i = 0; i < cases.n; i++) {
        const struct output_case *one = &cases.cases[i];
        struct kt_parser *parser = output_case_open(&cases, one);
        for (uint64_t cut = 0; cut <= one->length; cut++)
            expect(one, output_run(parser, one->input, one->length, &cut, 1), one->events, "split at", cut);
        kt_parser_destroy(parser);
    }
}
END_TEST

START_TEST(test_bytes)
{
    for (size_t i = 0; i < cases.n; i++) {
        const struct output_case *one = &cases.cases[i];
        struct kt_parser *parser = output_case_open(&cases, one);
        uint64_t *cuts = calloc(one->length + 1, sizeof *cuts);
        ck_assert_ptr_nonnull(cuts);
        for (uint64_t n = 1; n <= 3; n++) {
            size_t n_cuts = 0;
            for (uint64_t at = n; at <= one->length; at += n)
                cuts[n_cuts++] = at;
            expect(one, output_run(parser, one->input, one->length, cuts, n_cuts), one->events,
                   "bytes at once:", n);
        }
        free(cuts);
        kt_parser_destroy(parser);
    }
}
END_TEST

/* As output_log_add wrote it. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; from && *from; from++) {
        bool is_escape = *from == '\\';
        from += is_escape;
        *to++ = is_escape && *from == 'n' ? '\n' : *from;
    }
    if (to)
        *to = '\0';
}

/* libcheck's own assertions write a message each, which takes most of the time here. */
#define must_say(is_so, ...)           \
    do {                               \
        if (!(is_so))                  \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)
#define must(is_so) must_say(is_so, "%s", #is_so)

/* Each call that is whole has arguments that are a JSON object, and each that begins ends. */
static size_t check_calls(const char *log)
{
    char *copy = strdup(log), *arguments = NULL;
    size_t n_calls = 0;
    bool in_call = false;
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "F ", 2) == 0) {
            must(!in_call);
            in_call = true;
            arguments = NULL;
            n_calls++;
        } else if (strncmp(line, "A ", 2) == 0) {
            must(in_call);
            arguments = line + 2;
        } else if (strncmp(line, "/F", 2) == 0) {
            must(in_call);
            in_call = false;
            unescape(arguments);
            json_t *value = line[2] == '!' ? NULL : json_loads(arguments ? arguments : "", 0, NULL);
            must_say(line[2] == '!' || json_is_object(value), "%s", log);
            json_decref(value);
        } else {
            must(!in_call);
        }
    }
    must(!in_call);
    free(copy);
    return n_calls;
}

/* The lines of `cut` are those of `whole`, as far as it goes: calls begin and end in the same order. */
static void check_prefix(const struct output_case *one, const char *cut, uint64_t at)
{
    size_t n_whole = check_calls(one->events), n_cut = check_calls(cut);
    must_say(n_cut <= n_whole, "%s, cut at %llu, has %zu calls\n%s", one->name, (unsigned long long)at, n_cut,
             cut);
    const char *call = strstr(one->events, "F "), *its = strstr(cut, "F ");
    if (its)
        must_say(strncmp(call, its, strcspn(its, "\n")) == 0, "%s, cut at %llu\n%s", one->name,
                 (unsigned long long)at, cut);
}

START_TEST(test_cut)
{
    for (size_t i = 0; i < cases.n; i++) {
        const struct output_case *one = &cases.cases[i];
        struct kt_parser *parser = output_case_open(&cases, one);
        for (uint64_t length = 0; length < one->length; length++) {
            char *got = output_run(parser, one->input, length, NULL, 0);
            check_prefix(one, got, length);
            free(got);
        }
        kt_parser_destroy(parser);
    }
}
END_TEST

/* Each format has hard cases enough. */
START_TEST(test_enough)
{
    for (uint32_t format = 0; kt_output_format_name(format); format++) {
        size_t n = 0;
        for (size_t i = 0; i < cases.n; i++)
            n += cases.cases[i].format == format;
        ck_assert_msg(n >= 20, "%s has %zu cases", kt_output_format_name(format), n);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cases");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_whole);
    tcase_add_test(tests, test_split);
    tcase_add_test(tests, test_bytes);
    tcase_add_test(tests, test_cut);
    tcase_add_test(tests, test_enough);
    return run_tests("output", tests);
}
