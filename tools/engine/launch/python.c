/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/python.h"

#include "tools/engine/launch/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char probe[] =
#include "tools/engine/launch/probe_py.h"
    ;

/* ---- finding ---- */

/* The rest of the line that begins with `key` and a blank; "" where there is none. free() */
static char *take_line(const struct kt_cli *cli, const char *text, const char *key)
{
    size_t n = strlen(key);
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strncmp(text, key, n) == 0 && text[n] == ' ')
            return kt_cli_format(cli, "%.*s", (int)strcspn(text + n + 1, "\n"), text + n + 1);
    return kt_cli_format(cli, "%s", "");
}

static bool look(const struct kt_cli *cli, const char *program, struct kt_python *python)
{
    const char *const words[] = {program, "-c", probe, "look", NULL};
    struct kt_captured captured;
    kt_process_capture(cli, words, NULL, 0, &captured);
    bool ok = captured.status == 0 && captured.text;
    if (ok) {
        char *layer = take_line(cli, captured.text, "layer"), *ours = take_line(cli, captured.text, "ours");
        *python = (struct kt_python){.program = kt_cli_format(cli, "%s", program),
                                     .sglang = take_line(cli, captured.text, "sglang"),
                                     .version = take_line(cli, captured.text, "version"),
                                     .kernel = take_line(cli, captured.text, "kernel"),
                                     .has_layer = strcmp(layer, "1") == 0,
                                     .is_ours = strcmp(ours, "1") == 0};
        free(layer);
        free(ours);
    }
    free(captured.text);
    return ok;
}

int kt_python_find(const struct kt_cli *cli, const char *wished, struct kt_python *python)
{
    const char *environment = getenv("VIRTUAL_ENV"), *named = getenv("PYTHON");
    *python = (struct kt_python){.program = NULL};
    if (wished)
        return look(cli, wished, python)
                   ? KT_EXIT_OK
                   : kt_cli_error(cli, "--python %s cannot be run; -v shows its output", wished);
    char *own = environment && *environment ? kt_cli_format(cli, "%s/bin/python", environment) : NULL;
    const char *const programs[] = {own, named && *named ? named : NULL, "python3"};
    bool found = false;
    for (size_t i = 0; i < COUNT(programs) && !found; i++)
        found = programs[i] && look(cli, programs[i], python);
    free(own);
    return found
               ? KT_EXIT_OK
               : kt_cli_error(cli,
                              "SGLang needs Python, and there is no python3 in PATH; install it, activate a "
                              "virtual environment, or name one by --python or PYTHON");
}

void kt_python_free(struct kt_python *python)
{
    free(python->program);
    free(python->sglang);
    free(python->version);
    free(python->kernel);
}

int kt_python_complain(const struct kt_cli *cli, const struct kt_python *python)
{
    if (!*python->sglang)
        return kt_cli_error(
            cli,
            "%s has no SGLang; '%s -m pip install sglang-kt' installs the one that knows kt_kernel. "
            "Where another Python has it: --python",
            python->program, python->program);
    if (!python->has_layer)
        return kt_cli_error(
            cli,
            "%s: SGLang %s has no layer for kt_kernel (srt/layers/moe/kt_ep_wrapper.py): it would load "
            "all experts into the GPU; '%s -m pip install sglang-kt' installs the one that has",
            python->sglang, python->version, python->program);
    if (!*python->kernel)
        return kt_cli_error(
            cli,
            "%s has no kt_kernel, which computes the experts; install the package python3-kt-kernel, "
            "or the wheel that 'make python-wheel' makes",
            python->program);
    if (!python->is_ours)
        kt_cli_warn(
            cli,
            "%s is KT-Kernel's own package: what is said here of methods and memory holds for this package's",
            python->kernel);
    return KT_EXIT_OK;
}

/* ---- the parser ---- */

static void take_out(struct kt_words *words, const char *name)
{
    size_t i = 0, n = 1;
    while (i < words->n && strcmp(words->word[i], name) != 0)
        i++;
    while (i + n < words->n && strncmp(words->word[i + n], "--", 2) != 0)
        n++;
    for (size_t k = 0; k < n; k++)
        free((char *)(uintptr_t)words->word[i + k]);
    memmove((void *)(words->word + i), (void *)(words->word + i + n),
            (words->n - i - n + 1) * sizeof(*words->word));
    words->n -= n;
}

static bool is_listed(const char *name, const char *names)
{
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static int take_verdict(const struct kt_cli *cli, const struct kt_python *python, char *text,
                        struct kt_words *words, const char *spare)
{
    char *at = NULL;
    int code = KT_EXIT_OK;
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        char *rest = strchr(line, ' ');
        if (!rest)
            continue;
        *rest++ = '\0';
        if (strcmp(line, "failed") == 0)
            return kt_cli_error(cli, "%s: SGLang %s cannot be imported: %s", python->sglang, python->version,
                                rest);
        if (strcmp(line, "wrong") == 0)
            return kt_cli_error(cli, "SGLang %s rejects: %s", python->version, rest);
        if (strcmp(line, "unknown") != 0)
            continue;
        if (is_listed(rest, spare)) {
            kt_cli_warn(cli, "SGLang %s has no option %s, which is left out", python->version, rest);
            take_out(words, rest);
        } else {
            code = kt_cli_error(cli, "SGLang %s, in %s, has no option %s", python->version, python->sglang,
                                rest);
        }
    }
    return code;
}

int kt_python_check(const struct kt_cli *cli, const struct kt_python *python, struct kt_words *words,
                    size_t n_first, const char *spare)
{
    struct kt_captured captured;
    size_t n = words->n - n_first;
    const char **asked = kt_cli_alloc(cli, n + 5, sizeof(*asked));
    memcpy(asked, (const char *const[]){python->program, "-c", probe, "check"}, 4 * sizeof(*asked));
    memcpy(asked + 4, words->word + n_first, n * sizeof(*asked));
    kt_progress_start(cli, "asking SGLang which options it knows");
    kt_process_capture(cli, asked, NULL, 0, &captured);
    kt_progress_stop();
    free(asked);
    int code =
        captured.status == 0
            ? take_verdict(cli, python, captured.text, words, spare)
            : kt_cli_error(cli, "%s exited with status %d when queried for SGLang's options; -v shows why",
                           python->program, captured.status);
    free(captured.text);
    return code;
}

int kt_python_place(const struct kt_cli *cli, const struct kt_python *python, const char *path,
                    const uint64_t *counts, uint64_t n_layers, uint64_t n_experts)
{
    char sizes[2][24];
    struct kt_captured captured;
    (void)snprintf(sizes[0], sizeof(sizes[0]), "%" PRIu64, n_layers);
    (void)snprintf(sizes[1], sizeof(sizes[1]), "%" PRIu64, n_experts);
    const char *const words[] = {python->program, "-c", probe, "place", path, sizes[0], sizes[1], NULL};
    kt_process_capture(cli, words, (const char *)counts, n_layers * n_experts * sizeof(*counts), &captured);
    free(captured.text);
    return captured.status == 0
               ? KT_EXIT_OK
               : kt_cli_error(cli, "%s cannot write %s, which requires torch; -v shows its output",
                              python->program, path);
}
