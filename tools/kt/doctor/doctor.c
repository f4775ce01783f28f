/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - kt doctor: checks the machine, the configuration, and that the backends compute correctly. */
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/plugin/selftest.h"
#include "tools/kt/base/table.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <inttypes.h>
#include <kt/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LITTLE_MEMORY (UINT64_C(1) << 30)

static const struct kt_column columns[] = {
    {"check", "CHECK", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},
    {"advice", "ADVICE", KT_COLUMN_TEXT, 0, KT_COLUMN_BELOW},
};

enum state { OK, WARNING, FAILED, SKIPPED };

struct finding {
    char *check, *value, *advice;
    enum state state;
};

/* Shared by the checks. */
struct doctor {
    struct kt_cli *cli;
    struct kt_config *config;
    struct kt_context *context;
    struct finding *findings;
    size_t n_findings, max_findings;
    size_t n_failed;
};

static void report(struct doctor *doctor, const char *check, enum state state, const char *value,
                   const char *advice)
{
    if (doctor->n_findings == doctor->max_findings) {
        size_t max = doctor->max_findings ? 2 * doctor->max_findings : 64;
        struct finding *grown = kt_cli_alloc(doctor->cli, max, sizeof(*grown));
        if (doctor->findings)
            memcpy(grown, doctor->findings, doctor->n_findings * sizeof(*grown));
        free(doctor->findings);
        doctor->findings = grown;
        doctor->max_findings = max;
    }
    struct finding *finding = &doctor->findings[doctor->n_findings++];
    finding->check = kt_cli_format(doctor->cli, "%s", check);
    finding->value = kt_cli_format(doctor->cli, "%s", value);
    finding->advice = kt_cli_format(doctor->cli, "%s", advice);
    finding->state = state;
    doctor->n_failed += state == FAILED;
}

/* Is this for people, who want what matters first and short? Programs get one row for each check. */
static bool is_for_people(const struct doctor *doctor)
{
    return doctor->cli->format == KT_FORMAT_TABLE;
}

static void add_row(struct kt_table *table, const struct finding *finding)
{
    static const char *const names[] = {"ok", "warning", "failed", "skipped"};
    kt_table_row(table);
    kt_table_text(table, "check", finding->check);
    kt_table_text(table, "state", names[finding->state]);
    kt_table_text(table, "value", finding->value);
    kt_table_text(table, "advice", finding->advice);
}

static void add_rows(const struct doctor *doctor, struct kt_table *table, enum state one, enum state other)
{
    for (size_t i = 0; i < doctor->n_findings; i++) {
        if (doctor->findings[i].state == one || doctor->findings[i].state == other)
            add_row(table, &doctor->findings[i]);
    }
}

/* "30 checks, none failed", with the warnings if there are any. */
static void add_sentence(const struct doctor *doctor, struct kt_output *output)
{
    char failed[32] = "none", warned[32] = "", text[128];
    size_t n = 0, n_warnings = 0;
    for (size_t i = 0; i < doctor->n_findings; i++) {
        n += doctor->findings[i].state != SKIPPED;
        n_warnings += doctor->findings[i].state == WARNING;
    }
    if (doctor->n_failed > 0)
        snprintf(failed, sizeof(failed), "%zu", doctor->n_failed);
    if (n_warnings > 0)
        snprintf(warned, sizeof(warned), ", %zu %s", n_warnings, n_warnings == 1 ? "warning" : "warnings");
    snprintf(text, sizeof(text), "%zu %s, %s failed%s", n, n == 1 ? "check" : "checks", failed, warned);
    kt_output_note(output, text);
}

static int print(struct doctor *doctor)
{
    struct kt_output *output = kt_output_create(doctor->cli, "kt.doctor", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, COUNT(columns));
    if (is_for_people(doctor)) {
        add_rows(doctor, table, FAILED, FAILED);
        add_rows(doctor, table, WARNING, WARNING);
        add_rows(doctor, table, OK, SKIPPED);
    } else {
        for (size_t i = 0; i < doctor->n_findings; i++)
            add_row(table, &doctor->findings[i]);
    }
    add_sentence(doctor, output);
    return kt_output_finish(output, KT_EXIT_OK);
}

static void free_findings(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->n_findings; i++) {
        free(doctor->findings[i].check);
        free(doctor->findings[i].value);
        free(doctor->findings[i].advice);
    }
    free(doctor->findings);
}

/* ---- configuration -------------------------------------------------------------------------- */

static void report_file(void *data, const struct kt_config_file *file)
{
    struct doctor *doctor = data;
    if (file->state == KT_CONFIG_FILE_READ)
        report(doctor, "config file", OK, file->path, "");
    else if (file->state == KT_CONFIG_FILE_FAILED)
        report(doctor, "config file", FAILED, file->path, file->message);
    else if (file->state == KT_CONFIG_FILE_IGNORED)
        report(doctor, "config file", WARNING, file->path, file->message);
}

static void check_config(struct doctor *doctor)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_error error;
    params.file = doctor->cli->config_file;
    params.settings = doctor->cli->settings;
    params.n_settings = doctor->cli->n_settings;
    params.log = kt_cli_log;
    params.log_data = doctor->cli;
    size_t before = doctor->n_failed;
    enum kt_status status = kt_config_check(&params, report_file, doctor, &error);
    if (status != KT_OK && doctor->n_failed == before)
        report(doctor, "config", FAILED, "", error.message);
    if (status == KT_OK && kt_config_create(&params, &doctor->config, &error) != KT_OK)
        report(doctor, "config", FAILED, "", error.message);
}

static const char *find_setting(const struct doctor *doctor, const char *key)
{
    static struct kt_setting setting;
    for (size_t i = 0; i < kt_config_setting_count(doctor->config); i++) {
        if (kt_config_setting(doctor->config, i, &setting, NULL) == KT_OK &&
            strcmp(setting.section, "core") == 0 && strcmp(setting.key, key) == 0)
            return setting.value;
    }
    return "";
}

/* ---- machine -------------------------------------------------------------------------------- */

/* The text after ": " of the first line of /proc/cpuinfo that starts with `key`; allocated. */
static char *read_cpuinfo(const char *key)
{
    char *line = NULL, *value = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return NULL;
    while (!value && getline(&line, &size, file) > 0) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " ");
        colon[strcspn(colon, "\n")] = '\0';
        value = strdup(colon);
    }
    free(line);
    fclose(file);
    return value;
}

/* The name of an ARM CPU, which /proc/cpuinfo gives as two numbers. Allocated; NULL: unknown. */
static char *name_cpu(void)
{
    char *name = read_cpuinfo("model name");
    char *implementer = name ? NULL : read_cpuinfo("CPU implementer");
    char *part = implementer ? read_cpuinfo("CPU part") : NULL;
    if (part && (name = malloc(96)))
        (void)snprintf(name, 96, "implementer %s, part %s", implementer, part);
    free(implementer);
    free(part);
    return name;
}

static void check_cpu(struct doctor *doctor, const struct kt_context_info *info)
{
    char *model = name_cpu();
    const char *mask = find_setting(doctor, "cpu_variant");
    bool vectors = info->cpu & (KT_CPU_AVX2 | KT_CPU_NEON);
    report(doctor, "cpu", OK, model ? model : "unknown", "");
    free(model);
    report(doctor, "cpu features", OK, info->cpu_features, "");
    if (*mask)
        report(doctor, "cpu level", WARNING, info->cpu_variant,
               "core.cpu_variant or KT_KERNEL_CPU_VARIANT masks what the CPU has; remove it unless "
               "you are testing");
    else if (!vectors)
        report(doctor, "cpu level", WARNING, info->cpu_variant,
               "only scalar code can run here, which is slow; in a virtual machine, pass the host's "
               "CPU features through");
    else
        report(doctor, "cpu level", OK, info->cpu_variant, "");
}

/* Asked of the CPU itself: what the kernel lists is that of the host, where a CPU is emulated. */
static bool cpu_has_tiles(void)
{
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx >> 24 & 1;
#else
    return false;
#endif
}

static void check_amx(struct doctor *doctor, const struct kt_context_info *info)
{
    if (info->cpu & KT_CPU_AMX_TILE)
        report(doctor, "amx", OK, "permitted", "");
    else if (!cpu_has_tiles())
        report(doctor, "amx", SKIPPED, "this CPU has none", "");
    else if (*find_setting(doctor, "cpu_variant"))
        report(doctor, "amx", SKIPPED, "masked by the configuration", "");
    else
        report(doctor, "amx", FAILED, "the CPU has it, the kernel refuses it",
               "needs Linux 5.16 or later and arch_prctl(ARCH_REQ_XCOMP_PERM); a container or "
               "sandbox must allow that call, or set core.cpu_variant = avx512_bf16");
}

/* Of the control groups. More threads than it is enough for are stopped together, within a stage. */
static void check_quota(struct doctor *doctor, const struct kt_context_info *info)
{
    uint32_t quota = kt_cpu_quota();
    char text[64];
    if (quota == 0) {
        report(doctor, "cpu quota", OK, "no limit", "");
        return;
    }
    snprintf(text, sizeof(text), "%.4g CPUs' time for %" PRIu32 " threads", quota / 1000.0, info->n_threads);
    if (info->n_threads > 1 && (info->n_threads - 1) * UINT64_C(1000) >= quota)
        report(doctor, "cpu quota", WARNING, text,
               "the kernel stops all of them whenever it is used up; set core.threads to 0, or raise the "
               "control group's quota (cpu.max, docker run --cpus)");
    else
        report(doctor, "cpu quota", OK, text, "");
}

static void check_threads(struct doctor *doctor, const struct kt_context_info *info)
{
    char text[64];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, sizeof(text), "%" PRIu32 ", %" PRIu32 " could not be bound to a core", info->n_threads,
             info->bind_failures);
    if (info->bind_failures == 0)
        snprintf(text, sizeof(text), "%" PRIu32, info->n_threads);
    if (info->bind_failures > 0)
        report(doctor, "threads", WARNING, text,
               "threads may wander between cores; allow sched_setaffinity in the container");
    else if (cores > 0 && info->n_threads > (unsigned long)cores)
        report(doctor, "threads", WARNING, text,
               "there are fewer cores to run on; set core.threads to their number, or 0");
    else
        report(doctor, "threads", OK, text, "");
    check_quota(doctor, info);
    if (info->idle_cpus[0])
        report(doctor, "idle cpus", OK, info->idle_cpus,
               "no thread is bound to them: core.threads, core.numa_nodes or a node without memory leaves "
               "them out");
    for (uint32_t i = 0; i < info->n_nodes; i++) {
        struct kt_node_info node;
        char memory[32];
        if (kt_context_node(doctor->context, i, &node, NULL) != KT_OK)
            continue;
        snprintf(text, sizeof(text), "node %" PRIu32 ": %" PRIu32 " threads, %s in all", node.os_index,
                 node.n_threads, kt_bytes_text(node.memory, memory, sizeof(memory)));
        report(doctor, "numa node", OK, text, "");
    }
    if (info->membind_failures > 0)
        report(doctor, "numa memory", WARNING, info->membind_message,
               "weights may lie on the wrong node; allow mbind in the container (CAP_SYS_NICE)");
    else
        report(doctor, "numa memory", OK, "bound to its node", "");
}

static void check_dispatch(struct doctor *doctor)
{
    struct kt_error error;
    double nanoseconds;
    char text[64];
    if (kt_context_dispatch_time(doctor->context, 1000, 0, &nanoseconds, &error) != KT_OK) {
        report(doctor, "dispatch", FAILED, "no stage could be run", error.message);
        return;
    }
    snprintf(text, sizeof(text), "%.1f microseconds for an empty stage", nanoseconds / 1000);
    report(doctor, "dispatch", OK, text, "");
}

static void check_huge_pages(struct doctor *doctor)
{
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file) {
        if (!fgets(line, sizeof(line), file))
            line[0] = '\0';
        line[strcspn(line, "\n")] = '\0';
        fclose(file);
    }
    const char *wish = find_setting(doctor, "huge_pages");
    if (strcmp(wish, "no") == 0 || strcmp(wish, "false") == 0 || strcmp(wish, "off") == 0 ||
        strcmp(wish, "0") == 0)
        report(doctor, "huge pages", SKIPPED, "off by core.huge_pages", "");
    else if (!*line)
        report(doctor, "huge pages", WARNING, "unknown",
               "/sys/kernel/mm/transparent_hugepage/enabled cannot be read: more TLB misses if the "
               "kernel has no transparent huge pages");
    else if (strstr(line, "[never]"))
        report(doctor, "huge pages", WARNING, line,
               "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    else
        report(doctor, "huge pages", OK, line, "");
}

static void check_memory(struct doctor *doctor)
{
    uint64_t bytes = kt_memory_available();
    char amount[32], text[48];
    snprintf(text, sizeof(text), "%s free", kt_bytes_text(bytes, amount, sizeof(amount)));
    if (bytes == 0)
        report(doctor, "memory", WARNING, "unknown", "/proc/meminfo cannot be read");
    else
        report(doctor, "memory", bytes < LITTLE_MEMORY ? WARNING : OK, text,
               bytes < LITTLE_MEMORY ? "close other programs, or raise the control group's limit: "
                                       "weights must fit into memory"
                                     : "");
}

/* ---- backends ------------------------------------------------------------------------------- */

/* What the self-tests of a backend gave. */
struct tally {
    char passed[256], refused[256]; /* formats */
    double error;                   /* the largest that passed */
};

static void add_word(char *text, size_t size, const char *word)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length ? " " : "", word);
}

static void check_format(struct doctor *doctor, const char *backend, const char *level, uint32_t dtype,
                         bool attention, struct tally *tally)
{
    struct kt_selftest test;
    char check[64], text[1200], advice[160];
    if (attention)
        kt_selftest_attention(doctor->cli, doctor->context, backend, dtype, &test);
    else
        kt_selftest_run(doctor->cli, doctor->context, backend, strcmp(backend, "reference") == 0, dtype, NULL,
                        &test);
    snprintf(check, sizeof(check), "self-test %s", backend);
    snprintf(text, sizeof(text), "%s at %s: relative error %.2g, limit %.0e", kt_dtype_name(dtype), level,
             test.error, test.limit);
    switch (test.state) {
    case KT_SELFTEST_REFUSED:
        add_word(tally->refused, sizeof(tally->refused), kt_dtype_name(dtype));
        return;
    case KT_SELFTEST_PASSED:
        add_word(tally->passed, sizeof(tally->passed), kt_dtype_name(dtype));
        tally->error = test.error > tally->error ? test.error : tally->error;
        if (!is_for_people(doctor))
            report(doctor, check, OK, text, "");
        return;
    case KT_SELFTEST_FAILED:
        snprintf(text, sizeof(text), "%s: %s", kt_dtype_name(dtype), test.message);
        break;
    default:
        break;
    }
    snprintf(advice, sizeof(advice),
             "do not use it: set enabled = no in [plugin.%s], or try a lower "
             "level there; report it with this output",
             backend);
    report(doctor, check, FAILED, text, advice);
}

/* One line for all formats, and one for each that failed; for programs one for each format, and one for
 * those that are not taken. */
static void check_formats(struct doctor *doctor, const char *backend, const char *level, bool attention)
{
    char check[64], text[640];
    struct tally tally = {.error = 0};
    const uint32_t *dtype = attention ? kt_selftest_caches : kt_selftest_dtypes;
    for (; *dtype != KT_DTYPE_NONE; dtype++)
        check_format(doctor, backend, level, *dtype, attention, &tally);
    snprintf(check, sizeof(check), "self-test %s", backend);
    if (!is_for_people(doctor) && *tally.refused) {
        snprintf(text, sizeof(text), "not taken: %s", tally.refused);
        report(doctor, check, SKIPPED, text, "");
    } else if (is_for_people(doctor) && *tally.passed) {
        snprintf(text, sizeof(text), "%s at %s, errors up to %.2g", tally.passed, level, tally.error);
        report(doctor, check, OK, text, "");
    }
}

static void check_backend(struct doctor *doctor, const struct kt_backend_info *info)
{
    char check[64], value[1200];
    bool note = is_for_people(doctor) && *info->reason; /* no advice: nothing is wrong */
    snprintf(check, sizeof(check), "backend %s", info->name);
    switch (info->state) {
    case KT_BACKEND_LOADED:
        snprintf(value, sizeof(value), "loaded, level %s%s%s", info->level, note ? "; " : "",
                 note ? info->reason : "");
        report(doctor, check, OK, value, note ? "" : info->reason);
        check_formats(doctor, info->name, info->level, info->takes_attention);
        return;
    case KT_BACKEND_DISABLED:
        report(doctor, check, SKIPPED, "disabled", info->reason);
        return;
    case KT_BACKEND_UNFIT:
        report(doctor, check, SKIPPED, "not for this CPU", info->reason);
        return;
    case KT_BACKEND_REFUSED:
        report(doctor, check, WARNING, "refused to work here", info->reason);
        return;
    case KT_BACKEND_FAILED:
        report(doctor, check, FAILED, *info->file ? info->file : "failed", info->reason);
        return;
    }
}

static void check_backends(struct doctor *doctor)
{
    struct kt_backend_info info;
    struct kt_error error;
    for (size_t i = 0; i < kt_context_backend_count(doctor->context); i++) {
        if (kt_context_backend(doctor->context, i, &info, &error) == KT_OK)
            check_backend(doctor, &info);
        else
            report(doctor, "backend", FAILED, "", error.message);
    }
}

static void examine(struct doctor *doctor)
{
    struct kt_context_info info;
    struct kt_error error;
    check_config(doctor);
    check_memory(doctor);
    if (!doctor->config) {
        report(doctor, "machine, backends", SKIPPED, "the configuration is wrong", "");
        return;
    }
    check_huge_pages(doctor);
    doctor->cli->shows_plugins = true;
    kt_cli_try_plugins(doctor->cli, doctor->config);
    if (kt_context_create(doctor->config, &doctor->context, &error) != KT_OK) {
        report(doctor, "context", FAILED, "could not be made", error.message);
        return;
    }
    /* Backends first: their buffers show whether memory can be bound. */
    check_backends(doctor);
    kt_context_info(doctor->context, &info);
    check_cpu(doctor, &info);
    check_amx(doctor, &info);
    check_threads(doctor, &info);
    check_dispatch(doctor);
}

static const struct kt_cli_option rows[] = {KT_CLI_THREADS, {.name = NULL}};
const struct kt_cli_command kt_doctor_command =
    {.usage = "[OPTION]...",
     .about = "Checks the configuration, the CPU and its features, AMX permission, NUMA nodes, huge "
              "pages, memory and the plugins, and runs a small random layer on each loaded backend. "
              "Failed checks come first, with what to do. Exit status 1 if a check fails.",
     .options = rows};

int kt_cmd_doctor(struct kt_cli *cli, int argc, char **argv)
{
    struct doctor doctor = {.cli = cli};
    if (!kt_cli_parse(cli, &kt_doctor_command, argc, argv, NULL))
        return cli->exit_code;
    int code = kt_cli_check_settings(cli);
    if (code != KT_EXIT_OK)
        return code;
    kt_progress_start(cli, "checking");
    examine(&doctor);
    kt_progress_stop();
    code = print(&doctor);
    free_findings(&doctor);
    kt_context_destroy(doctor.context);
    kt_config_destroy(doctor.config);
    if (doctor.n_failed > 0)
        code = kt_cli_error(cli, "%zu %s failed", doctor.n_failed, doctor.n_failed == 1 ? "check" : "checks");
    return code;
}
