/* SPDX-License-Identifier: Apache-2.0 */
/* Experts back in their source format, for GPU ranks: byte for byte slices of the source, wherever NUMA nodes
 * and ranks cut. The expected bytes are copied from the source element by element, as the definition says. */
#include "tests/support/gguf_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL UINT64_MAX
enum { EXPERTS = 3, CANARY = 64 };

/* ---- sources of random bytes ---- */

struct source {
    const char *backend;
    uint32_t dtype, elements, bytes; /* of a block of codes */
    uint32_t scale_dtype, scale_bytes;
    int zeros;
    uint64_t group_rows, group_cols;
    uint64_t hidden, intermediate;
    int turned; /* blocks of a column side by side, as GPTQ has them */
};

static const struct source sources[] = {
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F32, 4, 0, 128, 128, 320, 512, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_BF16, 2, 0, 128, 128, 100, 512, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F16, 2, 0, 64, 32, 90, 512, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F8_E8M0, 1, 0, 16, 32, 200, 384, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F32, 4, 0, 1, ALL, 70, 148, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_BF16, 2, 0, ALL, ALL, 70, 148, 0},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F16, 2, 0, 3, ALL, 50, 204, 1},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, KT_DTYPE_F8_E8M0, 1, 0, 1, 32, 96, 384, 0},
    {"bf16", KT_DTYPE_BF16, 1, 2, KT_DTYPE_NONE, 0, 0, 0, 0, 1071, 148, 0},
    {"bf16", KT_DTYPE_BF16, 1, 2, KT_DTYPE_NONE, 0, 0, 0, 0, 64, 1200, 1},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_BF16, 2, 0, 1, 32, 1120, 384, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F16, 2, 1, 1, 64, 200, 512, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F16, 2, 0, 1, 32, 96, 256, 1},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F32, 4, 1, 1, ALL, 72, 160, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_BF16, 2, 1, 32, 32, 104, 512, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_BF16, 2, 0, 1, 16, 232, 384, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F16, 2, 1, 1, 48, 200, 576, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F16, 2, 0, 1, 8, 72, 160, 1},
    {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_BF16, 2, 1, 32, 16, 104, 512, 0},
    {"rawint4", KT_DTYPE_F4_E2M1, 8, 4, KT_DTYPE_F8_E8M0, 1, 0, 1, 32, 160, 384, 0},
};
#define N_SOURCES (int)(sizeof sources / sizeof sources[0])

static uint64_t random_state;
static bool has_gate = true; /* of the experts that are made */

static uint8_t random_byte(void)
{
    return (uint8_t)(fixture_uniform(&random_state) * 256);
}

static uint8_t *random_bytes(uint64_t size)
{
    uint8_t *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = random_byte();
    return bytes;
}

/* Any finite number of the type: subnormal and negative ones too. */
static void make_finite(uint8_t *at, uint32_t dtype)
{
    static const float ones[] = {1.0f, -0.0f, 0x1p-140f};
    if (dtype == KT_DTYPE_F8_E8M0 && *at == 255)
        *at = 0;
    if (dtype == KT_DTYPE_F16 && (at[1] & 0x7c) == 0x7c)
        at[1] &= 0x83;
    if (dtype == KT_DTYPE_BF16 && (at[1] & 0x7f) == 0x7f && at[0] & 0x80)
        at[1] &= 0x80;
    if (dtype == KT_DTYPE_F32 && (at[3] & 0x7f) == 0x7f && at[2] & 0x80)
        memcpy(at, &ones[at[0] % 3], sizeof ones[0]);
}

static void make_values(struct kt_scales *scales, uint32_t dtype, uint32_t bytes, const struct source *source,
                        const struct kt_view *view)
{
    uint64_t group_rows = source->group_rows < view->rows ? source->group_rows : view->rows;
    uint64_t group_cols = source->group_cols < view->cols ? source->group_cols : view->cols;
    uint64_t rows = (view->rows + group_rows - 1) / group_rows;
    uint64_t cols = (view->cols + group_cols - 1) / group_cols, stride = source->turned ? rows : cols;
    uint8_t *data = random_bytes(rows * cols * bytes);
    for (uint64_t i = 0; i < rows * cols && dtype != KT_DTYPE_U8; i++) {
        make_finite(data + i * bytes, dtype);
        if (bytes > 1 && view->dtype != KT_DTYPE_INT4) /* only integers have scales below 0 */
            data[(i + 1) * bytes - 1] &= 0x7f;
    }
    *scales = (struct kt_scales){
        .data = data,
        .size = rows * cols * bytes,
        .dtype = dtype,
        .group_rows = group_rows,
        .group_cols = group_cols,
        .row_stride = (int64_t)(source->turned ? bytes : stride * bytes),
        .col_stride = (int64_t)(source->turned ? stride * bytes : bytes),
    };
}

/* Rows have some bytes between them. */
static void make_view(struct kt_view *view, const struct source *source, uint64_t rows, uint64_t cols)
{
    uint64_t blocks = cols / source->elements, row = blocks * source->bytes + 12;
    uint64_t column = rows * source->bytes + 8;
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = source->dtype;
    view->rows = rows;
    view->cols = cols;
    view->size = source->turned ? column * blocks : row * rows;
    view->data = random_bytes(view->size);
    view->row_stride = (int64_t)(source->turned ? source->bytes : row);
    view->block_stride = (int64_t)(source->turned ? column : source->bytes);
    if (source->scale_dtype)
        make_values(&view->scales, source->scale_dtype, source->scale_bytes, source, view);
    if (source->zeros)
        make_values(&view->zeros, KT_DTYPE_U8, 1, source, view);
}

static void free_view(const struct kt_view *view)
{
    free((void *)(uintptr_t)view->data);
    free((void *)(uintptr_t)view->scales.data);
    free((void *)(uintptr_t)view->zeros.data);
}

static void make_experts(const struct source *source, struct kt_expert *experts)
{
    memset(experts, 0, EXPERTS * sizeof *experts);
    for (int e = 0; e < EXPERTS; e++) {
        if (has_gate)
            make_view(&experts[e].gate, source, source->intermediate, source->hidden);
        make_view(&experts[e].up, source, source->intermediate, source->hidden);
        make_view(&experts[e].down, source, source->hidden, source->intermediate);
    }
}

static void free_experts(const struct kt_expert *experts)
{
    for (int e = 0; e < EXPERTS; e++) {
        free_view(&experts[e].gate);
        free_view(&experts[e].up);
        free_view(&experts[e].down);
    }
}

/* ---- the definition ---- */

/* Appends rows and columns of a view, dense. */
static uint64_t copy_codes(const struct source *source, const struct kt_view *view, const uint64_t *range,
                           uint8_t *to)
{
    uint8_t *at = to;
    for (uint64_t row = range[0]; view->data && row < range[1]; row++)
        for (uint64_t col = range[2]; col < range[3]; col += source->elements, at += source->bytes)
            memcpy(at,
                   (const uint8_t *)view->data + (int64_t)row * view->row_stride +
                       (int64_t)(col / source->elements) * view->block_stride,
                   source->bytes);
    return (uint64_t)(at - to);
}

/* Every group of which the range has a weight. */
static uint64_t copy_values(const struct kt_scales *scales, uint32_t bytes, const uint64_t *range,
                            uint8_t *to)
{
    uint8_t *at = to;
    for (uint64_t row = range[0], next_row; scales->data && row < range[1]; row = next_row) {
        next_row = (row / scales->group_rows + 1) * scales->group_rows;
        for (uint64_t col = range[2], next; col < range[3]; col = next, at += bytes) {
            next = (col / scales->group_cols + 1) * scales->group_cols;
            memcpy(at,
                   (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride +
                       (int64_t)(col / scales->group_cols) * scales->col_stride,
                   bytes);
        }
    }
    return (uint64_t)(at - to);
}

/* ---- buffers with an edge that nobody may write ---- */

enum { W13, W13_SCALES, W13_ZEROS, W2, W2_SCALES, W2_ZEROS, PARTS };
struct rank {
    uint8_t *part[PARTS];
    uint64_t size[PARTS];
};

static struct kt_unpack_buffers make_rank(struct rank *rank, const struct kt_unpack_info *info)
{
    const uint64_t sizes[PARTS] = {info->w13.size, info->w13.scale_size, info->w13.zero_size,
                                   info->w2.size,  info->w2.scale_size,  info->w2.zero_size};
    for (int p = 0; p < PARTS; p++) {
        rank->size[p] = sizes[p];
        rank->part[p] = malloc(sizes[p] + 2 * CANARY);
        ck_assert_ptr_nonnull(rank->part[p]);
        memset(rank->part[p], 0xa5, sizes[p] + 2 * CANARY);
    }
    void *at[PARTS];
    for (int p = 0; p < PARTS; p++)
        at[p] = sizes[p] ? rank->part[p] + CANARY : NULL;
    return (struct kt_unpack_buffers){at[0], at[1], at[2], at[3], at[4], at[5]};
}

static void check_part(const struct rank *rank, int part, const uint8_t *expected, uint64_t size)
{
    const uint8_t *bytes = rank->part[part];
    ck_assert_msg(rank->size[part] == size, "part %d has %llu bytes, not %llu", part,
                  (unsigned long long)rank->size[part], (unsigned long long)size);
    for (uint64_t i = 0; i < size; i++)
        if (bytes[CANARY + i] != expected[i])
            ck_abort_msg("part %d, byte %llu of %llu: %02x instead of %02x", part, (unsigned long long)i,
                         (unsigned long long)size, bytes[CANARY + i], expected[i]);
    for (uint64_t i = 0; i < CANARY; i++)
        if (bytes[i] != 0xa5 || bytes[CANARY + size + i] != 0xa5)
            ck_abort_msg("part %d is written past its end", part);
}

static void check_rank(const struct source *source, const struct kt_expert *expert, uint32_t rank,
                       uint64_t slice, const struct rank *got)
{
    const uint64_t rows[4] = {rank * slice, (rank + 1) * slice, 0, source->hidden};
    const uint64_t columns[4] = {0, source->hidden, rank * slice, (rank + 1) * slice};
    static uint8_t expected[1 << 22];
    uint64_t n = copy_codes(source, &expert->gate, rows, expected);
    n += copy_codes(source, &expert->up, rows, expected + n);
    check_part(got, W13, expected, n);
    check_part(got, W2, expected, copy_codes(source, &expert->down, columns, expected));
    n = copy_values(&expert->gate.scales, source->scale_bytes, rows, expected);
    n += copy_values(&expert->up.scales, source->scale_bytes, rows, expected + n);
    check_part(got, W13_SCALES, expected, n);
    n = copy_values(&expert->down.scales, source->scale_bytes, columns, expected);
    check_part(got, W2_SCALES, expected, n);
    n = copy_values(&expert->gate.zeros, 1, rows, expected);
    n += copy_values(&expert->up.zeros, 1, rows, expected + n);
    check_part(got, W13_ZEROS, expected, n);
    check_part(got, W2_ZEROS, expected, copy_values(&expert->down.zeros, 1, columns, expected));
}

static void free_ranks(struct rank *ranks, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        for (int p = 0; p < PARTS; p++)
            free(ranks[r].part[p]);
}

/* ---- layers ---- */

static struct kt_context *make_context(const char *backend, const char *module, const char *level, int nodes)
{
    char path[512], levels[64], threads[64], nodes_text[64];
    (void)snprintf(path, sizeof path, "plugin.%s.module=%s", backend, module);
    (void)snprintf(levels, sizeof levels, "plugin.%s.level=%s", backend, level);
    (void)snprintf(threads, sizeof threads, "core.threads=%d", 2 * nodes);
    (void)snprintf(nodes_text, sizeof nodes_text, "numa:%d core:2 pu:1", nodes);
    ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", nodes_text, 1), 0);
    struct kt_context *context =
        fixture_context_with((const char *const[]){path, levels, threads, "core.strict=yes"}, 4);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    struct kt_context_info info;
    kt_context_info(context, &info);
    ck_assert_uint_eq(info.n_nodes, (unsigned)nodes);
    return context;
}

static const int64_t map[EXPERTS] = {2, 0, 1};

static struct kt_layer *make_layer(struct kt_context *context, const struct source *source,
                                   const int64_t *expert_map)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = EXPERTS;
    params.top_k = 2;
    params.hidden_size = source->hidden;
    params.intermediate_size = source->intermediate;
    params.max_tokens = 4;
    params.backend = source->backend;
    params.expert_map = expert_map;
    params.activation = has_gate ? KT_ACTIVATION_SILU : KT_ACTIVATION_RELU2;
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    return layer;
}

static struct kt_layer *load_layer(struct kt_context *context, const struct source *source,
                                   const struct kt_expert *experts)
{
    struct kt_layer *layer = make_layer(context, source, map);
    ck_ok(kt_layer_load(layer, experts, EXPERTS, &ck_error));
    return layer;
}

/* ---- tests ---- */

static void unpack_all(struct kt_layer *layer, const struct source *source, const struct kt_expert *experts,
                       uint32_t n_ranks)
{
    struct kt_unpack_info info;
    struct kt_unpack_buffers to[4];
    struct rank ranks[4];
    ck_ok(kt_layer_unpack_info(layer, n_ranks, &info, &ck_error));
    ck_assert_uint_eq(info.n_ranks, n_ranks);
    ck_assert_uint_eq(info.w13.dtype, source->dtype);
    ck_assert_uint_eq(info.w2.scale_dtype, source->scale_dtype);
    ck_assert_uint_eq(info.w2.zero_dtype, source->zeros ? (unsigned)KT_DTYPE_U8 : (unsigned)KT_DTYPE_NONE);
    ck_assert_uint_eq(info.w13.size, info.w13.rows * info.w13.row_size);
    ck_assert_uint_eq(info.w13.rows, (has_gate ? 2 : 1) * source->intermediate / n_ranks);
    ck_assert_uint_eq(info.w2.rows, source->hidden);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        for (uint32_t r = 0; r < n_ranks; r++)
            to[r] = make_rank(&ranks[r], &info);
        ck_ok(kt_layer_unpack(layer, e, n_ranks, to, &ck_error));
        for (uint32_t r = 0; r < n_ranks; r++)
            check_rank(source, &experts[map[e]], r, source->intermediate / n_ranks, &ranks[r]);
        free_ranks(ranks, n_ranks);
    }
}

/* On 1, 2 and 3 nodes for 1, 2 and 4 ranks. */
static void bring_back(const struct source *source, const char *level, int most_nodes)
{
    struct kt_expert experts[EXPERTS];
    const char *module = sandbox_backend(source->backend);
    if (!module)
        return;
    make_experts(source, experts);
    for (int nodes = 1; nodes <= most_nodes; nodes++) {
        struct kt_context *context = make_context(source->backend, module, level, nodes);
        struct kt_layer *layer = load_layer(context, source, experts);
        for (uint32_t n_ranks = 1; n_ranks <= 4; n_ranks *= 2)
            unpack_all(layer, source, experts, n_ranks);
        kt_layer_destroy(layer);
        kt_context_destroy(context);
    }
    free_experts(experts);
}

/* Each source, packed by the best level and by plain C; then without a gate. */
START_TEST(experts_come_back_byte_for_byte)
{
    random_state = (uint64_t)_i + 41;
    has_gate = _i < 2 * N_SOURCES;
    bring_back(&sources[_i % N_SOURCES], _i / N_SOURCES == 1 ? "scalar" : "auto", has_gate ? 3 : 2);
    has_gate = true;
}
END_TEST

/* One ticket after the other, as many ranks as the slice divides into; forwards go in between. */
START_TEST(tickets)
{
    const struct source *source = &sources[N_SOURCES - 1];
    struct kt_expert experts[EXPERTS];
    struct rank ranks[EXPERTS][4];
    struct kt_unpack_buffers to[EXPERTS][4];
    struct kt_unpack_info info;
    uint64_t ticket[EXPERTS], between[EXPERTS];
    float input[160] = {1}, output[EXPERTS][160];
    int64_t ids[] = {0, 1};
    float weights[] = {1, 1};
    if (!sandbox_backend(source->backend))
        return;
    random_state = 7;
    make_experts(source, experts);
    struct kt_context *context = make_context(source->backend, sandbox_backend(source->backend), "auto", 2);
    struct kt_layer *layer = load_layer(context, source, experts);
    ck_ok(kt_layer_unpack_info(layer, 4, &info, &ck_error));
    for (uint32_t e = 0; e < EXPERTS; e++) {
        struct kt_forward forward = {.struct_size = sizeof forward,
                                     .n_tokens = 1,
                                     .expert_ids = ids,
                                     .router_weights = weights,
                                     .input = input,
                                     .output = output[e],
                                     .input_dtype = KT_DTYPE_F32,
                                     .output_dtype = KT_DTYPE_F32};
        for (uint32_t r = 0; r < 4; r++)
            to[e][r] = make_rank(&ranks[e][r], &info);
        ck_ok(kt_layer_submit_unpack(layer, e, 4, to[e], &ticket[e], &ck_error));
        ck_ok(kt_layer_submit(layer, &forward, &between[e], &ck_error));
    }
    for (uint32_t e = 0; e < EXPERTS; e++) {
        ck_ok(kt_wait(context, ticket[e], &ck_error));
        ck_ok(kt_wait(context, between[e], &ck_error));
        for (uint32_t r = 0; r < 4; r++)
            check_rank(source, &experts[map[e]], r, source->intermediate / 4, &ranks[e][r]);
        free_ranks(ranks[e], 4);
        ck_assert_mem_eq(output[e], output[0], sizeof output[0]);
    }
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    free_experts(experts);
}
END_TEST

static void expect(enum kt_status status, enum kt_status wanted, const char *words,
                   const struct kt_error *error)
{
    ck_assert_msg(status == wanted && strstr(error->message, words), "%s (%s) instead of %s, %s",
                  kt_status_name(status), error->message, kt_status_name(wanted), words);
}

static void refuse_calls(const struct source *source)
{
    struct kt_expert experts[EXPERTS];
    struct kt_unpack_info info;
    struct kt_unpack_buffers none[8] = {{0}};
    struct kt_error error = {0};
    uint64_t ticket;
    make_experts(source, experts);
    struct kt_context *context = make_context(source->backend, sandbox_backend(source->backend), "auto", 2);
    struct kt_layer *layer = make_layer(context, source, map);
    expect(kt_layer_unpack_info(layer, 1, &info, &error), KT_E_STATE, "load it first", &error);
    ck_ok(kt_layer_load(layer, experts, EXPERTS, &ck_error));
    expect(kt_layer_unpack_info(NULL, 1, &info, &error), KT_E_INVALID, "NULL", &error);
    expect(kt_layer_unpack_info(layer, 1, NULL, &error), KT_E_INVALID, "NULL", &error);
    expect(kt_layer_unpack_info(layer, 0, &info, &error), KT_E_INVALID, "n_ranks is 0", &error);
    expect(kt_layer_unpack_info(layer, 3, &info, &error), KT_E_UNSUPPORTED, "512 does not divide by 3",
           &error);
    expect(kt_layer_unpack_info(layer, 8, &info, &error), KT_E_UNSUPPORTED, "a scale for each 128 rows",
           &error);
    expect(kt_layer_unpack(layer, EXPERTS, 2, none, &error), KT_E_RANGE, "expert 3 does not exist", &error);
    expect(kt_layer_unpack(layer, 0, 2, NULL, &error), KT_E_INVALID, "ranks must not be NULL", &error);
    expect(kt_layer_unpack(layer, 0, 2, none, &error), KT_E_INVALID, "rank 0 has no buffer w13,", &error);
    none[0] = (struct kt_unpack_buffers){&info, &info, NULL, &info, &info, NULL};
    none[1] = (struct kt_unpack_buffers){&info, &info, NULL, &info, NULL, NULL};
    expect(kt_layer_submit_unpack(layer, 0, 2, none, &ticket, &error), KT_E_INVALID,
           "rank 1 has no buffer w2_scales,", &error);
    none[1].w2_scales = &info;
    expect(kt_layer_submit_unpack(layer, 0, 2, none, NULL, &error), KT_E_INVALID, "ticket", &error);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    free_experts(experts);
}

START_TEST(wrong_calls_are_refused)
{
    if (sandbox_backend("avx512_fp8"))
        refuse_calls(&sources[0]);
}
END_TEST

/* Columns in blocks of 8, and groups of columns alone. */
START_TEST(slices_that_would_cut_are_refused)
{
    static const struct source odd[] = {
        {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F32, 4, 0, 1, ALL, 64, 160, 0},
        {"rawint4", KT_DTYPE_INT4, 8, 4, KT_DTYPE_F32, 4, 0, 1, 64, 64, 192, 0},
    };
    static const char *const words[] = {"whose blocks have 8", "a scale for each 64 columns"};
    struct kt_expert experts[EXPERTS];
    struct kt_unpack_info info;
    struct kt_error error = {0};
    if (!sandbox_backend("rawint4"))
        return;
    make_experts(&odd[_i], experts);
    struct kt_context *context = make_context("rawint4", sandbox_backend("rawint4"), "auto", 1);
    struct kt_layer *layer = load_layer(context, &odd[_i], experts);
    expect(kt_layer_unpack_info(layer, _i ? 2 : 8, &info, &error), KT_E_UNSUPPORTED, words[_i], &error);
    unpack_all(layer, &odd[_i], experts, _i ? 1 : 4);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    free_experts(experts);
}
END_TEST

/* Weights that were rounded, and a backend that cannot do it. */
START_TEST(what_is_lost_is_not_given_back)
{
    static const struct source halves = {"bf16", KT_DTYPE_F16, 1, 2, KT_DTYPE_NONE, 0, 0, 0, 0, 64, 64, 0};
    struct source source = halves;
    struct kt_expert experts[EXPERTS];
    struct kt_unpack_info info;
    struct kt_error error = {0};
    struct kt_context *context;
    make_experts(&halves, experts);
    if (_i == 0) {
        if (!sandbox_backend("bf16"))
            return;
        char module[512];
        (void)snprintf(module, sizeof module, "plugin.bf16.module=%s", sandbox_backend("bf16"));
        context = fixture_context_with((const char *const[]){module, "plugin.bf16.wider=round"}, 2);
    } else {
        context = fixture_context(1);
        source.backend = "reference";
    }
    struct kt_layer *layer = load_layer(context, &source, experts);
    expect(kt_layer_unpack_info(layer, 1, &info, &error), KT_E_UNSUPPORTED,
           _i ? "backend reference cannot give weights back" : "was f16 and has been rounded", &error);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    free_experts(experts);
}
END_TEST

/* ---- stores ---- */

static const char stored_file[] = "store/layer-00003.safetensors";

/* A layer that a store's mapped file holds: experts are compared with their checksums when asked for. */
static int unpack_stored(struct kt_context *context, const struct source *source,
                         const struct kt_expert *experts)
{
    struct kt_checkpoint *store;
    struct kt_unpack_info info;
    struct kt_error error = {0};
    int n_failed = 0;
    ck_ok(kt_checkpoint_open(sandbox_path("store"), NULL, &store, &ck_error));
    struct kt_layer *layer = make_layer(context, source, NULL);
    ck_ok(kt_layer_load_checkpoint(layer, store, 3, &ck_error));
    ck_ok(kt_layer_unpack_info(layer, 2, &info, &ck_error));
    for (uint32_t e = 0; e < EXPERTS; e++) {
        struct rank ranks[2];
        struct kt_unpack_buffers to[2] = {make_rank(&ranks[0], &info), make_rank(&ranks[1], &info)};
        enum kt_status status = kt_layer_unpack(layer, e, 2, to, &error);
        ck_assert_msg(status == KT_OK || status == KT_E_FORMAT, "%s", error.message);
        n_failed += status != KT_OK;
        for (uint32_t r = 0; r < 2 && status == KT_OK; r++)
            check_rank(source, &experts[e], r, source->intermediate / 2, &ranks[r]);
        free_ranks(ranks, 2);
    }
    kt_layer_destroy(layer);
    kt_checkpoint_close(store);
    return n_failed;
}

static void write_store(struct kt_context *context, const struct source *source,
                        struct kt_checkpoint *checkpoint)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_layer *layer = make_layer(context, source, NULL);
    sandbox_folder("store");
    params.folder = sandbox_path("store");
    ck_ok(kt_layer_store(layer, checkpoint, 3, &params, &ck_error));
    kt_layer_destroy(layer);
}

static void damage_store(void)
{
    static uint8_t bytes[1 << 17];
    FILE *file = fopen(sandbox_path(stored_file), "r");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    ck_assert(feof(file));
    ck_assert_int_eq(fclose(file), 0);
    bytes[size - 100] ^= 1;
    sandbox_write_bytes(stored_file, bytes, size);
}

START_TEST(weights_of_a_store)
{
    static const struct source source = {"bf16", KT_DTYPE_BF16, 1, 2, KT_DTYPE_NONE, 0, 0, 0, 0, 32, 32, 0};
    struct model model = MODEL_INIT;
    struct bytes bytes = {.size = 0};
    struct kt_checkpoint *checkpoint;
    struct kt_expert experts[EXPERTS];
    if (!sandbox_backend("bf16"))
        return;
    model.experts = model.e = EXPERTS;
    model.has_types = 1;
    for (int i = 0; i < 6; i++)
        model.types[i / 3][i % 3] = 30; /* BF16 */
    (void)build_model(&bytes, &model);
    sandbox_write_bytes("model.gguf", bytes.data, bytes.size);
    struct kt_context *context = make_context("bf16", sandbox_backend("bf16"), "auto", 1);
    ck_ok(kt_checkpoint_open(sandbox_path("model.gguf"), NULL, &checkpoint, &ck_error));
    ck_ok(kt_checkpoint_experts(checkpoint, 3, experts, EXPERTS, &ck_error));
    write_store(context, &source, checkpoint);
    ck_assert_int_eq(unpack_stored(context, &source, experts), 0);
    damage_store();
    ck_assert_int_eq(unpack_stored(context, &source, experts), 1);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("unpack");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, experts_come_back_byte_for_byte, 0, 3 * N_SOURCES);
    tcase_add_test(tests, tickets);
    tcase_add_test(tests, wrong_calls_are_refused);
    tcase_add_loop_test(tests, slices_that_would_cut_are_refused, 0, 2);
    tcase_add_loop_test(tests, what_is_lost_is_not_given_back, 0, 2);
    tcase_add_test(tests, weights_of_a_store);
    return run_tests("unpack", tests);
}
