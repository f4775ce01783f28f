/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h - shared by the verbs of the command `kt`: options, messages, exit codes; and functions that make a
 * configuration, a context and a checkpoint from the command line.
 *
 * A verb NAME is a row of verbs.h, and a function and a table in one file:
 *
 *     struct args { uint64_t layer; const char *model, *output; };
 *     static const struct kt_cli_option options[] = {
 *         KT_CLI_MODEL,
 *         {.name = "output", .type = KT_CLI_TEXT, .offset = offsetof(struct args, output),
 *          .argument = "FILE", .required = true, .help = "file to write"},
 *         {.name = "layer", .type = KT_CLI_UINT, .offset = offsetof(struct args, layer),
 *          .argument = "N", .maximum = UINT32_MAX, .help = "number of the layer"},
 *         {.name = "threads", .type = KT_CLI_SETTING, .values = "core.threads",
 *          .argument = "N", .help = "threads of all nodes"},
 *         {.name = NULL}};
 *     const struct kt_cli_command kt_NAME_command = {.usage = "MODEL [OPTION]...", .about = "...",
 *                                                    .options = options, .opens_checkpoint = true};
 *     int kt_cmd_NAME(struct kt_cli *cli, int argc, char **argv)
 *     {
 *         struct args args = {.layer = 3};
 *         if (!kt_cli_parse(cli, &kt_NAME_command, argc, argv, &args))
 *             return cli->exit_code;
 *         ...
 *     }
 *
 * Data goes to standard output through table.h, messages to standard error as
 * "kt NAME: error: text".
 */
#ifndef KT_TOOL_CLI_H
#define KT_TOOL_CLI_H

#include "core/base/suggest.h"
#include "tools/kt/base/verbs.h"

#include <kt/kt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kt_cli_models;
struct registry;
struct registry_model;

/* Exit codes. */
enum { KT_EXIT_OK = 0, KT_EXIT_PROBLEM = 1, KT_EXIT_USAGE = 2 };

enum kt_cli_format { KT_FORMAT_TABLE = 0, KT_FORMAT_JSON = 1, KT_FORMAT_CSV = 2, KT_FORMAT_TAP = 3 };

/* The state of one run of the command. */
struct kt_cli {
    const struct kt_cli_verb *verbs;    /* of this program */
    const struct kt_cli_models *models; /* names of models; NULL: MODEL is a path */
    char **words;                       /* the command line as it was, for another program; owned */
    const char *verb;                   /* NULL before it is known */
    const char *config_file;            /* --config, or NULL */
    const char **settings; /* --set, and options that stand for a setting; owned, with the texts */
    size_t n_settings;
    enum kt_cli_format format;
    bool verbose;
    bool runs;               /* kt_cli_parse returned true */
    bool shows_plugins;      /* the output reports plugins that failed, so no warnings about them */
    enum kt_io io;           /* --io */
    const char *named_model; /* --model, the older form of the argument MODEL; NULL: not given */
    char **arguments;        /* after kt_cli_parse: arguments that are not options */
    int n_arguments;
    int exit_code;                      /* after kt_cli_parse returned false */
    struct registry *registry;          /* NULL: nobody has asked for it */
    const struct registry_model *model; /* in it: what MODEL named; NULL: it was a path */
    const char *given[128]; /* names of options that were given, and newer names of these; NULL behind them */
};

/* The type of an option's argument, and of the field at `offset` in the verb's struct. */
enum kt_cli_type {
    KT_CLI_FLAG,   /* no argument; bool */
    KT_CLI_TEXT,   /* const char *, not empty */
    KT_CLI_TEXTS,  /* struct kt_cli_texts: the option may be given more than once */
    KT_CLI_UINT,   /* uint64_t in minimum..maximum */
    KT_CLI_REAL,   /* double, finite and >= 0 */
    KT_CLI_CHOICE, /* int: index of the argument in values, "table|json|csv" */
    KT_CLI_SETTING /* nothing: adds the setting that `values` names, "core.threads"; with a maximum,
                      only a number in minimum..maximum is taken */
};

/* Texts of an option in the order in which they were given. */
struct kt_cli_texts {
    const char *text[16];
    size_t n;
};

struct kt_cli_option {
    const char *name; /* without the dashes; a row with NULL ends the table */
    int letter;       /* short form, or 0 */
    enum kt_cli_type type;
    size_t offset;
    uint64_t minimum, maximum; /* KT_CLI_UINT */
    const char *values;        /* KT_CLI_CHOICE, KT_CLI_SETTING */
    const char *argument;      /* its name in the help text; NULL with KT_CLI_FLAG */
    bool required;
    bool hidden;        /* an older name, which help leaves out, of the row with the same offset */
    bool is_argument;   /* hidden: the verb's first argument; the option is its older form */
    bool is_optional;   /* such an argument need not be there */
    const char *unless; /* nor is it one if this option was given */
    const char *of;     /* the actions of the verb that take it, "add, edit"; NULL: all */
    const char *help;   /* one line or more, no newline */
};

/* Rows whose value goes to a field of struct args: its name, the short form or 0, the field, what the option
 * takes as help calls it, and the help. */
#define KT_OPTION(word, key, kind, field, shown, about)                                                   \
    .name = word, .letter = key, .type = kind, .offset = offsetof(struct args, field), .argument = shown, \
    .help = about
#define OPTION_TEXT(word, key, field, shown, about)            \
    {                                                          \
        KT_OPTION(word, key, KT_CLI_TEXT, field, shown, about) \
    }
#define OPTION_REAL(word, key, field, shown, about)            \
    {                                                          \
        KT_OPTION(word, key, KT_CLI_REAL, field, shown, about) \
    }
#define OPTION_FLAG(word, key, field, about)                  \
    {                                                         \
        KT_OPTION(word, key, KT_CLI_FLAG, field, NULL, about) \
    }
#define OPTION_UINT(word, key, field, least, most, shown, about)                                  \
    {                                                                                             \
        KT_OPTION(word, key, KT_CLI_UINT, field, shown, about), .minimum = least, .maximum = most \
    }
#define OPTION_CHOICE(word, key, field, words, shown, about)                      \
    {                                                                             \
        KT_OPTION(word, key, KT_CLI_CHOICE, field, shown, about), .values = words \
    }

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The words of --kv, in the order of kt_cache_dtypes (tools/engine/prompt). */
#define KT_CLI_CACHES "bf16|q8_0|f32"

/* The verb's argument MODEL, which goes to `model` of its struct args. */
#define KT_CLI_MODEL                                                                                 \
    {                                                                                                \
        .name = "model", .letter = 'm', .type = KT_CLI_TEXT, .offset = offsetof(struct args, model), \
        .argument = "MODEL", .hidden = true, .is_argument = true                                     \
    }
/* Layers as text for kt_model_layers, in `layers` of struct args, and their older name. */
#define KT_CLI_LAYERS_OF(about)                                                \
    OPTION_TEXT("layers", 'l', layers, "LIST", about),                         \
    {                                                                          \
        KT_OPTION("layer", 0, KT_CLI_TEXT, layers, NULL, NULL), .hidden = true \
    }
#define KT_CLI_LAYERS KT_CLI_LAYERS_OF("layers: 3, 0-3, 0,2 or all (default)")
/* Options that stand for a setting. */
#define KT_CLI_BACKEND                                                                      \
    {                                                                                       \
        .name = "backend", .letter = 'b', .type = KT_CLI_SETTING, .values = "core.backend", \
        .argument = "NAME", .help = "preferred backend, or a method such as AMXINT4"        \
    }
#define KT_CLI_METHOD                                                                           \
    {                                                                                           \
        .name = "method", .type = KT_CLI_SETTING, .values = "core.backend", .argument = "NAME", \
        .hidden = true                                                                          \
    }
#define KT_CLI_THREADS                                                                                       \
    {                                                                                                        \
        .name = "threads", .letter = 'j', .type = KT_CLI_SETTING, .values = "core.threads", .maximum = 4096, \
        .argument = "N", .help = "threads on all nodes; same as --set core.threads=N"                        \
    }
#define KT_CLI_NUMA_NODES                                                                              \
    {                                                                                                  \
        .name = "numa-nodes", .type = KT_CLI_SETTING, .values = "core.numa_nodes", .argument = "LIST", \
        .help = "NUMA nodes to use; same as --set core.numa_nodes=LIST"                                \
    }

/* Experts of the same model that are elsewhere, in `experts` of a verb's struct. */
#define KT_CLI_EXPERTS(arguments)                                                                           \
    {                                                                                                       \
        .name = "experts", .type = KT_CLI_TEXT, .offset = offsetof(arguments, experts), .argument = "PATH", \
        .help = "load the experts from this store or file of the same model"                                \
    }

struct kt_cli_command {
    const char *usage; /* lines, each after "kt NAME ": "PATH [OPTION]..."; the page's SYNOPSIS, too */
    const char *about; /* one or more paragraphs for --help */
    const struct kt_cli_option *options; /* NULL: only the shared ones */
    const struct kt_cli_option
        *kept; /* further ones, whose texts go to an array at kept_offset; NULL: none */
    size_t kept_offset;
    const char *arguments; /* name of the arguments: "PATH"; NULL if none is taken */
    int min_arguments, max_arguments;
    bool opens_checkpoint; /* takes --io */
    bool serves;           /* takes the options that are kept with a model that has a name */
    bool writes_tap;       /* takes --format tap, the Test Anything Protocol */
};

/* ---- options.c ------------------------------------------------------------------------------ */

/*
 * Parses the verb's options and the shared ones (--help --version --config --set --format --verbose --io)
 * into `values`. False: a message was printed, return cli->exit_code (0 after --help, 2 after bad usage).
 */
bool kt_cli_parse(struct kt_cli *cli, const struct kt_cli_command *command, int argc, char **argv,
                  void *values);
/* Is this text what the option takes? The row's field is not touched. False after a message. */
bool kt_cli_check(struct kt_cli *cli, const struct kt_cli_option *row, const char *text);

/* Whether an option was given, by this name or an older one. */
bool kt_cli_given(const struct kt_cli *cli, const char *name);

/* The index of the verb in argv, after shared options; -1: return cli->exit_code, which is 0 after `kt
 * --help` and `kt --version`. */
int kt_cli_find_verb(struct kt_cli *cli, int argc, char **argv);

/* Parses "1,8,32" and "0-3" (both ends included) into at most `max` numbers; returns the count, or 0 after
 * a message that names `option`. */
size_t kt_cli_list(const struct kt_cli *cli, const char *option, const char *text, uint64_t *numbers,
                   size_t max);

/* The backend that a name stands for, a method of KT-Kernel's or its own; a method's setting is added. NULL
 * after a message that names `option`. */
const char *kt_cli_backend(struct kt_cli *cli, const char *option, const char *name);

/* Adds "section.key=value", which overrides earlier settings. */
void kt_cli_set(struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);

/* ---- nearest.c ------------------------------------------------------------------------------ */

/* ", did you mean frequency?" of the candidate nearest to `word`; "" if none is near. For messages:
 * kt_cli_usage(cli, "%s is not known%s", word, kt_cli_hint(word, names, n).text). */
struct kt_cli_hint {
    char text[192];
};
struct kt_cli_hint kt_cli_hint(const char *word, const char *const *candidates, size_t n);
/* The same of the words in a text, "uniform|frequency" or with spaces or commas between them. */
struct kt_cli_hint kt_cli_hint_of(const char *word, const char *words);

/* Is the word in a list such as "add, edit"? */
bool kt_cli_lists(const char *list, const char *word);
/* Is an option given that the action does not take? Returns 0, or an exit code after a message. */
int kt_cli_check_of(const struct kt_cli *cli, const struct kt_cli_command *command, const char *action);
/* The index of a verb's action; -1 after a message, which says that `needed` is. */
int kt_cli_action(const struct kt_cli *cli, const char *word, const char *const *actions, size_t n,
                  const char *needed);

/* ---- cli.c ---------------------------------------------------------------------------------- */

/* Print a message to standard error, with control characters made visible. Return the exit codes 1, 1 and
 * 2, for `return kt_cli_error(cli, ...)`. */
int kt_cli_error(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);
int kt_cli_fail(const struct kt_cli *cli, const struct kt_error *error);
int kt_cli_usage(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);
/* Once, if it is said of each layer: "layer 3: ..."; with -v each time. */
void kt_cli_warn(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);
void kt_cli_note(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);
void kt_cli_info(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3); /* with -v only */

/* The library's log callback: prints errors and warnings always, info with --verbose, debug lines if the
 * configuration enables them. data is the struct kt_cli. */
void kt_cli_log(void *data, enum kt_log_level level, const char *message);

/* Makes the configuration that the options select. Returns 0, or an exit code after a message. */
int kt_cli_config(struct kt_cli *cli, struct kt_config **config);
/* Reports errors in the command line's settings, for verbs that work without a configuration. Returns 0 if
 * the error is elsewhere. */
int kt_cli_check_settings(struct kt_cli *cli);
/* Finds plugins that crash, exit or hang when they are opened, and leaves them out; before a context is made.
 */
void kt_cli_try_plugins(const struct kt_cli *cli, struct kt_config *config);
int kt_cli_context(struct kt_cli *cli, struct kt_context **context);
/* Is the preferred backend, core.backend, configured? Said once here instead of by each layer. Returns 0, or
 * an exit code after a message. */
int kt_cli_check_backend(struct kt_cli *cli, const struct kt_context *context);

/* Opens a checkpoint with --io and tells the SIGBUS handler its name. */
int kt_cli_checkpoint(struct kt_cli *cli, const char *path, struct kt_checkpoint **checkpoint);

/* Allocates, or ends the command; never NULL. */
void *kt_cli_alloc(const struct kt_cli *cli, size_t n, size_t size);
/* "8G", "500MiB" or "4096" -> bytes; false: it is not a size. */
bool kt_cli_size(const char *text, uint64_t *bytes);

char *kt_cli_format(const struct kt_cli *cli, const char *format, ...) KT_PRINTF(2, 3);

/* Flushes standard output. Returns 0, or 1 after a message if writing failed; a reader that went away, such
 * as head, needs no message. */
int kt_cli_flush(const struct kt_cli *cli);
/* The same at the end of the command or of its output. Returns `code`, or 1. */
int kt_cli_finish(const struct kt_cli *cli, int code);

/* All of a program that `kt` executes for some of its verbs, with the words that it was given itself. */
int kt_cli_run_helper(struct kt_cli *cli, const char *program, int argc, char **argv);
/* Frees the settings. */
void kt_cli_free(struct kt_cli *cli);
/* Prints why MODEL cannot be opened, and what may have been meant if no such file. Returns 1. */
int kt_cli_fail_model(const struct kt_cli *cli, const char *path, const struct kt_error *error);

/* ---- execute.c ------------------------------------------------------------------------------ */

/* Leaves the command line to the other program that has the verb. Returns only if it cannot, after a message.
 */
int kt_cli_execute(struct kt_cli *cli);

/* ---- verbose.c ------------------------------------------------------------------------------ */

/* Seconds from some fixed point. */
double kt_cli_now(void);

/* With -v, lines of standard error whose first words scripts can look for; kt(1) lists them. */
void kt_verbose_files(const struct kt_cli *cli, const struct kt_config_params *params);
void kt_verbose_settings(const struct kt_cli *cli, const struct kt_config *config);
void kt_verbose_context(const struct kt_cli *cli, const struct kt_context *context);
/* "time PHASE: 1.234 ms, TEXT" */
void kt_verbose_time(const struct kt_cli *cli, const char *phase, double since, const char *format, ...)
    KT_PRINTF(4, 5);
void kt_verbose_end(const struct kt_cli *cli, double since);

/* ---- signals.c ------------------------------------------------------------------------------ */

/* Turns SIGBUS into one clear line and exit code 1, and a broken pipe or a file size limit into a write
 * error. */
void kt_signals_install(void);
/* The file that is being mapped, for that line; NULL: none. */
void kt_signals_mapped(const char *path);
/* The modes that standard input's terminal has now are to be had again when SIGBUS ends the command. */
void kt_signals_terminal(void);
/* A file to remove if a signal ends the command; NULL: none any more. */
void kt_signals_temporary(const char *path);
/* Signals that would end the command wait, while a temporary file has no name that is known here. */
void kt_signals_hold(bool held);

/* ---- progress.c ----------------------------------------------------------------------------- */

/*
 * Shows one line on standard error, only if that is a terminal and only after two seconds, and removes it
 * at the end. A thread draws it twice a second, so that a single long call shows too; stop it while a
 * benchmark measures. One at a time.
 */
void kt_progress_start(const struct kt_cli *cli, const char *title);
void kt_progress_update(uint64_t done, uint64_t total);
/* The same for bytes: shows their rate and how long the rest will take. */
void kt_progress_bytes(uint64_t done, uint64_t total);
void kt_progress_stop(void);
/* Shows the line at once and lets it stand, also while a benchmark measures. */
void kt_progress_show(const struct kt_cli *cli, const char *title);
/* Removes the line; call this before anything else is written to standard error. */
void kt_progress_clear(void);
/* Writes a line of a log to standard error, at once, where that line stood; false: cannot be written. */
bool kt_progress_log(const char *text, size_t length);

#endif
