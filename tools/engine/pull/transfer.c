/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - several transfers at once, until all are over or a signal comes. */
#include "tools/engine/pull/pull.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t caught;

static void catch (int number)
{
    caught = number;
}

int pull_signal(void)
{
    return caught;
}

void pull_catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        /* One that the caller ignores, as with nohup, stays ignored. */
        if (sigaction(ends[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof(action));
        action.sa_handler = catch;
        sigaction(ends[i], &action, NULL);
    }
}

struct group {
    struct pull *pull;
    CURLM *multi;
    struct pull_transfer *transfers;
    size_t n;
    uint64_t total, kept; /* bytes of files that are fetched, and what was here */
};

/* Says why it failed. A file that is over gives its descriptor back. */
static void end(struct pull_transfer *transfer)
{
    if (!transfer->over)
        return;
    if (transfer->failed && *transfer->problem)
        kt_cli_error(transfer->pull->cli, "%s: %s", transfer->file ? transfer->file->path : transfer->url,
                     transfer->problem);
    if (transfer->file)
        pull_release(transfer);
}

/* Starts what may begin. Returns how many are not over. */
static size_t start_some(struct group *group)
{
    size_t n_open = 0, n_running = 0;
    for (size_t i = 0; i < group->n; i++)
        n_running += group->transfers[i].running;
    for (size_t i = 0; i < group->n; i++) {
        struct pull_transfer *transfer = &group->transfers[i];
        if (transfer->over)
            continue;
        n_open++;
        if (transfer->running || n_running >= group->pull->args->jobs || kt_cli_now() < transfer->not_before)
            continue;
        if (transfer->file && transfer->fd < 0 && pull_prepare(transfer) != KT_EXIT_OK) {
            transfer->over = transfer->failed = true;
        }
        if (transfer->over || kt_cli_now() < transfer->not_before) { /* all of it was here */
            end(transfer);
            continue;
        }
        if (!pull_start(transfer) || curl_multi_add_handle(group->multi, transfer->easy) != CURLM_OK) {
            snprintf(transfer->problem, sizeof(transfer->problem), "it cannot be asked for");
            transfer->over = transfer->failed = true;
            end(transfer);
            continue;
        }
        transfer->running = true;
        n_running++;
    }
    return n_open;
}

static void take_ends(struct group *group)
{
    struct CURLMsg *message;
    int n_left;
    while ((message = curl_multi_info_read(group->multi, &n_left)) != NULL) {
        char *data = NULL;
        CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &data);
        struct pull_transfer *transfer = (struct pull_transfer *)(void *)data;
        (void)curl_multi_remove_handle(group->multi, transfer->easy);
        pull_end(transfer, result);
        end(transfer);
    }
}

static void show(const struct group *group)
{
    uint64_t have = 0;
    for (size_t i = 0; i < group->pull->n_files; i++)
        have += group->pull->files[i].chosen ? group->pull->files[i].have : 0;
    kt_progress_bytes(have > group->kept ? have - group->kept : 0, group->total);
}

static int run(struct group *group)
{
    int n_running;
    group->multi = curl_multi_init();
    if (!group->multi)
        return kt_cli_error(group->pull->cli, "out of memory");
    while (start_some(group) > 0 && caught == 0) {
        if (curl_multi_perform(group->multi, &n_running) != CURLM_OK ||
            curl_multi_poll(group->multi, NULL, 0, n_running > 0 ? 200 : 50, NULL) != CURLM_OK)
            break;
        take_ends(group);
        if (group->total)
            show(group);
    }
    for (size_t i = 0; i < group->n; i++)
        if (group->transfers[i].running)
            (void)curl_multi_remove_handle(group->multi, group->transfers[i].easy);
    curl_multi_cleanup(group->multi);
    return caught ? KT_EXIT_PROBLEM : KT_EXIT_OK;
}

int pull_text(struct pull *pull, const char *url, struct pull_transfer *transfer)
{
    struct group group = {.pull = pull, .transfers = transfer, .n = 1};
    *transfer = (struct pull_transfer){.pull = pull,
                                       .url = kt_cli_format(pull->cli, "%s", url),
                                       .at = kt_cli_format(pull->cli, "%s", url),
                                       .fd = -1};
    int code = run(&group);
    if (code == KT_EXIT_OK && (transfer->failed || !transfer->over))
        code = KT_EXIT_PROBLEM;
    if (code == KT_EXIT_OK && !transfer->text)
        code = kt_cli_error(pull->cli, "%s: the answer is empty", url);
    return code;
}

int pull_files(struct pull *pull)
{
    struct group group = {.pull = pull};
    group.transfers = kt_cli_alloc(pull->cli, pull->n_files, sizeof(*group.transfers));
    for (size_t i = 0; i < pull->n_files; i++) {
        struct pull_file *file = &pull->files[i];
        if (!file->chosen || file->done)
            continue;
        char *url = pull_url(pull, file);
        group.transfers[group.n++] = (struct pull_transfer){.pull = pull,
                                                            .file = file,
                                                            .url = url,
                                                            .at = kt_cli_format(pull->cli, "%s", url),
                                                            .fd = -1};
        group.total += file->size;
    }
    kt_progress_start(pull->cli, pull->repository);
    int code = group.n > 0 ? run(&group) : KT_EXIT_OK;
    kt_progress_stop();
    size_t n_failed = 0;
    for (size_t i = 0; i < pull->n_files; i++)
        n_failed += pull->files[i].chosen && !pull->files[i].done;
    for (size_t i = 0; i < group.n; i++)
        pull_release(&group.transfers[i]);
    free(group.transfers);
    if (caught)
        kt_cli_note(pull->cli, "stopped; the same command goes on where it was");
    else if (n_failed > 0)
        code = kt_cli_error(pull->cli, "%zu files are missing; run the same command to resume", n_failed);
    return code;
}
