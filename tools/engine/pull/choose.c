/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - which of a repository's files make one model. */
#define _GNU_SOURCE

#include "tools/engine/pull/pull.h"
#include "tools/kt/base/table.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length > n && strcasecmp(text + length - n, end) == 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A GGUF file of a model, not of what sees for one, or of how one was quantized. */
static bool is_gguf(const char *path)
{
    const char *name = last_part(path);
    return ends_with(name, ".gguf") && strncasecmp(name, "mmproj", 6) != 0 && !strcasestr(name, "imatrix");
}

static bool is_tensors(const char *path)
{
    return ends_with(path, ".safetensors");
}

/* Configuration, tokenizer and template of a safetensors checkpoint. */
static bool is_beside(const char *path)
{
    static const char *const ends[] = {".json", ".model", ".tiktoken", ".jinja"};
    static const char *const names[] = {"merges.txt", "vocab.txt"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_with(path, ends[i]))
            return true;
    return strcasecmp(path, names[0]) == 0 || strcasecmp(path, names[1]) == 0;
}

/* ---- safetensors ---------------------------------------------------------------------------- */

/* Files in folders are other forms of the model, and so is consolidated.* beside model.*. */
static bool choose_tensors(struct pull *pull)
{
    bool has_model = false, found = false;
    for (size_t i = 0; i < pull->n_files; i++)
        has_model |= is_tensors(pull->files[i].path) && strncmp(pull->files[i].path, "model", 5) == 0;
    for (size_t i = 0; i < pull->n_files; i++) {
        struct pull_file *file = &pull->files[i];
        bool other = has_model && strncmp(file->path, "consolidated", 12) == 0;
        if (!strchr(file->path, '/') && !other && (is_tensors(file->path) || is_beside(file->path)))
            file->chosen = true;
        found |= file->chosen && is_tensors(file->path);
    }
    for (size_t i = 0; i < pull->n_files && !found; i++)
        pull->files[i].chosen = false;
    return found;
}

/* ---- GGUF ----------------------------------------------------------------------------------- */

/* Are they of one model? */
static bool are_parts(const char *a, const char *b)
{
    size_t length = pull_split(a);
    return strcmp(a, b) == 0 || (length > 0 && pull_split(b) == length && strncmp(a, b, length) == 0 &&
                                 strcmp(a + length + 6, b + length + 6) == 0); /* behind -00001: of as many */
}

/* Is it the first file of its model, among those that are `chosen`, or among all? */
static bool begins_model(const struct pull *pull, size_t i, bool chosen)
{
    for (size_t k = 0; k < i; k++)
        if ((pull->files[k].chosen || !chosen) && is_gguf(pull->files[k].path) &&
            are_parts(pull->files[k].path, pull->files[i].path))
            return false;
    return is_gguf(pull->files[i].path) && (pull->files[i].chosen || !chosen);
}

static const struct kt_column columns[] = {
    {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
    {"n_files", "FILES", KT_COLUMN_UINT, 0, 0},
    {"bytes", "SIZE", KT_COLUMN_BYTES, 0, 0},
};

/* Several: who asks must say which. */
static int list_models(struct pull *pull, bool chosen, size_t n)
{
    struct kt_output *output = kt_output_create(pull->cli, "kt.model.choices", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < pull->n_files; i++) {
        if (!begins_model(pull, i, chosen))
            continue;
        uint64_t bytes = 0, parts = 0;
        for (size_t k = 0; k < pull->n_files; k++) {
            if (are_parts(pull->files[i].path, pull->files[k].path)) {
                bytes += pull->files[k].size;
                parts++;
            }
        }
        kt_table_row(table);
        kt_table_text(table, "file", pull->files[i].path);
        kt_table_uint(table, "n_files", parts);
        kt_table_uint(table, "bytes", bytes);
    }
    (void)kt_output_finish(output, KT_EXIT_OK);
    return kt_cli_error(pull->cli,
                        "%s: %zu models match; choose one with --file PATTERN, such as --file '*Q4_K_M*'",
                        pull->repository, n);
}

/* One model of GGUF files, with all its parts. */
static int choose_gguf(struct pull *pull, bool chosen)
{
    size_t n = 0, first = 0;
    for (size_t i = 0; i < pull->n_files; i++) {
        if (begins_model(pull, i, chosen)) {
            first = i;
            n++;
        }
    }
    if (n > 1)
        return list_models(pull, chosen, n);
    for (size_t i = 0; i < pull->n_files && n == 1; i++)
        pull->files[i].chosen |= are_parts(pull->files[first].path, pull->files[i].path);
    return KT_EXIT_OK;
}

/* ---- what was asked for --------------------------------------------------------------------- */

/* A pattern without a slash is one of names. */
static bool matches(const char *pattern, const char *path)
{
    return fnmatch(pattern, strchr(pattern, '/') ? path : last_part(path), FNM_CASEFOLD) == 0;
}

static int choose_patterns(struct pull *pull)
{
    const struct kt_cli_texts *patterns = &pull->args->file;
    for (size_t p = 0; p < patterns->n; p++) {
        bool found = false;
        for (size_t i = 0; i < pull->n_files; i++) {
            bool fits = matches(patterns->text[p], pull->files[i].path);
            pull->files[i].chosen |= fits;
            found |= fits;
        }
        if (!found)
            return kt_cli_error(pull->cli, "%s has no file that %s matches", pull->repository,
                                patterns->text[p]);
    }
    return choose_gguf(pull, true);
}

int pull_choose(struct pull *pull)
{
    int code = KT_EXIT_OK;
    bool found = false;
    if (pull->args->file.n > 0)
        code = choose_patterns(pull);
    else if (!choose_tensors(pull))
        code = choose_gguf(pull, false);
    for (size_t i = 0; i < pull->n_files && code == KT_EXIT_OK; i++) {
        const struct pull_file *file = &pull->files[i];
        found |= file->chosen;
        if (file->chosen && !pull_is_safe(file->path))
            code = kt_cli_error(pull->cli,
                                "%s: the hub calls a file '%s', which is not a valid file name: rejected",
                                pull->repository, file->path);
    }
    if (code == KT_EXIT_OK && !found)
        code = kt_cli_error(pull->cli, "%s has neither safetensors nor GGUF files", pull->repository);
    return code;
}

const struct pull_file *pull_first(const struct pull *pull, bool *none)
{
    const struct pull_file *gguf = NULL;
    bool has_tensors = false;
    for (size_t i = 0; i < pull->n_files; i++) {
        const struct pull_file *file = &pull->files[i];
        if (file->chosen && !gguf && is_gguf(file->path))
            gguf = file;
        has_tensors |= file->chosen && is_tensors(file->path);
    }
    *none = !gguf && !has_tensors;
    return has_tensors ? NULL : gguf;
}
