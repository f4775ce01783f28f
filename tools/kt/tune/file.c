/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - tuned.ini: values that were found go into the section of their plugin and this CPU. */
#include "tools/kt/config/config.h"
#include "tools/kt/tune/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char *tune_file_path(const struct kt_cli *cli)
{
    char *file = config_file_path(cli, false);
    if (!file)
        return NULL;
    const char *slash = strrchr(file, '/');
    char *path = kt_cli_format(cli, "%.*stuned.ini", slash ? (int)(slash + 1 - file) : 0, file);
    free(file);
    return path;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* A line without its leading blanks; next: where the one after it begins. */
struct line {
    const char *text;
    size_t length, next;
};

static struct line read_line(const struct ini_text *ini, size_t at)
{
    const char *begin = ini->text + at, *end = memchr(begin, '\n', ini->size - at);
    size_t length = end ? (size_t)(end - begin) : ini->size - at;
    struct line line = {begin, length, at + length + (end ? 1 : 0)};
    for (; line.length > 0 && strchr(" \t", *line.text); line.length--)
        line.text++;
    return line;
}

static bool begins(const struct line *line, const char *text)
{
    return line->length >= strlen(text) && strncmp(line->text, text, strlen(text)) == 0;
}

/* Does the line set this key? Its value, without blanks, goes to `value`. */
static bool sets(const struct line *line, const char *key, char *value, size_t size)
{
    size_t n = strlen(key);
    if (!begins(line, key))
        return false;
    while (n < line->length && strchr(" \t", line->text[n]))
        n++;
    if (n == line->length || line->text[n] != '=')
        return false;
    for (n++; n < line->length && strchr(" \t", line->text[n]);)
        n++;
    size_t end = n;
    while (end < line->length && !strchr(" \t\r;", line->text[end]))
        end++;
    (void)snprintf(value, size, "%.*s", (int)(end - n), line->text + n);
    return true;
}

/* ---- the section ---------------------------------------------------------------------------- */

struct section {
    size_t begin, end; /* equal: there is none */
    bool stale;        /* for another microcode */
};

/* That of this name and CPU. */
static struct section find_section(const struct ini_text *ini, const char *name,
                                   const struct kt_context_info *info)
{
    char title[64], value[64];
    struct section found = {ini->size, ini->size, false};
    bool inside = false, fits = false;
    (void)snprintf(title, sizeof title, "[%s]", name);
    for (size_t at = 0; at < ini->size;) {
        struct line line = read_line(ini, at);
        if (begins(&line, "[") && fits)
            break;
        if (begins(&line, "[")) {
            inside = begins(&line, title);
            found = (struct section){.begin = at};
        }
        if (inside && sets(&line, "cpu", value, sizeof value))
            fits = strcmp(value, info->cpu_model) == 0;
        if (fits && sets(&line, "microcode", value, sizeof value))
            found.stale = strcmp(value, info->microcode) != 0;
        at = found.end = line.next;
    }
    return fits ? found : (struct section){ini->size, ini->size, false};
}

/* What is written into a section, and what it replaces. */
struct change {
    const char *section;
    char subject[144]; /* "avx2.q4_k.experts-2048x768"; "": the level */
    const struct tune_found *found;
    const char *level;
};

static bool is_replaced(const struct line *line, const struct change *change)
{
    char own[192], comment[192], value[64];
    (void)snprintf(own, sizeof own, "%s.", change->subject);
    (void)snprintf(comment, sizeof comment, "; %s:", change->subject);
    if (change->found && (begins(line, own) || begins(line, comment)))
        return true;
    return line->length == 0 || begins(line, "[") || sets(line, "cpu", value, sizeof value) ||
           sets(line, "microcode", value, sizeof value) ||
           (!change->found && sets(line, "level", value, sizeof value));
}

/* The lines of a section that stay: other levels, formats and shapes. */
static void copy_rest(FILE *out, const struct ini_text *ini, const struct section *section,
                      const struct change *change)
{
    for (size_t at = section->begin; at < section->end && !section->stale;) {
        struct line line = read_line(ini, at);
        at = line.next;
        if (!is_replaced(&line, change))
            fprintf(out, "%.*s\n", (int)line.length, line.text);
    }
}

static void write_values(FILE *out, const struct tune_found *found, const char *subject)
{
    const struct tune_result *result = found->result;
    const bool faster = result->verdict == TUNE_FASTER;
    char date[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (localtime_r(&now, &parts))
        (void)strftime(date, sizeof date, "%Y-%m-%d", &parts);
    fprintf(out, "; %s: %" PRIu32 " threads, kt %s, %s; ", subject, found->n_threads, kt_version(), date);
    if (!faster)
        fprintf(out, "nothing was faster than the standards");
    for (size_t p = 0; p < found->n_points && faster; p++)
        fprintf(out, "%s%" PRIu64 ": %.3f", p ? ", " : "times faster by tokens ", found->tokens[p],
                result->point[p].median);
    fputc('\n', out);
    for (size_t k = 0; k < found->n_knobs; k++)
        fprintf(out, "%s = %" PRIu64 "\n", found->knob[k]->key, result->values.value[k]);
    if (faster)
        fprintf(out, "%s.gain = %.3f\n", subject, result->all.median);
}

/* The whole file, with the change in it. */
static void edit(FILE *out, const struct ini_text *ini, const struct kt_context_info *info,
                 const struct change *change)
{
    struct section section = find_section(ini, change->section, info);
    (void)fwrite(ini->text, 1, section.begin, out);
    if (section.begin > 0 && ini->text[section.begin - 1] != '\n')
        fputc('\n', out);
    if (section.begin == section.end)
        fprintf(out, "%s", section.begin > 0 ? "\n" : "; Written by kt tune; kt tune --reset removes it.\n");
    fprintf(out, "[%s]\ncpu = %s\n", change->section, info->cpu_model);
    if (*info->microcode)
        fprintf(out, "microcode = %s\n", info->microcode);
    if (!change->found && *change->level)
        fprintf(out, "level = %s\n", change->level);
    copy_rest(out, ini, &section, change);
    if (change->found)
        write_values(out, change->found, change->subject);
    if (section.end < ini->size)
        fputc('\n', out);
    (void)fwrite(ini->text + section.end, 1, ini->size - section.end, out);
}

static int apply(const struct kt_cli *cli, const struct kt_context_info *info, const struct change *change)
{
    struct config_file file;
    char *path = tune_file_path(cli), *text = NULL;
    size_t size = 0;
    if (!path)
        return KT_EXIT_PROBLEM;
    int code = config_file_open(cli, &file, path, 0777);
    free(path);
    if (code != KT_EXIT_OK)
        return code;
    FILE *out = open_memstream(&text, &size);
    if (out)
        edit(out, &file.ini, info, change);
    if (!out || fclose(out) != 0)
        code = kt_cli_error(cli, "no memory for %s", file.path);
    if (code == KT_EXIT_OK) {
        free(file.ini.text);
        file.ini = (struct ini_text){text, size};
        code = config_file_write(cli, &file, NULL, NULL);
    } else {
        free(text);
    }
    config_file_close(&file);
    return code;
}

int tune_file_put(const struct kt_cli *cli, const struct kt_context_info *info,
                  const struct tune_found *found)
{
    const struct kt_tunable_info *first = found->knob[0];
    struct change change = {.section = first->section, .found = found};
    (void)snprintf(change.subject, sizeof change.subject, "%.*s",
                   (int)(strrchr(first->key, '.') - first->key), first->key);
    return apply(cli, info, &change);
}

int tune_file_level(const struct kt_cli *cli, const struct kt_context_info *info, const char *backend,
                    const char *level)
{
    char section[48];
    (void)snprintf(section, sizeof section, "tuned.%s", backend);
    return apply(cli, info, &(struct change){.section = section, .level = level});
}

int tune_reset(struct kt_cli *cli)
{
    char *path = tune_file_path(cli);
    if (!path)
        return KT_EXIT_PROBLEM;
    int code = KT_EXIT_OK;
    if (unlink(path) == 0)
        kt_cli_note(cli, "%s is removed: standards are in force again", path);
    else if (errno == ENOENT)
        kt_cli_note(cli, "%s does not exist: nothing was tuned", path);
    else
        code = kt_cli_error(cli, "%s cannot be removed: %s", path, strerror(errno));
    free(path);
    return code;
}
