/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv/declare.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LARGEST = 65536, LARGEST_STATE = 1 << 28 };

static uint32_t number_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q8_0 ? 1 : kt_element_size(dtype);
}

/* ---- one field ---- */

void kt_kv_field_text(const struct kt_kv_field *field, char *text, size_t size)
{
    static const char *const layouts[] = {"keys", "values", "plain rows"};
    const char *dtype = kt_dtype_name(field->dtype), *s = field->heads == 1 ? "" : "s";
    if (field->kind == KT_KV_STATE)
        (void)snprintf(text, size, "a state of %" PRIu32 " head%s of %" PRIu32 " %s", field->heads, s,
                       field->width, dtype);
    else if (field->stride > 1)
        (void)snprintf(text, size, "%" PRIu32 " head%s of %" PRIu32 " %s for %" PRIu32 " tokens, as %s",
                       field->heads, s, field->width, dtype, field->stride,
                       field->layout < 3 ? layouts[field->layout] : "?");
    else
        (void)snprintf(text, size, "%" PRIu32 " head%s of %" PRIu32 " %s, as %s", field->heads, s,
                       field->width, dtype, field->layout < 3 ? layouts[field->layout] : "?");
}

static enum kt_status fail_field(const struct kt_kv_spot *spot, const char *what, uint32_t found,
                                 const char *expected, struct kt_error *error)
{
    return kt_fail(error, KT_E_INVALID, "layer %" PRIu32 ", field %" PRIu32 ": %s %" PRIu32 " is not %s",
                   spot->layer, spot->index, what, found, expected);
}

static enum kt_status check_field(struct kt_kv_spot *spot, struct kt_error *error)
{
    struct kt_kv_field *field = &spot->field;
    bool state = field->kind == KT_KV_STATE;
    uint32_t widest = state ? LARGEST_STATE : LARGEST;
    if (field->kind > KT_KV_STATE)
        return fail_field(spot, "kind", field->kind, "one of enum kt_kv_kind", error);
    if (state)
        field->layout = KT_KV_PLAIN;
    if (field->layout > KT_KV_PLAIN)
        return fail_field(spot, "layout", field->layout, "one of enum kt_kv_layout", error);
    if (field->heads < 1 || field->heads > LARGEST)
        return fail_field(spot, "a number of heads of", field->heads, "1 to 65536", error);
    if (field->width < 1 || field->width > widest)
        return fail_field(spot, "a width of", field->width, state ? "1 to 268435456" : "1 to 65536", error);
    if (field->reserved[0] || field->reserved[1])
        return fail_field(spot, "reserved", field->reserved[0] ? field->reserved[0] : field->reserved[1], "0",
                          error);
    if (state || field->stride == 0)
        field->stride = 1;
    if (field->stride > LARGEST || (KT_KV_PAGE % field->stride != 0 && field->stride % KT_KV_PAGE != 0))
        return fail_field(spot, "a stride of", field->stride,
                          "a divisor of 64 tokens, or a multiple of them up to 65536", error);
    bool known = state ? kt_element_size(field->dtype) != 0
                       : field->dtype == KT_DTYPE_F32 || field->dtype == KT_DTYPE_BF16 ||
                             field->dtype == KT_DTYPE_Q8_0;
    if (!known)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "layer %" PRIu32 ", field %" PRIu32 ": %s are kept as %s, not as %s", spot->layer,
                       spot->index, state ? "states" : "rows",
                       state ? "f32, f16 or bf16" : "f32, bf16 or q8_0", kt_dtype_name(field->dtype));
    return KT_OK;
}

/* The bytes of a head; nothing overflows: at most 65536 x 64 numbers. */
static void measure_field(struct kt_kv_spot *spot)
{
    const struct kt_kv_field *field = &spot->field;
    uint64_t number = number_size(field->dtype), width = field->width;
    spot->pack = (uint32_t)(4 / number);
    spot->page_rows = field->stride < KT_KV_PAGE ? KT_KV_PAGE / field->stride : 1;
    spot->page_step = field->stride < KT_KV_PAGE ? 1 : field->stride / KT_KV_PAGE;
    spot->scales = 0;
    if (field->kind == KT_KV_STATE) {
        spot->size = kt_align64(width * number);
        return;
    }
    uint64_t rows = spot->page_rows, pack = spot->pack;
    if (field->layout == KT_KV_KEY) {
        rows = (rows + KT_KV_BLOCK - 1) / KT_KV_BLOCK * KT_KV_BLOCK;
        width = (width + pack - 1) / pack * pack;
    } else if (field->layout == KT_KV_VALUE) {
        rows = (rows + pack - 1) / pack * pack;
    }
    spot->size = kt_align64(rows * width * number);
    if (field->dtype != KT_DTYPE_Q8_0)
        return;
    spot->scales = spot->size;
    spot->size += kt_align64(rows * ((field->width + KT_KV_GROUP - 1) / KT_KV_GROUP) * sizeof(uint16_t));
}

/* ---- all fields ---- */

static bool place_field(struct kt_kv_declaration *declared, struct kt_kv_spot *spot)
{
    bool state = spot->field.kind == KT_KV_STATE;
    uint64_t *part = state ? declared->state_part : declared->page_part;
    uint64_t *all = state ? &declared->state_bytes : &declared->page_bytes;
    uint64_t bytes;
    memcpy(spot->offset, part, declared->n_nodes * sizeof *part);
    for (uint32_t head = 0; head < spot->field.heads; head++)
        part[kt_kv_node(spot, head, declared->n_nodes)] += spot->size;
    return kt_mul(spot->size, spot->field.heads, &bytes) && kt_add(*all, bytes, all) && *all < INT64_MAX;
}

static enum kt_status place_layer(const struct kt_kv_params *params, uint32_t layer,
                                  struct kt_kv_declaration *declared, struct kt_error *error)
{
    uint32_t *word = declared->words + 1 + layer + (uint64_t)KT_KV_FIELD_WORDS * declared->first[layer];
    *word++ = params->layers[layer].n_fields;
    for (uint32_t i = 0; i < params->layers[layer].n_fields; i++) {
        struct kt_kv_spot *spot = &declared->spot[declared->first[layer] + i];
        *spot = (struct kt_kv_spot){
            .field = params->layers[layer].fields[i],
            .layer = layer,
            .index = i,
            .offset = declared->offsets + (uint64_t)(declared->first[layer] + i) * declared->n_nodes,
        };
        enum kt_status status = check_field(spot, error);
        if (status != KT_OK)
            return status;
        measure_field(spot);
        if (!place_field(declared, spot))
            return kt_fail(error, KT_E_NOMEM, "layer %" PRIu32 ", field %" PRIu32 ": sizes overflow", layer,
                           i);
        memcpy(word, &spot->field, KT_KV_FIELD_WORDS * sizeof *word);
        word += KT_KV_FIELD_WORDS;
    }
    return KT_OK;
}

static enum kt_status check_params(const struct kt_kv_params *params, uint64_t *n_fields,
                                   struct kt_error *error)
{
    if (!params || params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_kv_create: params is NULL or its struct_size is too small; start with "
                       "KT_KV_PARAMS_INIT");
    if (!params->layers || params->n_layers < 1 || params->n_layers > LARGEST)
        return kt_fail(error, KT_E_INVALID,
                       "kt_kv_create: layers must not be NULL, and their number, %" PRIu32
                       ", must be 1 to 65536",
                       params->n_layers);
    *n_fields = 0;
    for (uint32_t l = 0; l < params->n_layers; l++) {
        const struct kt_kv_layer *layer = &params->layers[l];
        if ((layer->n_fields && !layer->fields) || layer->n_fields > LARGEST || layer->reserved)
            return kt_fail(error, KT_E_INVALID,
                           "layer %" PRIu32
                           ": fields is NULL, there are more than 65536, or reserved is not 0",
                           l);
        *n_fields += layer->n_fields;
    }
    if (*n_fields > UINT32_MAX / 64)
        return kt_fail(error, KT_E_INVALID, "%" PRIu64 " fields are too many", *n_fields);
    size_t length = params->model ? strlen(params->model) : 0;
    if (length >= sizeof((struct kt_kv_declaration *)0)->model || !kt_name_valid(params->model, length))
        return kt_fail(
            error, KT_E_INVALID,
            "kt_kv_create: the model's name has %zu bytes, or control characters; at most 255 bytes "
            "of text can be kept",
            length);
    return KT_OK;
}

enum kt_status kt_kv_declare(const struct kt_kv_params *params, uint32_t n_nodes,
                             struct kt_kv_declaration *declared, struct kt_error *error)
{
    uint64_t n_fields = 0;
    *declared = (struct kt_kv_declaration){.n_nodes = n_nodes};
    enum kt_status status = check_params(params, &n_fields, error);
    if (status != KT_OK)
        return status;
    declared->n_layers = params->n_layers;
    declared->n_words = 1 + params->n_layers + KT_KV_FIELD_WORDS * n_fields;
    declared->first = calloc((size_t)params->n_layers + 1, sizeof *declared->first);
    declared->spot = calloc((size_t)n_fields + 1, sizeof *declared->spot);
    declared->offsets = calloc((size_t)(n_fields + 1) * n_nodes, sizeof *declared->offsets);
    declared->words = calloc((size_t)declared->n_words, sizeof *declared->words);
    if (!declared->first || !declared->spot || !declared->offsets || !declared->words) {
        kt_kv_declaration_free(declared);
        return kt_fail(error, KT_E_NOMEM, "no memory for a declaration of %" PRIu64 " fields", n_fields);
    }
    if (params->model)
        memcpy(declared->model, params->model, strlen(params->model));
    declared->words[0] = params->n_layers;
    for (uint32_t l = 0; l < params->n_layers && status == KT_OK; l++) {
        declared->first[l + 1] = declared->first[l] + params->layers[l].n_fields;
        status = place_layer(params, l, declared, error);
    }
    if (status == KT_OK && declared->page_bytes == 0)
        status = kt_fail(error, KT_E_INVALID, "none of the %" PRIu32 " layers keeps rows (KT_KV_ROWS)",
                         params->n_layers);
    if (status != KT_OK)
        kt_kv_declaration_free(declared);
    else
        declared->fingerprint =
            XXH3_64bits_withSeed(declared->words, (size_t)declared->n_words * sizeof *declared->words,
                                 XXH3_64bits(declared->model, strlen(declared->model)));
    return status;
}

void kt_kv_declaration_free(struct kt_kv_declaration *declared)
{
    free(declared->first);
    free(declared->spot);
    free(declared->offsets);
    free(declared->words);
    *declared = (struct kt_kv_declaration){0};
}

enum kt_status kt_kv_find(const struct kt_kv_declaration *declared, uint32_t kind, uint32_t layer,
                          uint32_t field, uint32_t head, uint32_t n_heads, const struct kt_kv_spot **spot,
                          struct kt_error *error)
{
    if (layer >= declared->n_layers)
        return kt_fail(error, KT_E_RANGE, "layer %" PRIu32 ": the cache has %" PRIu32, layer,
                       declared->n_layers);
    uint32_t n_fields = declared->first[layer + 1] - declared->first[layer];
    if (field >= n_fields)
        return kt_fail(error, KT_E_RANGE, "layer %" PRIu32 ", field %" PRIu32 ": the layer has %" PRIu32,
                       layer, field, n_fields);
    const struct kt_kv_spot *found = &declared->spot[declared->first[layer] + field];
    if (found->field.kind != kind)
        return kt_fail(error, KT_E_INVALID, "layer %" PRIu32 ", field %" PRIu32 " has %s", layer, field,
                       kind == KT_KV_STATE ? "rows, not a state" : "a state, not rows");
    if (head >= found->field.heads || n_heads > found->field.heads - head)
        return kt_fail(error, KT_E_RANGE,
                       "layer %" PRIu32 ", field %" PRIu32 ": %" PRIu32 " heads from head %" PRIu32
                       " on: there are %" PRIu32,
                       layer, field, n_heads, head, found->field.heads);
    *spot = found;
    return KT_OK;
}

/* ---- that of a file ---- */

static enum kt_status report_layer(const struct kt_kv_declaration *declared, uint32_t layer,
                                   const uint32_t *words, uint64_t n_words, uint64_t at, uint64_t wrong,
                                   struct kt_error *error)
{
    uint32_t n_fields = declared->first[layer + 1] - declared->first[layer];
    if (wrong == at)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "layer %" PRIu32 " keeps %" PRIu32 " fields in the file and %" PRIu32 " in this cache",
                       layer, words[at], n_fields);
    uint32_t index = (uint32_t)((wrong - at - 1) / KT_KV_FIELD_WORDS);
    uint64_t begin = at + 1 + (uint64_t)KT_KV_FIELD_WORDS * index;
    struct kt_kv_field field = {0};
    char theirs[112] = "nothing", ours[112];
    if (n_words - begin >= KT_KV_FIELD_WORDS) {
        memcpy(&field, words + begin, KT_KV_FIELD_WORDS * sizeof *words);
        kt_kv_field_text(&field, theirs, sizeof theirs);
    }
    kt_kv_field_text(&declared->spot[declared->first[layer] + index].field, ours, sizeof ours);
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "layer %" PRIu32 ", field %" PRIu32 " is %s in the file and %s in this cache", layer,
                   index, theirs, ours);
}

enum kt_status kt_kv_compare(const struct kt_kv_declaration *declared, const uint32_t *words,
                             uint64_t n_words, struct kt_error *error)
{
    uint64_t wrong = 0, at = 1;
    while (wrong < n_words && wrong < declared->n_words && words[wrong] == declared->words[wrong])
        wrong++;
    if (wrong == n_words && wrong == declared->n_words)
        return KT_OK;
    if (wrong == 0)
        return kt_fail(error, KT_E_UNSUPPORTED, "the file has %" PRIu32 " layers, this cache %" PRIu32,
                       n_words ? words[0] : 0, declared->n_layers);
    for (uint32_t l = 0; l < declared->n_layers && wrong < n_words; l++) {
        uint64_t n_fields = declared->first[l + 1] - declared->first[l];
        if (wrong <= at + KT_KV_FIELD_WORDS * n_fields)
            return report_layer(declared, l, words, n_words, at, wrong, error);
        at += 1 + KT_KV_FIELD_WORDS * n_fields;
    }
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "the file's declaration has %" PRIu64 " numbers, this cache's %" PRIu64, n_words,
                   declared->n_words);
}
