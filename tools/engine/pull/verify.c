/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - kt model verify: files as they were pulled, and headers that can be read. */
#include "tools/engine/pull/pull.h"
#include "tools/kt/model/names.h"
#include "tools/kt/base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct kt_column columns[] = {
    {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "SIZE", KT_COLUMN_BYTES, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
};

struct checking {
    struct kt_cli *cli;
    char *folder;
    const char *file; /* below the folder, of a GGUF model; NULL: all files of it */
    struct pull_sums sums;
    uint64_t done, total;
    size_t n, n_wrong;
};

/* The folder in which the pull has left its checksums: that of the model, or one above it. */
static int find_sums(struct checking *checking, const char *path)
{
    struct stat info;
    checking->folder = registry_absolute(checking->cli, path);
    size_t length = strlen(checking->folder);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return pull_sums_read(checking->cli, checking->folder, &checking->sums);
    int code = KT_EXIT_OK;
    for (unsigned up = 0; up < 4 && code == KT_EXIT_OK && checking->sums.n == 0; up++) {
        char *slash = strrchr(checking->folder, '/');
        if (!slash || slash == checking->folder)
            break;
        *slash = '\0';
        code = pull_sums_read(checking->cli, checking->folder, &checking->sums);
    }
    size_t above = strlen(checking->folder);
    checking->file = above < length ? path + strlen(path) - (length - above) + 1 : NULL;
    return code;
}

/* Is this file of the model? */
static bool is_part(const struct checking *checking, const char *path)
{
    const char *file = checking->file;
    size_t length = file ? pull_split(file) : 0;
    return !file || strcmp(file, path) == 0 ||
           (length > 0 && pull_split(path) == length && strncmp(file, path, length) == 0);
}

static void check_file(struct checking *checking, struct kt_table *table, const struct pull_sum *sum)
{
    struct stat info;
    char sha256[65];
    char *path = kt_cli_format(checking->cli, "%s/%s", checking->folder, sum->path);
    const char *state = "ok", *message = NULL;
    bool there = stat(path, &info) == 0;
    if (!there) {
        state = "missing";
        message = strerror(errno);
    } else if (!pull_sum_file(path, sha256, &checking->done, checking->total)) {
        state = "unreadable";
        message = strerror(errno);
    } else if (strcmp(sha256, sum->sha256) != 0) {
        state = "damaged";
        message = "its SHA-256 is another one than when it was pulled";
    }
    kt_table_row(table);
    kt_table_text(table, "file", sum->path);
    if (there)
        kt_table_uint(table, "bytes", (uint64_t)info.st_size);
    kt_table_text(table, "state", state);
    if (message)
        kt_table_text(table, "message", message);
    checking->n++;
    checking->n_wrong += message != NULL;
    free(path);
}

static int check_files(struct checking *checking)
{
    struct stat info;
    struct kt_output *output = kt_output_create(checking->cli, "kt.model.verify", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < checking->sums.n; i++) {
        char *path = kt_cli_format(checking->cli, "%s/%s", checking->folder, checking->sums.sum[i].path);
        if (is_part(checking, checking->sums.sum[i].path) && stat(path, &info) == 0)
            checking->total += (uint64_t)info.st_size;
        free(path);
    }
    kt_progress_start(checking->cli, "reading");
    for (size_t i = 0; i < checking->sums.n && pull_signal() == 0; i++)
        if (is_part(checking, checking->sums.sum[i].path))
            check_file(checking, table, &checking->sums.sum[i]);
    kt_progress_stop();
    if (checking->n == 0)
        kt_output_note(output,
                       "Its checksums are not known, for it was not pulled: only headers were read. kt "
                       "verify reads the checksums of a store.");
    return kt_output_finish(output, KT_EXIT_OK);
}

int pull_verify(struct kt_cli *cli, const char *name)
{
    struct checking checking = {.cli = cli};
    struct kt_checkpoint *checkpoint = NULL;
    const char *path = name;
    int code = model_find_path(cli, &path) ? KT_EXIT_OK : KT_EXIT_PROBLEM;
    if (code == KT_EXIT_OK)
        code = find_sums(&checking, path);
    if (code == KT_EXIT_OK && checking.sums.n > 0)
        code = check_files(&checking);
    if (code == KT_EXIT_OK && pull_signal() == 0) {
        int opened = kt_cli_checkpoint(cli, path, &checkpoint);
        kt_checkpoint_close(opened == KT_EXIT_OK ? checkpoint : NULL);
        code = opened;
    }
    if (code == KT_EXIT_OK && checking.sums.n == 0)
        code = check_files(&checking);
    if (checking.n_wrong > 0)
        code = kt_cli_error(cli,
                            "%zu of %zu files are not as they were pulled; kt model pull fetches them again",
                            checking.n_wrong, checking.n);
    pull_sums_free(&checking.sums);
    free(checking.folder);
    return code;
}
