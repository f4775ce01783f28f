/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - state of the process that a plugin must not change. */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined __x86_64__
#include <xmmintrin.h>
#endif

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return text ? mix(hash, text, strlen(text) + 1) : hash;
}

/* Rounding and flushing of subnormal numbers, not the exception flags. */
static uint64_t read_modes(void)
{
    uint64_t modes = (uint64_t)fegetround();
#if defined __x86_64__
    modes = modes << 32 | (_mm_getcsr() & ~UINT32_C(0x3f));
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    modes = modes << 32 | control;
#endif
    return modes;
}

static uint64_t read_handlers(void)
{
    uint64_t hash = 0;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0)
            hash = mix(hash, &action.sa_handler, sizeof(action.sa_handler));
    }
    return hash;
}

static uint64_t read_blocked(void)
{
    sigset_t blocked;
    uint64_t bits = 0;

    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number < 64; number++)
        bits |= (uint64_t)(sigismember(&blocked, number) == 1) << number;
    return bits;
}

static uint64_t read_timers(void)
{
    struct itimerval timers[3] = {{.it_interval.tv_sec = 0}};
    uint64_t set = 0;
    (void)getitimer(ITIMER_REAL, &timers[0]);
    (void)getitimer(ITIMER_VIRTUAL, &timers[1]);
    (void)getitimer(ITIMER_PROF, &timers[2]);
    for (int i = 0; i < 3; i++)
        set |= (uint64_t)(timerisset(&timers[i].it_value) != 0) << i;
    return set;
}

static uint64_t read_folder(void)
{
    char path[4096];
    return mix_text(0, getcwd(path, sizeof(path)));
}

static uint64_t read_locale(void)
{
    return mix_text(0, setlocale(LC_ALL, NULL));
}

static uint64_t read_umask(void)
{
    mode_t mask = umask(0);

    umask(mask);
    return mask;
}

static uint64_t read_environment(void)
{
    uint64_t hash = 0;
    for (char **entry = environ; entry && *entry; entry++)
        hash = mix_text(hash, *entry);
    return hash;
}

static uint64_t read_cpus(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? mix(0, &cpus, sizeof(cpus)) : 0;
}

static uint64_t read_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t sum = 0;

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat file;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(folder) || fstat(fd, &file) != 0)
            continue;
        const uint64_t what[] = {(uint64_t)fd, file.st_dev, file.st_ino};
        sum += mix(1, what, sizeof(what));
    }
    if (folder)
        closedir(folder);
    return sum;
}

static uint64_t count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    uint64_t n = 0;

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

unsigned plugin_children(pid_t *children, unsigned n)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned found = 0;

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300];
        long child;
        snprintf(path, sizeof(path), "/proc/self/task/%s/children", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "re") : NULL;
        while (file && found < n && fscanf(file, "%ld", &child) == 1)
            children[found++] = (pid_t)child;
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

static uint64_t count_children(void)
{
    pid_t children[64];

    return plugin_children(children, 64);
}

/* `slow`: read again a moment later if it differs, since threads and processes take time to end. */
static const struct {
    const char *name;
    uint64_t (*read)(void);
    bool slow;
} rows[] = {
    {"another mode of floating point", read_modes, false},
    {"other threads", count_threads, true},
    {"other processes of its own", count_children, true},
    {"other open files", read_files, true},
    {"another handler of a signal", read_handlers, false},
    {"other blocked signals", read_blocked, false},
    {"another timer", read_timers, false},
    {"another working directory", read_folder, false},
    {"another locale", read_locale, false},
    {"another umask", read_umask, false},
    {"another environment", read_environment, false},
    {"other CPUs for its thread", read_cpus, false},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == PLUGIN_N_STATES, "a place for each row");

void plugin_state_take(struct plugin_process *process)
{
    for (int i = 0; i < PLUGIN_N_STATES; i++)
        process->values[i] = rows[i].read();
}

const char *plugin_state_compare(const struct plugin_process *process)
{
    for (int i = 0; i < PLUGIN_N_STATES; i++) {
        bool same = rows[i].read() == process->values[i];
        for (int wait = 0; !same && rows[i].slow && wait < 50; wait++) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            same = rows[i].read() == process->values[i];
        }
        if (!same)
            return rows[i].name;
    }
    return NULL;
}

bool plugin_state_has_modes(const struct plugin_process *process)
{
    return read_modes() == process->values[0];
}
