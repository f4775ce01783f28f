/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.c - the quota of CPU time, by cgroups(7): /proc/self/cgroup names the process's group in each
 * hierarchy, /proc/self/mountinfo where hierarchies are mounted, and which part of each.
 */
#define _GNU_SOURCE
#include "core/machine/quota.h"

#include <kt/kt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "", or the path of a group in a hierarchy. */
struct groups {
    char unified[PATH_MAX]; /* version 2 */
    char cpu[PATH_MAX];     /* version 1, the hierarchy with the controller cpu */
};

/* A mounted hierarchy: its folder, and which group is at its top. */
struct mount {
    char *root, *point, *type, *options;
};

/* Is the word in a list like "rw,cpu,cpuacct"? */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    return false;
}

/* Lines like "4:cpu,cpuacct:/a/b" and "0::/a/b". */
static void read_groups(const char *root, struct groups *groups)
{
    char path[PATH_MAX];
    char *line = NULL;
    size_t room = 0;
    *groups = (struct groups){.unified = ""};
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0) {
        char *rest = line;
        const char *number = strsep(&rest, ":"), *controllers = strsep(&rest, ":");
        if (!rest)
            continue;
        rest[strcspn(rest, "\n")] = '\0';
        if (strcmp(number, "0") == 0 && !*controllers)
            (void)snprintf(groups->unified, sizeof groups->unified, "%s", rest);
        else if (has_word(controllers, "cpu"))
            (void)snprintf(groups->cpu, sizeof groups->cpu, "%s", rest);
    }
    if (file)
        fclose(file);
    free(line);
}

/* Blanks and backslashes are written as octal numbers of three digits. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (from[0] == '\\' && sscanf(from + 1, "%3o", &code) == 1 && code != 0) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw": there may be any number of words
 * before the "-". */
static bool parse_mount(char *line, struct mount *mount)
{
    char *word[6] = {NULL}, *rest = line;
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < 6; i++)
        if (!(word[i] = strsep(&rest, " ")))
            return false;
    char *end = rest ? strstr(rest, "- ") : NULL;
    while (end && end != rest && end[-1] != ' ')
        end = strstr(end + 1, "- ");
    if (!end)
        return false;
    end += 2;
    *mount = (struct mount){.root = word[3], .point = word[4], .type = strsep(&end, " ")};
    (void)strsep(&end, " "); /* the source */
    mount->options = end ? end : (char *)"";
    unescape(mount->root);
    unescape(mount->point);
    return true;
}

/* How many "/.." a path begins with: groups above the one that is the top of this process's namespace. */
static size_t count_above(const char *path)
{
    size_t n = 0;
    while (strncmp(path + 3 * n, "/..", 3) == 0 && (path[3 * n + 3] == '/' || path[3 * n + 3] == '\0'))
        n++;
    return n;
}

/* What is left of the group's path below a mount's top, such as "/a/b"; "" if only the top is known to be a
 * group above it; NULL: the group is elsewhere. */
static const char *find_below(const char *top, const char *group)
{
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top), above = count_above(top);
    if (strncmp(group, top, length) == 0 && (group[length] == '/' || group[length] == '\0') &&
        count_above(group + length) == 0)
        return group + length;
    return above > 0 && top[3 * above] == '\0' && above > count_above(group) ? "" : NULL;
}

/* The first numbers of a file: "200000 100000"; "max" is none. Returns how many. */
static int read_numbers(const char *folder, const char *name, unsigned long long *first,
                        unsigned long long *second)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    int n = file ? fscanf(file, "%20llu %20llu", first, second) : 0;
    if (file)
        fclose(file);
    return n;
}

/* Thousandths of a CPU that the group of this folder has, rounded up; UINT32_MAX: as many as there are. */
static uint32_t read_folder(const char *folder, bool unified)
{
    unsigned long long time, period, none;
    bool found;
    if (unified)
        found = read_numbers(folder, "cpu.max", &time, &period) == 2;
    else /* the quota is -1, which is a huge number here, without a limit */
        found = read_numbers(folder, "cpu.cfs_quota_us", &time, &none) == 1 &&
                read_numbers(folder, "cpu.cfs_period_us", &period, &none) == 1;
    if (!found || time == 0 || period == 0 || time > UINT64_MAX / 2000 || period > UINT64_MAX / 2)
        return UINT32_MAX;
    unsigned long long thousandths = (time * 1000 + period - 1) / period;
    return thousandths < UINT32_MAX ? (uint32_t)thousandths : UINT32_MAX;
}

/* The least of the group and of those above it, as far as the mount shows them. */
static uint32_t read_mount(const char *root, const struct mount *mount, const struct groups *groups)
{
    bool unified = strcmp(mount->type, "cgroup2") == 0;
    if (!unified && (strcmp(mount->type, "cgroup") != 0 || !has_word(mount->options, "cpu")))
        return UINT32_MAX;
    const char *group = unified ? groups->unified : groups->cpu;
    const char *below = *group ? find_below(mount->root, group) : NULL;
    char folder[PATH_MAX];
    if (!below)
        return UINT32_MAX;
    int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount->point, below);
    if (length < 0 || (size_t)length >= sizeof folder)
        return UINT32_MAX;
    uint32_t least = UINT32_MAX;
    for (size_t top = strlen(root) + strlen(mount->point);;) {
        uint32_t quota = read_folder(folder, unified);
        least = quota < least ? quota : least;
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

uint32_t kt_quota_read(const char *root)
{
    struct groups groups;
    struct mount mount;
    char path[PATH_MAX];
    char *line = NULL;
    size_t room = 0;
    uint32_t least = UINT32_MAX;
    read_groups(root, &groups);
    (void)snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0)
        if (parse_mount(line, &mount)) {
            uint32_t quota = read_mount(root, &mount, &groups);
            least = quota < least ? quota : least;
        }
    if (file)
        fclose(file);
    free(line);
    return least < UINT32_MAX ? least : 0;
}

uint32_t kt_quota_threads(uint32_t quota, uint32_t n_cores)
{
    uint32_t most = quota / 1000 + (quota % 1000 != 0);
    return quota && most < n_cores ? most : n_cores;
}

uint32_t kt_cpu_quota(void)
{
    return kt_quota_read("");
}
