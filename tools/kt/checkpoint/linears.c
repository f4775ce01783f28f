/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linears.c - which weights of a checkpoint are linears, and their form: those besides experts and
 * embeddings, or what a store has packed.
 *
 * Only the form of a weight is of interest. To show one may take reading or decoding all of it, so of weights
 * that differ in the number of their layer alone, with like tensors beside them, the first one is asked for.
 */
#include "tools/kt/checkpoint/linears.h"
#include "tools/kt/checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_COLS 32 /* of a product worth its own call; kernels of convolutions have fewer */

struct list {
    struct kt_model_linear *linear;
    size_t n, capacity;
};

/* ---- which weights are linears -------------------------------------------------------------- */

static bool ends_with(const char *text, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length >= n && memcmp(text + length - n, ending, n) == 0;
}

/* How long the name is without the ending of a weight; 0: it is none of a linear. */
static size_t find_stem(const struct kt_tensor_info *tensor)
{
    static const char *const endings[] = {".weight", ".qweight", ".weight_packed"};
    static const char *const others[] = {"token_embd",  "embed_tokens",    "tok_embeddings", "position_embd",
                                         "token_types", "word_embeddings", ".embed",         ".wte"};
    size_t length = strlen(tensor->name), stem = 0;
    if (tensor->n_dims != 2 || strstr(tensor->name, "_exps.") || strstr(tensor->name, ".experts."))
        return 0;
    for (size_t i = 0; i < COUNT(endings) && stem == 0; i++) {
        if (ends_with(tensor->name, length, endings[i]))
            stem = length - strlen(endings[i]);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        if (ends_with(tensor->name, stem, others[i]))
            return 0;
    }
    return stem == strlen("embed") && strncmp(tensor->name, "embed", stem) == 0 ? 0 : stem;
}

/* Finds the layer's number in the name: the first part that is one. */
static void find_layer(struct kt_model_linear *linear)
{
    linear->rest = linear->name;
    for (const char *dot = strchr(linear->name, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        if (digits == 0 || digits > 9 || dot[1 + digits] != '.')
            continue;
        linear->number_at = (size_t)(dot + 1 - linear->name);
        linear->layer = strtoull(dot + 1, NULL, 10);
        linear->rest = dot + 1 + digits;
        return;
    }
}

bool kt_model_linear_twins(const struct kt_model_linear *a, const struct kt_model_linear *b)
{
    return a->number_at == b->number_at && strncmp(a->name, b->name, a->number_at) == 0 &&
           strcmp(a->rest, b->rest) == 0;
}

static bool is_wanted(const struct kt_model_linear *linear, const uint64_t *layers, size_t n)
{
    for (size_t i = 0; layers && linear->number_at && i < n; i++) {
        if (layers[i] == linear->layer)
            return true;
    }
    return !layers;
}

static int by_layer(const void *left, const void *right)
{
    const struct kt_model_linear *a = left, *b = right;
    if (!a->number_at != !b->number_at)
        return a->number_at ? -1 : 1;
    if (a->number_at && a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Appends one of this name, which is copied, if it is of a wanted layer. */
static void add(const struct kt_cli *cli, struct list *list, const char *name, size_t length, uint64_t index,
                const uint64_t *layers, size_t n)
{
    if (list->n == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        struct kt_model_linear *grown = kt_cli_alloc(cli, list->capacity, sizeof(*grown));
        if (list->n > 0)
            memcpy(grown, list->linear, list->n * sizeof(*grown));
        free(list->linear);
        list->linear = grown;
    }
    struct kt_model_linear *linear = &list->linear[list->n];
    *linear = (struct kt_model_linear){.index = index, .view = KT_VIEW_INIT};
    linear->name = kt_cli_format(cli, "%.*s", (int)length, name);
    find_layer(linear);
    if (is_wanted(linear, layers, n))
        list->n++;
    else
        free(linear->name);
}

static void collect(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const uint64_t *layers,
                    size_t n, struct list *list)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct kt_stored_linear_info stored;
    kt_checkpoint_info(checkpoint, &info);
    for (uint64_t i = 0; kt_checkpoint_linear(checkpoint, i, &stored, NULL) == KT_OK; i++)
        add(cli, list, stored.name, strlen(stored.name), i, layers, n);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        size_t stem = kt_checkpoint_tensor(checkpoint, i, &tensor, NULL) == KT_OK ? find_stem(&tensor) : 0;
        if (stem > 0)
            add(cli, list, tensor.name, stem, i, layers, n);
    }
    if (list->n > 0)
        qsort(list->linear, list->n, sizeof(*list->linear), by_layer);
}

/* ---- their form ----------------------------------------------------------------------------- */

/* The tensor of that name and ending; false: there is none. */
static bool find_tensor(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint,
                        const struct kt_model_linear *linear, const char *ending, struct kt_tensor_info *info)
{
    uint64_t index;
    char *name = kt_cli_format(cli, "%s%s", linear->name, ending);
    bool found = kt_checkpoint_find(checkpoint, name, &index, NULL) == KT_OK &&
                 kt_checkpoint_tensor(checkpoint, index, info, NULL) == KT_OK;
    free(name);
    return found;
}

/* Have two weights the same tensors, of the same types and shapes? */
static bool is_alike(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint,
                     const struct kt_model_linear *a, const struct kt_model_linear *b)
{
    static const char *const endings[] = {
        ".weight",
        ".qweight",
        ".weight_packed",
        ".bias",
        ".scale",
        ".weight_scale",
        ".weight_scale_inv",
        ".weight_scale_2",
        ".scales",
        ".qzeros",
        ".weight_g_idx",
        ".g_idx",
        ".weight_shape",
        ".weight_zero_point",
    };
    struct kt_tensor_info one, other;
    for (size_t i = 0; i < COUNT(endings); i++) {
        bool has = find_tensor(cli, checkpoint, a, endings[i], &one);
        if (has != find_tensor(cli, checkpoint, b, endings[i], &other))
            return false;
        if (has && (one.dtype != other.dtype || one.n_dims != other.n_dims || one.size != other.size ||
                    memcmp(one.dims, other.dims, one.n_dims * sizeof(one.dims[0])) != 0))
            return false;
    }
    return true;
}

/* Fills the view of linear i, by that of an earlier one that is like it where there is one. */
static enum kt_status find_form(const struct kt_cli *cli, struct kt_checkpoint *checkpoint,
                                struct kt_model_linear *linears, size_t i)
{
    struct kt_model_linear *linear = &linears[i];
    const float *bias = NULL;
    if (kt_checkpoint_linear_find(checkpoint, linear->name, &linear->stored, NULL) != KT_OK)
        linear->stored = (struct kt_stored_linear_info){.stored_form = ""};
    for (size_t j = 0; j < i && linear->number_at && !linear->stored.name; j++) {
        if (!linears[j].known || !kt_model_linear_twins(&linears[j], linear) ||
            !is_alike(cli, checkpoint, &linears[j], linear))
            continue;
        linear->view = linears[j].view;
        linear->has_bias = linears[j].has_bias;
        linear->known = true;
        return KT_OK;
    }
    enum kt_status status =
        kt_checkpoint_weight(checkpoint, linear->name, &linear->view, &bias, &linear->error);
    linear->known = status == KT_OK;
    linear->has_bias = bias;
    return status;
}

struct kt_model_linear *kt_model_linears(const struct kt_cli *cli, struct kt_checkpoint *checkpoint,
                                         const uint64_t *layers, size_t n, size_t *n_linears)
{
    struct list list = {.n = 0};
    size_t kept = 0;
    collect(cli, checkpoint, layers, n, &list);
    for (size_t i = 0; i < list.n; i++) {
        struct kt_model_linear *linear = &list.linear[kept];
        if (kept != i)
            *linear = list.linear[i];
        enum kt_status status = find_form(cli, checkpoint, list.linear, kept);
        if (status == KT_E_NOT_FOUND || (status == KT_OK && !linear->stored.name &&
                                         (linear->view.rows < 2 || linear->view.cols < LEAST_COLS)))
            free(linear->name);
        else
            kept++;
    }
    *n_linears = kept;
    return list.linear;
}

void kt_model_linears_free(struct kt_model_linear *linears, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(linears[i].name);
    free(linears);
}

const char *kt_model_linear_type(const struct kt_model_linear *linear)
{
    return *linear->stored.stored_form ? linear->stored.stored_form : kt_dtype_name(linear->view.dtype);
}

char *kt_model_linear_group(const struct kt_cli *cli, const struct kt_model_linear *linears, size_t n,
                            size_t first, kt_model_same_fn same, const void *rows, bool *grouped,
                            uint64_t *count)
{
    const struct kt_model_linear *one = &linears[first];
    *count = 1;
    if (!one->number_at)
        return kt_cli_format(cli, "%s", one->name);
    char *list = NULL;
    kt_model_list_layer(cli, &list, one->layer);
    for (size_t i = first + 1; i < n && cli->format == KT_FORMAT_TABLE; i++) {
        if (grouped[i] || !kt_model_linear_twins(one, &linears[i]) || !same(rows, first, i))
            continue;
        grouped[i] = true;
        ++*count;
        kt_model_list_layer(cli, &list, linears[i].layer);
    }
    list = kt_model_shorten_list(cli, list);
    char *text = kt_cli_format(cli, "%.*s%s%s", (int)one->number_at, one->name, list, one->rest);
    free(list);
    return text;
}

bool kt_model_linear_routes(const struct kt_model_linear *linear)
{
    static const char *const endings[] = {".ffn_gate_inp", ".gate",        ".gate.wg",          ".router",
                                          ".router.layer", ".router.proj", ".router.classifier"};
    for (size_t i = 0; i < COUNT(endings); i++) {
        if (ends_with(linear->name, strlen(linear->name), endings[i]))
            return true;
    }
    return false;
}

bool kt_model_only_linears(const struct kt_checkpoint *checkpoint, const char *layers)
{
    struct kt_checkpoint_info info;
    kt_checkpoint_info(checkpoint, &info);
    return info.n_moe_layers == 0 && kt_checkpoint_linear_count(checkpoint) > 0 &&
           (!layers || strcmp(layers, "all") == 0);
}

bool kt_model_is_dense(const struct kt_checkpoint *checkpoint, const char *layers)
{
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    kt_checkpoint_info(checkpoint, &info);
    return info.n_moe_layers == 0 && *info.architecture && (!layers || strcmp(layers, "all") == 0) &&
           kt_checkpoint_moe(checkpoint, 0, &moe, NULL) == KT_E_NOT_FOUND;
}
