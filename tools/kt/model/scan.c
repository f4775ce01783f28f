/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - kt model scan: finds checkpoints below folders. */
#define _GNU_SOURCE

#include "tools/kt/model/command.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DEPTH = 24 };

struct found {
    char *path;
    struct model_look look;
};

struct scan {
    struct kt_cli *cli;
    struct found *found;
    size_t n, room;
    struct folder {
        dev_t device;
        ino_t inode;
    } * seen; /* folders, so that links which lead in a circle end */
    size_t n_seen;
};

static bool is_new(struct scan *scan, const struct stat *info)
{
    for (size_t i = 0; i < scan->n_seen; i++)
        if (scan->seen[i].device == info->st_dev && scan->seen[i].inode == info->st_ino)
            return false;
    struct folder *grown = kt_cli_alloc(scan->cli, scan->n_seen + 1, sizeof(*grown));
    if (scan->n_seen > 0)
        memcpy(grown, scan->seen, scan->n_seen * sizeof(*grown));
    free(scan->seen);
    scan->seen = grown;
    scan->seen[scan->n_seen++] = (struct folder){info->st_dev, info->st_ino};
    return true;
}

static void take(struct scan *scan, const char *path)
{
    if (scan->n == scan->room) {
        struct found *grown = kt_cli_alloc(scan->cli, scan->room + 16, sizeof(*grown));
        if (scan->n > 0)
            memcpy(grown, scan->found, scan->n * sizeof(*grown));
        free(scan->found);
        scan->found = grown;
        scan->room += 16;
    }
    struct found *found = &scan->found[scan->n++];
    found->path = registry_absolute(scan->cli, path);
    model_look(scan->cli, path, NULL, false, &found->look);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length > n && strcasecmp(text + length - n, end) == 0;
}

/* Further parts of a model in several files, and what sees for one, are no models. */
static bool is_gguf_model(const char *name)
{
    size_t length = strlen(name);
    if (!ends_with(name, ".gguf") || strncasecmp(name, "mmproj", 6) == 0)
        return false;
    const char *of = length > 20 ? name + length - 14 : name; /* -of-00003.gguf */
    return strncmp(of, "-of-", 4) != 0 || strncmp(of - 6, "-00001", 6) == 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void walk(struct scan *scan, const char *path, unsigned depth)
{
    struct dirent **entries;
    struct stat info;
    bool has_settings = false, has_tensors = false;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode) || depth > MOST_DEPTH || !is_new(scan, &info))
        return;
    int n = scandir(path, &entries, is_shown, by_bytes);
    if (n < 0) {
        kt_cli_warn(scan->cli, "%s: the folder cannot be read: %s", path, strerror(errno));
        return;
    }
    for (int i = 0; i < n; i++) {
        has_settings |= strcmp(entries[i]->d_name, "config.json") == 0;
        has_tensors |= ends_with(entries[i]->d_name, ".safetensors");
    }
    if (has_settings && has_tensors)
        take(scan, path);
    for (int i = 0; i < n; i++) {
        char *below = kt_cli_format(scan->cli, "%s/%s", path, entries[i]->d_name);
        if (stat(below, &info) == 0 && S_ISDIR(info.st_mode))
            walk(scan, below, depth + 1);
        else if (is_gguf_model(entries[i]->d_name))
            take(scan, below);
        free(below);
        free(entries[i]);
    }
    free(entries);
}

/* Where programs keep models. */
static void walk_usual(struct scan *scan)
{
    static const char *const below[] = {".cache/huggingface/hub", ".cache/modelscope/hub",
                                        ".ktransformers/models", "models"};
    const char *home = secure_getenv("HOME"), *hub = secure_getenv("HF_HOME");
    char *own = registry_data(scan->cli, "models");
    if (own)
        walk(scan, own, 0);
    free(own);
    if (hub && *hub == '/')
        walk(scan, hub, 0);
    for (size_t i = 0; home && *home == '/' && i < sizeof(below) / sizeof(below[0]); i++) {
        char *path = kt_cli_format(scan->cli, "%s/%s", home, below[i]);
        walk(scan, path, 0);
        free(path);
    }
}

/* ---- what is said of them ------------------------------------------------------------------- */

static const struct kt_column columns[] = {
    {"name", "NAME", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"architecture", "FAMILY", KT_COLUMN_TEXT, 0, 0},
    {"format", "FORMAT", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "SIZE", KT_COLUMN_BYTES, 0, 0},
    {"missing", "MISSING", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"path", "PATH", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
};

static void add_row(struct kt_table *table, const struct found *found, const char *name, const char *state)
{
    const struct model_look *look = &found->look;
    kt_table_row(table);
    if (name)
        kt_table_text(table, "name", name);
    kt_table_text(table, "state", state);
    if (look->opens) {
        kt_table_text(table, "architecture", look->architecture);
        kt_table_text(table, "format", look->format);
        kt_table_uint(table, "bytes", look->size);
    }
    if (*look->missing)
        kt_table_text(table, "missing", look->missing);
    kt_table_text(table, "path", found->path);
    if (*look->message)
        kt_table_text(table, "message", look->message);
}

/* A row for each; what is new gets a name. Returns how many these are in *n_new. */
static int name_all(const struct scan *scan, struct registry_change *change, struct kt_table *table,
                    const char *state, size_t *n_new)
{
    for (size_t i = 0; i < scan->n; i++) {
        const struct found *found = &scan->found[i];
        const struct registry_model *model = registry_find_path(&change->registry, found->path);
        if (!found->look.opens || model) {
            add_row(table, found, model ? model->name : NULL, model ? "registered" : "refused");
            continue;
        }
        char *name = registry_name_of(scan->cli, &change->registry, found->path);
        int code = registry_set(scan->cli, change, name, REGISTRY_PATH, found->path);
        if (code == KT_EXIT_OK)
            add_row(table, found, name, state);
        free(name);
        if (code != KT_EXIT_OK)
            return code;
        ++*n_new;
    }
    return KT_EXIT_OK;
}

static int tell(const struct scan *scan, bool add)
{
    struct registry_change change;
    size_t n_new = 0;
    int code = add ? registry_open(scan->cli, &change) : registry_try(scan->cli, &change);
    if (code == KT_EXIT_OK) {
        struct kt_output *output = kt_output_create(scan->cli, "kt.model.scan", 1);
        struct kt_table *table =
            kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
        code = name_all(scan, &change, table, add ? "added" : "new", &n_new);
        if (code == KT_EXIT_OK && add && n_new > 0)
            code = registry_save(scan->cli, &change);
        if (scan->n == 0)
            kt_output_note(output, "There is no checkpoint: no GGUF file, and no folder with config.json and "
                                   "safetensors files.");
        else if (n_new > 0 && !add)
            kt_output_note(output, "--add registers what is new.");
        code = kt_output_finish(output, code);
    }
    registry_close(&change);
    return code;
}

int model_scan(struct kt_cli *cli, bool add)
{
    struct scan scan = {.cli = cli};
    int code = KT_EXIT_OK;
    kt_progress_start(cli, "looking for checkpoints");
    for (int i = 0; i < cli->n_arguments && code == KT_EXIT_OK; i++) {
        if (access(cli->arguments[i], F_OK) != 0)
            code = kt_cli_error(cli, "%s: %s", cli->arguments[i], strerror(errno));
        else
            walk(&scan, cli->arguments[i], 0);
    }
    if (cli->n_arguments == 0)
        walk_usual(&scan);
    kt_progress_stop();
    if (code == KT_EXIT_OK)
        code = tell(&scan, add);
    for (size_t i = 0; i < scan.n; i++)
        free(scan.found[i].path);
    free(scan.found);
    free(scan.seen);
    return code;
}
