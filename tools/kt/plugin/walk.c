/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - disassembles a plugin and follows each function that the core may call through its jumps
 * and calls: none of the instructions reached may need a CPU feature that the level does not declare. Jumps
 * and calls by a pointer are not followed; the file as a whole must not need a feature that no level
 * declares.
 */
#define _GNU_SOURCE
#include "tools/kt/plugin/isa.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE UINT64_MAX

struct instruction {
    uint64_t address, target; /* NOWHERE: no jump or call */
    uint64_t needs;           /* KT_CPU_ bits */
    char name[20];
    bool last; /* the next instruction is not reached from here */
    bool seen;
};

struct code {
    struct instruction *list; /* by address */
    size_t n, room;
};

/* ---- reading ------------------------------------------------------------------------------------------ */

static const char *const prefixes[] = {"lock", "rep", "repz",   "repnz", "notrack", "bnd",    "data16", "cs",
                                       "ds",   "es",  "addr32", "{vex}", "{vex3}",  "{evex}", NULL};

/* Returns the first word of *text and moves *text behind it. */
static void take_word(char **text, char *word, size_t size)
{
    *text += strspn(*text, " \t");
    size_t n = strcspn(*text, " \t");
    snprintf(word, size, "%.*s", (int)n, *text);
    *text += n;
}

static bool is_prefix(const char *word)
{
    for (const char *const *prefix = prefixes; *prefix; prefix++)
        if (*word == **prefix && strcmp(word, *prefix) == 0)
            return true;
    return false;
}

/* The target of a jump, call or branch. */
static uint64_t read_target(const char *name, const char *operands)
{
    const char *place = operands;
#if defined __aarch64__
    const char *comma = strrchr(operands, ',');
    if (strcmp(name, "b") != 0 && strcmp(name, "bl") != 0 && strncmp(name, "b.", 2) != 0 &&
        strncmp(name, "cb", 2) != 0 && strncmp(name, "tb", 2) != 0)
        return NOWHERE;
    place = comma ? comma + 1 : operands;
#else
    if (name[0] != 'j' && strncmp(name, "call", 4) != 0 && strncmp(name, "loop", 4) != 0 &&
        strcmp(name, "xbegin") != 0)
        return NOWHERE;
#endif
    place += strspn(place, " \t");
    char *end;
    uint64_t target = strtoull(place, &end, 16);
    return end != place && (*end == ' ' || *end == '\0') ? target : NOWHERE;
}

static bool is_last(const char *name)
{
#if defined __aarch64__
    return strcmp(name, "ret") == 0 || strcmp(name, "b") == 0 || strcmp(name, "br") == 0 ||
           strcmp(name, "udf") == 0 || strcmp(name, "brk") == 0;
#else
    return strncmp(name, "ret", 3) == 0 || strncmp(name, "jmp", 3) == 0 || strcmp(name, "ud2") == 0 ||
           strcmp(name, "hlt") == 0;
#endif
}

/* "    1139:\tvpaddd %ymm1,%ymm2,%ymm3" */
static void take_line(struct code *code, char *line)
{
    char *at, prefix[20] = "", name[20], word[20];
    uint64_t address = strtoull(line, &at, 16);
    if (at == line || *at++ != ':')
        return;
    line[strcspn(line, "\n")] = '\0';
    at[strcspn(at, "#")] = '\0'; /* a comment */
    for (take_word(&at, word, sizeof(word)); is_prefix(word); take_word(&at, word, sizeof(word)))
        if (word[0] == '{')
            snprintf(prefix, sizeof(prefix), "%s", word);
    snprintf(name, sizeof(name), "%s", word);
    if (!*name || *name == '(')
        return;
    if (code->n == code->room) {
        code->room = code->room ? 2 * code->room : 4096;
        code->list = check_need(realloc(code->list, code->room * sizeof(*code->list)));
    }
    at += strspn(at, " \t");
    struct instruction *instruction = &code->list[code->n++];
    *instruction =
        (struct instruction){.address = address, .target = read_target(name, at), .last = is_last(name)};
    instruction->needs = plugin_isa_needs(prefix, name, at);
    memcpy(instruction->name, name, sizeof(name));
}

/* False: objdump is missing, or failed. */
static bool disassemble(const char *path, struct code *code)
{
    int ends[2], status = 0;
    char *line = NULL;
    size_t size = 0;
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("LC_ALL", "C", 1);
        execlp("objdump", "objdump", "-d", "--no-show-raw-insn", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    while (pid > 0 && stream && getline(&line, &size, stream) > 0)
        take_line(code, line);
    free(line);
    if (stream)
        fclose(stream);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && code->n > 0;
}

/* ---- following ---------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct instruction *left = a, *right = b;
    return left->address < right->address ? -1 : left->address > right->address;
}

static struct instruction *find(const struct code *code, uint64_t address)
{
    struct instruction key = {.address = address};
    return bsearch(&key, code->list, code->n, sizeof(key), compare);
}

/* The first instruction reached from `entry` that needs more than `allowed`; NULL: none. */
static const struct instruction *follow(struct code *code, uint64_t entry, uint64_t allowed)
{
    size_t *todo = check_need(malloc((code->n + 1) * sizeof(*todo))), n = 0;
    const struct instruction *found = NULL, *first = find(code, entry);
    for (size_t i = 0; i < code->n; i++)
        code->list[i].seen = false;
    if (first)
        todo[n++] = (size_t)(first - code->list);
    while (n > 0 && !found) {
        for (size_t i = todo[--n]; i < code->n && !code->list[i].seen && !found; i++) {
            struct instruction *at = &code->list[i];
            at->seen = true;
            if (at->needs & ~allowed)
                found = at;
            const struct instruction *target = at->target == NOWHERE ? NULL : find(code, at->target);
            if (target && !target->seen && n < code->n)
                todo[n++] = (size_t)(target - code->list);
            if (at->last)
                break;
        }
    }
    free(todo);
    return found;
}

struct entry {
    const char *name;
    void (*function)(void);
};

/* False after a failure. */
static bool follow_all(struct plugin_run *run, struct code *code, const struct entry *entries, size_t n,
                       const char *level, uint64_t cpu)
{
    Dl_info place;
    char names[256];

    if (!dladdr(run->plugin, &place))
        return true;
    for (size_t i = 0; i < n; i++) {
        uint64_t address = (uint64_t)(uintptr_t)entries[i].function - (uint64_t)(uintptr_t)place.dli_fbase;
        uint64_t allowed = plugin_isa_implied(cpu);
        const struct instruction *found = entries[i].function ? follow(code, address, allowed) : NULL;
        if (!found)
            continue;
        plugin_fail(run, "%s%s%s leads to %s at 0x%llx, which needs %s; %s", entries[i].name,
                    level ? " of level " : "", level ? level : "", found->name,
                    (unsigned long long)found->address,
                    plugin_cpu_names(found->needs & ~allowed, names, sizeof(names)),
                    level ? "the level does not declare it" : "it must run on every CPU");
        return false;
    }
    return true;
}

/* ---- which functions the core may call ---- */

#define MAX_ENTRIES 16
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ENTRY(object, field)                                \
    {                                                       \
#field, (void (*)(void))PLUGIN_FIELD(object, field) \
    }

/* Each gives the functions of one table of a level, and how many they are. */
typedef size_t list_table(const struct kt_level *level, struct entry entries[MAX_ENTRIES]);

static size_t list_level(const struct kt_level *level, struct entry entries[MAX_ENTRIES])
{
    entries[0] = (struct entry)ENTRY(level, check);
    return 1;
}

static size_t list_experts(const struct kt_level *level, struct entry entries[MAX_ENTRIES])
{
    const struct kt_ops *ops = level->ops;
    if (!ops)
        return 0;
    const struct entry own[] = {
        ENTRY(ops, layout),       ENTRY(ops, release_layout), ENTRY(ops, pack), ENTRY(ops, act_pack),
        ENTRY(ops, gather),       ENTRY(ops, gate_up),        ENTRY(ops, down), ENTRY(ops, weight_row),
        ENTRY(ops, thread_enter), ENTRY(ops, thread_leave),   ENTRY(ops, cut),  ENTRY(ops, unpack),
    };
    memcpy(entries, own, sizeof(own));
    return COUNT(own);
}

static size_t list_attention(const struct kt_level *level, struct entry entries[MAX_ENTRIES])
{
    const struct kt_attention_ops *ops = PLUGIN_FIELD(level, attention);
    if (!ops)
        return 0;
    const struct entry own[] = {
        ENTRY(ops, layout), ENTRY(ops, attend),       ENTRY(ops, merge),
        ENTRY(ops, finish), ENTRY(ops, thread_enter), ENTRY(ops, thread_leave),
    };
    memcpy(entries, own, sizeof(own));
    return COUNT(own);
}

static size_t list_rows(const struct kt_level *level, struct entry entries[MAX_ENTRIES])
{
    const struct kt_rows_ops *ops = PLUGIN_FIELD(level, rows);
    if (!ops)
        return 0;
    const struct entry own[] = {
        ENTRY(ops, norm),     ENTRY(ops, gate),  ENTRY(ops, rotate),
        ENTRY(ops, multiply), ENTRY(ops, route), ENTRY(ops, convolve),
        ENTRY(ops, decay),    ENTRY(ops, delta), ENTRY(ops, delta_scratch),
    };
    memcpy(entries, own, sizeof(own));
    return COUNT(own);
}

static bool follow_plugin(struct plugin_run *run, struct code *code)
{
    static list_table *const tables[] = {list_level, list_experts, list_attention, list_rows};
    const struct kt_plugin *plugin = run->plugin;
    const struct entry own[] = {ENTRY(plugin, probe), ENTRY(plugin, open), ENTRY(plugin, close)};
    struct entry entries[MAX_ENTRIES];
    if (!follow_all(run, code, own, COUNT(own), NULL, 0))
        return false;
    for (uint32_t i = 0; i < plugin->n_levels; i++) {
        const struct kt_level *level = plugin->levels[i];
        for (size_t t = 0; t < COUNT(tables); t++) {
            size_t n = tables[t](level, entries);
            if (!follow_all(run, code, entries, n, level->name, level->cpu))
                return false;
        }
    }
    return true;
}

void plugin_job_instructions(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    struct code code = {.n = 0};
    uint64_t declared = 0, needs = 0;
    char names[256];
    if (!plugin_attach(run, child))
        return;
    plugin_where(run, "disassembling");
    if (!disassemble(run->file->copy, &code)) {
        plugin_say(&child->verdict, PLUGIN_SKIPPED,
                   "objdump is not here (Debian: binutils), or cannot read it");
        return;
    }
    qsort(code.list, code.n, sizeof(*code.list), compare);
    for (uint32_t i = 0; i < run->plugin->n_levels; i++)
        declared |= plugin_isa_implied(run->plugin->levels[i]->cpu);
    for (size_t i = 0; i < code.n; i++) {
        needs |= code.list[i].needs;
        if (code.list[i].needs & ~declared)
            plugin_fail(run, "%s at 0x%llx needs %s, which no level declares", code.list[i].name,
                        (unsigned long long)code.list[i].address,
                        plugin_cpu_names(code.list[i].needs & ~declared, names, sizeof(names)));
    }
    if (!plugin_failed(run) && follow_plugin(run, &code))
        plugin_say(&child->verdict, PLUGIN_OK, "%zu instructions, of the baseline%s%s", code.n,
                   needs ? " and " : "", plugin_cpu_names(needs, names, sizeof(names)));
    free(code.list);
}
