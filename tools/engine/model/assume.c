/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assume.c - weights that are not at hand, of which only config.json is: they have the shapes that it says
 * and the formats that it names. Their numbers are zeros that take no memory, as none is read.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct format {
    uint32_t dtype, scale_dtype;
    uint64_t group_rows, group_cols; /* of scales; 0: all */
};

struct kt_assumed {
    struct format plain, linears, experts;
    uint64_t expert_width;
    void *zeros;
    uint64_t size;
};

/* ---- what config.json says ---- */

static const json_t *find(const struct kt_settings *s, const char *key)
{
    const json_t *found = json_object_get(s->root, key); /* of text and images alike */
    return found ? found : json_object_get(s->model, key);
}

static struct format read_plain(const struct kt_settings *s)
{
    const char *name = json_string_value(find(s, "dtype"));
    name = name ? name : json_string_value(find(s, "torch_dtype"));
    uint32_t dtype = !name                          ? KT_DTYPE_BF16
                     : strcmp(name, "float32") == 0 ? KT_DTYPE_F32
                     : strcmp(name, "float16") == 0 ? KT_DTYPE_F16
                                                    : KT_DTYPE_BF16;
    return (struct format){.dtype = dtype, .scale_dtype = KT_DTYPE_NONE};
}

/* Does the list of what is not quantized name a part of attention? */
static bool leaves_attention(const json_t *list)
{
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one)
        if (json_is_string(one) && strstr(json_string_value(one), "attn"))
            return true;
    return false;
}

/* INT4 in groups, by what compressed-tensors calls a scheme; false: it is something else. */
static bool read_packed(const json_t *coding, struct kt_assumed *a)
{
    const json_t *groups = json_object_get(coding, "config_groups"), *scheme = NULL;
    const char *name;
    json_t *group;
    json_object_foreach ((json_t *)(uintptr_t)groups, name, group)
        scheme = json_object_get(group, "weights");
    const char *type = json_string_value(json_object_get(scheme, "type"));
    int64_t size = json_integer_value(json_object_get(scheme, "group_size"));
    if (!type || strcmp(type, "int") != 0 || json_integer_value(json_object_get(scheme, "num_bits")) != 4)
        return false;
    a->experts = (struct format){KT_DTYPE_INT4, KT_DTYPE_BF16, 1, size > 0 ? (uint64_t)size : 0};
    a->linears = leaves_attention(json_object_get(coding, "ignore")) ? a->plain : a->experts;
    return true;
}

static bool read_coding(const json_t *coding, const char *method, struct kt_assumed *a)
{
    const json_t *block = json_object_get(coding, "weight_block_size");
    int64_t rows = json_integer_value(json_array_get(block, 0)),
            cols = json_integer_value(json_array_get(block, 1));
    int64_t group = json_integer_value(json_object_get(coding, "group_size"));
    if (strcmp(method, "fp8") == 0 && rows > 0 && cols > 0) {
        a->experts = a->linears =
            (struct format){KT_DTYPE_F8_E4M3, KT_DTYPE_F32, (uint64_t)rows, (uint64_t)cols};
        return true;
    }
    if (strcmp(method, "mxfp4") == 0) {
        a->experts = (struct format){KT_DTYPE_F4_E2M1, KT_DTYPE_F8_E8M0, 1, 32};
        return true;
    }
    if ((strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0) &&
        json_integer_value(json_object_get(coding, "bits")) == 4) {
        a->experts = a->linears =
            (struct format){KT_DTYPE_INT4, KT_DTYPE_F16, 1, group > 0 ? (uint64_t)group : 0};
        return true;
    }
    return strcmp(method, "compressed-tensors") == 0 && read_packed(coding, a);
}

static void read_all(struct kt_settings *s, struct kt_assumed *a)
{
    const json_t *coding = find(s, "quantization_config");
    const char *method = json_string_value(json_object_get(coding, "quant_method"));
    a->plain = a->linears = a->experts = read_plain(s);
    /* LongCat's, DBRX's; the last one is that of experts where there is no other. */
    static const char *const widths[] = {"moe_intermediate_size", "expert_ffn_hidden_size",
                                         "ffn_config/ffn_hidden_size", "intermediate_size"};
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]) && a->expert_width == 0; i++)
        a->expert_width = kt_settings_uint_at(s, NULL, widths[i], 0, 0);
    if (json_is_object(coding) && (!method || !read_coding(coding, method, a)))
        kt_settings_fail(s, KT_E_NOT_FOUND,
                         "the sizes of weights that '%.40s' quantized are in the files of weights only",
                         method ? method : "?");
}

enum kt_status kt_assume_open(struct kt_model *m, const char *json, uint64_t size, struct kt_error *error)
{
    struct kt_settings s;
    struct kt_assumed *a = m->assumed = calloc(1, sizeof(*a));
    if (!a)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    enum kt_status status = kt_settings_open_text(&s, json, size, error);
    const struct kt_family *family = status == KT_OK ? kt_family_find(s.architecture, false) : NULL;
    s.own_names = family ? family->own_names : NULL;
    if (status == KT_OK)
        read_all(&s, a);
    kt_settings_close(&s);
    return s.status;
}

void kt_assume_close(struct kt_model *m)
{
    if (m->assumed && m->assumed->zeros)
        (void)munmap(m->assumed->zeros, m->assumed->size);
    free(m->assumed);
}

/* ---- what is assumed ---- */

/* Views before it lose their data, which only their own reader looks at. */
static void *find_zeros(struct kt_assumed *a, uint64_t size)
{
    if (size <= a->size)
        return a->zeros;
    void *zeros = size < SIZE_MAX ? mmap(NULL, (size_t)size, PROT_READ,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                  : MAP_FAILED;
    if (zeros == MAP_FAILED)
        return NULL;
    if (a->zeros)
        (void)munmap(a->zeros, a->size);
    a->zeros = zeros;
    a->size = size;
    return zeros;
}

static enum kt_status make_view(struct kt_assumed *a, const struct format *format, uint64_t rows,
                                uint64_t cols, struct kt_view *view, struct kt_error *error)
{
    uint32_t elements, bytes, scale_bytes;
    uint64_t group_rows = format->group_rows ? format->group_rows : rows;
    uint64_t group_cols = format->group_cols ? format->group_cols : cols, size, scale_size = 0;
    kt_dtype_block(format->dtype, &elements, &bytes);
    kt_dtype_block(format->scale_dtype, NULL, &scale_bytes);
    uint64_t columns = (cols + group_cols - 1) / group_cols;
    if (__builtin_mul_overflow(rows, (cols + elements - 1) / elements * bytes, &size))
        size = UINT64_MAX;
    if (format->scale_dtype != KT_DTYPE_NONE)
        scale_size = (rows + group_rows - 1) / group_rows * columns * scale_bytes;
    void *zeros = find_zeros(a, size > scale_size ? size : scale_size);
    if (!zeros)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for %" PRIu64 " x %" PRIu64 " numbers", rows,
                              cols);
    *view = (struct kt_view)KT_VIEW_INIT;
    enum kt_status status = kt_view_dense(view, format->dtype, zeros, size, rows, cols, error);
    if (status == KT_OK && scale_size > 0)
        view->scales = (struct kt_scales){.data = zeros,
                                          .size = scale_size,
                                          .dtype = format->scale_dtype,
                                          .group_rows = group_rows,
                                          .group_cols = group_cols,
                                          .row_stride = (int64_t)(columns * scale_bytes),
                                          .col_stride = (int64_t)scale_bytes};
    return status;
}

enum kt_status kt_assume_numbers(struct kt_model *m, uint64_t rows, uint64_t cols, struct kt_view *view,
                                 struct kt_error *error)
{
    return make_view(m->assumed, &m->assumed->plain, rows, cols, view, error);
}

enum kt_status kt_assume_heads(struct kt_model *m, uint64_t rows, uint64_t cols, struct kt_view *view,
                               struct kt_error *error)
{
    return make_view(m->assumed, &m->assumed->linears, rows, cols, view, error);
}

enum kt_status kt_assume_linear(struct kt_model *m, uint64_t rows, uint64_t cols, struct kt_linear *linear,
                                struct kt_plan *plan, struct kt_error *error)
{
    bool is_head = m->n_weights == 0; /* the first that is loaded, which is left as it is */
    struct kt_view view;
    enum kt_status status =
        make_view(m->assumed, is_head ? &m->assumed->plain : &m->assumed->linears, rows, cols, &view, error);
    return status == KT_OK ? kt_linear_plan(linear, &view, 0, plan, error) : status;
}

enum kt_status kt_assume_params(const struct kt_model *m, struct kt_layer_params *params,
                                struct kt_error *error)
{
    params->n_experts = m->config.n_experts;
    params->hidden_size = m->config.hidden_size;
    params->intermediate_size = m->assumed->expert_width;
    if (params->intermediate_size == 0)
        return kt_engine_fail(error, KT_E_NOT_FOUND, "the width of experts is in the files of weights only");
    return KT_OK;
}

enum kt_status kt_assume_experts(struct kt_model *m, const struct kt_layer_params *params,
                                 struct kt_layer *layer, struct kt_plan *plan, struct kt_error *error)
{
    struct kt_assumed *a = m->assumed;
    uint64_t hidden = params->hidden_size, width = params->intermediate_size;
    struct kt_expert example = {.gate_bias = NULL};
    enum kt_status status = make_view(a, &a->experts, hidden, width, &example.down, error);
    if (status == KT_OK)
        status = make_view(a, &a->experts, width, hidden, &example.up, error);
    example.gate = example.up;
    /* The second may have taken the place of the first. */
    if (status == KT_OK)
        status = make_view(a, &a->experts, hidden, width, &example.down, error);
    if (status == KT_OK && m->config.has_expert_biases)
        example.gate_bias = example.up_bias = example.down_bias = a->zeros;
    return status == KT_OK ? kt_layer_plan(layer, &example, plan, error) : status;
}
