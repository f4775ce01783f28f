/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - all that SGLang is started with, and its command line. */
#ifndef KT_ENGINE_LAUNCH_PLAN_H
#define KT_ENGINE_LAUNCH_PLAN_H

#include "tools/engine/launch/fit.h"
#include "tools/engine/launch/python.h"

struct kt_run_args;

/* Python, -m, the module: what stands before the options. */
#define KT_LAUNCH_FIRST_WORDS 3

struct kt_launch_plan {
    char *model_path, *experts_path; /* absolute */
    struct kt_launch_facts facts;
    struct kt_gpus gpus;
    struct kt_fit fit;
    const char *method; /* AMXINT4 */
    uint64_t cpu_size;  /* bytes of experts in the CPU's memory */
    uint64_t n_threads; /* of all nodes */
    uint64_t n_nodes;   /* NUMA nodes */
    char *nodes;        /* their numbers, "0 1" */
};

/* Reads checkpoints, looks at CPU and GPUs. Returns 0, or an exit code after a message; kt_launch_free_plan
 * either way. */
int kt_launch_make_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_words *words,
                        struct kt_launch_plan *plan);
void kt_launch_free_plan(struct kt_launch_plan *plan);

/* words.c of it: the command line, with what the user has. A file of statistics is written again for SGLang.
 */
int kt_launch_make_words(const struct kt_cli *cli, const struct kt_run_args *args,
                         const struct kt_launch_plan *plan, const struct kt_python *python,
                         struct kt_words *words);

#endif
