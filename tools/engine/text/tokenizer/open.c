/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - a tokenizer of whatever a path names. */
#define _GNU_SOURCE

#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum kt_status fail_memory(struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_NOMEM, "no memory for a tokenizer");
}

static enum kt_status load_json(struct kt_tokenizer *t, const struct kt_files *files, const char *name,
                                struct kt_error *error)
{
    json_t *root = NULL;
    json_error_t place;
    struct kt_buffer bytes = {.data = NULL};
    struct kt_merges_text merges = {.text = NULL};
    enum kt_status status = kt_files_read(files, name, &bytes, error);
    if (status == KT_OK && !kt_merges_text_cut(bytes.data, bytes.length, &root, &merges, &place))
        status = place.text[0] && json_error_code(&place) == json_error_out_of_memory
                     ? fail_memory(error)
                     : kt_files_parse(files, name, &bytes, &root, error);
    if (status == KT_OK)
        status = kt_load_json(t, root, &merges, error);
    json_decref(root);
    kt_buffer_free(&bytes);
    return status;
}

static enum kt_status load_tiktoken(struct kt_tokenizer *t, const struct kt_files *files, const char *name,
                                    struct kt_error *error)
{
    struct kt_buffer bytes = {.data = NULL};
    enum kt_status status = kt_files_read(files, name, &bytes, error);
    if (status == KT_OK)
        status = kt_load_tiktoken(t, &bytes, error);
    kt_buffer_free(&bytes);
    return status;
}

/* A file of text whose kind its name tells, with what stands beside it. */
static enum kt_status load_files(struct kt_tokenizer *t, const struct kt_files *files, const char *name,
                                 struct kt_error *error)
{
    size_t length = strlen(name);
    bool is_json = length > 5 && strcmp(name + length - 5, ".json") == 0;
    enum kt_status status = (is_json ? load_json : load_tiktoken)(t, files, name, error);
    return status == KT_OK ? kt_load_config(t, files, error) : status;
}

static enum kt_status name_source(struct kt_tokenizer *t, const char *folder, const char *name,
                                  struct kt_error *error)
{
    free(t->source);
    if (asprintf(&t->source, "%s%s%s", folder, *folder && *name ? "/" : "", name) >= 0)
        return KT_OK;
    t->source = NULL;
    return fail_memory(error);
}

/* The file of a folder that has the vocabulary. */
static enum kt_status choose_file(const char *folder, char *name, size_t size, struct kt_error *error)
{
    static const char *const names[] = {"tokenizer.json", "tiktoken.model"};
    char path[4096];
    struct stat stat_;
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (stat(path, &stat_) == 0) {
            snprintf(name, size, "%s", names[i]);
            return KT_OK;
        }
    }
    DIR *open_folder = opendir(folder);
    if (!open_folder)
        return kt_engine_fail(error, KT_E_IO, "%s: %s", folder, strerror(errno));
    const struct dirent *entry;
    name[0] = '\0';
    while ((entry = readdir(open_folder))) {
        size_t length = strlen(entry->d_name);
        if (length > 9 && length < size && strcmp(entry->d_name + length - 9, ".tiktoken") == 0)
            snprintf(name, size, "%s", entry->d_name);
    }
    (void)closedir(open_folder);
    if (name[0])
        return KT_OK;
    return kt_engine_fail(
        error, KT_E_NOT_FOUND,
        "%s: it has neither tokenizer.json nor a tiktoken file; a SentencePiece model alone "
        "(tokenizer.model) cannot be read: convert it with Hugging Face's transformers",
        folder);
}

static bool is_gguf(const char *path)
{
    char magic[4] = "";
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(magic, 1, 4, file) : 0;
    if (file)
        (void)fclose(file);
    return n == 4 && memcmp(magic, "GGUF", 4) == 0;
}

/* Closes the checkpoint. */
static enum kt_status load_values(struct kt_tokenizer *t, const char *path, struct kt_checkpoint *checkpoint,
                                  struct kt_error *error)
{
    enum kt_status status = name_source(t, path, "", error);
    if (status == KT_OK)
        status = kt_load_gguf(t, checkpoint, error);
    kt_checkpoint_close(checkpoint);
    return status;
}

static enum kt_status load_gguf_path(struct kt_tokenizer *t, const char *path, struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    enum kt_status status = kt_checkpoint_open(path, &params, &checkpoint, error);
    return status == KT_OK ? load_values(t, path, checkpoint, error) : status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Has the folder a .gguf file and no safetensors file, so that it may stand for a GGUF model? */
static bool may_be_gguf(const char *folder)
{
    bool gguf = false, other = false;
    const struct dirent *entry;
    DIR *listing = opendir(folder);
    while (listing && (entry = readdir(listing))) {
        gguf |= ends_with(entry->d_name, ".gguf");
        other |= ends_with(entry->d_name, ".safetensors");
    }
    if (listing)
        (void)closedir(listing);
    return gguf && !other;
}

/* The tokenizer that those who open the model get: that of the GGUF file, or else of the files beside. */
static enum kt_status load_folder(struct kt_tokenizer *t, const char *folder, struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    const struct kt_files files = {folder, NULL};
    char name[256] = "";
    struct kt_error problem = {.status = KT_OK};
    struct kt_checkpoint *checkpoint = NULL;
    if (may_be_gguf(folder) && kt_checkpoint_open(folder, &params, &checkpoint, &problem) == KT_OK) {
        if (kt_checkpoint_value_count(checkpoint) > 0)
            return load_values(t, folder, checkpoint, error);
        kt_checkpoint_close(checkpoint);
    }
    enum kt_status status = choose_file(folder, name, sizeof(name), error);
    /* Why it is not the model's is worth more than that there is no other. */
    if (status == KT_E_NOT_FOUND && problem.status != KT_OK)
        return kt_engine_fail(error, problem.status, "%s", problem.message);
    if (status == KT_OK)
        status = name_source(t, folder, name, error);
    return status == KT_OK ? load_files(t, &files, name, error) : status;
}

/* A file that stands for its folder, as it does for kt_checkpoint_open. */
static bool is_of_model(const char *name)
{
    return strcmp(name, "config.json") == 0 || ends_with(name, ".index.json") ||
           ends_with(name, ".safetensors");
}

static enum kt_status load_file(struct kt_tokenizer *t, const char *path, struct kt_error *error)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum kt_status status = KT_OK;
    if (strlen(name) > 255)
        return kt_engine_fail(error, KT_E_INVALID, "%s: its name is too long", path);
    char *folder = slash == path ? strdup("/") : slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    if (!folder)
        return fail_memory(error);
    const struct kt_files files = {folder, NULL};
    if (is_of_model(name)) {
        status = load_folder(t, folder, error);
        if (status == KT_E_NOT_FOUND)
            status = kt_engine_fail(error, status,
                                    "%s: the folder has neither tokenizer.json nor a tiktoken file", path);
    } else {
        status = name_source(t, path, "", error);
        if (status == KT_OK)
            status = load_files(t, &files, name, error);
    }
    free(folder);
    return status;
}

static enum kt_status load_path(struct kt_tokenizer *t, const char *path, struct kt_error *error)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(found.st_mode))
        return load_folder(t, path, error);
    if (!S_ISREG(found.st_mode))
        return kt_engine_fail(error, KT_E_IO, "%s: neither a regular file nor a folder", path);
    return is_gguf(path) ? load_gguf_path(t, path, error) : load_file(t, path, error);
}

static enum kt_status finish(struct kt_tokenizer *t, enum kt_status status, struct kt_tokenizer **tokenizer,
                             struct kt_error *error)
{
    if (status == KT_OK)
        status = kt_tokenizer_finish(t, error);
    if (status == KT_OK)
        *tokenizer = t;
    else
        kt_tokenizer_destroy(t);
    return status;
}

enum kt_status kt_tokenizer_open(const char *path, struct kt_tokenizer **tokenizer, struct kt_error *error)
{
    if (!path || !path[0] || !tokenizer)
        return kt_engine_fail(error, KT_E_INVALID, "kt_tokenizer_open: NULL, or an empty path");
    struct kt_tokenizer *t = kt_tokenizer_new();
    if (!t)
        return fail_memory(error);
    return finish(t, load_path(t, path, error), tokenizer, error);
}

enum kt_status kt_tokenizer_create(struct kt_checkpoint *checkpoint, struct kt_tokenizer **tokenizer,
                                   struct kt_error *error)
{
    if (!checkpoint || !tokenizer)
        return kt_engine_fail(error, KT_E_INVALID, "kt_tokenizer_create: NULL");
    struct kt_tokenizer *t = kt_tokenizer_new();
    if (!t)
        return fail_memory(error);
    const struct kt_files files = {"", checkpoint};
    bool has_values = kt_checkpoint_value_count(checkpoint) > 0;
    enum kt_status status = name_source(t, has_values ? "the GGUF file" : "tokenizer.json", "", error);
    if (status == KT_OK && has_values)
        status = kt_load_gguf(t, checkpoint, error);
    else if (status == KT_OK) {
        status = load_files(t, &files, "tokenizer.json", error);
        if (status == KT_E_NOT_FOUND)
            status = load_files(t, &files, "tiktoken.model", error);
    }
    return finish(t, status, tokenizer, error);
}
