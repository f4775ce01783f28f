/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/int4_build.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *weight, *scale;
} namings[N_LAYOUTS] = {
    [PACKED_WORDS] = {".weight_packed", ".weight_scale"},
    [PACKED_BYTES] = {".weight_packed", ".weight_scale"},
    [GPTQ] = {".qweight", ".scales"},
    [AWQ] = {".qweight", ".scales"},
    [MX] = {".weight", ".scale"},
    [MX_F4] = {".weight", ".scale"},
    [GPT_OSS] = {"_blocks", "_scales"},
};

struct model model_of(enum layout layout)
{
    bool powers = layout == MX || layout == MX_F4 || layout == GPT_OSS;
    struct model model = {.layout = layout,
                          .group = 32,
                          .scale = powers                            ? "U8"
                                   : layout == GPTQ || layout == AWQ ? "F16"
                                                                     : "BF16",
                          .prefix = "model.layers.",
                          .experts = layout == MX || layout == MX_F4 ? "ffn.experts" : "mlp.experts"};
    if (layout == GPT_OSS)
        model.config = "{\"model_type\":\"gpt_oss\",\"hidden_act\":\"silu\",\"swiglu_limit\":7.0,"
                       "\"num_local_experts\":3,\"num_experts_per_tok\":2,\"hidden_size\":64,"
                       "\"intermediate_size\":96,\"quantization_config\":{\"quant_method\":\"mxfp4\","
                       "\"modules_to_not_convert\":[\"model.layers.*.self_attn\","
                       "\"model.layers.*.mlp.router\"]}}";
    return model;
}

/* ---- numbers ---------------------------------------------------------------------------------- */

uint64_t rows_of(int projection)
{
    return projection == KT_DOWN ? HIDDEN : INTERMEDIATE;
}

uint64_t cols_of(int projection)
{
    return projection == KT_DOWN ? INTERMEDIATE : HIDDEN;
}

static uint64_t group_of(const struct model *model, int projection)
{
    return model->group ? model->group : cols_of(projection);
}

static uint32_t hash(unsigned kind, int expert, int projection, uint64_t row, uint64_t col)
{
    uint64_t key =
        ((((uint64_t)kind * 8 + (unsigned)expert) * 8 + (unsigned)projection) << 20) + (row << 10) + col + 1;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
    key *= UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(key >> 32);
}

static unsigned code_of(int e, int p, uint64_t row, uint64_t col)
{
    return hash(1, e, p, row, col) >> 28;
}

static unsigned zero_of(int e, int p, uint64_t row, uint64_t group)
{
    return hash(2, e, p, row, group) >> 28;
}

/* The bits of a scale. */
static uint32_t scale_of(const char *dtype, int e, int p, uint64_t row, uint64_t group)
{
    uint32_t bits = hash(3, e, p, row, group);
    if (strcmp(dtype, "F32") == 0)
        return 0x3d000000u + (bits & 0xffffff);
    if (strcmp(dtype, "BF16") == 0)
        return 0x3d00u + (bits & 0xff);
    if (strcmp(dtype, "F16") == 0)
        return 0x2800u + (bits & 0x7ff);
    return 121 + bits % 5;
}

static double number_of(const char *dtype, uint32_t bits)
{
    if (strcmp(dtype, "F32") == 0)
        return ldexp(0x800000 + (bits & 0x7fffff), (int)(bits >> 23) - 150);
    if (strcmp(dtype, "BF16") == 0)
        return ldexp(0x80 + (bits & 0x7f), (int)(bits >> 7) - 134);
    if (strcmp(dtype, "F16") == 0)
        return ldexp(0x400 + (bits & 0x3ff), (int)(bits >> 10) - 25);
    return ldexp(1, (int)bits - 127);
}

double weight_of(const struct model *model, int e, int p, uint64_t row, uint64_t col)
{
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    uint64_t group = col / group_of(model, p);
    unsigned code = code_of(e, p, row, col);
    double scale = number_of(model->scale, scale_of(model->scale, e, p, row, group));
    if (model->layout == MX || model->layout == MX_F4 || model->layout == GPT_OSS)
        return (code & 8 ? -1 : 1) * e2m1[code & 7] * scale;
    return ((double)code - (model->layout == AWQ ? zero_of(e, p, row, group) : 8)) * scale;
}

/* As float32, which the file has: a multiple of 1/64. */
double bias_of(int e, int p, uint64_t row)
{
    return ((double)(hash(4, e, p, row, 0) >> 25) - 64) / 64;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static uint8_t bytes[EXPERTS * 2 * LARGEST * LARGEST * 4];

static void put_number(uint64_t at, uint32_t bits, unsigned size)
{
    for (unsigned b = 0; b < size; b++)
        bytes[at * size + b] = (uint8_t)(bits >> 8 * b);
}

static void put_nibble(uint64_t at, unsigned code)
{
    bytes[at / 2] |= (uint8_t)(code << (at % 2 ? 4 : 0));
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Adds what is in `bytes` under the name, as it is or changed, and clears it. */
static void add(const struct model *model, const char *name, const char *dtype, unsigned n_dims,
                const uint64_t *dims)
{
    const struct change *change = &model->change;
    if (change->part && ends_with(name, change->part)) {
        if (change->dtype && !*change->dtype) {
            memset(bytes, 0, sizeof bytes);
            return;
        }
        dtype = change->dtype ? change->dtype : dtype;
        if (change->n_dims) {
            n_dims = change->n_dims;
            dims = change->dims;
            memset(bytes, 0, sizeof bytes);
        }
    }
    shard_put(&shard, name, dtype, n_dims, dims, bytes);
    memset(bytes, 0, sizeof bytes);
}

/* "model.layers.3.mlp.experts.1.up_proj" and the part. */
static const char *name_part(const struct model *model, int e, int p, const char *part)
{
    static const char *const names[3][3] = {{"gate_proj", "up_proj", "down_proj"},
                                            {"w1", "w3", "w2"},
                                            {"gate_up_proj", "gate_up_proj", "down_proj"}};
    static char name[256];
    char number[16] = "";
    int naming = model->layout == GPT_OSS ? 2 : strcmp(model->experts, "mlp.experts") != 0;
    if (model->layout != GPT_OSS)
        (void)snprintf(number, sizeof number, "%d.", e);
    (void)snprintf(name, sizeof name, "%s3.%s.%s%s%s", model->prefix, model->experts, number,
                   names[naming][p], part);
    return name;
}

/* Where AWQ keeps row r: nibble i of a word is of row 0 2 4 6 1 3 5 7. */
static uint64_t awq_place(uint64_t row)
{
    static const unsigned place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return row / 8 * 8 + place[row % 8];
}

static void add_weight(const struct model *model, int e, int p)
{
    uint64_t rows = rows_of(p), cols = cols_of(p);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) {
            uint64_t at = model->layout == GPTQ  ? (c / 8 * rows + r) * 8 + c % 8
                          : model->layout == AWQ ? c * rows + awq_place(r)
                                                 : r * cols + c;
            put_nibble(at, code_of(e, p, r, c));
        }
    uint64_t dims[N_LAYOUTS][2] =
        {[PACKED_WORDS] = {rows, cols / 8}, [PACKED_BYTES] = {rows, cols / 2}, [GPTQ] = {cols / 8, rows},
         [AWQ] = {cols, rows / 8},          [MX] = {rows, cols / 2},           [MX_F4] = {rows, cols}};
    add(model, name_part(model, e, p, namings[model->layout].weight),
        model->layout == MX             ? "I8"
        : model->layout == MX_F4        ? "F4"
        : model->layout == PACKED_BYTES ? "U8"
                                        : "I32",
        2, dims[model->layout]);
}

static unsigned size_of(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "U8") == 0 || strcmp(dtype, "F8_E8M0") == 0 ? 1 : 2;
}

static void add_scale(const struct model *model, int e, int p)
{
    uint64_t rows = rows_of(p), groups = cols_of(p) / group_of(model, p);
    bool turned = model->layout == GPTQ || model->layout == AWQ;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t g = 0; g < groups; g++)
            put_number(turned ? g * rows + r : r * groups + g, scale_of(model->scale, e, p, r, g),
                       size_of(model->scale));
    if (model->poisoned && e == 1 && p == KT_UP)
        put_number(model->at, model->bits, size_of(model->scale));
    add(model, name_part(model, e, p, namings[model->layout].scale), model->scale, 2,
        turned ? (uint64_t[]){groups, rows} : (uint64_t[]){rows, groups});
}

static void add_zeros(const struct model *model, int e, int p)
{
    uint64_t rows = rows_of(p), groups = cols_of(p) / group_of(model, p);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t r = 0; r < rows; r++) {
            unsigned zero = model->zero ? model->zero : 7;
            if (model->layout == AWQ)
                zero = zero_of(e, p, r, g);
            else if (g * rows + r + 1 == model->odd_zero && e == 1 && p == KT_UP)
                zero = 3;
            put_nibble(g * rows + (model->layout == AWQ ? awq_place(r) : r), zero);
        }
    add(model, name_part(model, e, p, ".qzeros"), "I32", 2, (uint64_t[]){groups, rows / 8});
}

static void add_order(const struct model *model, int e, int p)
{
    for (uint64_t c = 0; c < cols_of(p); c++)
        put_number(c,
                   c + 1 == model->odd_order && e == 1 && p == KT_UP ? 1 : (uint32_t)(c / group_of(model, p)),
                   4);
    add(model, name_part(model, e, p, ".g_idx"), "I32", 1, (uint64_t[]){cols_of(p)});
}

static void add_projection(const struct model *model, int e, int p)
{
    add_weight(model, e, p);
    add_scale(model, e, p);
    if (model->layout == GPTQ || model->layout == AWQ)
        add_zeros(model, e, p);
    if (model->layout == GPTQ)
        add_order(model, e, p);
    if (model->layout == PACKED_WORDS) {
        put_number(0, (uint32_t)rows_of(p), 4);
        put_number(2, (uint32_t)(cols_of(p) + (e == 1 && p == KT_UP ? model->shape_add : 0)), 4);
        add(model, name_part(model, e, p, ".weight_shape"), "I64", 1, (uint64_t[]){2});
    }
    if (model->extra)
        add(model, name_part(model, e, p, model->extra), "I32", 1, (uint64_t[]){8});
}

/* Row r of both is gate's row r / 2 or up's. */
static void add_fused(const struct model *model, bool down)
{
    uint64_t cols = cols_of(down ? KT_DOWN : KT_UP), rows = down ? HIDDEN : 2 * INTERMEDIATE;
    int name = down ? KT_DOWN : KT_GATE;
    for (int pass = 0; pass < 3; pass++) {
        for (int e = 0; e < EXPERTS; e++)
            for (uint64_t r = 0; r < rows; r++) {
                int p = down ? KT_DOWN : r % 2 ? KT_UP : KT_GATE;
                uint64_t row = down ? r : r / 2, line = (uint64_t)e * rows + r;
                float bias = (float)bias_of(e, p, row);
                for (uint64_t c = 0; pass == 0 && c < cols; c++)
                    put_nibble(line * cols + c, code_of(e, p, row, c));
                for (uint64_t g = 0; pass == 1 && g < cols / 32; g++)
                    bytes[line * (cols / 32) + g] = (uint8_t)scale_of(model->scale, e, p, row, g);
                if (pass == 1 && model->poisoned && e == 1 && p == KT_UP && row == model->at)
                    bytes[line * (cols / 32) + 1] = (uint8_t)model->bits;
                if (pass == 2)
                    memcpy(bytes + 4 * line, &bias, 4);
            }
        static const char *const parts[] = {"_blocks", "_scales", "_bias"};
        add(model, name_part(model, 0, name, parts[pass]), pass == 2 ? "F32" : "U8",
            pass == 2 ? 2 : 4u - (unsigned)pass, (uint64_t[]){EXPERTS, rows, cols / 32, 16});
    }
}

void model_write(const struct model *model)
{
    shard_begin(&shard);
    memset(bytes, 0, sizeof bytes);
    if (model->layout == GPT_OSS) {
        add_fused(model, false);
        add_fused(model, true);
    }
    for (int e = 0; e < EXPERTS && model->layout != GPT_OSS; e++)
        for (int p = KT_GATE; p <= KT_DOWN; p++)
            add_projection(model, e, p);
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "%s", model->config ? model->config : "{}");
}
