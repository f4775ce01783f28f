/* SPDX-License-Identifier: Apache-2.0 */
/* Every option of every verb in all its spellings: each gives the same value, and no beginning of a name is
 * taken for the name. */
#define _GNU_SOURCE
#include "tools/kt/base/options.h"
#include "tools/kt/bench/options.h"
#include "tools/kt/model/options.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* TEST_PROGRAMS: those that are built. */
#define ROW(name, programs, summary) \
    {#name, ((programs) & (TEST_PROGRAMS)) != 0 ? &kt_##name##_command : NULL},
static const struct {
    const char *name;
    const struct kt_cli_command *command;
} verbs[] = {KT_VERBS(ROW)};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]), MOST_WORDS = 32, MOST_VALUES = 1 << 14 };

/* One reading of a command line. */
struct reading {
    struct kt_cli cli;
    alignas(16) char values[MOST_VALUES];
    char *words[MOST_WORDS];
    int n;
    bool ok;
};

static void add(struct reading *reading, const char *word)
{
    ck_assert_int_lt(reading->n, MOST_WORDS - 1);
    reading->words[reading->n++] = (char *)(uintptr_t)word;
}

/* What the option takes. */
static const char *value_of(const struct kt_cli_option *row, char *text, size_t size)
{
    (void)snprintf(text, size, "x");
    if (row->type == KT_CLI_REAL)
        (void)snprintf(text, size, "2");
    else if (row->type == KT_CLI_UINT || (row->type == KT_CLI_SETTING && row->maximum))
        (void)snprintf(text, size, "%" PRIu64, row->minimum ? row->minimum : 1);
    else if (row->type == KT_CLI_CHOICE)
        (void)snprintf(text, size, "%.*s", (int)strcspn(row->values, "|"), row->values);
    else if (row->type == KT_CLI_SETTING && strcmp(row->values, "core.numa_nodes") == 0)
        (void)snprintf(text, size, "0");
    else if (row == &kt_cli_shared[SHARED_SET])
        (void)snprintf(text, size, "core.threads=2");
    return text;
}

/* What the reading has for the option; NULL: nothing. */
static const char *read_value(struct reading *reading, const struct kt_cli_command *command,
                              const struct kt_cli_option *row, char *text, size_t size)
{
    const struct kt_cli *cli = &reading->cli;
    const char *at = reading->values + row->offset;
    const char *setting = cli->n_settings > 0 ? cli->settings[cli->n_settings - 1] : "=";
    text[0] = '\0';
    if (row >= kt_cli_shared && row < kt_cli_shared + N_SHARED) {
        static const char *const formats[] = {"table", "json", "csv"}, *const ios[] = {"mmap", "read"};
        const char *const shared[N_SHARED] = {[SHARED_CONFIG] = cli->config_file,
                                              [SHARED_SET] = setting,
                                              [SHARED_FORMAT] = formats[cli->format],
                                              [SHARED_IO] = ios[cli->io],
                                              [SHARED_VERBOSE] = cli->verbose ? "x" : NULL,
                                              [SHARED_MODEL] = cli->n_arguments ? cli->arguments[0] : NULL};
        return shared[row - kt_cli_shared];
    }
    for (const struct kt_cli_option *kept = command->kept; kept && kept->name; kept++)
        if (kept == row)
            return ((const char **)(reading->values + command->kept_offset))[row - command->kept];
    switch (row->type) {
    case KT_CLI_FLAG:
        return *(const bool *)at ? "x" : NULL;
    case KT_CLI_TEXT:
        return *(const char *const *)at;
    case KT_CLI_TEXTS:
        return ((const struct kt_cli_texts *)at)->text[0];
    case KT_CLI_UINT:
        (void)snprintf(text, size, "%" PRIu64, *(const uint64_t *)at);
        return text;
    case KT_CLI_REAL:
        (void)snprintf(text, size, "%g", *(const double *)at);
        return text;
    case KT_CLI_CHOICE:
        (void)snprintf(text, size, "%.*s", (int)strcspn(row->values, "|"), row->values);
        return *(const int *)at == 0 ? text : NULL;
    case KT_CLI_SETTING:
        return strchr(setting, '=') + 1;
    }
    return NULL;
}

/* Reads words after those that the verb needs; `row` is among them, so it is not needed again. */
static void parse(struct reading *reading, const char *verb, const struct kt_cli_command *command,
                  const struct kt_cli_option *row, const char *const *words, size_t n)
{
    static char needed[8][64];
    size_t n_needed = 0;
    *reading = (struct reading){.cli = {.verb = verb}};
    memset(reading->values, 0, sizeof(reading->values));
    add(reading, verb);
    for (const struct kt_cli_option *other = command->options; other && other->name; other++) {
        if (other == row || !(other->required || (other->is_argument && !other->is_optional)))
            continue;
        bool replaced = row && row->hidden && row->offset == other->offset && row->type == other->type;
        if (replaced)
            continue;
        char value[32];
        ck_assert_uint_lt(n_needed, 8);
        (void)snprintf(needed[n_needed], sizeof(needed[0]), "--%s=%s", other->name,
                       value_of(other, value, sizeof(value)));
        add(reading, needed[n_needed++]);
    }
    for (size_t i = 0; i < n; i++)
        add(reading, words[i]);
    for (int i = row == &kt_cli_shared[SHARED_MODEL]; i < command->min_arguments; i++)
        add(reading, "x");
    reading->ok = kt_cli_parse(&reading->cli, command, reading->n, reading->words, reading->values);
}

static void expect(const char *verb, const struct kt_cli_command *command, const struct kt_cli_option *row,
                   const char *first, const char *second)
{
    static struct reading reading;
    const char *const words[] = {first, second};
    char wanted[64], got[64];
    parse(&reading, verb, command, row, words, second ? 2 : 1);
    ck_assert_msg(reading.ok, "kt %s %s %s: is not taken", verb, first, second ? second : "");
    ck_assert_msg(kt_cli_given(&reading.cli, row->name), "kt %s %s: is not given", verb, first);
    const char *value = read_value(&reading, command, row, got, sizeof(got));
    value_of(row, wanted, sizeof(wanted));
    ck_assert_msg(value && strcmp(value, wanted) == 0, "kt %s %s %s: gives %s", verb, first,
                  second ? second : "", value ? value : "nothing");
    kt_cli_free(&reading.cli);
}

static void spell(const char *verb, const struct kt_cli_command *command, const struct kt_cli_option *row)
{
    bool groups = row != &kt_cli_shared[SHARED_VERBOSE];
    char value[64], word[160];
    value_of(row, value, sizeof(value));
    (void)snprintf(word, sizeof(word), "--%s", row->name);
    expect(verb, command, row, word, row->type == KT_CLI_FLAG ? NULL : value);
    if (row->type != KT_CLI_FLAG) {
        (void)snprintf(word, sizeof(word), "--%s=%s", row->name, value);
        expect(verb, command, row, word, NULL);
    }
    for (int grouped = 0; row->letter && grouped <= groups; grouped++) {
        (void)snprintf(word, sizeof(word), "-%s%c", grouped ? "v" : "", row->letter);
        expect(verb, command, row, word, row->type == KT_CLI_FLAG ? NULL : value);
        size_t length = strlen(word);
        (void)snprintf(word + length, sizeof(word) - length, "%s", row->type == KT_CLI_FLAG ? "v" : value);
        expect(verb, command, row, word, NULL);
    }
}

static bool has_option(const struct kt_cli_rows *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->row[i]->name, name) == 0)
            return true;
    return false;
}

/* Each beginning of the name is an error that names an option with this beginning. */
static void shorten(const char *verb, const struct kt_cli_command *command, const struct kt_cli_rows *list,
                    const struct kt_cli_option *row, int messages)
{
    static struct reading reading;
    char word[64] = "--", said[512], wanted[160];
    for (size_t n = 1; n < strlen(row->name); n++) {
        (void)snprintf(word, sizeof(word), "--%.*s", (int)n, row->name);
        if (has_option(list, word + 2))
            continue;
        (void)snprintf(wanted, sizeof(wanted), "unknown option %s%s%s", word,
                       row->hidden ? "" : ", did you mean ", row->hidden ? "" : word);
        const char *const words[] = {word, "1"};
        ck_assert_int_eq(ftruncate(messages, 0), 0);
        parse(&reading, verb, command, row, words, row->type == KT_CLI_FLAG ? 1 : 2);
        ssize_t length = pread(messages, said, sizeof(said) - 1, 0);
        said[length > 0 ? length : 0] = '\0';
        ck_assert_msg(!reading.ok && reading.cli.exit_code == KT_EXIT_USAGE, "kt %s %s: is taken", verb,
                      word);
        ck_assert_msg(strstr(said, wanted) != NULL, "kt %s %s: says %s", verb, word, said);
        kt_cli_free(&reading.cli);
    }
}

START_TEST(each_option_has_its_spellings_and_no_others)
{
    const struct kt_cli_command *command = verbs[_i].command;
    struct kt_cli_rows list;
    if (!command)
        return;
    int messages = memfd_create("messages", 0), before = dup(STDERR_FILENO);
    ck_assert(messages >= 0 && before >= 0 && fcntl(messages, F_SETFL, O_APPEND) == 0);
    kt_cli_options(command, &list);
    ck_assert_int_lt(list.n, MAX_OPTIONS - N_SHARED);
    for (int i = 0; i < list.n; i++) {
        const struct kt_cli_option *row = list.row[i];
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(row->name, list.row[j]->name) != 0 &&
                              (!row->letter || row->letter != list.row[j]->letter),
                          "kt %s has --%s or its letter twice", verbs[_i].name, row->name);
        if (row == &kt_cli_shared[SHARED_HELP] || row == &kt_cli_shared[SHARED_VERSION])
            continue;
        spell(verbs[_i].name, command, row);
        ck_assert_int_ge(dup2(messages, STDERR_FILENO), 0);
        shorten(verbs[_i].name, command, &list, row, messages);
        ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
    }
    close(messages);
    close(before);
}
END_TEST

/* What is kept with a model are options of kt run, which take the same. */
START_TEST(kept_options_are_those_of_run)
{
    const struct kt_cli_command *run = NULL;
    for (size_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, "run") == 0)
            run = verbs[i].command;
    for (const struct kt_cli_option *kept = model_kept; run && kept->name; kept++) {
        const struct kt_cli_option *row = run->options;
        while (row->name && strcmp(row->name, kept->name) != 0)
            row++;
        ck_assert_msg(row->name && row->type == kept->type && row->minimum == kept->minimum &&
                          row->maximum == kept->maximum && strcmp(row->argument, kept->argument) == 0 &&
                          (row->values ? kept->values && strcmp(row->values, kept->values) == 0
                                       : !kept->values),
                      "--%s of kt model is not that of kt run", kept->name);
    }
}
END_TEST

/* What kt bench measures is decided by the options, whatever their spelling. */
START_TEST(bench_measures_what_is_asked_for)
{
    static const struct {
        enum bench_kind kind;
        const char *words[4];
    } lines[] = {{BENCH_LAYER, {"bench"}},
                 {BENCH_LAYER, {"bench", "m", "--levels"}},
                 {BENCH_LAYER, {"bench", "m", "--", NULL}},
                 {BENCH_WHOLE, {"bench", "m", "-p", "5"}},
                 {BENCH_WHOLE, {"bench", "-n5", "m"}},
                 {BENCH_WHOLE, {"bench", "m", "-vn", "5"}},
                 {BENCH_WHOLE, {"bench", "-vn5", "m"}},
                 {BENCH_WHOLE, {"bench", "--n-depth=5", "--", "m"}},
                 {BENCH_WHOLE, {"bench", "--model=m", "--n-prompt", "5"}},
                 {BENCH_TEXT, {"bench", "--tokenize", "m", "f"}},
                 {BENCH_TEXT, {"bench", "f", "-v", "--tokenize=m"}}};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct kt_cli cli = {.verb = "bench"};
        struct bench_args args;
        char *words[5] = {NULL};
        int n = 0;
        for (; n < 4 && lines[i].words[n]; n++)
            words[n] = (char *)(uintptr_t)lines[i].words[n];
        ck_assert_msg(bench_parse(&cli, n, words, &args) == (int)lines[i].kind, "line %zu: %s %s", i,
                      lines[i].words[1], lines[i].words[2]);
        kt_cli_free(&cli);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_add_loop_test(tests, each_option_has_its_spellings_and_no_others, 0, N_VERBS);
    tcase_add_test(tests, kept_options_are_those_of_run);
    tcase_add_test(tests, bench_measures_what_is_asked_for);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
