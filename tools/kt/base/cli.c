/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - messages; makes a configuration, a context and a checkpoint from the command line. */
#define _GNU_SOURCE

#include "tools/kt/base/options.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Messages may quote text of a file, which must not control the terminal. */
static void make_visible(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        /* U+0080 to U+009F are control characters too: C2 80 to C2 9F. */
        bool high = c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0;
        if (high)
            c[1] = '?';
        if (*c < ' ' || *c == 0x7F || high)
            *c = '?';
    }
}

static void say_text(const struct kt_cli *cli, const char *kind, const char *message)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s", message);
    make_visible(text);
    kt_progress_clear();
    if (cli->verb)
        fprintf(stderr, "kt %s: %s: %s\n", cli->verb, kind, text);
    else
        fprintf(stderr, "kt: %s: %s\n", kind, text);
}

static void say(const struct kt_cli *cli, const char *kind, const char *format, va_list arguments)
{
    char text[2048];
    vsnprintf(text, sizeof(text), format, arguments);
    say_text(cli, kind, text);
}

int kt_cli_error(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(cli, "error", format, arguments);
    va_end(arguments);
    return KT_EXIT_PROBLEM;
}

int kt_cli_fail(const struct kt_cli *cli, const struct kt_error *error)
{
    return kt_cli_error(cli, "%s", error->message);
}

int kt_cli_usage(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(cli, "error", format, arguments);
    va_end(arguments);
    if (cli->verb)
        fprintf(stderr, "Try 'kt %s --help'.\n", cli->verb);
    else
        fputs("Try 'kt --help'.\n", stderr);
    return KT_EXIT_USAGE;
}

/* Of a model's layers and linears, most get the same warnings: one is enough for people. */
static struct {
    char *text[64]; /* without the layer's number, or the linear's name */
    size_t n, n_left_out;
} layer_warnings;

/* What is said of a layer or a linear, without its number or name; NULL: something else. */
static const char *skip_name(const char *text)
{
    static const char layer[] = "layer ", linear[] = "linear ";
    if (strncmp(text, layer, sizeof(layer) - 1) == 0)
        return text + sizeof(layer) - 1 + strspn(text + sizeof(layer) - 1, "0123456789");
    return strncmp(text, linear, sizeof(linear) - 1) == 0 ? strstr(text, ": ") : NULL;
}

/* Was it said of another one? */
static bool is_repeated(const struct kt_cli *cli, const char *text)
{
    const char *rest = cli->verbose ? NULL : skip_name(text);
    if (!rest)
        return false;
    for (size_t i = 0; i < layer_warnings.n; i++) {
        if (strcmp(layer_warnings.text[i], rest) == 0) {
            layer_warnings.n_left_out++;
            return true;
        }
    }
    if (layer_warnings.n < sizeof(layer_warnings.text) / sizeof(layer_warnings.text[0]))
        layer_warnings.text[layer_warnings.n++] = kt_cli_format(cli, "%s", rest);
    return false;
}

static void end_layer_warnings(const struct kt_cli *cli)
{
    for (size_t i = 0; i < layer_warnings.n; i++)
        free(layer_warnings.text[i]);
    if (layer_warnings.n_left_out > 0)
        kt_cli_note(cli, "%zu more warnings say the same, also of other layers and linears; -v shows them",
                    layer_warnings.n_left_out);
    layer_warnings.n = layer_warnings.n_left_out = 0;
}

void kt_cli_warn(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    char text[2048];
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!is_repeated(cli, text))
        say_text(cli, "warning", text);
}

void kt_cli_note(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(cli, "note", format, arguments);
    va_end(arguments);
}

void kt_cli_info(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    if (!cli->verbose)
        return;
    va_start(arguments, format);
    say(cli, "info", format, arguments);
    va_end(arguments);
}

void kt_cli_log(void *data, enum kt_log_level level, const char *message)
{
    static const char *const kinds[] = {"error", "warning", "info", "debug"};
    const struct kt_cli *cli = data;
    unsigned kind = (unsigned)level;
    if ((level == KT_LOG_INFO && !cli->verbose) || (level == KT_LOG_WARNING && cli->shows_plugins))
        return;
    if (level == KT_LOG_WARNING)
        kt_cli_warn(cli, "%s", message);
    else
        say_text(cli, kinds[kind < 4 ? kind : 3], message);
}

/* Is the command line to blame? Then the configuration is valid without its settings. */
static bool blames_settings(const struct kt_cli *cli)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    params.file = cli->config_file;
    if (cli->n_settings == 0 || kt_config_create(&params, &config, NULL) != KT_OK)
        return false;
    kt_config_destroy(config);
    return true;
}

int kt_cli_config(struct kt_cli *cli, struct kt_config **config)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_error error;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    params.log = kt_cli_log;
    params.log_data = cli;
    kt_verbose_files(cli, &params);
    if (kt_config_create(&params, config, &error) == KT_OK) {
        kt_verbose_settings(cli, *config);
        return KT_EXIT_OK;
    }
    if (blames_settings(cli))
        return kt_cli_usage(cli, "%s", error.message);
    return kt_cli_fail(cli, &error);
}

void kt_cli_try_plugins(const struct kt_cli *cli, struct kt_config *config)
{
    struct kt_error error;
    if (kt_config_try_plugins(config, 10000, &error) != KT_OK)
        kt_cli_info(cli, "%s", error.message);
}

int kt_cli_check_settings(struct kt_cli *cli)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_error error;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    if (kt_config_create(&params, &config, &error) == KT_OK)
        kt_config_destroy(config);
    else if (blames_settings(cli))
        return kt_cli_usage(cli, "%s", error.message);
    return KT_EXIT_OK;
}

int kt_cli_context(struct kt_cli *cli, struct kt_context **context)
{
    struct kt_config *config;
    struct kt_error error;
    int code = kt_cli_config(cli, &config);
    if (code != KT_EXIT_OK)
        return code;
    double start = kt_cli_now();
    kt_cli_try_plugins(cli, config);
    enum kt_status status = kt_context_create(config, context, &error);
    kt_config_destroy(config);
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_verbose_context(cli, *context);
    kt_verbose_time(cli, "context", start, "threads and plugins");
    return KT_EXIT_OK;
}

/* The preferred backend and where it was set; both allocated. False: none, or auto. */
static bool find_wish(const struct kt_cli *cli, char **name, char **origin)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_setting setting;
    bool found = false;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    if (kt_config_create(&params, &config, NULL) != KT_OK)
        return false;
    for (size_t i = 0; i < kt_config_setting_count(config) && !found; i++) {
        found = kt_config_setting(config, i, &setting, NULL) == KT_OK &&
                strcmp(setting.section, "core") == 0 && strcmp(setting.key, "backend") == 0 &&
                strcmp(setting.value, "auto") != 0;
    }
    if (found) {
        *name = kt_cli_format(cli, "%s", setting.value);
        *origin = kt_cli_format(cli, "%s", setting.origin);
    }
    kt_config_destroy(config);
    return found;
}

int kt_cli_check_backend(struct kt_cli *cli, const struct kt_context *context)
{
    size_t n = kt_context_backend_count(context), n_names = 0;
    char *name, *origin;
    bool found = false;
    int code = KT_EXIT_OK;
    if (!find_wish(cli, &name, &origin))
        return KT_EXIT_OK;
    const char **names = kt_cli_alloc(cli, n, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        struct kt_backend_info info;
        if (kt_context_backend(context, i, &info, NULL) != KT_OK)
            continue;
        names[n_names++] = info.name;
        found |= strcmp(info.name, name) == 0;
    }
    struct kt_cli_hint hint = kt_cli_hint(name, names, n_names);
    if (!found && strcmp(origin, "parameter") == 0)
        code = kt_cli_usage(cli, "no backend %s is configured%s; 'kt backends' lists them", name, hint.text);
    else if (!found)
        code =
            kt_cli_error(cli, "%s: backend = %s: no such backend is configured%s; 'kt backends' lists them",
                         origin, name, hint.text);
    free(names);
    free(name);
    free(origin);
    return code;
}

int kt_cli_checkpoint(struct kt_cli *cli, const char *path, struct kt_checkpoint **checkpoint)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_error error;
    params.io = cli->io;
    params.log = kt_cli_log;
    params.log_data = cli;
    if (params.io == KT_IO_MMAP)
        kt_signals_mapped(path);
    double start = kt_cli_now();
    if (kt_checkpoint_open(path, &params, checkpoint, &error) != KT_OK)
        return kt_cli_fail_model(cli, path, &error);
    kt_verbose_time(cli, "open", start, "%s", path);
    return KT_EXIT_OK;
}

static void no_memory(const struct kt_cli *cli) __attribute__((noreturn));
static void no_memory(const struct kt_cli *cli)
{
    exit(kt_cli_error(cli, "out of memory"));
}

void *kt_cli_alloc(const struct kt_cli *cli, size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size ? size : 1);
    if (!memory)
        no_memory(cli);
    return memory;
}

bool kt_cli_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double size = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
        size *= 1024;
    if (end == text || !(size > 0 && size < 0x1p60))
        return false;
    *bytes = (uint64_t)size;
    end += unit != NULL;
    return strcmp(end, "") == 0 || strcmp(end, "B") == 0 || strcmp(end, "iB") == 0;
}

char *kt_cli_format(const struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        no_memory(cli);
    return text;
}

/* Has the reader gone, as `| head` does? An earlier write may have failed, so errno cannot tell. */
static bool lost_reader(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

int kt_cli_flush(const struct kt_cli *cli)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        int failure = errno;
        clearerr(stdout);
        if (failure == EPIPE || (failure == 0 && lost_reader()))
            return KT_EXIT_PROBLEM;
        return kt_cli_error(cli, "standard output: %s", failure ? strerror(failure) : "write failed");
    }
    return KT_EXIT_OK;
}

int kt_cli_finish(const struct kt_cli *cli, int code)
{
    end_layer_warnings(cli);
    return kt_cli_flush(cli) == KT_EXIT_OK ? code : KT_EXIT_PROBLEM;
}

int kt_cli_fail_model(const struct kt_cli *cli, const char *path, const struct kt_error *error)
{
    return cli->models ? cli->models->fail(cli, path, error) : kt_cli_fail(cli, error);
}

void kt_cli_free(struct kt_cli *cli)
{
    for (size_t i = 0; i < cli->n_settings; i++)
        free((char *)cli->settings[i]);
    free(cli->settings);
    free(cli->words);
    if (cli->models)
        cli->models->free(cli);
}

int kt_cli_run_helper(struct kt_cli *cli, const char *program, int argc, char **argv)
{
    double start = kt_cli_now();
    kt_signals_install();
    for (const struct kt_cli_verb *verb = cli->verbs; verb->name && argc > 1; verb++) {
        if (!verb->run || strcmp(verb->name, argv[1]) != 0)
            continue;
        cli->verb = verb->name;
        int code = kt_cli_finish(cli, verb->run(cli, argc - 1, argv + 1));
        kt_verbose_end(cli, start);
        kt_cli_free(cli);
        return code;
    }
    fprintf(stderr, "%s is a part of kt: see 'kt --help'.\n", program);
    return KT_EXIT_USAGE;
}
