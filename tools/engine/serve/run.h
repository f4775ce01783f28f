/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - kt run: its options, and from checkpoints to a server that answers. */
#ifndef KT_ENGINE_SERVE_RUN_H
#define KT_ENGINE_SERVE_RUN_H

#include "tools/engine/serve/launch.h"
#include "tools/engine/serve/server.h"

/* The longest context where nobody says more: keys and values are allocated at the start. */
#define KT_RUN_CONTEXT 32768

struct kt_run_args {
    const char *host, *names, *chat_template, *key, *key_file, *system, *origin, *kv_size, *experts, *model,
        *schema, *max_memory;
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

/* What a model will take, known before it is loaded. */
struct kt_run_plan {
    const char *family;
    uint64_t n_layers, n_experts, context, cache_tokens;
    uint32_t max_sessions, cache_dtype, mtp;
    struct kt_model_plan sizes;
};

/* A model, and what the command line says of it: as if it were the only one there. */
struct kt_run_model {
    struct kt_cli *cli; /* own, or the command's */
    struct kt_cli own;
    struct kt_run_args *args;
    struct kt_run_plan plan;
    struct kt_loaded loaded; /* its context may be another model's, too; the checkpoint is open as long as it
                                is loaded */
    bool shares_context;
};

/* Sets what the server, or a model, needs of the options; the arguments must live as long. Return 0, or an
 * exit code after a message. */
int kt_run_settings(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server);
int kt_run_name(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_served *model);
void kt_run_free(struct kt_server *server);

/* ---- several.c ---- */

/* The command as it was before its words were read. */
void kt_run_copy(const struct kt_cli *cli, struct kt_cli *copy);
/* Makes server->models of the words of a command that was read: `args` are the first one's, `before` is what
 * kt_run_copy made, `words` begins with the options. Returns 0, or an exit code after a message;
 * kt_run_forget either way. */
int kt_run_models(struct kt_cli *cli, struct kt_run_args *args, const struct kt_cli *before, char **words,
                  struct kt_server *server);
void kt_run_forget(struct kt_server *server);

/* ---- plan.c ---- */

/* What a model is opened with. */
void kt_run_model_params(const struct kt_run_model *from, struct kt_model_params *params);
/* Opens the model's context and checkpoint, and plans; sets model->info and size. */
int kt_run_make_plan(struct kt_served *model);
/* Whether it fits by itself; 0, or an exit code after a message. */
int kt_run_check_size(const struct kt_served *model);
/* Prints it to standard output. */
int kt_run_show_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_server *server);

/* ---- load.c ---- */

/* What reads requests: tokenizer, template. Returns 0, or an exit code after a message. */
int kt_run_open(struct kt_served *model);
void kt_run_close(struct kt_served *model);
/* Whether SIGTERM or SIGINT wait, which are blocked; they stay so for whoever waits for them. */
bool kt_run_is_ended(void);

#endif
