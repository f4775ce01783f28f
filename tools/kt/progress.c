/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - a line on the terminal while something takes long. */
#include "tools/kt/table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running;
    bool shown;
    bool bytes;
    char title[160];
    uint64_t done, total;
    struct timespec start;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_ms(struct timespec *time, long ms)
{
    time->tv_nsec += ms % 1000 * 1000000;
    time->tv_sec += ms / 1000 + time->tv_nsec / 1000000000;
    time->tv_nsec %= 1000000000;
}

static void draw_bytes(double seconds)
{
    char done[32], total[32], rate[32];
    double speed = (double)progress.done / seconds;
    fprintf(stderr, " %s of %s", kt_bytes_text(progress.done, done, sizeof(done)),
            kt_bytes_text(progress.total, total, sizeof(total)));
    if (progress.done == 0)
        return;
    fprintf(stderr, " at %s/s, %.0f s left", kt_bytes_text((uint64_t)speed, rate, sizeof(rate)),
            (double)(progress.total - progress.done) / speed);
}

static void draw(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "\r\033[K%s", progress.title);
    double seconds =
        (double)(now.tv_sec - progress.start.tv_sec) + (double)(now.tv_nsec - progress.start.tv_nsec) / 1e9;
    if (progress.total && progress.bytes)
        draw_bytes(seconds);
    else if (progress.total)
        fprintf(stderr, " %" PRIu64 "/%" PRIu64, progress.done, progress.total);
    fprintf(stderr, ", %.0f s", seconds);
    fflush(stderr);
    progress.shown = true;
}

static void *tick(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&progress.lock);
    struct timespec next = progress.start;
    add_ms(&next, 2000);
    while (progress.running) {
        if (pthread_cond_timedwait(&progress.wake, &progress.lock, &next) != 0 && progress.running) {
            draw();
            add_ms(&next, 500);
        }
    }
    pthread_mutex_unlock(&progress.lock);
    return NULL;
}

void kt_progress_start(const struct kt_cli *cli, const char *title)
{
    pthread_condattr_t attributes;
    if (progress.running || !isatty(STDERR_FILENO))
        return;
    snprintf(progress.title, sizeof(progress.title), "kt %s: %s", cli->verb, title);
    progress.done = progress.total = 0;
    progress.shown = false;
    clock_gettime(CLOCK_MONOTONIC, &progress.start);
    if (pthread_condattr_init(&attributes) != 0)
        return;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&progress.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (failed)
        return;
    progress.running = true;
    if (pthread_create(&progress.thread, NULL, tick, NULL) != 0) {
        progress.running = false;
        pthread_cond_destroy(&progress.wake);
    }
}

static void update(uint64_t done, uint64_t total, bool bytes)
{
    pthread_mutex_lock(&progress.lock);
    progress.done = done;
    progress.total = total;
    progress.bytes = bytes;
    pthread_mutex_unlock(&progress.lock);
}

void kt_progress_update(uint64_t done, uint64_t total)
{
    update(done, total, false);
}

void kt_progress_bytes(uint64_t done, uint64_t total)
{
    update(done, total, true);
}

void kt_progress_show(const struct kt_cli *cli, const char *title)
{
    pthread_mutex_lock(&progress.lock);
    if (!progress.running && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[Kkt %s: %s", cli->verb, title);
        fflush(stderr);
        progress.shown = true;
    }
    pthread_mutex_unlock(&progress.lock);
}

void kt_progress_clear(void)
{
    pthread_mutex_lock(&progress.lock);
    if (progress.shown) {
        fputs("\r\033[K", stderr);
        progress.shown = false;
    }
    pthread_mutex_unlock(&progress.lock);
}

void kt_progress_stop(void)
{
    pthread_mutex_lock(&progress.lock);
    bool running = progress.running;
    progress.running = false;
    if (running)
        pthread_cond_signal(&progress.wake);
    pthread_mutex_unlock(&progress.lock);
    if (!running)
        return;
    pthread_join(progress.thread, NULL);
    pthread_cond_destroy(&progress.wake);
    kt_progress_clear();
}
