/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack.c - runs a command many times under attack, and counts what must not be.
 *
 *     attack mutate SECONDS SEED FILE -- COMMAND...
 *         FILE is changed in place, differently each time
 *     attack kill SECONDS SEED RESULT -- COMMAND...
 *         ended by SIGKILL at random times, then run to its end
 *     attack faults KINDS STICKY RESULT -- COMMAND...
 *         each call of these kinds fails (shim.c), or each FAULT_STEPth from a random one of FAULT_SEED's on
 *     attack power NOTES RESULT...
 *         crashes between the events that shim.c noted
 *
 * ATTACK_CPU: seconds of CPU that a changed file may take, 1 without; a hang is 30 times that.
 * Prints "tried crashes hangs wrong left seed", the seed to go on with; of what is wrong a line before it.
 */
#define _GNU_SOURCE
#include "tests/campaign/change.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
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

enum { HANG_SECONDS = 30, MEMORY_KB = 64 << 10 };

struct bytes {
    uint8_t *data;
    size_t size;
    bool there;
};

/* What came of a run. */
struct outcome {
    int status;
    bool late;
    double cpu;
    long memory; /* KB */
    char words[4096];
};

static struct {
    unsigned long tried, crashes, hangs, wrong, left;
} tally;
static uint64_t random_state;
static double cpu_seconds = 1;

static uint64_t below(uint64_t n)
{
    return kt_below(&random_state, n);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct bytes read_all(const char *path)
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

static void write_all(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

static bool is_same(const struct bytes *a, const struct bytes *b)
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

/* A run; `delay` not 0: killed after so many seconds. */
static struct outcome run(char **command, double delay)
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
    outcome.late = !wait_for(pid, delay > 0 ? delay : HANG_SECONDS * cpu_seconds);
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

static void tell(const char *what, unsigned long long seed, const struct outcome *outcome)
{
    printf("%s: seed or call %llu, status %x, %.2f s, %ld KB: %.300s\n", what, seed,
           (unsigned)outcome->status, outcome->cpu, outcome->memory, outcome->words);
}

/* Crashes and hangs; false: there is nothing more to say of this run. */
static bool judge(const struct outcome *outcome, unsigned long long seed)
{
    tally.tried++;
    if (outcome->late) {
        tally.hangs++;
        tell("hang", seed, outcome);
        return false;
    }
    if (!WIFEXITED(outcome->status) || WEXITSTATUS(outcome->status) > 2) {
        tally.crashes++;
        tell("crash", seed, outcome);
        return false;
    }
    return true;
}

/* Removes what a run must not leave beside its result, and counts it. */
static void sweep(const char *result, bool counts)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", result);
    char *slash = strrchr(folder, '/');
    *(slash ? slash : folder) = '\0';
    DIR *dir = opendir(slash ? folder : ".");
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".part") != 0)
            continue;
        unlinkat(dirfd(dir), entry->d_name, 0);
        tally.left += counts;
        if (counts)
            printf("left: %s/%s\n", folder, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

/* ---- changed files ---- */

static bool is_text(const char *words)
{
    for (const unsigned char *c = (const unsigned char *)words; *c; c++)
        if ((*c < 0x20 && *c != '\n') || *c == 0x7f)
            return false;
    return true;
}

static int mutate(double seconds, uint64_t seed, const char *path, char **command)
{
    struct bytes good = read_all(path);
    uint8_t *data = malloc(good.size + 1);
    if (!good.there || !data)
        return 2;
    struct outcome base = run(command, 0);
    double end = now() + seconds;
    for (; now() < end; seed++) {
        random_state = seed;
        memcpy(data, good.data, good.size);
        size_t size = kt_change(data, good.size, &random_state);
        write_all(path, data, size);
        struct outcome outcome = run(command, 0);
        if (!judge(&outcome, seed))
            continue;
        bool failed = WEXITSTATUS(outcome.status) != 0;
        if ((failed && !*outcome.words) || !is_text(outcome.words) || outcome.cpu > base.cpu + cpu_seconds ||
            outcome.memory > base.memory + MEMORY_KB + (long)(good.size >> 10)) {
            tally.wrong++;
            tell("wrong", seed, &outcome);
        }
    }
    write_all(path, good.data, good.size);
    sweep(path, true);
    free(data);
    free(good.data);
    random_state = seed;
    return 0;
}

/* ---- failing calls, and kills ---- */

static int fault(long kinds, bool sticky, const char *result, char **command)
{
    char mark[4200], number[32];
    unlink(result);
    struct outcome base = run(command, 0);
    struct bytes good = read_all(result);
    snprintf(mark, sizeof mark, "%s.mark", result);
    snprintf(number, sizeof number, "%ld", kinds);
    setenv("FAIL_KINDS", number, 1);
    setenv("FAIL_MARK", mark, 1);
    setenv("LD_PRELOAD", getenv("SHIM"), 1);
    if (sticky)
        setenv("FAIL_STICKY", "1", 1);
    if (!good.there || base.status != 0) {
        tell("no result", 0, &base);
        return 2;
    }
    unsigned long step = getenv("FAULT_STEP") ? strtoul(getenv("FAULT_STEP"), NULL, 10) : 1;
    uint64_t number_of_run = getenv("FAULT_SEED") ? strtoull(getenv("FAULT_SEED"), NULL, 10) : 0;
    random_state = number_of_run;
    for (unsigned long n = 1 + kt_roll(&random_state) % step;; n += step) {
        unlink(result);
        unlink(mark);
        snprintf(number, sizeof number, "%lu", n);
        setenv("FAIL_N", number, 1);
        struct outcome outcome = run(command, 0);
        if (access(mark, F_OK) != 0)
            break;
        if (judge(&outcome, n)) {
            struct bytes made = read_all(result);
            if (made.there ? !is_same(&made, &good) : outcome.status == 0) {
                tally.wrong++;
                tell("wrong", n, &outcome);
            }
            free(made.data);
        }
        sweep(result, WIFEXITED(outcome.status));
    }
    unlink(mark);
    free(good.data);
    random_state = number_of_run + 1;
    return 0;
}

static int kill_often(double seconds, uint64_t seed, const char *result, char **command)
{
    unlink(result);
    double start = now();
    struct outcome base = run(command, 0);
    double took = now() - start, end = now() + seconds;
    struct bytes good = read_all(result);
    if (!good.there || base.status != 0) {
        tell("no result", 0, &base);
        return 2;
    }
    for (; now() < end; seed++) {
        random_state = seed;
        unlink(result);
        struct outcome outcome = run(command, took * (double)below(1000) / 900 + 1e-4);
        struct bytes made = read_all(result);
        tally.tried++;
        bool torn = made.there && !is_same(&made, &good);
        free(made.data);
        outcome = run(command, 0);
        made = read_all(result);
        if (torn || outcome.status != 0 || !is_same(&made, &good)) {
            tally.wrong++;
            tell(torn ? "torn" : "not the same afterwards", seed, &outcome);
        }
        free(made.data);
    }
    sweep(result, false); /* what a killed run left beside a file is not to be had without a handler */
    random_state = seed;
    free(good.data);
    return 0;
}

/* ---- power that fails ---- */

enum { MOST_NAMES = 64, STATES = 3 };

/* A name of the folder: what it is for whoever looks now, and what the disk has surely. */
struct name {
    char path[1024];
    int copy, durable; /* numbers of copies; -1: there is none */
};

static struct name names[MOST_NAMES];
static int n_names;

static struct name *find_name(const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i].path, base) == 0)
            return &names[i];
    struct name *made = &names[n_names < MOST_NAMES - 1 ? n_names++ : n_names];
    snprintf(made->path, sizeof made->path, "%s", base);
    made->copy = made->durable = -1;
    return made;
}

static bool is_copy(const char *notes, int a, int b)
{
    char left[4200], right[4200];
    snprintf(left, sizeof left, "%s/%d", notes, a);
    snprintf(right, sizeof right, "%s/%d", notes, b);
    struct bytes one = read_all(left), other = read_all(right);
    bool same = is_same(&one, &other);
    free(one.data);
    free(other.data);
    return same;
}

/* At each event the power may fail. A rename may have reached the disk or not; bytes that were not synced may
 * be there, in part or not. So a file that gets its name must have been synced as it is then, and after the
 * last event the folder must have been. */
static int fail_power(const char *notes, int n_results, char **results)
{
    char path[4200], event[16], from[4096], to[4096], line[9000];
    int number, renamed = 0;
    snprintf(path, sizeof path, "%s/events", notes);
    FILE *events = fopen(path, "re");
    if (!events)
        return 2;
    while (fgets(line, sizeof line, events)) {
        *to = '\0';
        if (sscanf(line, "%15s %d %4095s %4095s", event, &number, from, to) < 3)
            return 2;
        tally.tried += STATES;
        if (strcmp(event, "sync") == 0) {
            find_name(from)->copy = number;
        } else if (strcmp(event, "rename") == 0) {
            struct name *old = find_name(from), *fresh = find_name(to);
            if (old->copy < 0 || !is_copy(notes, old->copy, number)) {
                tally.wrong++;
                printf("wrong: %s gets its name before its bytes are durable\n", to);
            }
            fresh->copy = old->copy;
            old->copy = -1;
            renamed++;
        } else {
            for (int i = 0; i < n_names; i++)
                names[i].durable = names[i].copy;
        }
    }
    fclose(events);
    for (int i = 0; i < n_results; i++)
        if (find_name(results[i])->durable < 0) {
            tally.wrong++;
            printf("wrong: %s is not durable when the command ends\n", results[i]);
        }
    return renamed < n_results ? 2 : 0;
}

int main(int argc, char **argv)
{
    int code = 2, split = 0;
    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    signal(SIGPIPE, SIG_IGN);
    if (getenv("ATTACK_CPU"))
        cpu_seconds = atof(getenv("ATTACK_CPU"));
    if (argc > 3 && strcmp(argv[1], "power") == 0) {
        code = fail_power(argv[2], argc - 3, argv + 3);
    } else if (split == 5 && split + 1 < argc) {
        double seconds = atof(argv[2]);
        uint64_t seed = strtoull(argv[3], NULL, 10);
        char **command = argv + split + 1;
        if (strcmp(argv[1], "mutate") == 0)
            code = mutate(seconds, seed, argv[4], command);
        else if (strcmp(argv[1], "kill") == 0)
            code = kill_often(seconds, seed, argv[4], command);
        else if (strcmp(argv[1], "faults") == 0)
            code = fault(atol(argv[2]), seed != 0, argv[4], command);
    }
    printf("%lu %lu %lu %lu %lu %llu\n", tally.tried, tally.crashes, tally.hangs, tally.wrong, tally.left,
           (unsigned long long)random_state);
    return code ? code : tally.crashes + tally.hangs + tally.wrong + tally.left > 0;
}
