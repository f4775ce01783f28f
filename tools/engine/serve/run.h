/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - kt run: its options, and from the checkpoint to a server that answers. */
#ifndef KT_ENGINE_SERVE_RUN_H
#define KT_ENGINE_SERVE_RUN_H

#include "tools/engine/serve/launch.h"
#include "tools/engine/serve/server.h"

/* The longest context where nobody says more: keys and values are allocated at the start. */
#define KT_RUN_CONTEXT 32768

struct kt_run_args {
    const char *host, *names, *chat_template, *key, *key_file, *system, *origin, *kv_size, *experts, *model,
        *schema;
    uint64_t port, context, max_running, max_queue, max_connections, max_body, timeout, drain, max_tokens;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty,
        frequency_penalty; /* -1: not said */
    uint64_t top_k;        /* UINT64_MAX: not said */
    int kv, log, speculate, engine, pooling;
    bool dry_run, share_prefixes, measure_memory;
    struct kt_launch_args launch;
};
enum { KT_RUN_ENGINE_KT, KT_RUN_ENGINE_SGLANG }; /* kt_run_args.engine */
extern const struct kt_run_args kt_run_defaults;

/* Sets what the server needs of the options; the arguments must live as long. Returns 0, or an exit code
 * after a message. */
int kt_run_settings(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server);
void kt_run_free(struct kt_server *server);

/* ---- plan.c ---- */

/* What a model will take, known before it is loaded. */
struct kt_run_plan {
    const char *family;
    uint64_t n_layers, n_experts, context, cache_tokens;
    uint32_t max_sessions, cache_dtype, mtp;
    struct kt_checkpoint *experts; /* the server's */
    struct kt_model_plan sizes;
};
/* What a model is opened with. */
void kt_run_model_params(const struct kt_run_plan *plan, struct kt_model_params *params);
int kt_run_make_plan(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server,
                     struct kt_run_plan *plan);
/* Prints it to standard output. */
int kt_run_show_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_server *server,
                     const struct kt_run_plan *plan);

/* ---- load.c ---- */

/* Tokenizer, weights, template, scheduler. Returns 0, or an exit code after a message; -1: a signal has ended
 * it. */
int kt_run_load(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_run_plan *plan,
                struct kt_server *server);
void kt_run_unload(struct kt_server *server);

#endif
