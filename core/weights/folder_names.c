/* SPDX-License-Identifier: Apache-2.0 */
/* folder_names.c - which safetensors files of a folder belong to its model, if no index says so. */
#include "core/weights/folder_names.h"

#include "core/base/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".safetensors"
#define WHOLE "model" SUFFIX

enum kt_status kt_names_add(struct kt_names *names, const char *name, const char *label,
                            struct kt_error *error)
{
    if (names->n == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 64;
        const char **grown = realloc(names->name, capacity * sizeof *grown);
        if (!grown)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for the names of %zu files", label, capacity);
        names->name = grown;
        names->capacity = capacity;
    }
    names->name[names->n++] = name;
    return KT_OK;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void kt_names_sort(struct kt_names *names)
{
    if (names->n > 0)
        qsort(names->name, names->n, sizeof *names->name, compare_names);
}

/* Is the file there whose name is the first `head` bytes of `name` and `tail`? */
static bool has(const struct kt_names *names, const char *name, size_t head, const char *tail)
{
    for (size_t i = 0; i < names->n; i++)
        if (strncmp(names->name[i], name, head) == 0 && strcmp(names->name[i] + head, tail) == 0)
            return true;
    return false;
}

static bool is_variant(const struct kt_names *names, const char *name)
{
    const char *suffix = name + strlen(name) - strlen(SUFFIX);
    for (const char *dot = strchr(name, '.'); dot && dot < suffix; dot = strchr(dot + 1, '.')) {
        const char *dash = strchr(dot, '-');
        if (has(names, name, (size_t)(dot - name), suffix) ||
            (dash && has(names, name, (size_t)(dot - name), dash)))
            return true;
    }
    return false;
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool is_beside(const struct kt_names *names, const char *name)
{
    return begins(name, "consolidated") || begins(name, "adapter_model") || is_variant(names, name);
}

enum kt_status kt_names_choose(struct kt_names *names, bool more, const struct kt_log *log, const char *label,
                               struct kt_error *error)
{
    bool whole = has(names, WHOLE, strlen(WHOLE), "");
    size_t n = names->n, beside = 0, kept = 0;
    for (size_t i = 0; i < n && !whole; i++)
        beside += is_beside(names, names->name[i]);
    if (!whole && (beside == 0 || (beside == n && !more)))
        return KT_OK;
    const char **name = names->name;
    bool *left_out = calloc(n, sizeof *left_out);
    if (!left_out)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the names of %zu files", label, n);
    for (size_t i = 0; i < n; i++)
        left_out[i] = whole ? strcmp(name[i], WHOLE) != 0 : is_beside(names, name[i]);
    for (size_t i = 0; i < n; i++) {
        if (!left_out[i]) {
            name[kept++] = name[i];
            continue;
        }
        kt_log_write(log, KT_LOG_INFO, "%s: %.255s is left out: it is not of the model in the other files",
                     label, name[i]);
        free((void *)(uintptr_t)name[i]);
    }
    names->n = kept;
    free(left_out);
    return KT_OK;
}

void kt_names_free(struct kt_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free((void *)(uintptr_t)names->name[i]);
    free(names->name);
}
