/* SPDX-License-Identifier: Apache-2.0 */
/* alone.c - kt inspect of a config.json without weights: would the model run here, and in how much memory? */
#include "tools/kt/checkpoint/alone.h"
#include "tools/kt/checkpoint/whole.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME "config.json"
#define LARGEST (16 << 20)

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool has_weights(const char *folder)
{
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    bool found = !listing; /* opening it will say why not */
    while (listing && !found && (entry = readdir(listing)))
        found = ends_with(entry->d_name, ".safetensors") || ends_with(entry->d_name, ".gguf") ||
                strncmp(entry->d_name, "_layer_", 7) == 0;
    if (listing)
        (void)closedir(listing);
    return found;
}

char *kt_config_alone(const struct kt_cli *cli, const char *path)
{
    struct stat found;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    if (!is_folder && strcmp(name, NAME) != 0)
        return NULL;
    char *folder = is_folder
                       ? kt_cli_format(cli, "%s", path)
                       : kt_cli_format(cli, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *file = kt_cli_format(cli, "%s/" NAME, folder);
    if (stat(file, &found) != 0 || !S_ISREG(found.st_mode) || has_weights(folder)) {
        free(file);
        file = NULL;
    }
    free(folder);
    return file;
}

/* The whole file; NULL after a message. Allocated. */
static char *read_file(const struct kt_cli *cli, const char *path, size_t *size)
{
    FILE *file = fopen(path, "re");
    char *text = file ? kt_cli_alloc(cli, LARGEST + 1, 1) : NULL;
    *size = text ? fread(text, 1, LARGEST + 1, file) : 0;
    bool failed = !file || ferror(file);
    if (failed)
        (void)kt_cli_error(cli, "cannot read %s: %s", path, strerror(errno));
    else if (*size > LARGEST)
        (void)kt_cli_error(cli, "%s: %zu bytes or more; at most %d are read", path, *size, LARGEST);
    if (file)
        (void)fclose(file);
    if (!failed && *size <= LARGEST)
        return text;
    free(text);
    return NULL;
}

int kt_inspect_config(struct kt_cli *cli, const char *path)
{
    size_t size;
    char *text = read_file(cli, path, &size);
    if (!text)
        return KT_EXIT_PROBLEM;
    struct kt_output *output = kt_output_create(cli, "kt.inspect.config", 1);
    kt_output_fact_text(output, "path", "file", path);
    kt_output_fact_text(output, "file_format", "format", "config.json alone, no weights");
    int code = kt_whole_config(cli, output, text, size);
    free(text);
    if (code == KT_EXIT_OK)
        return kt_output_finish(output, code);
    kt_output_free(output);
    return code;
}
