/* SPDX-License-Identifier: Apache-2.0 */
/*
 * derive.c - the models of tests/data that a tarball holds without their weights.
 *     derive blank FOLDER   takes the weights out of every model of FOLDER but tiny-moe-q4_k_m.gguf, all
 *                           outputs that were computed with them, and the input of all layers but the first
 *     derive fill FOLDER    puts weights in: those of tiny-moe-q4_k_m.gguf, in each model's own format
 * What is left in a blank model, names and the scales of FP8 and FP4 among it, compresses to next to nothing.
 * A filled one is not what it was before, but its weights are those of a trained model all the same, and what
 * it should compute from trace.safetensors is computed anew, in float64.
 */
#include "core/weights/decode/decode.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/encode.h"

#include <fcntl.h>
#include <kt/kt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LAYERS = 4, N_EXPERTS = 8, SIZE = 256, N_TOKENS = 128, TOP_K = 2 };

static const char base[] = "tiny-moe-q4_k_m.gguf";
static const char *const models[] = {
    "tiny-moe-bf16-l0-l3.gguf",
    "tiny-moe-q8_0-l0-l3.gguf",
    "tiny-moe-iq4_xs-l0-l3.gguf",
    "fp8-block-l0",
    "fp8-channel-l0",
    "int4-g32-l0",
    "gptq-g128-l0",
    "mxfp4-l0",
    "mxfp8-l0",
};

typedef float matrix[SIZE][SIZE];
static matrix trained[N_LAYERS][N_EXPERTS][3]; /* bfloat16 of what base holds */
static matrix filled[N_EXPERTS][3];            /* what a model holds of them */

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "derive: %s: %s\n", what, why);
    exit(1);
}

static void *open_model(const char *folder, const char *name, char *path, size_t size)
{
    struct kt_error error;
    struct kt_checkpoint *model = NULL;
    snprintf(path, size, "%s/%s", folder, name);
    if (kt_checkpoint_open(path, NULL, &model, &error) != KT_OK)
        stop(path, error.message);
    return model;
}

static const struct kt_view *view_of(const struct kt_expert *expert, int projection)
{
    return projection == KT_GATE ? &expert->gate : projection == KT_UP ? &expert->up : &expert->down;
}

static void load_experts(struct kt_checkpoint *model, uint64_t layer, struct kt_expert *experts)
{
    struct kt_error error;
    if (kt_checkpoint_experts(model, layer, experts, N_EXPERTS, &error) != KT_OK)
        stop("a model's experts", error.message);
    for (int e = 0; e < N_EXPERTS; e++)
        for (int p = 0; p < 3; p++)
            if (view_of(&experts[e], p)->rows != SIZE || view_of(&experts[e], p)->cols != SIZE)
                stop("a model's experts", "they have another size");
}

static void decode(const struct kt_view *view, uint64_t row, float *out)
{
    struct kt_error error;
    if (kt_view_dequantize(view, row, 0, SIZE, out, &error) != KT_OK)
        stop(view->name ? view->name : "a weight", error.message);
}

/* ---- codes ------------------------------------------------------------------------------------ */

/* The weights of a format in units of their scale, in rising order, and which code means the unit itself. */
struct codebook {
    int n;
    uint8_t unit;
    struct level {
        float value;
        uint8_t code;
    } levels[256];
};

static int compare_levels(const void *a, const void *b)
{
    float x = ((const struct level *)a)->value, y = ((const struct level *)b)->value;
    return (x > y) - (x < y);
}

static void add_level(struct codebook *book, float value, int code)
{
    book->levels[book->n++] = (struct level){value, (uint8_t)code};
}

static void fill_codebook(struct codebook *book, uint32_t dtype)
{
    static const float e2m1[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    static const float iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    book->n = 0;
    book->unit = dtype == KT_DTYPE_F8_E4M3   ? 0x38
                 : dtype == KT_DTYPE_INT4    ? 9
                 : dtype == KT_DTYPE_F4_E2M1 ? 2
                 : dtype == KT_DTYPE_IQ4_XS  ? 8
                                             : 1;
    for (int code = 0; code < 256; code++) {
        if (dtype == KT_DTYPE_F8_E4M3 && (code & 127) != 127)
            add_level(book, kt_e4m3_float((uint8_t)code), code);
        else if (dtype == KT_DTYPE_Q8_0 && code != 128)
            add_level(book, (float)(int8_t)code, code);
        else if (dtype == KT_DTYPE_INT4 && code < 16)
            add_level(book, (float)(code - 8), code);
        else if (dtype == KT_DTYPE_F4_E2M1 && code < 16)
            add_level(book, code < 8 ? e2m1[code] : -e2m1[code - 8], code);
        else if (dtype == KT_DTYPE_IQ4_XS && code < 16)
            add_level(book, iq4[code], code);
    }
    if (book->n == 0)
        stop("a model", "there is no codebook for its format");
    qsort(book->levels, (size_t)book->n, sizeof book->levels[0], compare_levels);
}

static uint8_t nearest(const struct codebook *book, float value)
{
    int low = 0, high = book->n - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (book->levels[middle].value <= value)
            low = middle;
        else
            high = middle;
    }
    return value - book->levels[low].value <= book->levels[high].value - value ? book->levels[low].code
                                                                               : book->levels[high].code;
}

static void set_half(uint8_t *byte, bool high, uint8_t code)
{
    *byte = high ? (uint8_t)((*byte & 15) | code << 4) : (uint8_t)((*byte & 0xf0) | code);
}

/* Weight c of a row whose blocks lie side by side. */
static void set_code(uint32_t dtype, uint8_t *row, uint32_t c, uint8_t code)
{
    if (dtype == KT_DTYPE_F8_E4M3)
        row[c] = code;
    else if (dtype == KT_DTYPE_Q8_0) /* 32 weights: a scale of 2 bytes, 32 codes */
        row[c / 32 * 34 + 2 + c % 32] = code;
    else if (dtype == KT_DTYPE_IQ4_XS) /* 256: 8 bytes of scales, 16 bytes for each 32, the first 16 low */
        set_half(&row[c / 256 * 136 + 8 + c % 256 / 32 * 16 + c % 16], c % 32 >= 16, code);
    else
        set_half(&row[c / 2], c % 2, code);
}

static void move_to_row(struct kt_scales *scales, uint64_t row)
{
    uint64_t offset = scales->data ? row / scales->group_rows * (uint64_t)scales->row_stride : 0;
    scales->data = scales->data ? (const char *)scales->data + offset : NULL;
    scales->size -= offset;
}

/* With this scale the largest of n weights takes the largest code. weights: NULL, for scales of 0. */
static float scale_of(const float *weights, uint64_t n, float largest_code)
{
    float largest = 0;
    for (uint64_t i = 0; weights && i < n; i++)
        largest = fmaxf(largest, fabsf(weights[i]));
    return largest / largest_code;
}

static void set_q8_0_scales(const float *weights, uint8_t *row)
{
    for (uint32_t block = 0; block < SIZE / 32; block++) {
        uint16_t scale = kt_to_f16(scale_of(weights ? weights + (size_t)block * 32 : NULL, 32, 127));
        memcpy(row + (size_t)block * 34, &scale, sizeof scale);
    }
}

/* One scale for 256 weights, and 6 bits for each 32 by which it is multiplied, less 32: 4 low, 2 high. */
static void set_iq4_xs_scales(const float *weights, uint8_t *row)
{
    uint16_t high = 0, scale;
    float largest = scale_of(weights, SIZE, 127);
    memset(row, 0, 8);
    if (!weights)
        return;
    scale = kt_to_f16(largest / 31);
    for (uint32_t block = 0; block < 8; block++) {
        float times = largest > 0 ? scale_of(weights + (size_t)block * 32, 32, 127) * 31 / largest : 1;
        uint32_t bits = 32 + (uint32_t)fmaxf(roundf(times), 1);
        row[4 + block / 2] |= (uint8_t)((bits & 15) << 4 * (block % 2));
        high |= (uint16_t)(bits >> 4 << 2 * block);
    }
    memcpy(row, &scale, sizeof scale);
    memcpy(row + 2, &high, sizeof high);
}

static void encode_codes(const struct kt_view *view, uint64_t r, const float *weights, uint8_t *row,
                         uint64_t size, uint32_t bytes)
{
    struct codebook book;
    struct kt_view own = *view; /* this row alone, wherever the scales want it */
    float unit[SIZE];
    fill_codebook(&book, view->dtype);
    if (view->dtype == KT_DTYPE_Q8_0)
        set_q8_0_scales(weights, row);
    if (view->dtype == KT_DTYPE_IQ4_XS)
        set_iq4_xs_scales(weights, row);
    for (uint32_t c = 0; c < SIZE; c++)
        set_code(view->dtype, row, c, weights ? book.unit : 0);
    if (!weights)
        return;
    own.data = row;
    own.size = size;
    own.rows = 1;
    own.row_stride = (int64_t)size;
    own.block_stride = (int64_t)bytes;
    move_to_row(&own.scales, r);
    move_to_row(&own.zeros, r);
    decode(&own, 0, unit);
    for (uint32_t c = 0; c < SIZE; c++)
        set_code(view->dtype, row, c, nearest(&book, unit[c] != 0 ? weights[c] / unit[c] : 0));
}

/* ---- models ----------------------------------------------------------------------------------- */

/* Where what lies at `bytes` is in its file. */
static uint64_t place_of(struct kt_checkpoint *model, const void *bytes, struct kt_tensor_info *tensor)
{
    struct kt_error error;
    const void *data = NULL;
    struct kt_checkpoint_info info;
    kt_checkpoint_info(model, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        if (kt_checkpoint_tensor(model, i, tensor, &error) != KT_OK ||
            kt_checkpoint_data(model, i, &data, &error) != KT_OK)
            stop("a tensor", error.message);
        uintptr_t begin = (uintptr_t)data, at = (uintptr_t)bytes;
        if (at >= begin && at < begin + tensor->size)
            return tensor->offset + (at - begin);
    }
    stop("a model", "its experts lie in no tensor");
    return 0;
}

static int open_file(const char *path, const char *file)
{
    char name[4096];
    const char *dot = strrchr(path, '.');
    bool folder = !dot || strchr(dot, '/');
    snprintf(name, sizeof name, "%s%s%s", path, folder ? "/" : "", folder ? file : "");
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        stop(name, "it cannot be written");
    return fd;
}

/* The scales of int4 lie beside the matrix: into the file, and into `scales`, where the view finds them. */
static void write_int4_scales(struct kt_checkpoint *model, const char *path, struct kt_view *view,
                              matrix *weights, uint16_t scales[SIZE][SIZE])
{
    struct kt_tensor_info tensor;
    struct kt_scales *old = &view->scales;
    uint64_t place = place_of(model, old->data, &tensor);
    int fd = open_file(path, tensor.file);
    if (old->group_rows != 1 || (old->dtype != KT_DTYPE_F16 && old->dtype != KT_DTYPE_BF16))
        stop(path, "it has other scales");
    for (uint64_t r = 0; r < SIZE; r++)
        for (uint64_t g = 0; g < SIZE / old->group_cols; g++) {
            const float *group = weights ? (*weights)[r] + g * old->group_cols : NULL;
            float scale = scale_of(group, old->group_cols, 7);
            int64_t at = (int64_t)place + (int64_t)r * old->row_stride + (int64_t)g * old->col_stride;
            scales[r][g] = old->dtype == KT_DTYPE_F16 ? kt_to_f16(scale) : kt_to_bf16(scale);
            if (pwrite(fd, &scales[r][g], sizeof scales[r][g], at) != sizeof scales[r][g])
                stop(path, "it cannot be written");
        }
    close(fd);
    old->data = scales;
    old->size = sizeof(uint16_t[SIZE][SIZE]);
    old->row_stride = sizeof scales[0];
    old->col_stride = sizeof scales[0][0];
}

/* weights: NULL, to take them out. */
static void write_matrix(struct kt_checkpoint *model, const char *path, const struct kt_view *view,
                         matrix *weights)
{
    static uint16_t scales[SIZE][SIZE];
    struct kt_tensor_info tensor;
    struct kt_view scaled = *view;
    uint64_t place = place_of(model, view->data, &tensor);
    uint32_t elements, bytes;
    int fd = open_file(path, tensor.file);
    if (view->dtype == KT_DTYPE_INT4)
        write_int4_scales(model, path, &scaled, weights, scales);
    kt_dtype_block(view->dtype, &elements, &bytes);
    uint64_t n_blocks = SIZE / elements, size = n_blocks * bytes;
    uint8_t row[SIZE * sizeof(float)];
    for (uint64_t r = 0; r < SIZE; r++) {
        const uint8_t *from = (const uint8_t *)view->data + (int64_t)r * view->row_stride;
        for (uint64_t b = 0; b < n_blocks; b++)
            memcpy(row + b * bytes, from + (int64_t)b * view->block_stride, bytes);
        const float *values = weights ? (*weights)[r] : NULL;
        if (view->dtype == KT_DTYPE_BF16)
            for (uint32_t c = 0; c < SIZE; c++) {
                uint16_t bits = values ? kt_to_bf16(values[c]) : 0;
                memcpy(row + c * sizeof bits, &bits, sizeof bits);
            }
        else
            encode_codes(&scaled, r, values, row, size, bytes);
        bool dense = view->block_stride == (int64_t)bytes;
        for (uint64_t b = 0; b < (dense ? 1 : n_blocks); b++) {
            int64_t at = (int64_t)place + (int64_t)r * view->row_stride + (int64_t)b * view->block_stride;
            size_t length = dense ? size : bytes;
            if (pwrite(fd, row + b * bytes, length, at) != (ssize_t)length)
                stop(path, "it cannot be written");
        }
    }
    close(fd);
}

static void write_model(const char *folder, const char *name, bool blank)
{
    char path[4096];
    struct kt_error error;
    struct kt_checkpoint_info info;
    struct kt_expert experts[N_EXPERTS];
    struct kt_checkpoint *model = open_model(folder, name, path, sizeof path);
    kt_checkpoint_info(model, &info);
    for (uint64_t i = 0; i < info.n_moe_layers; i++) {
        uint64_t layer;
        if (kt_checkpoint_moe_layer(model, i, &layer, &error) != KT_OK || layer >= N_LAYERS)
            stop(path, "it has other layers");
        load_experts(model, layer, experts);
        for (int e = 0; e < N_EXPERTS; e++)
            for (int p = 0; p < 3; p++)
                write_matrix(model, path, view_of(&experts[e], p), blank ? NULL : &trained[layer][e][p]);
    }
    kt_checkpoint_close(model);
}

/* ---- what is computed ------------------------------------------------------------------------- */

static uint64_t find(struct kt_checkpoint *model, uint64_t layer, const char *what, const void **data,
                     struct kt_tensor_info *tensor)
{
    char name[64];
    uint64_t index;
    struct kt_error error;
    snprintf(name, sizeof name, "layers.%llu.%s", (unsigned long long)layer, what);
    if (kt_checkpoint_find(model, name, &index, &error) != KT_OK ||
        kt_checkpoint_data(model, index, data, &error) != KT_OK ||
        kt_checkpoint_tensor(model, index, tensor, &error) != KT_OK)
        stop(name, error.message);
    return tensor->offset;
}

static double dot(const float *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* What `experts` give for the input that the trace has for a layer. */
static void compute_layer(struct kt_checkpoint *trace, uint64_t layer, matrix experts[N_EXPERTS][3],
                          float out[N_TOKENS][SIZE])
{
    struct kt_tensor_info tensor;
    const void *states, *ids, *weights;
    find(trace, layer, "hidden_states", &states, &tensor);
    find(trace, layer, "topk_ids", &ids, &tensor);
    find(trace, layer, "topk_weights", &weights, &tensor);
    for (int t = 0; t < N_TOKENS; t++) {
        double x[SIZE], h[SIZE], y[SIZE] = {0};
        for (int i = 0; i < SIZE; i++)
            x[i] = kt_bf16_float(((const uint16_t *)states)[t * SIZE + i]);
        for (int k = 0; k < TOP_K; k++) {
            matrix *expert = experts[((const int64_t *)ids)[t * TOP_K + k]];
            for (int i = 0; i < SIZE; i++) {
                double gate = dot(expert[KT_GATE][i], x);
                h[i] = gate / (1 + exp(-gate)) * dot(expert[KT_UP][i], x);
            }
            for (int i = 0; i < SIZE; i++)
                y[i] += (double)((const float *)weights)[t * TOP_K + k] * dot(expert[KT_DOWN][i], h);
        }
        for (int i = 0; i < SIZE; i++)
            out[t][i] = (float)y[i];
    }
}

/* Into layers.LAYER.PART of a file, whose tensor has so many bytes. */
static void write_part(const char *folder, const char *name, uint64_t layer, const char *part,
                       const void *data, size_t size)
{
    char path[4096];
    struct kt_tensor_info tensor;
    const void *unused;
    struct kt_checkpoint *file = open_model(folder, name, path, sizeof path);
    uint64_t place = find(file, layer, part, &unused, &tensor);
    int fd = open_file(path, "");
    if (pwrite(fd, data, size, (off_t)place) != (ssize_t)size)
        stop(path, "it cannot be written");
    close(fd);
    kt_checkpoint_close(file);
}

static void write_output(const char *folder, const char *name, uint64_t layer, float out[N_TOKENS][SIZE])
{
    write_part(folder, name, layer, "output", out, sizeof(float[N_TOKENS][SIZE]));
}

/* A tarball has the input of the first layer only, which all others take then. */
static void write_states(const char *folder, bool blank)
{
    static uint16_t states[N_TOKENS][SIZE];
    char path[4096];
    struct kt_tensor_info tensor;
    const void *first;
    struct kt_checkpoint *trace = open_model(folder, "trace.safetensors", path, sizeof path);
    find(trace, 0, "hidden_states", &first, &tensor);
    if (!blank)
        memcpy(states, first, sizeof states);
    kt_checkpoint_close(trace);
    for (uint64_t layer = 1; layer < N_LAYERS; layer++)
        write_part(folder, "trace.safetensors", layer, "hidden_states", states, sizeof states);
}

static void load_trained(const char *folder)
{
    char path[4096];
    struct kt_expert experts[N_EXPERTS];
    struct kt_checkpoint *model = open_model(folder, base, path, sizeof path);
    for (uint64_t layer = 0; layer < N_LAYERS; layer++) {
        load_experts(model, layer, experts);
        for (int e = 0; e < N_EXPERTS; e++)
            for (int p = 0; p < 3; p++)
                for (int r = 0; r < SIZE; r++) {
                    float *row = trained[layer][e][p][r];
                    decode(view_of(&experts[e], p), (uint64_t)r, row);
                    for (int c = 0; c < SIZE; c++)
                        row[c] = kt_bf16_float(kt_to_bf16(row[c]));
                }
    }
    kt_checkpoint_close(model);
}

/* The outputs beside the model of this name, if there are any; zeros without a trace. */
static void fill_output(struct kt_checkpoint *trace, const char *folder, const char *name)
{
    static float out[N_TOKENS][SIZE];
    char path[4096], output[256];
    struct kt_expert experts[N_EXPERTS];
    snprintf(output, sizeof output, "%s-output.safetensors", name);
    snprintf(path, sizeof path, "%s/%s", folder, output);
    if (access(path, F_OK) != 0)
        return;
    if (trace) {
        struct kt_checkpoint *model = open_model(folder, name, path, sizeof path);
        load_experts(model, 0, experts);
        for (int e = 0; e < N_EXPERTS; e++)
            for (int p = 0; p < 3; p++)
                for (int r = 0; r < SIZE; r++)
                    decode(view_of(&experts[e], p), (uint64_t)r, filled[e][p][r]);
        kt_checkpoint_close(model);
        compute_layer(trace, 0, filled, out);
    }
    write_output(folder, output, 0, out);
}

int main(int argc, char **argv)
{
    static float out[N_TOKENS][SIZE];
    const size_t n_models = sizeof models / sizeof models[0];
    char path[4096];
    bool blank = argc == 3 && strcmp(argv[1], "blank") == 0;
    struct kt_checkpoint *trace = NULL;
    if (argc != 3 || (!blank && strcmp(argv[1], "fill") != 0)) {
        fputs("usage: derive blank|fill FOLDER\n", stderr);
        return 2;
    }
    write_states(argv[2], blank);
    if (!blank) {
        load_trained(argv[2]);
        trace = open_model(argv[2], "trace.safetensors", path, sizeof path);
    }
    for (size_t i = 0; i < n_models; i++) {
        write_model(argv[2], models[i], blank);
        fill_output(trace, argv[2], models[i]);
    }
    for (uint64_t layer = 0; layer < N_LAYERS; layer++) {
        if (trace)
            compute_layer(trace, layer, trained[layer], out);
        write_output(argv[2], "trace.safetensors", layer, out);
    }
    kt_checkpoint_close(trace);
    return 0;
}
