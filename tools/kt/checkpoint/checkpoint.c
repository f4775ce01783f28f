/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - shared by the verbs that run or plan the layers of a checkpoint. */
#include "tools/kt/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_LAYERS 4096

char *kt_model_types(const struct kt_moe_info *moe, char *text, size_t size)
{
    const char *gate = kt_dtype_name(moe->dtype[kt_activation_first(moe->activation)]);
    const char *up = kt_dtype_name(moe->dtype[KT_UP]);
    const char *down = kt_dtype_name(moe->dtype[KT_DOWN]);
    bool gated = kt_activation_first(moe->activation) == KT_GATE;
    if (moe->stored_form && *moe->stored_form)
        snprintf(text, size, "%s", moe->stored_form);
    else if (strcmp(gate, up) == 0 && strcmp(gate, down) == 0)
        snprintf(text, size, "%s", gate);
    else
        snprintf(text, size, "%s%s%s %s", gated ? gate : "", gated ? " " : "", up, down);
    return text;
}

void kt_model_list_layer(const struct kt_cli *cli, char **text, uint64_t layer)
{
    char *before = *text;
    if (!before) {
        *text = kt_cli_format(cli, "%" PRIu64, layer);
        return;
    }
    char *comma = strrchr(before, ','), *last = comma ? comma + 1 : before, *dash = strchr(last, '-');
    bool follows = strtoull(dash ? dash + 1 : last, NULL, 10) + 1 == layer;
    if (follows && dash)
        *dash = '\0';
    *text = kt_cli_format(cli, follows ? "%s-%" PRIu64 : "%s,%" PRIu64, before, layer);
    free(before);
}

/* A part of a list of layers: "8" or "6-7". Returns where the next one begins, or NULL. */
static const char *read_part(const char *text, uint64_t *begin, uint64_t *end)
{
    char *after;
    *begin = *end = strtoull(text, &after, 10);
    if (*after == '-')
        *end = strtoull(after + 1, &after, 10);
    return *after == ',' ? after + 1 : NULL;
}

/* The last part of the row of alike ones at `text`, and how many there are. */
static const char *find_alike(const char *text, unsigned *n)
{
    uint64_t begin, end, step = 0, next_begin, next_end;
    const char *next = read_part(text, &begin, &end);
    for (*n = 1; next; ++*n) {
        const char *after = read_part(next, &next_begin, &next_end);
        if (next_end - next_begin != end - begin || (step && next_begin - begin != step))
            break;
        step = next_begin - begin;
        begin = next_begin;
        end = next_end;
        text = next;
        next = after;
    }
    return text;
}

char *kt_model_shorten_list(const struct kt_cli *cli, char *list)
{
    char *text = kt_cli_format(cli, "%s", "");
    for (const char *part = list; part;) {
        unsigned n;
        uint64_t begin, end;
        const char *last = find_alike(part, &n), *second = read_part(part, &begin, &end);
        if (n < 4)
            last = part;
        int length = (int)(n < 4 ? strcspn(part, ",") : strcspn(second, ",") + (size_t)(second - part));
        const char *after = read_part(last, &begin, &end);
        char *longer = kt_cli_format(cli, "%s%s%.*s%s%.*s", text, *text ? "," : "", length, part,
                                     n < 4 ? "" : ",...,", n < 4 ? 0 : (int)strcspn(last, ","), last);
        free(text);
        text = longer;
        part = after;
    }
    free(list);
    return text;
}

static int list_all(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, uint64_t *layers,
                    size_t n)
{
    struct kt_error error;
    for (size_t i = 0; i < n; i++) {
        if (kt_checkpoint_moe_layer(checkpoint, i, &layers[i], &error) != KT_OK)
            return kt_cli_fail(cli, &error);
    }
    return KT_EXIT_OK;
}

/* Drops repeated layers and keeps the order. */
static size_t drop_repeats(uint64_t *layers, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (j < kept && layers[j] != layers[i])
            j++;
        if (j == kept)
            layers[kept++] = layers[i];
    }
    return kept;
}

static int list_named(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const char *option,
                      const char *text, uint64_t *layers, size_t *n)
{
    struct kt_moe_info moe;
    struct kt_error error;
    *n = kt_cli_list(cli, option, text, layers, MAX_LAYERS);
    if (*n == 0)
        return KT_EXIT_USAGE;
    *n = drop_repeats(layers, *n);
    for (size_t i = 0; i < *n; i++) {
        if (kt_checkpoint_moe(checkpoint, layers[i], &moe, &error) != KT_OK)
            return kt_cli_fail(cli, &error);
    }
    return KT_EXIT_OK;
}

int kt_model_layers(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const char *option,
                    const char *text, uint64_t **layers, size_t *n)
{
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    struct kt_error error;
    uint64_t *made;
    int code;
    kt_checkpoint_info(checkpoint, &info);
    /* The library has the reason: no experts, or a format that it cannot read. */
    if (info.n_moe_layers == 0 && kt_checkpoint_moe(checkpoint, 0, &moe, &error) != KT_OK)
        return kt_cli_error(cli, "%s; 'kt inspect --tensors' lists what it holds", error.message);
    if (text && strcmp(text, "all") != 0) {
        made = kt_cli_alloc(cli, MAX_LAYERS, sizeof(*made));
        code = list_named(cli, checkpoint, option, text, made, n);
    } else {
        *n = (size_t)info.n_moe_layers;
        made = kt_cli_alloc(cli, *n, sizeof(*made));
        code = list_all(cli, checkpoint, made, *n);
    }
    if (code == KT_EXIT_OK)
        *layers = made;
    else
        free(made);
    return code;
}

bool kt_model_has_file(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const char *model,
                       const char *path)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct stat file, other;
    const char *slash = strrchr(model, '/'), *last = "";
    bool found = false;
    if (stat(path, &file) != 0 || stat(model, &other) != 0)
        return false;
    int length = S_ISDIR(other.st_mode) ? (int)strlen(model) : slash ? (int)(slash - model) : 0;
    const char *folder = length > 0 ? model : slash ? "/" : ".";
    size_t size = strlen(model) + 512;
    char *name = kt_cli_alloc(cli, size, 1);
    kt_checkpoint_info(checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors && !found; i++) {
        if (kt_checkpoint_tensor(checkpoint, i, &tensor, NULL) != KT_OK || strcmp(tensor.file, last) == 0)
            continue;
        last = tensor.file;
        snprintf(name, size, "%.*s/%s", length > 0 ? length : 1, folder, tensor.file);
        found = stat(name, &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino;
    }
    free(name);
    return found;
}
