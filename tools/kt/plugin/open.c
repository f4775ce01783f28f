/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - a plugin in a child: loaded by the library, or opened here with a host that counts. */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_BLOCKS 4096

/* ---- verdicts --------------------------------------------------------------------------------- */

static struct plugin_run *current; /* a child has one */

void plugin_fail(struct plugin_run *run, const char *format, ...)
{
    char text[900], where[256];
    va_list arguments;
    if (plugin_failed(run))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(where, sizeof(where), "%s", run->child->where);
    plugin_say(&run->child->verdict, PLUGIN_FAILED, "%s: %s", where, text);
}

bool plugin_failed(const struct plugin_run *run)
{
    return run->child->verdict.state == PLUGIN_FAILED;
}

void plugin_where(struct plugin_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->child->where, sizeof(run->child->where), format, arguments);
    va_end(arguments);
}

/* ---- the host --------------------------------------------------------------------------------- */

static struct {
    uint64_t n_asked, fail_at, n_live;
    const char *forbidden; /* the function that must not allocate */
    struct guarded blocks[MAX_BLOCKS];
} memory;

void plugin_host_reset(uint64_t fail_at)
{
    memory.n_asked = 0;
    memory.fail_at = fail_at;
    memory.forbidden = NULL;
}

uint64_t plugin_host_allocations(void)
{
    return memory.n_asked;
}

uint64_t plugin_host_live(void)
{
    return memory.n_live;
}

void plugin_host_forbid(const char *function)
{
    memory.forbidden = function;
}

static void take_log(const struct kt_host *host, enum kt_log_level level, const char *format, ...)
    KT_PRINTF(3, 4);
static void take_log(const struct kt_host *host, enum kt_log_level level, const char *format, ...)
{
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if ((int)level < KT_LOG_ERROR || (int)level > KT_LOG_DEBUG)
        plugin_fail(host->data, "host->log: level %d is none of enum kt_log_level", (int)level);
    if (strchr(line, '\n'))
        plugin_fail(host->data, "host->log: a line has no newline of its own: \"%.40s\"", line);
}

static void *allocate(const struct kt_host *host, uint64_t size)
{
    if (memory.forbidden)
        plugin_fail(host->data, "%s asks the host for memory: what it needs is scratch_size of the layout",
                    memory.forbidden);
    if (++memory.n_asked == memory.fail_at)
        return NULL;
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (!memory.blocks[i].map) {
            if (!guard_create("memory of host->allocate", size, 64, true, &memory.blocks[i]))
                return NULL;
            memory.n_live++;
            return memory.blocks[i].data;
        }
    plugin_fail(host->data, "it holds %d blocks of the host's memory at once", MAX_BLOCKS);
    return NULL;
}

static void release(const struct kt_host *host, void *given, uint64_t size)
{
    for (int i = 0; i < MAX_BLOCKS && given; i++) {
        struct guarded *block = &memory.blocks[i];
        if (!block->map || block->data != given)
            continue;
        if (block->size != size)
            plugin_fail(host->data, "host->release: %llu bytes are said to be given back of a block of %llu",
                        (unsigned long long)size, (unsigned long long)block->size);
        if (!guard_intact(block))
            plugin_fail(host->data, "it wrote behind the end of a block of %llu bytes of host->allocate",
                        (unsigned long long)block->size);
        guard_free(block);
        memory.n_live--;
        return;
    }
    if (given)
        plugin_fail(host->data,
                    "host->release: the memory is none of host->allocate's, or was given back before");
}

static enum kt_status dequantize(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error)
{
    uint32_t elements = 1;
    kt_dtype_block(view->dtype, &elements, NULL);
    if (row >= view->rows || col > view->cols || n > view->cols - col || (elements && col % elements != 0)) {
        plugin_fail(host->data, "host->dequantize: row %llu, columns %llu to %llu of a view of %llu x %llu",
                    (unsigned long long)row, (unsigned long long)col, (unsigned long long)(col + n),
                    (unsigned long long)view->rows, (unsigned long long)view->cols);
        return kt_plugin_fail(error, KT_E_INVALID, "what is asked for is not in the view");
    }
    float *whole = check_need(malloc(view->cols * sizeof(*whole)));
    enum kt_status status = kt_view_row(view, row, whole, error);
    if (status == KT_OK)
        memcpy(out, whole + col, n * sizeof(*out));
    free(whole);
    return status;
}

/* Checks the file only; the library checks its folders, too, when the plugin is used. */
static enum kt_status trust(const struct kt_host *host, const char *path, struct kt_error *error)
{
    struct stat entry;
    (void)host;
    if (path[0] != '/' || stat(path, &entry) != 0 || !S_ISREG(entry.st_mode))
        return kt_plugin_fail(error, KT_E_NOT_FOUND, "%.400s is not an absolute path of a file", path);
    if ((entry.st_uid != 0 && entry.st_uid != geteuid()) || (entry.st_mode & (S_IWGRP | S_IWOTH)))
        return kt_plugin_fail(error, KT_E_PLUGIN, "%.400s can be written by others", path);
    return KT_OK;
}

/* ---- through the library ---------------------------------------------------------------------- */

enum kt_status plugin_context(struct kt_cli *cli, struct kt_context **context, struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    enum kt_status status = kt_config_create(&params, &config, error);
    if (status != KT_OK)
        return status;
    status = kt_context_create(config, context, error);
    kt_config_destroy(config);
    return status;
}

/* Copies a reason, with the user's path instead of the copy's. */
static void copy_reason(const struct plugin_file *file, const char *reason, char *to, size_t size)
{
    const char *at = strstr(reason, file->copy);
    if (at)
        snprintf(to, size, "%.*s%s%s", (int)(at - reason), reason, file->path, at + strlen(file->copy));
    else
        snprintf(to, size, "%s", reason);
}

static void note_options(struct plugin_run *run, const struct kt_context *context, size_t index, size_t n,
                         struct plugin_facts *facts)
{
    struct kt_setting setting;
    if (n > PLUGIN_MAX_OPTIONS)
        plugin_fail(run, "it has %zu options; kt plugin check knows %d", n, PLUGIN_MAX_OPTIONS);
    for (size_t i = 0; i < n && i < PLUGIN_MAX_OPTIONS; i++)
        if (kt_context_backend_option(context, index, i, &setting, NULL) == KT_OK)
            snprintf(facts->values[i], sizeof(facts->values[i]), "%s", setting.value);
    facts->n_options = (uint32_t)n;
}

/* Collects the facts of a plugin that the library has accepted. */
static void note_levels(struct plugin_run *run, struct plugin_facts *facts)
{
    if (facts->state != KT_BACKEND_LOADED && facts->state != KT_BACKEND_REFUSED)
        return;
    run->facts = facts;
    if (!plugin_attach(run, run->child))
        return;
    facts->n_levels = run->plugin->n_levels;
    for (uint32_t i = 0; i < facts->n_levels; i++) {
        snprintf(facts->levels[i].name, sizeof(facts->levels[i].name), "%s", run->plugin->levels[i]->name);
        facts->levels[i].cpu = run->plugin->levels[i]->cpu;
        facts->levels[i].tables = plugin_tables(run->plugin->levels[i]);
        facts->levels[i].has_check = PLUGIN_FIELD(run->plugin->levels[i], check) != NULL;
    }
}

static void note_backend(struct plugin_run *run, const struct kt_context *context, struct plugin_facts *facts)
{
    for (size_t i = 0; i < kt_context_backend_count(context); i++) {
        struct kt_backend_info info;
        if (kt_context_backend(context, i, &info, NULL) != KT_OK || strcmp(info.name, run->file->name) != 0)
            continue;
        facts->state = (int)info.state;
        copy_reason(run->file, info.reason, facts->reason, sizeof(facts->reason));
        snprintf(facts->version, sizeof(facts->version), "%s", info.version ? info.version : "");
        snprintf(facts->formats, sizeof(facts->formats), "%s", info.formats ? info.formats : "");
        note_options(run, context, i, info.n_options, facts);
    }
}

void plugin_job_load(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    struct plugin_facts *facts = (struct plugin_facts *)(void *)child->payload.bytes;
    struct kt_context_info info;
    struct kt_context *context;
    struct kt_error error;
    run->child = child;
    facts->state = KT_BACKEND_FAILED;
    if (plugin_context(run->cli, &context, &error) != KT_OK) {
        plugin_fail(run, "%s", error.message);
        return;
    }
    kt_context_info(context, &info);
    facts->cpu = info.cpu;
    note_backend(run, context, facts);
    note_levels(run, facts);
    kt_context_destroy(context);
    if (plugin_failed(run))
        return;
    if (facts->state == KT_BACKEND_FAILED || facts->state == KT_BACKEND_DISABLED)
        plugin_say(&child->verdict, PLUGIN_FAILED, "%s", facts->reason);
    else if (run->plugin)
        plugin_say(&child->verdict, PLUGIN_OK, "version %s, built for plugin ABI %u.%u", facts->version,
                   run->plugin->abi_major, run->plugin->abi_minor);
    else
        plugin_say(&child->verdict, PLUGIN_OK, "not opened on this CPU");
}

/* ---- here ------------------------------------------------------------------------------------- */

/* The library has checked the text. */
static void read_value(const struct kt_option *option, const char *text, struct kt_option_value *value)
{
    value->text = text;
    value->number = 0;
    if (option->type == KT_OPTION_INT)
        value->number = strtoll(text, NULL, 10);
    else if (option->type == KT_OPTION_BOOL)
        value->number = !strcasecmp(text, "yes") || !strcasecmp(text, "true") || !strcasecmp(text, "on") ||
                        !strcmp(text, "1");
    else if (option->type == KT_OPTION_ENUM)
        for (const char *word = option->choices; *word; word += *word == '|') {
            size_t n = strcspn(word, "|");
            if (n == strlen(text) && strncmp(word, text, n) == 0)
                break;
            value->number++;
            word += n;
        }
}

/* A process must ask for permission to use tiles. */
static void ask_for_tiles(uint64_t cpu)
{
#if defined __x86_64__ && defined SYS_arch_prctl
    if (cpu & KT_CPU_AMX_TILE)
        (void)syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
#else
    (void)cpu;
#endif
}

bool plugin_attach(struct plugin_run *run, struct plugin_child *child)
{
    char symbol[64];
    current = run;
    run->child = child;
    plugin_where(run, "loading");
    plugin_state_take(&run->before);
    void *handle = dlopen(run->file->copy, RTLD_NOW | RTLD_LOCAL);
    snprintf(symbol, sizeof(symbol), "kt_plugin_%s", run->file->name);
    run->plugin = handle ? dlsym(handle, symbol) : NULL;
    if (!run->plugin) {
        plugin_fail(run, "%s", dlerror());
        return false;
    }
    /* An L2 cache so small that many rows are multiplied in several row blocks. */
    run->caps = (struct kt_caps){.cpu = run->facts->cpu, .l1d_size = 32768, .l2_size = 65536};
    run->host = (struct kt_host){.struct_size = sizeof(run->host),
                                 .abi_minor = KT_PLUGIN_ABI_MINOR,
                                 .data = run,
                                 .log = take_log,
                                 .allocate = allocate,
                                 .release = release,
                                 .dequantize = dequantize,
                                 .dtype_name = kt_dtype_name,
                                 .trust = trust};
    for (uint32_t i = 0; i < run->plugin->n_options && i < PLUGIN_MAX_OPTIONS; i++)
        read_value(&run->plugin->options[i],
                   i < run->facts->n_options ? run->facts->values[i] : run->plugin->options[i].default_text,
                   &run->values[i]);
    run->level = run->plugin->levels[run->level_index < run->plugin->n_levels ? run->level_index : 0];
    ask_for_tiles(run->caps.cpu);
    return true;
}

bool plugin_instance(struct plugin_run *run)
{
    struct kt_error error = {.message = ""};
    run->instance = NULL;
    if (!run->plugin->open)
        return true;
    plugin_where(run, "open");
    enum kt_status status = run->plugin->open(&run->host, &run->caps, run->values, &run->instance, &error);
    error.message[sizeof(error.message) - 1] = '\0';
    if (status == KT_OK)
        return true;
    if (run->instance)
        plugin_fail(run, "it failed and left an instance: outputs are set on success only");
    else if (!error.message[0])
        plugin_fail(run, "it failed with status %d and does not say why", (int)status);
    else
        plugin_fail(run, "%s", error.message);
    return false;
}

uint32_t plugin_tables(const struct kt_level *level)
{
    return (level->ops ? PLUGIN_EXPERTS : 0u) | (PLUGIN_FIELD(level, attention) ? PLUGIN_ATTENTION : 0u) |
           (PLUGIN_FIELD(level, rows) ? PLUGIN_ROWS : 0u);
}

enum kt_status plugin_ready(struct plugin_run *run, struct kt_error *error)
{
    *error = (struct kt_error){.message = ""};
    if (!PLUGIN_FIELD(run->level, check))
        return KT_OK;
    plugin_where(run, "check of level %s", run->level->name);
    enum kt_status status = run->level->check(run->instance, error);
    error->message[sizeof(error->message) - 1] = '\0';
    if (status != KT_OK && !error->message[0])
        plugin_fail(run, "it refuses with status %d and does not say why", (int)status);
    return status;
}

void plugin_detach(struct plugin_run *run)
{
    if (run->plugin->close) {
        plugin_where(run, "close");
        run->plugin->close(run->instance);
    }
    run->instance = NULL;
}

/* ---- probe, open and close ---------------------------------------------------------------------- */

void plugin_job_probe(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    struct kt_error error = {.message = ""};
    if (!plugin_attach(run, child))
        return;
    if (!run->plugin->probe) {
        plugin_say(&child->verdict, PLUGIN_OK, "it has none");
        return;
    }
    plugin_where(run, "probe");
    enum kt_status status = run->plugin->probe(&run->host, &run->caps, &error);
    error.message[sizeof(error.message) - 1] = '\0';
    if (plugin_failed(run))
        return;
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    else if (status != KT_OK && !error.message[0])
        plugin_fail(run, "it refused with status %d and does not say why", (int)status);
    else if (status != KT_OK)
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it refuses to work here: %.900s", error.message);
    else
        plugin_say(&child->verdict, PLUGIN_OK, "it can work here");
}

/* Makes two instances at once, since a process may have two contexts. */
void plugin_job_open(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    if (!plugin_attach(run, child) || !plugin_instance(run))
        return;
    void *first = run->instance;
    if (!plugin_instance(run))
        return;
    plugin_detach(run);
    run->instance = first;
    plugin_detach(run);
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    if (!plugin_failed(run))
        plugin_say(&child->verdict, PLUGIN_OK, "two instances at once, nothing left behind");
}

/* Can the level be used here? The core asks this first. */
void plugin_job_level(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    struct kt_error error;
    if (!plugin_attach(run, child) || !plugin_instance(run))
        return;
    enum kt_status status = plugin_ready(run, &error);
    plugin_detach(run);
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    if (plugin_failed(run))
        return;
    if (status != KT_OK)
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it cannot work here: %.900s", error.message);
    else
        plugin_say(&child->verdict, PLUGIN_OK, "it can work here");
}

void plugin_check_modes(struct plugin_run *run)
{
    if (!plugin_state_has_modes(&run->before))
        plugin_fail(run, "it changed the mode of floating point: how numbers are rounded, or whether "
                         "subnormal ones are 0");
}

/* ---- what tools/check asks of a program ----------------------------------------------------------- */

void check_enter(const struct check *check, const char *function)
{
    const struct plugin_case *item =
        (const struct plugin_case *)(const void *)((const char *)check - offsetof(struct plugin_case, check));
    plugin_check_modes(current);
    plugin_where(current, "%s, level %s%s, %s", function, check->level->name, current->of, item->text);
    bool forward = strcmp(function, "act_pack") == 0 || strcmp(function, "gather") == 0 ||
                   strcmp(function, "gate_up") == 0 || strcmp(function, "down") == 0;
    plugin_host_forbid(forward ? function : NULL);
}

void check_fail(struct check *check, const char *format, ...)
{
    char text[900];
    va_list arguments;
    check->wrong = true;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    plugin_fail(current, "%s", text);
}
