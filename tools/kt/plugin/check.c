/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - kt plugin check: the list of checks, each run in a child, and their results. */
#include "tools/kt/plugin/plugin.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_column columns[] = {
    {"check", "CHECK", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, 0},
};

/* Checks of each level that has one of these tables, in this order. A failure ends the level, since later
 * checks rely on earlier ones. */
static const struct {
    const char *name;
    plugin_job *job;
    uint32_t tables;
} level_checks[] = {
    {"layout", plugin_job_layout, PLUGIN_EXPERTS},
    {"pack", plugin_job_pack, PLUGIN_EXPERTS},
    {"weights", plugin_job_weights, PLUGIN_EXPERTS},
    {"activations", plugin_job_activations, PLUGIN_EXPERTS},
    {"numbers", plugin_job_numbers, PLUGIN_EXPERTS},
    {"ranges", plugin_job_ranges, PLUGIN_EXPERTS},
    {"isolation", plugin_job_isolation, PLUGIN_EXPERTS},
    {"cut", plugin_job_cut, PLUGIN_EXPERTS},
    {"unpack", plugin_job_unpack, PLUGIN_EXPERTS},
    {"attention-layout", plugin_job_attention_layout, PLUGIN_ATTENTION},
    {"attention-numbers", plugin_job_attention_numbers, PLUGIN_ATTENTION},
    {"attention-isolation", plugin_job_attention_isolation, PLUGIN_ATTENTION},
    {"rows-numbers", plugin_job_rows_numbers, PLUGIN_ROWS},
    {"rows-isolation", plugin_job_rows_isolation, PLUGIN_ROWS},
    {"options", plugin_job_options, PLUGIN_EXPERTS | PLUGIN_ATTENTION},
    {"memory", plugin_job_memory, PLUGIN_EXPERTS | PLUGIN_ATTENTION},
    {"threads", plugin_job_threads, PLUGIN_EXPERTS},
    {"attention-threads", plugin_job_attention_threads, PLUGIN_ATTENTION},
    {"rows-threads", plugin_job_rows_threads, PLUGIN_ROWS},
};

struct report {
    struct kt_cli *cli;
    struct kt_output *output; /* NULL: TAP */
    struct kt_table *table;
    const struct plugin_check_args *args;
    struct plugin_run run;
    struct plugin_facts facts;
    struct plugin_child *child; /* the last one */
    uint64_t n, n_failed;
};

/* ---- rows ------------------------------------------------------------------------------------- */

/* A '#' would begin a TAP directive, and control characters could confuse readers. */
static void print_tap(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text == '#' ? '_' : *text);
}

static void add_tap(struct report *report, const char *check, const char *level,
                    const struct plugin_verdict *verdict)
{
    printf("%s %" PRIu64 " - %s%s%s", verdict->state == PLUGIN_FAILED ? "not ok" : "ok", report->n, check,
           *level ? " " : "", level);
    if (verdict->state == PLUGIN_SKIPPED)
        fputs(" # SKIP ", stdout);
    else if (*verdict->text)
        fputs(verdict->state == PLUGIN_FAILED ? "\n# " : ": ", stdout);
    print_tap(verdict->text);
    putchar('\n');
    fflush(stdout);
}

static void add(struct report *report, const char *check, const char *level,
                const struct plugin_verdict *verdict)
{
    static const char *const states[] = {"ok", "failed", "skipped"};
    report->n++;
    report->n_failed += verdict->state == PLUGIN_FAILED;
    kt_progress_update(report->n, 0);
    if (!report->output) {
        add_tap(report, check, level, verdict);
        return;
    }
    kt_table_row(report->table);
    kt_table_text(report->table, "check", check);
    kt_table_text(report->table, "level", level);
    kt_table_text(report->table, "state", states[verdict->state]);
    kt_table_text(report->table, "message", verdict->text);
}

static enum plugin_state run_job(struct report *report, const char *check, const char *level, plugin_job *job)
{
    plugin_child_run(report->cli, report->args->timeout, job, &report->run, report->child);
    add(report, check, level, &report->child->verdict);
    return report->child->verdict.state;
}

/* ---- configuration ------------------------------------------------------------------------------ */

/* Configures this plugin only, from the copy. */
static int configure(struct report *report)
{
    const char *name = report->run.file->name;
    struct kt_config *config;
    char last[64] = "";
    kt_cli_set(report->cli, "plugin.%s.module=%s", name, report->run.file->copy);
    kt_cli_set(report->cli, "plugin.%s.enabled=yes", name);
    int code = kt_cli_config(report->cli, &config);
    if (code != KT_EXIT_OK)
        return code;
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, NULL) != KT_OK ||
            strncmp(setting.section, "plugin.", 7) != 0 || strcmp(setting.section + 7, name) == 0 ||
            strcmp(setting.section, last) == 0)
            continue;
        snprintf(last, sizeof(last), "%s", setting.section);
        kt_cli_set(report->cli, "%s.enabled=no", setting.section);
    }
    kt_config_destroy(config);
    return KT_EXIT_OK;
}

/* --config must have the plugin's section, and its `cpu` must not exclude a CPU that can run a level. */
static void check_section(struct report *report)
{
    struct plugin_verdict verdict = {.state = PLUGIN_OK, .text = ""};
    struct kt_config *config;
    char section[48];
    uint64_t cpu = 0;
    bool found = false;
    if (!report->cli->config_file || kt_cli_config(report->cli, &config) != KT_EXIT_OK) {
        plugin_say(&verdict, PLUGIN_SKIPPED, "no INI was given: --config NAME.ini");
        add(report, "configuration", "", &verdict);
        return;
    }
    snprintf(section, sizeof(section), "plugin.%s", report->run.file->name);
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, NULL) != KT_OK || strcmp(setting.section, section) != 0)
            continue;
        found |= strncmp(setting.origin, report->cli->config_file, strlen(report->cli->config_file)) == 0;
        if (strcmp(setting.key, "cpu") == 0 && !plugin_cpu_parse(setting.value, &cpu))
            plugin_say(&verdict, PLUGIN_FAILED, "%s: cpu names a feature that is not known", setting.origin);
    }
    if (!found)
        plugin_say(&verdict, PLUGIN_FAILED, "%s has no section [%s] with a setting", report->cli->config_file,
                   section);
    for (uint32_t i = 0; i < report->facts.n_levels && verdict.state == PLUGIN_OK; i++) {
        char names[256];
        if (cpu & ~report->facts.levels[i].cpu)
            plugin_say(&verdict, PLUGIN_FAILED, "cpu asks for %s, which level %s can do without",
                       plugin_cpu_names(cpu & ~report->facts.levels[i].cpu, names, sizeof(names)),
                       report->facts.levels[i].name);
    }
    if (verdict.state == PLUGIN_OK)
        plugin_say(&verdict, PLUGIN_OK, "[%s]: every key is known", section);
    kt_config_destroy(config);
    add(report, "configuration", "", &verdict);
}

/* ---- checks ------------------------------------------------------------------------------------- */

/* Checks the child's result before it is used: the plugin may have overwritten it. */
static bool take_facts(struct report *report)
{
    struct plugin_facts *facts = &report->facts;
    memcpy(facts, report->child->payload.bytes, sizeof(*facts));
    facts->reason[sizeof(facts->reason) - 1] = '\0';
    facts->version[sizeof(facts->version) - 1] = '\0';
    facts->formats[sizeof(facts->formats) - 1] = '\0';
    if (facts->n_levels > COUNT(facts->levels) || facts->n_options > PLUGIN_MAX_OPTIONS)
        return false;
    for (uint32_t i = 0; i < facts->n_levels; i++)
        facts->levels[i].name[sizeof(facts->levels[i].name) - 1] = '\0';
    for (uint32_t i = 0; i < facts->n_options; i++)
        facts->values[i][sizeof(facts->values[i]) - 1] = '\0';
    report->run.facts = facts;
    return true;
}

/* True if every check that could run passed. */
static bool check_level(struct report *report, uint32_t index)
{
    const char *name = report->facts.levels[index].name;
    uint64_t missing = report->facts.levels[index].cpu & ~report->facts.cpu;
    struct plugin_verdict verdict = {.state = PLUGIN_SKIPPED, .text = ""};
    char names[256];
    if (missing) {
        plugin_say(&verdict, PLUGIN_SKIPPED, "this CPU has no %s",
                   plugin_cpu_names(missing, names, sizeof(names)));
        add(report, "level", name, &verdict);
        return true;
    }
    report->run.level_index = index;
    uint32_t tables = report->facts.levels[index].tables;
    bool sound = true;
    if (report->facts.levels[index].has_check) {
        enum plugin_state state = run_job(report, "level", name, plugin_job_level);
        if (state != PLUGIN_OK)
            return state != PLUGIN_FAILED;
    }
    for (size_t i = 0; i < COUNT(level_checks); i++) {
        if (!(level_checks[i].tables & tables))
            continue;
        if (sound) {
            sound = run_job(report, level_checks[i].name, name, level_checks[i].job) != PLUGIN_FAILED;
            continue;
        }
        plugin_say(&verdict, PLUGIN_SKIPPED, "after what failed");
        add(report, level_checks[i].name, name, &verdict);
    }
    return sound;
}

static void check_file(struct report *report)
{
    struct plugin_verdict verdict;
    plugin_file_symbols(report->run.file, &verdict);
    add(report, "symbols", "", &verdict);
    plugin_file_constructors(report->run.file, &verdict);
    add(report, "constructors", "", &verdict);
}

/* The checks that need a valid struct kt_plugin. */
static void check_functions(struct report *report)
{
    struct plugin_verdict verdict = {.state = PLUGIN_SKIPPED, .text = ""};
    bool sound = true;
    check_section(report);
    if (report->facts.state == KT_BACKEND_UNFIT) {
        plugin_say(&verdict, PLUGIN_SKIPPED, "not for this CPU: %.900s", report->facts.reason);
        add(report, "levels", "", &verdict);
        return;
    }
    run_job(report, "instructions", "", plugin_job_instructions);
    if (run_job(report, "probe", "", plugin_job_probe) != PLUGIN_OK ||
        run_job(report, "open", "", plugin_job_open) != PLUGIN_OK)
        return;
    for (uint32_t i = 0; i < report->facts.n_levels; i++)
        sound = check_level(report, i) && sound;
    bool experts = report->facts.n_levels > 0 && (report->facts.levels[0].tables & PLUGIN_EXPERTS);
    if (!sound || !experts || report->args->quick || report->facts.state != KT_BACKEND_LOADED) {
        plugin_say(&verdict, PLUGIN_SKIPPED, "%s",
                   report->args->quick ? "--quick"
                   : !sound            ? "after what failed"
                   : !experts          ? "it has no experts, whose speed is measured"
                                       : "it is not loaded here");
        add(report, "speed", "", &verdict);
        return;
    }
    kt_progress_stop(); /* or it would be measured, too */
    if (run_job(report, "speed", "", plugin_job_speed) == PLUGIN_OK && report->output) {
        double fraction;
        memcpy(&fraction, report->child->payload.bytes, sizeof(fraction));
        kt_output_fact_real(report->output, "roofline_fraction", NULL, fraction);
    }
}

static int finish(struct report *report, int code)
{
    if (!report->output) {
        printf("1..%" PRIu64 "\n", report->n);
        code = kt_cli_finish(report->cli, code);
    } else {
        code = kt_output_finish(report->output, code);
    }
    if (report->n_failed > 0)
        code = kt_cli_error(report->cli, "%" PRIu64 " of %" PRIu64 " checks failed", report->n_failed,
                            report->n);
    return code;
}

static void start(struct report *report, const char *path)
{
    if (report->cli->format == KT_FORMAT_TAP) {
        puts("TAP version 13");
    } else {
        report->output = kt_output_create(report->cli, "kt.plugin.check", 1);
        kt_output_fact_text(report->output, "file", NULL, path);
        kt_output_fact_uint(report->output, "seed", NULL, report->args->seed);
        kt_output_fact_uint(report->output, "abi_major", NULL, KT_PLUGIN_ABI_MAJOR);
        kt_output_fact_uint(report->output, "abi_minor", NULL, KT_PLUGIN_ABI_MINOR);
        report->table = kt_output_table(report->output, "rows", columns, COUNT(columns));
    }
}

int plugin_check(struct kt_cli *cli, const char *path, const struct plugin_check_args *args)
{
    struct report *report = kt_cli_alloc(cli, 1, sizeof(*report));
    struct plugin_verdict verdict = {.state = PLUGIN_OK, .text = ""};
    struct plugin_file file;
    int code = KT_EXIT_OK;
    report->cli = cli;
    report->args = args;
    report->child = kt_cli_alloc(cli, 1, sizeof(*report->child));
    report->run = (struct plugin_run){.cli = cli,
                                      .file = &file,
                                      .facts = &report->facts,
                                      .seed = args->seed,
                                      .n_kinds = (unsigned)args->cases};
    bool opened = plugin_file_open(cli, path, &file, &verdict);
    if (opened)
        code = configure(report);
    if (code == KT_EXIT_OK) {
        start(report, path);
        kt_progress_start(cli, "checking");
        if (opened)
            plugin_say(&verdict, PLUGIN_OK, "kt_%s.so, %" PRIu64 " bytes", file.name, file.size);
        add(report, "file", "", &verdict);
        if (opened) {
            enum plugin_state state = run_job(report, "load", "", plugin_job_load);
            bool finished = report->child->finished, sound = state == PLUGIN_OK && take_facts(report);
            check_file(report);
            if (sound)
                check_functions(report);
            else if (!finished) /* which of the two functions that loading calls was it? */
                (void)(run_job(report, "probe", "", plugin_job_probe) == PLUGIN_OK &&
                       run_job(report, "open", "", plugin_job_open) == PLUGIN_OK);
        }
        kt_progress_stop();
        code = finish(report, code);
    }
    plugin_file_close(&file);
    free(report->child);
    free(report);
    return code;
}
