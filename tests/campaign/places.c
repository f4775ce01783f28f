/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - finds calls at places of the code where none has failed so far, for shim.c.
 *
 * FAIL_PLACES names a file with a line for each place that had its turn: a number, and for people what it is
 * made of: the kind of call and the innermost DEPTH return addresses in programs and libraries of the
 * project. What hwloc, jansson or a plugin calls counts as the place in the project that called them. A place
 * is also new where the innermost DEPTH addresses outside the library are, so that each caller of the library
 * has calls that fail. The first new place of a process is added to the file, and fails; all that comes later
 * in the process is done.
 */
#define _GNU_SOURCE
#include "tests/campaign/places.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 3, FRAMES = 40, SLOTS = 1 << 16, RANGES = 400 };

static const char *list;
static uint64_t known[SLOTS]; /* hashes; 0: free */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_failed;

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool add(uint64_t hash)
{
    uint64_t slot = hash % SLOTS;
    for (int tried = 0; tried < SLOTS; tried++, slot = (slot + 1) % SLOTS) {
        if (known[slot] == hash)
            return false;
        if (known[slot] == 0) {
            known[slot] = hash;
            return true;
        }
    }
    return false;
}

/* ---- whose code ---- */

static struct range {
    uintptr_t begin, end, base;
    char name[24]; /* empty: not of the project */
} ranges[RANGES];
static unsigned n_ranges;
static bool has_library; /* programs are the project's where a library of its is loaded */

static int note_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    (void)data;
    has_library = has_library || strncmp(name, "libkt", 5) == 0;
    for (int i = 0; i < info->dlpi_phnum && n_ranges < RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        struct range *range = &ranges[n_ranges++];
        range->base = info->dlpi_addr;
        range->begin = info->dlpi_addr + part->p_vaddr;
        range->end = range->begin + part->p_memsz;
        snprintf(range->name, sizeof range->name, "%s",
                 !*name                           ? "program"
                 : strncmp(name, "libkt", 5) == 0 ? name
                                                  : "");
    }
    return 0;
}

static const struct range *find_range(uintptr_t address)
{
    for (unsigned i = 0; i < n_ranges; i++)
        if (address >= ranges[i].begin && address < ranges[i].end)
            return &ranges[i];
    return NULL;
}

/* ---- the list ---- */

void kt_places_begin(void)
{
    void *frames[2];
    list = getenv("FAIL_PLACES");
    if (!list)
        return;
    (void)backtrace(frames, 2); /* loads what it needs */
    pthread_atfork(take_lock, give_lock, give_lock);
    FILE *file = fopen(list, "re");
    char line[400];
    while (file && fgets(line, sizeof line, file))
        add(strtoull(line, NULL, 16));
    if (file)
        fclose(file);
}

void kt_places_end(void)
{
    has_failed = true;
}

static void keep(uint64_t hash, const char *text)
{
    char line[400];
    int length = snprintf(line, sizeof line, "%016llx %s\n", (unsigned long long)hash, text);
    long file = syscall(SYS_openat, AT_FDCWD, list, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
}

/* Whose code stands at an address, NULL: not the project's. */
static const struct range *find_owner(uintptr_t address)
{
    const struct range *range = find_range(address);
    if (!range) { /* something was loaded */
        n_ranges = 0;
        dl_iterate_phdr(note_object, NULL);
        range = find_range(address);
    }
    return range && range->name[0] && has_library ? range : NULL;
}

/* A place in words; `depth` return addresses are in it. */
struct place {
    char text[300];
    int length, depth;
};

static void append(struct place *place, const char *name, uintptr_t offset)
{
    if (place->depth++ < DEPTH)
        place->length += snprintf(place->text + place->length, sizeof place->text - (size_t)place->length,
                                  " %s+%lx", name, (unsigned long)offset);
}

/* Describes where the call is, and where those who use the library called it. */
static void describe(long kind, struct place *place, struct place *user)
{
    void *frames[FRAMES];
    int n = backtrace(frames, FRAMES);
    const char *slash = strrchr(program_invocation_name, '/');
    const char *program = slash ? slash + 1 : program_invocation_name;
    place->length = snprintf(place->text, sizeof place->text, "%ld", kind);
    user->length = snprintf(user->text, sizeof user->text, "in");
    for (int i = 0; i < n && user->depth < DEPTH; i++) {
        const struct range *range = find_owner((uintptr_t)frames[i]);
        if (!range)
            continue;
        const char *name = strcmp(range->name, "program") == 0 ? program : range->name;
        append(place, name, (uintptr_t)frames[i] - range->base);
        if (strncmp(name, "libktkernel", 11) != 0)
            append(user, name, (uintptr_t)frames[i] - range->base);
    }
}

static bool is_new(const struct place *place)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = place->text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    if (place->depth == 0 || !add(hash))
        return false;
    keep(hash, place->text);
    return true;
}

bool kt_place_fails(long kind)
{
    bool fails = false;
    take_lock();
    if (!has_failed) {
        struct place place = {.depth = 0}, user = {.depth = 0};
        describe(kind, &place, &user);
        fails = is_new(&place);
        if (is_new(&user))
            fails = true;
        has_failed = fails;
    }
    give_lock();
    return fails;
}
