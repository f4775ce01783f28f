/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - a line on the terminal while something takes long. */
#include "tools/kt/base/table_text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* Shows the line, its title cut to fit: one that wraps could not be removed again. */
static void put_line(const char *title, const char *rest)
{
    struct winsize size;
    size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : SIZE_MAX;
    size_t length = strlen(rest), end = 0;
    for (size_t n = length + 1; title[end] && n < columns; n++) {
        size_t bytes = kt_utf8_length(title + end);
        end += bytes ? bytes : 1;
    }
    fprintf(stderr, "\r\033[K%.*s%s", (int)end, title, length < columns ? rest : "");
    fflush(stderr);
    progress.shown = true;
}

static void draw_bytes(double seconds, char *text, size_t size)
{
    char done[32], total[32], rate[32];
    double speed = (double)progress.done / seconds;
    kt_bytes_text(progress.done, done, sizeof(done));
    kt_bytes_text(progress.total, total, sizeof(total));
    if (progress.done == 0)
        snprintf(text, size, " %s of %s", done, total);
    else
        snprintf(text, size, " %s of %s at %s/s, %.0f s left", done, total,
                 kt_bytes_text((uint64_t)speed, rate, sizeof(rate)),
                 (double)(progress.total - progress.done) / speed);
}

static void draw(void)
{
    struct timespec now;
    char rest[160] = "";
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds =
        (double)(now.tv_sec - progress.start.tv_sec) + (double)(now.tv_nsec - progress.start.tv_nsec) / 1e9;
    if (progress.total && progress.bytes)
        draw_bytes(seconds, rest, sizeof(rest));
    else if (progress.total)
        snprintf(rest, sizeof(rest), " %" PRIu64 "/%" PRIu64, progress.done, progress.total);
    size_t end = strlen(rest);
    snprintf(rest + end, sizeof(rest) - end, ", %.0f s", seconds);
    put_line(progress.title, rest);
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
        char line[200];
        snprintf(line, sizeof(line), "kt %s: %s", cli->verb, title);
        put_line(line, "");
    }
    pthread_mutex_unlock(&progress.lock);
}

/* The lock is held. */
static void clear(void)
{
    if (progress.shown)
        fputs("\r\033[K", stderr);
    progress.shown = false;
}

void kt_progress_clear(void)
{
    pthread_mutex_lock(&progress.lock);
    clear();
    pthread_mutex_unlock(&progress.lock);
}

bool kt_progress_log(const char *text, size_t length)
{
    pthread_mutex_lock(&progress.lock);
    bool is_beside = progress.running || progress.shown;
    clear();
    if (!is_beside) /* then it is not a terminal, perhaps, and whoever should read it holds up this thread
                     * only
                     */
        pthread_mutex_unlock(&progress.lock);
    bool done = write(STDERR_FILENO, text, length) == (ssize_t)length;
    if (is_beside)
        pthread_mutex_unlock(&progress.lock);
    return done;
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
