/* SPDX-License-Identifier: Apache-2.0 */
/* hub.c - how Hugging Face and ModelScope list a repository's files. */
#define _GNU_SOURCE

#include "tools/engine/pull/pull.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *title, *variable, *endpoint, *token, *revision;
} hubs[] = {{"Hugging Face", "HF_ENDPOINT", "https://huggingface.co", "HF_TOKEN", "main"},
            {"ModelScope", "MODELSCOPE_ENDPOINT", "https://modelscope.cn", "MODELSCOPE_API_TOKEN", "master"}};

static const char *environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text && *text ? text : NULL;
}

static bool is_offline(void)
{
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *text = environment("HF_HUB_OFFLINE");
    for (size_t i = 0; text && i < sizeof(yes) / sizeof(yes[0]); i++)
        if (strcasecmp(text, yes[i]) == 0)
            return true;
    return false;
}

/* A header may hold it. */
static bool is_token(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return strlen(text) < 4096;
}

int pull_find_hub(struct pull *pull)
{
    const char *endpoint = environment(hubs[pull->hub].variable), *token = environment(hubs[pull->hub].token);
    if (is_offline())
        return kt_cli_error(pull->cli, "HF_HUB_OFFLINE forbids it to ask a hub");
    if (!endpoint)
        endpoint = hubs[pull->hub].endpoint;
    int length = (int)strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    pull->endpoint =
        kt_cli_format(pull->cli, "%s%.*s", strstr(endpoint, "://") ? "" : "https://", length, endpoint);
    if (!pull_may_ask(pull->endpoint, NULL, pull->args->allow_http))
        return kt_cli_error(pull->cli,
                            "%s=%s: only https, or http on this machine, is allowed; --allow-http lifts that",
                            hubs[pull->hub].variable, pull->endpoint);
    if (token && !is_token(token))
        return kt_cli_error(pull->cli, "%s is not a token: it has spaces or other invalid characters",
                            hubs[pull->hub].token);
    /* Whoever listens would have it. */
    if (token && strncasecmp(pull->endpoint, "http://", 7) == 0 && !pull_is_loopback(pull->endpoint))
        return kt_cli_error(pull->cli, "%s is not sent without encryption to %s: unset it, or use https",
                            hubs[pull->hub].token, pull->endpoint);
    pull->token = token ? kt_cli_format(pull->cli, "%s", token) : NULL;
    pull->revision = kt_cli_format(pull->cli, "%s",
                                   pull->args->revision ? pull->args->revision : hubs[pull->hub].revision);
    return KT_EXIT_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static int ask(struct pull *pull, const char *url, json_t **root, char **next)
{
    struct pull_transfer transfer;
    json_error_t error;
    int code = pull_text(pull, url, &transfer);
    *root = NULL;
    if (code == KT_EXIT_OK) {
        *root = json_loadb(transfer.text, transfer.length, JSON_REJECT_DUPLICATES, &error);
        if (!*root)
            code = kt_cli_error(pull->cli, "%s: the response is not valid JSON: %s", url, error.text);
        if (next && transfer.next)
            *next = kt_cli_format(pull->cli, "%s", transfer.next);
    }
    pull_release(&transfer);
    return code;
}

static bool is_hex(const char *text, size_t length)
{
    return text && strlen(text) == length && strspn(text, "0123456789abcdefABCDEF") == length;
}

static void copy_lower(char *to, const char *from)
{
    for (; *from; from++)
        *to++ = (char)(*from >= 'A' && *from <= 'F' ? *from + 32 : *from);
    *to = '\0';
}

static int add_file(struct pull *pull, const char *path, const json_t *size, const char *sha256,
                    const char *sha1)
{
    if (!path || !json_is_integer(size) || json_integer_value(size) < 0)
        return kt_cli_error(pull->cli, "the list of %s has a file without a path or a size",
                            pull->repository);
    if (pull->n_files == PULL_MOST_FILES)
        return kt_cli_error(pull->cli, "%s has more than %d files", pull->repository, PULL_MOST_FILES);
    if (pull->n_files % 256 == 0) {
        struct pull_file *grown = kt_cli_alloc(pull->cli, pull->n_files + 256, sizeof(*grown));
        if (pull->n_files > 0)
            memcpy(grown, pull->files, pull->n_files * sizeof(*grown));
        free(pull->files);
        pull->files = grown;
    }
    struct pull_file *file = &pull->files[pull->n_files++];
    *file = (struct pull_file){.path = kt_cli_format(pull->cli, "%s", path),
                               .size = (uint64_t)json_integer_value(size)};
    if (is_hex(sha256, 64))
        copy_lower(file->sha256, sha256);
    else if (is_hex(sha1, 40))
        copy_lower(file->sha1, sha1);
    return KT_EXIT_OK;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int take_page(struct pull *pull, const json_t *page)
{
    int code = json_is_array(page)
                   ? KT_EXIT_OK
                   : kt_cli_error(pull->cli, "the list of %s is not a list", pull->repository);
    for (size_t i = 0; code == KT_EXIT_OK && i < json_array_size(page); i++) {
        const json_t *item = json_array_get(page, i), *lfs = json_object_get(item, "lfs");
        if (!json_is_object(lfs))
            lfs = NULL;
        const char *type = text_of(item, "type");
        if (!type || strcmp(type, "file") != 0)
            continue;
        const json_t *size = json_object_get(lfs ? lfs : item, "size");
        code = add_file(pull, text_of(item, "path"), size, text_of(lfs, "oid"),
                        lfs ? NULL : text_of(item, "oid"));
    }
    return code;
}

/* The commit that the revision is now, so that all files are of one. Mirrors may not know it. */
static int find_commit(struct pull *pull, const char *revision)
{
    char *url =
        kt_cli_format(pull->cli, "%s/api/models/%s/revision/%s", pull->endpoint, pull->repository, revision);
    json_t *root;
    int code = ask(pull, url, &root, NULL);
    const char *commit = text_of(root, "sha");
    if (code == KT_EXIT_OK)
        pull->commit = kt_cli_format(pull->cli, "%s", is_hex(commit, 40) ? commit : pull->revision);
    json_decref(root);
    free(url);
    return code;
}

static int list_huggingface(struct pull *pull)
{
    char *revision = pull_escape(pull->cli, pull->revision, false);
    int code = find_commit(pull, revision);
    free(revision);
    if (code != KT_EXIT_OK)
        return code;
    revision = pull_escape(pull->cli, pull->commit, false);
    char *url = kt_cli_format(pull->cli, "%s/api/models/%s/tree/%s?recursive=true", pull->endpoint,
                              pull->repository, revision);
    free(revision);
    for (unsigned n = 0; url && code == KT_EXIT_OK; n++) {
        char *next = NULL;
        json_t *page;
        if (n > 1000 || !pull_same_origin(url, pull->endpoint)) {
            code = kt_cli_error(pull->cli, "the list of %s leads elsewhere, or does not end: %s",
                                pull->repository, url);
            break;
        }
        code = ask(pull, url, &page, &next);
        if (code == KT_EXIT_OK)
            code = take_page(pull, page);
        json_decref(page);
        free(url);
        url = next;
    }
    free(url);
    return code;
}

static int list_modelscope(struct pull *pull)
{
    char *revision = pull_escape(pull->cli, pull->revision, false);
    char *url = kt_cli_format(pull->cli, "%s/api/v1/models/%s/repo/files?Revision=%s&Recursive=true",
                              pull->endpoint, pull->repository, revision);
    json_t *root;
    int code = ask(pull, url, &root, NULL);
    const json_t *files = json_object_get(json_object_get(root, "Data"), "Files");
    if (code == KT_EXIT_OK && !json_is_array(files))
        code = kt_cli_error(pull->cli, "%s has no list of files: %s", pull->repository,
                            text_of(root, "Message") ? text_of(root, "Message") : "no reason is given");
    for (size_t i = 0; code == KT_EXIT_OK && i < json_array_size(files); i++) {
        const json_t *item = json_array_get(files, i);
        const char *type = text_of(item, "Type");
        if (!type || strcmp(type, "tree") != 0)
            code = add_file(pull, text_of(item, "Path"), json_object_get(item, "Size"),
                            text_of(item, "Sha256"), NULL);
    }
    pull->commit = kt_cli_format(pull->cli, "%s", pull->revision);
    json_decref(root);
    free(url);
    free(revision);
    return code;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct pull_file *)a)->path, ((const struct pull_file *)b)->path);
}

int pull_list(struct pull *pull)
{
    int code = pull->hub == MODEL_HUGGINGFACE ? list_huggingface(pull) : list_modelscope(pull);
    if (code == KT_EXIT_OK && pull->n_files == 0)
        return kt_cli_error(pull->cli, "%s has no files", pull->repository);
    if (code == KT_EXIT_OK)
        qsort(pull->files, pull->n_files, sizeof(*pull->files), by_path);
    for (size_t i = 1; i < pull->n_files && code == KT_EXIT_OK; i++)
        if (strcmp(pull->files[i - 1].path, pull->files[i].path) == 0)
            code =
                kt_cli_error(pull->cli, "the list of %s has %s twice", pull->repository, pull->files[i].path);
    return code;
}

char *pull_url(const struct pull *pull, const struct pull_file *file)
{
    char *revision = pull_escape(pull->cli, pull->commit, false),
         *path = pull_escape(pull->cli, file->path, true);
    char *url =
        kt_cli_format(pull->cli, "%s/%s%s/resolve/%s/%s", pull->endpoint,
                      pull->hub == MODEL_MODELSCOPE ? "models/" : "", pull->repository, revision, path);
    free(revision);
    free(path);
    return url;
}
