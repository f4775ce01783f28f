/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.c - what a folder may have after the power failed, and what the next run makes of it.
 *
 * Sure to be on the disk is what was synced: a file's bytes by its own sync, its name by the folder's. Any of
 * the renames since may be there too, whichever came first, and of a file that was not yet synced nothing,
 * its name, half of its bytes, or all of its length with zeros for what is missing.
 */
#define _GNU_SOURCE
#include "tests/campaign/run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FILES = 64, MOST_EVENTS = 1000, MOST_PENDING = 4, NAME_SIZE = 256 };

struct file {
    char name[NAME_SIZE];
    struct bytes bytes;
};

/* A folder. Bytes are shared, and stay as long as the program. */
struct files {
    struct file file[MOST_FILES];
    int n;
};

struct event {
    char kind[16];
    char from[NAME_SIZE], to[NAME_SIZE];
    struct bytes bytes; /* of the file, at that time */
};

static struct {
    const char *folder;
    char **command;
    struct files before, good; /* before the run, and after one that nothing disturbed */
    struct files synced;       /* files with a name that will change, as they were synced */
    struct files durable;
    struct file renamed[MOST_PENDING]; /* since the folder was synced */
    char old_name[MOST_PENDING][NAME_SIZE];
    int n_renamed;
} power;

static struct file *find(struct files *files, const char *name)
{
    for (int i = 0; i < files->n; i++)
        if (strcmp(files->file[i].name, name) == 0)
            return &files->file[i];
    return NULL;
}

static void put(struct files *files, const char *name, struct bytes bytes)
{
    struct file *file = find(files, name);
    if (!file && files->n == MOST_FILES) {
        printf("more than %d files\n", MOST_FILES);
        exit(2);
    }
    if (!file)
        file = &files->file[files->n++];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = bytes;
}

static void drop(struct files *files, const char *name)
{
    struct file *file = find(files, name);
    if (file)
        *file = files->file[--files->n];
}

static bool is_temporary(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".part") == 0;
}

/* ---- the folder ---- */

/* Reads it, or removes what it has. */
static void walk(struct files *files)
{
    DIR *dir = opendir(power.folder);
    if (!dir) {
        perror(power.folder);
        exit(2);
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[4200];
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
            continue;
        snprintf(path, sizeof path, "%s/%s", power.folder, entry->d_name);
        if (!files)
            unlink(path);
        else if (!is_temporary(entry->d_name))
            put(files, entry->d_name, kt_read_all(path));
    }
    closedir(dir);
}

static void fill(const struct files *files)
{
    walk(NULL);
    for (int i = 0; i < files->n; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", power.folder, files->file[i].name);
        kt_write_all(path, files->file[i].bytes.data, files->file[i].bytes.size);
    }
}

/* ---- the log ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Events of files in the folder, which is the only one that is written to. */
static int read_events(const char *notes, struct event *events)
{
    char path[4200], from[4096], to[4096], line[9000];
    int number, n = 0;
    snprintf(path, sizeof path, "%s/events", notes);
    FILE *log = fopen(path, "re");
    while (log && n < MOST_EVENTS && fgets(line, sizeof line, log)) {
        struct event *event = &events[n++];
        *to = '\0';
        if (sscanf(line, "%15s %d %4095s %4095s", event->kind, &number, from, to) < 3) {
            n = 0;
            break;
        }
        snprintf(event->from, sizeof event->from, "%.255s", base_name(from));
        snprintf(event->to, sizeof event->to, "%.255s", base_name(to));
        snprintf(path, sizeof path, "%s/%d", notes, number);
        event->bytes = kt_read_all(path);
    }
    if (log)
        fclose(log);
    return n;
}

/* ---- after the power failed ---- */

static void complain(unsigned long long at, const char *name, const char *what)
{
    kt_tally.wrong++;
    printf("wrong: before event %llu: %s %s\n", at, name, what);
}

/* The folder as the next run finds it: whatever has a name for good is whole, and the run's results are those
 * of a run that nothing disturbed. */
static void go_on(struct files *disk, unsigned long long at)
{
    fill(disk);
    for (int i = 0; i < power.good.n; i++) {
        const struct file *good = &power.good.file[i], *old = find(&power.before, good->name),
                          *found = find(disk, good->name);
        if (old && !found)
            complain(at, good->name, "is lost");
        else if (found && !kt_is_same(&found->bytes, &good->bytes) &&
                 !(old && kt_is_same(&found->bytes, &old->bytes)))
            complain(at, good->name, "is neither the old one nor the new one");
    }
    struct outcome outcome = kt_run(power.command, 0);
    if (!kt_judge(&outcome, at))
        return;
    static struct files made;
    made.n = 0;
    walk(&made);
    if (outcome.status != 0) {
        kt_tally.wrong++;
        kt_tell("the next run fails", at, &outcome);
    }
    for (int i = 0; i < power.good.n && outcome.status == 0; i++) {
        const struct file *found = find(&made, power.good.file[i].name);
        if (!found || !kt_is_same(&found->bytes, &power.good.file[i].bytes))
            complain(at, power.good.file[i].name, "is another one after the next run");
    }
    for (int i = 0; i < made.n; i++)
        free(made.file[i].bytes.data);
}

/* A file that is just being written: there in parts. */
static void go_on_with(const struct files *disk, const struct event *event, unsigned long long at)
{
    static struct files with;
    struct bytes torn = event->bytes;
    bool syncs = strcmp(event->kind, "sync") == 0;
    with = *disk;
    go_on(&with, at);
    if (!syncs && strcmp(event->kind, "rename") != 0)
        return;
    put(&with, event->from, torn);
    go_on(&with, at);
    if (!syncs)
        return;
    torn.size = 0;
    put(&with, event->from, torn);
    go_on(&with, at);
    torn.size = event->bytes.size / 2;
    put(&with, event->from, torn);
    go_on(&with, at);
    torn.size = event->bytes.size;
    torn.data = calloc(torn.size + 1, 1);
    memcpy(torn.data, event->bytes.data, torn.size / 2);
    put(&with, event->from, torn);
    go_on(&with, at);
    free(torn.data);
}

/* Any of the renames that the folder's next sync would make sure of may be on the disk. */
static void fail_before(const struct event *event, unsigned long long at)
{
    static struct files disk;
    for (unsigned chosen = 0; chosen < 1U << power.n_renamed; chosen++) {
        disk = power.durable;
        for (int i = 0; i < power.n_renamed; i++)
            if (chosen >> i & 1)
                put(&disk, power.renamed[i].name, power.renamed[i].bytes);
            else
                put(&disk, power.old_name[i], power.renamed[i].bytes);
        go_on_with(&disk, event, at);
    }
}

static void happen(const struct event *event, unsigned long long at)
{
    if (strcmp(event->kind, "sync") == 0) {
        put(&power.synced, event->from, event->bytes);
    } else if (strcmp(event->kind, "rename") == 0) {
        const struct file *synced = find(&power.synced, event->from);
        struct file *renamed = &power.renamed[power.n_renamed];
        if (!synced || !kt_is_same(&synced->bytes, &event->bytes))
            complain(at, event->to, "gets its name before its bytes are durable");
        if (power.n_renamed == MOST_PENDING) {
            printf("more than %d renames before the folder is synced\n", MOST_PENDING);
            exit(2);
        }
        snprintf(renamed->name, sizeof renamed->name, "%s", event->to);
        snprintf(power.old_name[power.n_renamed++], NAME_SIZE, "%s", event->from);
        renamed->bytes = synced ? synced->bytes : (struct bytes){.data = (uint8_t *)"", .there = true};
        drop(&power.synced, event->from);
    } else {
        for (int i = 0; i < power.n_renamed; i++)
            put(&power.durable, power.renamed[i].name, power.renamed[i].bytes);
        power.n_renamed = 0;
    }
}

int kt_power(const char *notes, const char *folder, char **command)
{
    static struct event events[MOST_EVENTS];
    static const struct event end = {.kind = "end"};
    power.folder = folder;
    power.command = command;
    walk(&power.before);
    power.durable = power.before;
    setenv("NOTE_FOLDER", notes, 1);
    setenv("LD_PRELOAD", getenv("SHIM"), 1);
    struct outcome outcome = kt_run(command, 0);
    unsetenv("NOTE_FOLDER");
    unsetenv("LD_PRELOAD");
    walk(&power.good);
    int n = read_events(notes, events);
    if (outcome.status != 0 || n == 0 || power.good.n == 0) {
        kt_tell(n == 0 ? "no file was synced" : "no result", 0, &outcome);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        fail_before(&events[i], (unsigned long long)i);
        happen(&events[i], (unsigned long long)i);
    }
    if (power.n_renamed > 0)
        complain((unsigned long long)n, power.renamed[0].name, "is not durable when the command ends");
    fail_before(&end, (unsigned long long)n);
    return 0;
}
