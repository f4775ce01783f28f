/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - kt run: loads, serves until a signal comes, drains. */
#include "tools/engine/serve/run.h"
#include "tools/engine/serve/connections.h"
#include "tools/engine/serve/notify.h"

#include "tools/kt/bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

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
    kt_models_refuse(&server->models);
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

/* As kt bench --model does, but once. */
static int measure_memory(const struct kt_cli *cli, struct kt_server *server)
{
    struct bench_limit reads[BENCH_MAX_WAYS] = {{.rate = 0}};
    struct bench_buffer buffer;
    struct kt_error error;
    size_t n = 0;
    uint64_t least = UINT64_C(1) << 28, size = 3 * bench_cache_size();
    if (bench_buffer_create(&buffer, size > least ? size : least, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    struct kt_context *context = server->models.list->from->loaded.context;
    enum kt_status status = bench_measure_reads(context, &buffer, 1, reads, &n, &error);
    bench_buffer_destroy(&buffer);
    for (size_t i = 0; i < n; i++)
        if (1e9 * reads[i].rate > server->memory_rate)
            server->memory_rate = 1e9 * reads[i].rate;
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

/* What all models need to read requests, and the first one's weights; -1: a signal has ended it. */
static int load(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server)
{
    struct kt_models *models = &server->models;
    int code = args->measure_memory ? measure_memory(cli, server) : KT_EXIT_OK;
    for (size_t i = 0; i < models->n && code == KT_EXIT_OK; i++) {
        code = kt_run_open(&models->list[i]);
        if (i > 0) /* until it is asked for */
            kt_served_unload(&models->list[i]);
    }
    if (code != KT_EXIT_OK)
        return code;
    enum kt_status status = kt_models_load_first(models);
    return status == KT_OK ? KT_EXIT_OK : status == KT_E_STATE ? -1 : KT_EXIT_PROBLEM;
}

/* Loads what requests wait for, until a signal comes. */
static int attend(const struct kt_cli *cli, struct kt_server *server, const sigset_t *ends)
{
    struct pollfd both[2] = {{.events = POLLIN}, {.fd = server->models.wake, .events = POLLIN}};
    both[0].fd = signalfd(-1, ends, SFD_CLOEXEC); /* never read: only looked at */
    if (both[0].fd < 0)
        return kt_cli_error(cli, "cannot wait for signals: %s", strerror(errno));
    do
        (void)poll(both, 2, -1);
    while (!kt_run_is_ended() && kt_models_settle(&server->models));
    close(both[0].fd);
    (void)wait_signal(ends, 0); /* a second one ends the answers */
    return KT_EXIT_OK;
}

static int serve(struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server,
                 const sigset_t *ends)
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
    int code = load(cli, args, server);
    if (code == KT_EXIT_OK) {
        atomic_store(&server->state, KT_SERVER_READY);
        say_address(cli, server, "ready:");
        kt_notify("READY=1\nSTATUS=ready");
        code = attend(cli, server, ends);
    }
    drain(cli, server, ends, (double)args->drain);
    kt_http_stop(server->http);
    server->http = NULL;
    return code < 0 ? KT_EXIT_OK : code;
}

static int run(struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server,
               const sigset_t *ends)
{
    struct kt_models *models = &server->models;
    int code = kt_run_settings(cli, args, server);
    for (size_t i = 0; i < models->n && code == KT_EXIT_OK; i++) {
        code = kt_run_make_plan(&models->list[i]);
        if (code == KT_EXIT_OK)
            code = kt_run_check_size(&models->list[i]);
    }
    if (code == KT_EXIT_OK)
        code = kt_run_show_plan(cli, args, server);
    if (code == KT_EXIT_OK && !args->dry_run)
        code = serve(cli, args, server, ends);
    for (size_t i = models->n; i-- > 0;)
        kt_run_close(&models->list[i]);
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
    bool is_kt = args->engine == KT_RUN_ENGINE_KT;
    if (is_kt)
        *n_rest = 0;
    int n = cli->n_arguments - *n_rest;
    if (n == 0 && args->model) { /* one word in front, for it */
        *--cli->arguments = (char *)(uintptr_t)args->model;
        cli->n_arguments++;
    } else if (n == 1 && args->model) { /* KTransformers has a name there */
        cli->arguments[0] = (char *)(uintptr_t)args->model;
    } else if (n < 1) {
        return kt_cli_usage(cli, "MODEL is missing");
    } else if (n > 1 && !is_kt) {
        return kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[1]);
    }
    return KT_EXIT_OK;
}

/* Serves the models of a command line that was read. */
static int serve_models(struct kt_cli *cli, struct kt_run_args *args, const struct kt_cli *before,
                        char **argv)
{
    struct kt_server server = {.metrics = {.lock = PTHREAD_MUTEX_INITIALIZER}, .turns = KT_BODY_TURNS_INIT};
    sigset_t ends;
    /* Threads inherit this: only the main one takes them, when it waits for them. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    int code = kt_models_open(&server.models) ? KT_EXIT_OK : kt_cli_error(cli, "out of memory or files");
    if (code == KT_EXIT_OK)
        code = kt_run_models(cli, args, before, argv, &server);
    if (code == KT_EXIT_OK)
        code = run(cli, args, &server, &ends);
    kt_run_forget(&server);
    kt_run_free(&server);
    kt_models_close(&server.models);
    return code;
}

int kt_cmd_run(struct kt_cli *cli, int argc, char **argv)
{
    struct kt_run_args args = kt_run_defaults;
    struct kt_cli before;
    int n_rest = count_rest(argc, argv), code;
    kt_run_copy(cli, &before);
    if (!kt_cli_parse(cli, &kt_run_command, argc, argv, &args))
        code = cli->exit_code;
    else
        code = find_model(cli, &args, &n_rest);
    bool is_sglang = args.engine == KT_RUN_ENGINE_SGLANG;
    if (cli->runs && code == KT_EXIT_OK && !is_sglang)
        code = kt_launch_refuse(cli);
    if (cli->runs && code == KT_EXIT_OK)
        code = is_sglang ? kt_launch(cli, &args, cli->arguments + 1, n_rest)
                         : serve_models(cli, &args, &before, argv);
    kt_cli_free(&before);
    return code;
}
