/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack.c - runs a command many times under attack, and counts what must not be.
 *
 *     attack mutate SECONDS SEED FILE -- COMMAND...
 *         FILE is changed in place, differently each time
 *     attack plugin SECONDS SEED FILE -- COMMAND...
 *         the same of a plugin, in what is read of it before its code runs
 *     attack kill SECONDS SEED RESULT -- COMMAND...
 *         ended by SIGKILL at random times, then run to its end
 *     attack faults KINDS STICKY RESULT -- COMMAND...
 *         each call of these kinds fails (shim.c), or each FAULT_STEPth from a random one of FAULT_SEED's on
 *     attack places SECONDS LIST RESULT -- COMMAND...
 *         at each place of the code a call fails once that LIST does not have yet; RESULT may be "-"
 *     attack power NOTES FOLDER -- COMMAND...
 *         the power fails between any two events that shim.c notes in NOTES; COMMAND is what writes in FOLDER
 *
 * ATTACK_CPU: seconds of CPU that a changed file may take, 1 without; a hang is 30 times that.
 * Prints "tried crashes hangs wrong left seed", the seed to continue with; of what is wrong a line before it.
 */
#define _GNU_SOURCE
#include "tests/campaign/change.h"
#include "tests/campaign/run.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return kt_below(&random_state, n);
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
        kt_tally.left += counts;
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

typedef size_t change(uint8_t *data, size_t size, uint64_t *state);

static int mutate(double seconds, uint64_t seed, const char *path, char **command, change *change_file)
{
    struct bytes good = kt_read_all(path);
    uint8_t *data = malloc(good.size + 1);
    if (!good.there || !data)
        return 2;
    struct outcome base = kt_run(command, 0);
    double end = kt_now() + seconds;
    for (; kt_now() < end; seed++) {
        random_state = seed;
        memcpy(data, good.data, good.size);
        size_t size = change_file(data, good.size, &random_state);
        kt_write_all(path, data, size);
        struct outcome outcome = kt_run(command, 0);
        if (!kt_judge(&outcome, seed))
            continue;
        bool failed = WEXITSTATUS(outcome.status) != 0;
        if ((failed && !*outcome.words) || !is_text(outcome.words) ||
            outcome.cpu > base.cpu + kt_cpu_seconds ||
            outcome.memory > base.memory + KT_MEMORY_KB + (long)(good.size >> 10)) {
            kt_tally.wrong++;
            kt_tell("wrong", seed, &outcome);
        }
    }
    kt_write_all(path, good.data, good.size);
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
    struct outcome base = kt_run(command, 0);
    struct bytes good = kt_read_all(result);
    snprintf(mark, sizeof mark, "%s.mark", result);
    snprintf(number, sizeof number, "%ld", kinds);
    setenv("FAIL_KINDS", number, 1);
    setenv("FAIL_MARK", mark, 1);
    setenv("LD_PRELOAD", getenv("SHIM"), 1);
    if (sticky)
        setenv("FAIL_STICKY", "1", 1);
    if (!good.there || base.status != 0) {
        kt_tell("no result", 0, &base);
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
        struct outcome outcome = kt_run(command, 0);
        if (access(mark, F_OK) != 0)
            break;
        if (kt_judge(&outcome, n)) {
            struct bytes made = kt_read_all(result);
            if (made.there ? !kt_is_same(&made, &good) : outcome.status == 0) {
                kt_tally.wrong++;
                kt_tell("wrong", n, &outcome);
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

/* Prints the last line of the list: where the call failed that something followed from. */
static void tell_place(const char *list)
{
    struct bytes all = kt_read_all(list);
    size_t begin = all.size ? all.size - 1 : 0;
    while (begin > 0 && all.data[begin - 1] != '\n')
        begin--;
    printf("  where: %.*s", (int)(all.size - begin), all.data + begin);
    free(all.data);
}

/* A call that fails may be one that is not needed: then all must be as if it had not. */
static int fail_places(double seconds, const char *list, const char *result, char **command)
{
    char mark[4200];
    bool has_result = strcmp(result, "-") != 0;
    double end = kt_now() + seconds;
    struct bytes good = {.there = false};
    struct outcome base = kt_run(command, 0);
    if (has_result)
        good = kt_read_all(result);
    if (good.there != has_result || base.status != 0) {
        kt_tell("no result", 0, &base);
        return 2;
    }
    snprintf(mark, sizeof mark, "%s.mark", list);
    setenv("FAIL_KINDS", "191", 1); /* all but memory that ends */
    setenv("FAIL_MARK", mark, 1);
    setenv("FAIL_PLACES", list, 1);
    setenv("LD_PRELOAD", getenv("SHIM"), 1);
    while (kt_now() < end) {
        if (has_result)
            unlink(result);
        unlink(mark);
        struct outcome outcome = kt_run(command, 0);
        if (access(mark, F_OK) != 0)
            break;
        if (!kt_judge(&outcome, kt_tally.tried + 1)) {
            tell_place(list);
        } else if (has_result) {
            struct bytes made = kt_read_all(result);
            if (made.there ? !kt_is_same(&made, &good) : outcome.status == 0) {
                kt_tally.wrong++;
                kt_tell("wrong", kt_tally.tried, &outcome);
                tell_place(list);
            }
            free(made.data);
        }
        if (has_result)
            sweep(result, WIFEXITED(outcome.status));
    }
    free(good.data);
    return 0;
}

static int kill_often(double seconds, uint64_t seed, const char *result, char **command)
{
    unlink(result);
    double start = kt_now();
    struct outcome base = kt_run(command, 0);
    double took = kt_now() - start, end = kt_now() + seconds;
    struct bytes good = kt_read_all(result);
    if (!good.there || base.status != 0) {
        kt_tell("no result", 0, &base);
        return 2;
    }
    for (; kt_now() < end; seed++) {
        random_state = seed;
        unlink(result);
        struct outcome outcome = kt_run(command, took * (double)below(1000) / 900 + 1e-4);
        struct bytes made = kt_read_all(result);
        kt_tally.tried++;
        bool torn = made.there && !kt_is_same(&made, &good);
        free(made.data);
        outcome = kt_run(command, 0);
        made = kt_read_all(result);
        if (torn || outcome.status != 0 || !kt_is_same(&made, &good)) {
            kt_tally.wrong++;
            kt_tell(torn ? "torn" : "not the same afterwards", seed, &outcome);
        }
        free(made.data);
    }
    sweep(result, false); /* what a killed run left beside a file is not to be had without a handler */
    random_state = seed;
    free(good.data);
    return 0;
}

int main(int argc, char **argv)
{
    int code = 2, split = 0;
    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    signal(SIGPIPE, SIG_IGN);
    if (getenv("ATTACK_CPU"))
        kt_cpu_seconds = atof(getenv("ATTACK_CPU"));
    if (split == 4 && split + 1 < argc && strcmp(argv[1], "power") == 0) {
        code = kt_power(argv[2], argv[3], argv + split + 1);
    } else if (split == 5 && split + 1 < argc) {
        double seconds = atof(argv[2]);
        uint64_t seed = strtoull(argv[3], NULL, 10);
        char **command = argv + split + 1;
        if (strcmp(argv[1], "mutate") == 0)
            code = mutate(seconds, seed, argv[4], command, kt_change);
        else if (strcmp(argv[1], "plugin") == 0)
            code = mutate(seconds, seed, argv[4], command, kt_change_plugin);
        else if (strcmp(argv[1], "kill") == 0)
            code = kill_often(seconds, seed, argv[4], command);
        else if (strcmp(argv[1], "places") == 0)
            code = fail_places(seconds, argv[3], argv[4], command);
        else if (strcmp(argv[1], "faults") == 0)
            code = fault(atol(argv[2]), seed != 0, argv[4], command);
    }
    const struct tally *all = &kt_tally;
    printf("%lu %lu %lu %lu %lu %llu\n", all->tried, all->crashes, all->hangs, all->wrong, all->left,
           (unsigned long long)random_state);
    return code ? code : all->crashes + all->hangs + all->wrong + all->left > 0;
}
