/* SPDX-License-Identifier: Apache-2.0 */
/* python.h - the Python that has SGLang. */
#ifndef KT_ENGINE_LAUNCH_PYTHON_H
#define KT_ENGINE_LAUNCH_PYTHON_H

#include "tools/engine/launch/words.h"

struct kt_python {
    char *program, *sglang, *version,
        *kernel;    /* the interpreter; folders of sglang and kt_kernel, "": none */
    bool has_layer; /* SGLang's layer for kt_kernel, which sglang-kt has */
    bool is_ours;   /* kt_kernel is this package's */
};

/* `wished`, or that of an active virtual environment, or $PYTHON, or python3. Returns 0, or an exit code
 * after a message; that SGLang is missing is not an error yet. kt_python_free either way. */
int kt_python_find(const struct kt_cli *cli, const char *wished, struct kt_python *python);
void kt_python_free(struct kt_python *python);

/* Says what is missing, and how to get it. Returns 0, or an exit code after a message. */
int kt_python_complain(const struct kt_cli *cli, const struct kt_python *python);

/* Asks SGLang's own parser, with progress. The first `n_first` words are not options. What it does not know
 * and `spare` names, "--a --b", is taken out, with a warning. */
int kt_python_check(const struct kt_cli *cli, const struct kt_python *python, struct kt_words *words,
                    size_t n_first, const char *spare);

/* Writes counts [n_layers][n_experts] for --init-expert-location. */
int kt_python_place(const struct kt_cli *cli, const struct kt_python *python, const char *path,
                    const uint64_t *counts, uint64_t n_layers, uint64_t n_experts);

#endif
