/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/campaign/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 30 };

struct tally kt_tally;
double kt_cpu_seconds = 1;

double kt_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct bytes kt_read_all(const char *path)
{
    struct bytes bytes = {.data = NULL};
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file)
        return bytes;
    bytes.there = fstat(fileno(file), &status) == 0;
    bytes.data = malloc((size_t)status.st_size + 1);
    bytes.size = bytes.data ? fread(bytes.data, 1, (size_t)status.st_size, file) : 0;
    fclose(file);
    return bytes;
}

void kt_write_all(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

bool kt_is_same(const struct bytes *a, const struct bytes *b)
{
    return a->there == b->there && a->size == b->size &&
           (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* ---- a run ---- */

/* False: it has not ended after so many seconds. */
static bool wait_for(pid_t pid, double seconds)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    time_t whole = (time_t)seconds;
    struct timespec timeout = {whole, (long)((seconds - (double)whole) * 1e9)};
    int n = ppoll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, &timeout, NULL);
    if (fd < 0 || n < 0) {
        perror("pidfd_open");
        exit(2);
    }
    close(fd);
    return n > 0;
}

static struct outcome run_for(char **command, double seconds)
{
    struct outcome outcome = {.late = false};
    struct rusage used;
    int words = memfd_create("words", MFD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 0);
        dup2(nothing, 1);
        dup2(words, 2);
        setpgid(0, 0);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        execv(command[0], command);
        _exit(127);
    }
    outcome.late = !wait_for(pid, seconds);
    if (outcome.late)
        kill(pid, SIGKILL);
    wait4(pid, &outcome.status, 0, &used);
    kill(-pid, SIGKILL);
    outcome.cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    outcome.memory = used.ru_maxrss;
    ssize_t length = pread(words, outcome.words, sizeof(outcome.words) - 1, 0);
    outcome.words[length > 0 ? length : 0] = '\0';
    close(words);
    return outcome;
}

struct outcome kt_run(char **command, double delay)
{
    double limit = HANG_SECONDS * kt_cpu_seconds;
    struct outcome outcome = run_for(command, delay > 0 ? delay : limit);
    return outcome.late && delay <= 0 ? run_for(command, 4 * limit) : outcome;
}

void kt_tell(const char *what, unsigned long long seed, const struct outcome *outcome)
{
    printf("%s: seed or call %llu, status %x, %.2f s, %ld KB: %.300s\n", what, seed,
           (unsigned)outcome->status, outcome->cpu, outcome->memory, outcome->words);
}

bool kt_judge(const struct outcome *outcome, unsigned long long seed)
{
    kt_tally.tried++;
    if (outcome->late) {
        kt_tally.hangs++;
        kt_tell("hang", seed, outcome);
        return false;
    }
    if (!WIFEXITED(outcome->status) || WEXITSTATUS(outcome->status) > 2) {
        kt_tally.crashes++;
        kt_tell("crash", seed, outcome);
        return false;
    }
    return true;
}
