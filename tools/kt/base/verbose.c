/* SPDX-License-Identifier: Apache-2.0 */
/* verbose.c - what -v tells: the configuration, the machine, the plugins, memory and times. */
#include "tools/kt/base/cli.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double kt_cli_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void kt_verbose_time(const struct kt_cli *cli, const char *phase, double since, const char *format, ...)
{
    double milliseconds = (kt_cli_now() - since) * 1e3;
    char about[1024];
    va_list arguments;
    if (!cli->verbose)
        return;
    va_start(arguments, format);
    vsnprintf(about, sizeof(about), format, arguments);
    va_end(arguments);
    kt_cli_info(cli, "time %s: %.3f ms%s%s", phase, milliseconds, *about ? ", " : "", about);
}

/* ---- the configuration ---------------------------------------------------------------------- */

static void show_file(void *data, const struct kt_config_file *file)
{
    static const char *const states[] = {"read", "absent", "failed"};
    kt_cli_info(data, "config: %s %s", states[file->state], file->path);
}

void kt_verbose_files(const struct kt_cli *cli, const struct kt_config_params *params)
{
    static bool said; /* some verbs read the configuration twice */
    struct kt_config_params quiet = *params;
    struct kt_error ignored;
    if (!cli->verbose || said)
        return;
    said = true;
    quiet.log = NULL;
    (void)kt_config_check(&quiet, show_file, (void *)(uintptr_t)cli, &ignored);
}

/* Settings of the core that somebody has changed. */
void kt_verbose_settings(const struct kt_cli *cli, const struct kt_config *config)
{
    static bool said;
    struct kt_setting setting;
    if (!cli->verbose || said)
        return;
    said = true;
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.section, "core") == 0 &&
            strcmp(setting.origin, "default") != 0)
            kt_cli_info(cli, "setting: core.%s = %s, by %s", setting.key, setting.value, setting.origin);
    }
}

/* ---- the machine and the plugins ------------------------------------------------------------ */

static void show_machine(const struct kt_cli *cli, const struct kt_context *context)
{
    struct kt_context_info info;
    struct kt_node_info node;
    char size[32];
    kt_context_info(context, &info);
    kt_cli_info(cli, "cpu: level %s, features %s", info.cpu_variant, info.cpu_features);
    kt_cli_info(cli, "threads: %" PRIu32 " on %" PRIu32 " NUMA node%s", info.n_threads, info.n_nodes,
                info.n_nodes == 1 ? "" : "s");
    for (uint32_t i = 0; i < info.n_nodes; i++) {
        if (kt_context_node(context, i, &node, NULL) == KT_OK)
            kt_cli_info(cli, "node %" PRIu32 ": threads %" PRIu32 ", memory %s", node.os_index,
                        node.n_threads, kt_bytes_text(node.memory, size, sizeof(size)));
    }
    if (info.bind_failures > 0)
        kt_cli_info(cli, "threads not bound to their cores: %" PRIu32, info.bind_failures);
    if (*info.membind_message)
        kt_cli_info(cli, "memory not bound to its nodes: %s", info.membind_message);
    uint64_t bytes = kt_memory_available();
    if (bytes > 0)
        kt_cli_info(cli, "memory: %s free", kt_bytes_text(bytes, size, sizeof(size)));
}

static void show_backend(const struct kt_cli *cli, const struct kt_backend_info *info)
{
    static const char *const states[] = {"loaded", "disabled", "unfit", "refused", "failed"};
    if (!*info->file && info->state == KT_BACKEND_LOADED) {
        kt_cli_info(cli, "plugin %s: loaded, level %s, %s", info->name, info->level, info->origin);
        return;
    }
    kt_cli_info(cli, "plugin %s: %s%s%s%s%s, section %s%s%s", info->name, states[info->state],
                *info->level ? ", level " : "", info->level, *info->file ? ", file " : "", info->file,
                info->origin, *info->reason ? ": " : "", info->reason);
}

void kt_verbose_context(const struct kt_cli *cli, const struct kt_context *context)
{
    struct kt_backend_info info;
    if (!cli->verbose)
        return;
    show_machine(cli, context);
    for (size_t i = 0; i < kt_context_backend_count(context); i++) {
        if (kt_context_backend(context, i, &info, NULL) == KT_OK)
            show_backend(cli, &info);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* The number that `format` finds in a file of /proc; 0: none. */
static uint64_t read_number(const char *path, const char *format)
{
    char line[256];
    uint64_t number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file) && sscanf(line, format, &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

void kt_verbose_end(const struct kt_cli *cli, double since)
{
    char now[32], most[32];
    if (!cli->verbose || !cli->runs)
        return;
    uint64_t resident = read_number("/proc/self/status", "VmRSS: %" SCNu64 " kB") * 1024;
    uint64_t peak = read_number("/proc/self/status", "VmHWM: %" SCNu64 " kB") * 1024;
    if (peak > 0)
        kt_cli_info(cli, "memory: %s resident, %s at most", kt_bytes_text(resident, now, sizeof(now)),
                    kt_bytes_text(peak, most, sizeof(most)));
    kt_verbose_time(cli, "all", since, "%s", "");
}
