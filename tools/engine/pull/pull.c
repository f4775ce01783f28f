/* SPDX-License-Identifier: Apache-2.0 */
/* pull.c - kt model pull: from a name to files that are checked, and registered. */
#define _GNU_SOURCE

#include "tools/engine/pull/pull.h"
#include "tools/kt/base/table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- what is meant -------------------------------------------------------------------------- */

static int find_repository(struct pull *pull, const char *text)
{
    struct registry known;
    int code = registry_read_known(pull->cli, &known);
    const struct registry_model *model = code == KT_EXIT_OK ? registry_find(&known, text) : NULL;
    const char *repository = text;
    if (model) {
        repository = registry_get(model, REGISTRY_REPOSITORY);
        if (pull->hub == MODEL_MODELSCOPE && registry_get(model, REGISTRY_MODELSCOPE))
            repository = registry_get(model, REGISTRY_MODELSCOPE);
        pull->name = kt_cli_format(pull->cli, "%s", model->name);
    }
    if (code == KT_EXIT_OK && (!repository || !pull_is_repository(repository)))
        code = kt_cli_usage(
            pull->cli,
            "'%s' is neither OWNER/NAME of a repository nor a known model; 'kt model list --known' "
            "has these",
            text);
    if (code == KT_EXIT_OK)
        pull->repository = kt_cli_format(pull->cli, "%s", repository);
    registry_free(&known);
    return code;
}

static int find_folder(struct pull *pull)
{
    if (pull->args->to) {
        pull->folder = registry_absolute(pull->cli, pull->args->to);
        return KT_EXIT_OK;
    }
    char *below = kt_cli_format(pull->cli, "models/%s", pull->repository);
    pull->folder = registry_data(pull->cli, below);
    free(below);
    return pull->folder ? KT_EXIT_OK : KT_EXIT_PROBLEM;
}

/* ---- what is here --------------------------------------------------------------------------- */

/* Is the file here, as the hub has it? A checksum of an earlier pull is believed, if its size is right. */
static bool is_here(struct pull *pull, struct pull_file *file)
{
    struct stat info;
    uint64_t done = 0;
    char sha256[65], sha1[41];
    char *path = kt_cli_format(pull->cli, "%s/%s", pull->folder, file->path);
    bool here = stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == file->size;
    const char *known = here ? pull_sums_get(&pull->sums, file->path) : NULL;
    bool is_known = known && (!*file->sha256 || strcmp(known, file->sha256) == 0);
    if (here && *file->sha1) /* small, and changed without a trace in its size */
        here = pull_blob_file(path, file->size, sha1) && strcmp(sha1, file->sha1) == 0;
    if (here && !is_known) {
        here = pull_sum_file(path, sha256, &done, file->size) &&
               (*file->sha256 ? strcmp(sha256, file->sha256) == 0 : *file->sha1 != '\0');
        if (here)
            pull_sums_set(pull->cli, &pull->sums, file->path, sha256);
    }
    free(path);
    return here;
}

static void look_around(struct pull *pull)
{
    struct stat info;
    kt_progress_start(pull->cli, "reading what is here");
    for (size_t i = 0; i < pull->n_files; i++) {
        struct pull_file *file = &pull->files[i];
        if (!file->chosen)
            continue;
        char *part = kt_cli_format(pull->cli, "%s/%s.part", pull->folder, file->path);
        file->done = is_here(pull, file);
        if (file->done)
            file->have = file->size;
        else if (stat(part, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size <= file->size)
            file->have = (uint64_t)info.st_size;
        free(part);
    }
    kt_progress_stop();
}

/* The file system of the folder, or of what is there above it. */
static int check_room(struct pull *pull, uint64_t needed)
{
    char *path = kt_cli_format(pull->cli, "%s", pull->folder), text[2][32];
    struct statvfs info;
    int code = KT_EXIT_OK;
    while (statvfs(path, &info) != 0 && errno == ENOENT && strrchr(path, '/') > path)
        *strrchr(path, '/') = '\0';
    if (statvfs(path, &info) == 0 && (uint64_t)info.f_bavail * info.f_frsize < needed)
        code = kt_cli_error(pull->cli,
                            "%s: %s are to be fetched, and %s are free there; --to names another folder",
                            pull->folder, kt_bytes_text(needed, text[0], sizeof(text[0])),
                            kt_bytes_text((uint64_t)info.f_bavail * info.f_frsize, text[1], sizeof(text[1])));
    free(path);
    return code;
}

static const struct kt_column columns[] = {
    {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "SIZE", KT_COLUMN_BYTES, 0, 0},
    {"here_bytes", "HERE", KT_COLUMN_BYTES, 0, 0},
    {"sha256", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

static int show_plan(const struct pull *pull, uint64_t total, uint64_t needed)
{
    struct kt_output *output = kt_output_create(pull->cli, "kt.model.pull", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    kt_output_fact_text(output, "repository", "repository", pull->repository);
    kt_output_fact_text(output, "revision", "revision", pull->commit);
    kt_output_fact_text(output, "folder", "folder", pull->folder);
    kt_output_fact_bytes(output, "bytes", "size", total);
    kt_output_fact_bytes(output, "fetch_bytes", "to be fetched", needed);
    for (size_t i = 0; i < pull->n_files; i++) {
        const struct pull_file *file = &pull->files[i];
        if (!file->chosen)
            continue;
        kt_table_row(table);
        kt_table_text(table, "file", file->path);
        kt_table_uint(table, "bytes", file->size);
        kt_table_uint(table, "here_bytes", file->have);
        if (*file->sha256)
            kt_table_text(table, "sha256", file->sha256);
    }
    return kt_output_finish(output, KT_EXIT_OK);
}

/* ---- a name --------------------------------------------------------------------------------- */

static int set(struct pull *pull, struct registry_change *change, const char *name, const char *key,
               const char *value)
{
    return value ? registry_set(pull->cli, change, name, key, value) : KT_EXIT_OK;
}

/* What it is called: as was asked for, as it is already, as the known model, or as its file or folder. */
static int choose_name(struct pull *pull, const struct registry *registry, const char *path, char **name)
{
    const struct registry_model *old = registry_find_path(registry, path);
    const char *own = old ? old->name : "";
    int code = KT_EXIT_OK;
    *name = NULL;
    if (old && pull->args->name && strcmp(old->name, pull->args->name) != 0)
        return kt_cli_error(pull->cli, "%s is registered as %s; kt model edit changes that", path, old->name);
    if (pull->args->name)
        code = registry_check_name(pull->cli, registry, own, pull->args->name);
    if (code == KT_EXIT_OK)
        code = registry_check_names(pull->cli, registry, own, pull->args->aliases);
    if (code != KT_EXIT_OK)
        return code;
    if (old)
        *name = kt_cli_format(pull->cli, "%s", old->name);
    else if (pull->args->name)
        *name = kt_cli_format(pull->cli, "%s", pull->args->name);
    else if (pull->name && !registry_find(registry, pull->name))
        *name = kt_cli_format(pull->cli, "%s", pull->name);
    else
        *name = registry_name_of(pull->cli, registry, path);
    return KT_EXIT_OK;
}

static char *model_path_of(const struct pull *pull, bool *none)
{
    const struct pull_file *first = pull_first(pull, none);
    return first ? kt_cli_format(pull->cli, "%s/%s", pull->folder, first->path)
                 : kt_cli_format(pull->cli, "%s", pull->folder);
}

static int give_name(struct pull *pull)
{
    struct registry_change change;
    bool none;
    char *path = model_path_of(pull, &none), *name = NULL;
    int code = none ? KT_EXIT_OK : registry_open(pull->cli, &change);
    if (none) {
        kt_cli_note(pull->cli, "files are in %s; there are no weights among them, so they get no name", path);
        free(path);
        return KT_EXIT_OK;
    }
    if (code == KT_EXIT_OK)
        code = choose_name(pull, &change.registry, path, &name);
    if (code == KT_EXIT_OK)
        code = set(pull, &change, name, REGISTRY_PATH, path);
    if (code == KT_EXIT_OK)
        code = set(pull, &change, name, REGISTRY_ALIASES, pull->args->aliases);
    if (code == KT_EXIT_OK)
        code = set(pull, &change, name, REGISTRY_REPOSITORY, pull->repository);
    if (code == KT_EXIT_OK)
        code = set(pull, &change, name, REGISTRY_REVISION, pull->commit);
    if (code == KT_EXIT_OK && pull->hub == MODEL_MODELSCOPE)
        code = set(pull, &change, name, REGISTRY_HUB, "modelscope");
    if (code == KT_EXIT_OK)
        code = registry_save(pull->cli, &change);
    if (code == KT_EXIT_OK)
        kt_cli_note(pull->cli, "%s is here: %s", name, path);
    registry_close(&change);
    free(path);
    free(name);
    return code;
}

/* A name that somebody else has must not be noticed after hours. */
static int try_name(struct pull *pull)
{
    struct registry_change change;
    bool none;
    char *path = model_path_of(pull, &none), *name = NULL;
    int code = registry_try(pull->cli, &change);
    if (code == KT_EXIT_OK && !none)
        code = choose_name(pull, &change.registry, path, &name);
    registry_close(&change);
    free(path);
    free(name);
    return code;
}

/* ---- the verb ------------------------------------------------------------------------------- */

static int fetch(struct pull *pull)
{
    uint64_t total = 0, needed = 0;
    int code = pull_sums_read(pull->cli, pull->folder, &pull->sums);
    if (code != KT_EXIT_OK)
        return code;
    look_around(pull);
    for (size_t i = 0; i < pull->n_files; i++) {
        total += pull->files[i].chosen ? pull->files[i].size : 0;
        needed += pull->files[i].chosen ? pull->files[i].size - pull->files[i].have : 0;
    }
    if (pull->args->dry_run)
        code = show_plan(pull, total, needed);
    if (code == KT_EXIT_OK)
        code = check_room(pull, needed);
    if (code == KT_EXIT_OK)
        code = try_name(pull);
    if (code != KT_EXIT_OK || pull->args->dry_run)
        return code;
    code = pull_files(pull);
    if (code == KT_EXIT_OK) /* with those of files that were here */
        code = pull_sums_write(pull->cli, pull->folder, &pull->sums);
    return code == KT_EXIT_OK ? give_name(pull) : code;
}

static void free_pull(struct pull *pull)
{
    for (size_t i = 0; i < pull->n_files; i++)
        free(pull->files[i].path);
    free(pull->files);
    pull_sums_free(&pull->sums);
    free(pull->endpoint);
    free(pull->token);
    free(pull->repository);
    free(pull->revision);
    free(pull->commit);
    free(pull->folder);
    free(pull->name);
}

static int run(struct kt_cli *cli, const struct model_args *args)
{
    struct pull pull = {.cli = cli, .args = args, .hub = (enum model_hub)args->hub};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return kt_cli_error(cli, "libcurl cannot be used");
    int code = find_repository(&pull, cli->arguments[0]);
    if (code == KT_EXIT_OK)
        code = pull_find_hub(&pull);
    if (code == KT_EXIT_OK)
        code = find_folder(&pull);
    if (code == KT_EXIT_OK)
        code = pull_list(&pull);
    if (code == KT_EXIT_OK)
        code = pull_choose(&pull);
    if (code == KT_EXIT_OK)
        code = fetch(&pull);
    free_pull(&pull);
    curl_global_cleanup();
    return code;
}

int kt_cmd_model(struct kt_cli *cli, int argc, char **argv)
{
    struct model_args args = {.known = false};
    int action = model_parse(cli, argc, argv, &args);
    if (action != MODEL_PULL && action != MODEL_VERIFY)
        return action < 0 ? cli->exit_code : kt_cli_usage(cli, "kt itself does this");
    if (args.jobs == 0)
        args.jobs = 4;
    if (args.timeout == 0)
        args.timeout = 60;
    if (args.retries == UINT64_MAX)
        args.retries = 5;
    if (args.retry_wait < 0)
        args.retry_wait = 0.25;
    pull_catch_signals();
    int code = action == MODEL_PULL ? run(cli, &args) : pull_verify(cli, cli->arguments[0]);
    if (pull_signal() != 0) { /* for whoever waits for this process: ended by it */
        (void)kt_cli_flush(cli);
        signal(pull_signal(), SIG_DFL);
        raise(pull_signal());
    }
    return code;
}
