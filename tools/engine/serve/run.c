/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - kt run: loads, serves until a signal comes, drains. */
#include "tools/engine/serve/run.h"
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/connections.h"
#include "tools/engine/serve/notify.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Waits for SIGTERM or SIGINT, at most `seconds`; false: none came. Below 0: forever. */
static bool wait_signal(const sigset_t *ends, double seconds)
{
    struct timespec limit = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int number;
    do
        number = seconds < 0 ? sigwaitinfo(ends, NULL) : sigtimedwait(ends, NULL, &limit);
    while (number < 0 && seconds < 0);
    return number > 0;
}

/* No new requests; those that are being answered have `seconds`, or until a second signal. */
static void drain(const struct kt_cli *cli, struct kt_server *server, const sigset_t *ends, double seconds)
{
    double until = kt_cli_now() + seconds;
    atomic_store(&server->state, KT_SERVER_DRAINING);
    kt_notify("STOPPING=1");
    kt_http_quiesce(server->http);
    if (server->scheduler)
        kt_scheduler_refuse(server->scheduler);
    unsigned running = kt_http_running(server->http);
    if (running > 0)
        kt_cli_note(cli, "ending; %u requests have %.0f s", running, seconds);
    while (kt_http_running(server->http) > 0 && kt_cli_now() < until)
        if (wait_signal(ends, 0.05))
            break;
    atomic_store(&server->state, KT_SERVER_ABORTING);
    /* They say so to their clients, which takes a moment; whoever does not listen is not waited for. */
    until = kt_cli_now() + 2;
    while (kt_http_running(server->http) > 0 && kt_cli_now() < until)
        (void)wait_signal(ends, 0.02);
}

static void say_address(const struct kt_cli *cli, const struct kt_server *server, const char *what)
{
    bool is_v6 = strchr(server->host, ':') != NULL;
    kt_cli_note(cli, "%s http://%s%s%s:%u", what, is_v6 ? "[" : "", server->host, is_v6 ? "]" : "",
                kt_http_port(server->http));
}

static int serve(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_run_plan *plan,
                 struct kt_server *server, const sigset_t *ends)
{
    const struct kt_http_params params = {.host = args->host,
                                          .port = (uint16_t)args->port,
                                          .max_connections = kt_connections_fit(args->max_connections),
                                          .timeout = (unsigned)args->timeout};
    struct kt_error error;
    if (params.max_connections < args->max_connections)
        kt_cli_warn(cli,
                    "of --max-connections %" PRIu64 " there are files for %" PRIu64
                    "; allow more with ulimit -n",
                    args->max_connections, params.max_connections);
    if (kt_http_start(server, &params, &server->http, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    say_address(cli, server, "loading; listening at");
    int code = kt_run_load(cli, args, plan, server);
    if (code == KT_EXIT_OK) {
        atomic_store(&server->state, KT_SERVER_READY);
        say_address(cli, server, "ready:");
        kt_notify("READY=1\nSTATUS=ready");
        (void)wait_signal(ends, -1);
    }
    drain(cli, server, ends, (double)args->drain);
    kt_http_stop(server->http);
    server->http = NULL;
    return code < 0 ? KT_EXIT_OK : code;
}

static int run(struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server,
               const sigset_t *ends)
{
    struct kt_run_plan plan;
    int code = kt_run_settings(cli, args, server);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &server->loaded.context);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(cli, cli->arguments[0], &server->loaded.checkpoint);
    if (code == KT_EXIT_OK && args->experts)
        code = kt_cli_checkpoint(cli, args->experts, &server->loaded.experts);
    if (code == KT_EXIT_OK)
        code = kt_run_make_plan(cli, args, server, &plan);
    if (code == KT_EXIT_OK)
        code = kt_run_show_plan(cli, args, server, &plan);
    if (code == KT_EXIT_OK && !args->dry_run)
        code = serve(cli, args, &plan, server, ends);
    kt_run_unload(server);
    return code;
}

/* Words behind `--`, which are SGLang's; to be counted before getopt moves them. */
static int count_rest(int argc, char **argv)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") != 0)
        i++;
    return i < argc ? argc - i - 1 : 0;
}

/* MODEL becomes the first argument, and n_rest the number of those that are SGLang's. */
static int find_model(struct kt_cli *cli, struct kt_run_args *args, int *n_rest)
{
    if (args->engine != KT_RUN_ENGINE_SGLANG)
        *n_rest = 0;
    int n = cli->n_arguments - *n_rest;
    if (n == 0 && args->model) { /* one word in front, for it */
        *--cli->arguments = (char *)(uintptr_t)args->model;
        cli->n_arguments++;
    } else if (n == 1 && args->model) { /* KTransformers has a name there */
        cli->arguments[0] = (char *)(uintptr_t)args->model;
    } else if (n != 1) {
        return n < 1 ? kt_cli_usage(cli, "MODEL is missing")
                     : kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[1]);
    }
    return KT_EXIT_OK;
}

int kt_cmd_run(struct kt_cli *cli, int argc, char **argv)
{
    struct kt_run_args args = kt_run_defaults;
    struct kt_server server = {.metrics = {.lock = PTHREAD_MUTEX_INITIALIZER}, .turns = KT_BODY_TURNS_INIT};
    sigset_t ends;
    int n_rest = count_rest(argc, argv);
    if (!kt_cli_parse(cli, &kt_run_command, argc, argv, &args))
        return cli->exit_code;
    int wrong = find_model(cli, &args, &n_rest);
    if (wrong == KT_EXIT_OK && args.engine == KT_RUN_ENGINE_KT)
        wrong = kt_launch_refuse(cli);
    if (wrong != KT_EXIT_OK)
        return wrong;
    if (args.engine == KT_RUN_ENGINE_SGLANG)
        return kt_launch(cli, &args, cli->arguments + 1, n_rest);
    /* Threads inherit this: only the main one takes them, when it waits for them. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    int code = run(cli, &args, &server, &ends);
    kt_run_free(&server);
    return code;
}
