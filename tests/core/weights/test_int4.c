/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of 4 bits, in every layout, prefix and group: each weight against float64, and a layer. */
#include "core/weights/weights.h"
#include "core/weights/decode/view.h"
#include "tests/support/int4_build.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG(text) "{\"num_experts\":3,\"hidden_size\":64,\"quantization_config\":" text "}"
#define COMPRESSED(weights)                                                                      \
    CONFIG("{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","             \
           "\"ignore\":[\"lm_head\",\"re:.*shared_experts.*\"],\"config_groups\":{\"group_0\":{" \
           "\"targets\":[\"Linear\"],\"weights\":{" weights "}}}}")

static const struct {
    enum layout layout;
    uint64_t group;
    const char *scale, *prefix, *experts, *config;
    unsigned zero;
} models[] = {
    {PACKED_WORDS, 32, "BF16", "model.layers.", "mlp.experts", NULL, 0},
    {PACKED_WORDS, 32, "BF16", "language_model.model.layers.", "mlp.experts",
     COMPRESSED("\"num_bits\":4,\"type\":\"int\",\"strategy\":\"group\",\"group_size\":32,"
                "\"symmetric\":true,\"dynamic\":false,\"actorder\":null"),
     0},
    {PACKED_WORDS, 16, "F16", "model.language_model.layers.", "block_sparse_moe.experts", NULL, 0},
    {PACKED_BYTES, 8, "F32", "layers.", "experts", NULL, 0},
    {PACKED_WORDS, 8, "BF16", "layers.", "experts",
     COMPRESSED("\"num_bits\":4,\"strategy\":\"group\",\"group_size\":8,\"symmetric\":true"), 0},
    {PACKED_BYTES, 16, "BF16", "model.layers.", "mlp.experts", NULL, 0},
    {PACKED_BYTES, 0, "BF16", "model.layers.", "mlp.experts",
     COMPRESSED("\"num_bits\":4,\"strategy\":\"channel\",\"group_size\":null"), 0},
    {PACKED_WORDS, 0, "F32", "model.layers.", "mlp.experts", COMPRESSED("\"num_bits\":4,\"group_size\":-1"),
     0},
    /* Another group of modules says something else. */
    {PACKED_WORDS, 32, "BF16", "model.layers.", "mlp.experts",
     CONFIG("{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
            "\"a\":{\"targets\":[\"re:.*shared_experts.*\"],\"weights\":{\"num_bits\":8}},"
            "\"b\":{\"targets\":[\"re:.*mlp.experts.*\"],\"weights\":{\"num_bits\":4,"
            "\"group_size\":32}}}}"),
     0},
    /* It is not the group that names experts, which may be of other layers. */
    {PACKED_WORDS, 32, "BF16", "model.layers.", "mlp.experts",
     CONFIG("{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
            "\"a\":{\"targets\":[\"re:.*layers.0.mlp.experts.*\"],\"weights\":{\"num_bits\":4,"
            "\"group_size\":16}},\"b\":{\"targets\":[\"re:.*experts.*\"],\"weights\":{"
            "\"num_bits\":8,\"type\":\"float\",\"block_structure\":[128,128]}},"
            "\"c\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"group_size\":32}}}}"),
     0},
    {PACKED_WORDS, 32, "BF16", "model.layers.", "mlp.experts",
     CONFIG("{\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":8}},"
            "\"b\":{\"weights\":{\"num_bits\":2}}}}"),
     0},
    {GPTQ, 32, "F16", "model.layers.", "mlp.experts", NULL, 0},
    {GPTQ, 16, "BF16", "layers.", "block_sparse_moe.experts",
     CONFIG("{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":16,\"sym\":true,"
            "\"desc_act\":false,\"checkpoint_format\":\"gptq\"}"),
     0},
    {GPTQ, 0, "F32", "model.layers.", "experts",
     CONFIG("{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1,\"sym\":true}"), 0},
    {GPTQ, 32, "F16", "model.layers.", "mlp.experts",
     CONFIG("{\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"}"), 8},
    {AWQ, 32, "F16", "model.layers.", "mlp.experts", NULL, 0},
    {AWQ, 16, "F16", "language_model.model.layers.", "mlp.experts",
     CONFIG("{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":16,\"zero_point\":true,"
            "\"version\":\"GEMM\",\"modules_to_not_convert\":[\"gate\"]}"),
     0},
    {AWQ, 0, "BF16", "model.layers.", "block_sparse_moe.experts", NULL, 0},
    {MX, 32, "F8_E8M0", "layers.", "ffn.experts", NULL, 0},
    {MX_F4, 32, "F8_E8M0", "layers.", "ffn.experts", NULL, 0},
    {MX, 32, "U8", "model.layers.", "ffn.experts",
     /* DeepSeek-V4's: its blocks are those of what is FP8. */
     CONFIG("{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"scale_fmt\":\"ue8m0\"}"), 0},
    {GPT_OSS, 32, "U8", "model.layers.", "mlp.experts", NULL, 0},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static struct model right(int i)
{
    struct model model = model_of(models[i].layout);
    model.group = models[i].group;
    model.scale = models[i].scale;
    model.prefix = models[i].prefix;
    model.experts = models[i].experts;
    model.zero = models[i].zero;
    if (models[i].config)
        model.config = models[i].config;
    return model;
}

static const struct kt_view *view_of(const struct kt_expert *expert, int p)
{
    return p == KT_GATE ? &expert->gate : p == KT_UP ? &expert->up : &expert->down;
}

static void expect_experts(const struct model *model, const struct kt_expert *experts)
{
    float row[LARGEST];
    bool four = model->layout == MX || model->layout == MX_F4 || model->layout == GPT_OSS;
    for (int e = 0; e < EXPERTS; e++)
        for (int p = KT_GATE; p <= KT_DOWN; p++) {
            const struct kt_view *view = view_of(&experts[e], p);
            ck_assert_msg(kt_view_check(view, &problem) == KT_OK, "%s", problem.message);
            ck_assert_uint_eq(view->dtype, four ? KT_DTYPE_F4_E2M1 : KT_DTYPE_INT4);
            ck_assert_uint_eq(view->rows, rows_of(p));
            ck_assert_uint_eq(view->cols, cols_of(p));
            for (uint64_t r = 0; r < view->rows; r++) {
                ck_assert_int_eq(kt_view_row(view, r, row, &problem), KT_OK);
                /* libcheck writes every assertion to a file. */
                for (uint64_t c = 0; c < view->cols; c++)
                    if (row[c] != (float)weight_of(model, e, p, r, c))
                        ck_abort_msg("%s: row %d, column %d: %g is not %g", view->name, (int)r, (int)c,
                                     (double)row[c], weight_of(model, e, p, r, c));
            }
        }
}

START_TEST(every_weight)
{
    struct model model = right(_i);
    struct kt_expert experts[EXPERTS];
    struct kt_moe_info moe;
    model_write(&model);
    for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
        struct kt_checkpoint *checkpoint = open_model((enum kt_io)io);
        ck_assert_str_eq(logged, "");
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 3, &moe, &problem), KT_OK);
        ck_assert_uint_eq(moe.n_experts, EXPERTS);
        ck_assert_uint_eq(moe.hidden_size, HIDDEN);
        ck_assert_uint_eq(moe.intermediate_size, INTERMEDIATE);
        ck_assert_msg(kt_checkpoint_experts(checkpoint, 3, experts, EXPERTS, &problem) == KT_OK, "%s",
                      problem.message);
        expect_experts(&model, experts);
        uint64_t size = 0;
        for (int e = 0; e < EXPERTS; e++)
            for (int p = KT_GATE; p <= KT_DOWN; p++)
                size += kt_view_bytes(view_of(&experts[e], p));
        uint64_t zeros = 0; /* four bits each in the file, eight where they are shown */
        for (int p = KT_GATE; p <= KT_DOWN; p++)
            zeros += EXPERTS * rows_of(p) * (model.group ? cols_of(p) / model.group : 1) / 2;
        ck_assert_uint_eq(moe.size, model.layout == AWQ    ? size - zeros
                                    : model.layout == GPTQ ? size + zeros
                                                           : size);
        ck_assert_uint_eq(moe.dtype[KT_DOWN], experts[0].down.dtype);
        /* Nothing but AWQ's is copied where the file is mapped. */
        ck_assert_int_eq(kt_checkpoint_use(checkpoint, 3, experts, EXPERTS, &problem), KT_OK);
        ck_assert_int_eq(kt_checkpoint_release_layer(checkpoint, 3, &problem), KT_OK);
        expect_experts(&model, experts);
        kt_checkpoint_unuse(checkpoint, 3);
        /* Decoded again after nobody had them. */
        ck_assert_int_eq(kt_checkpoint_use(checkpoint, 3, experts, EXPERTS, &problem), KT_OK);
        expect_experts(&model, experts);
        kt_checkpoint_unuse(checkpoint, 3);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* ---- a layer ---------------------------------------------------------------------------------- */

enum { TOKENS = 4, CHOSEN = 2 };

/*
 * What a backend multiplies. The reference: the numbers as they are. rawint4: activations, x and h, rounded
 * to bfloat16, with codes; or these as whole numbers of a unit that 32 of them share; or with weights that
 * are rounded to bfloat16 too. Which of these depends on the level and on how many rows an expert has.
 */
enum way { EXACT, CODES, WHOLE, ROUNDED };

/*
 * The errors of float32 that remain, relative. Of rawint4, CODES goes farthest: int4 enters as 128 + code and
 * is 30 times as large as what is left of it when the offset is taken off; of the roundings of 96 columns,
 * 2^-25 each and of either sign, 10 add up: 300 * 2^-25.
 */
#define REFERENCE_ERROR 1e-6
#define RAWINT4_ERROR 1e-5
/* Of one h: sums of x times codes are exact, so this is of the scales and of the activation function. */
#define H_ERROR 0x1p-18

/* To so many bits, ties to even. */
static double round_bits(double value, int bits)
{
    int exponent;
    (void)frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(value, bits - exponent)), exponent - bits);
}

static double round_bf16(double value)
{
    return round_bits(value, 8);
}

/* n activations, in place, a multiple of 32. */
static void round_row(enum way way, double *x, uint64_t n)
{
    for (uint64_t i = 0; i < n && way != EXACT; i++)
        x[i] = round_bf16(x[i]);
    for (uint64_t first = 0; first < n && way == WHOLE; first += 32) {
        double most = 0;
        int exponent;
        for (uint64_t i = first; i < first + 32; i++)
            most = fmax(most, fabs(x[i]));
        (void)frexp(most, &exponent);
        for (uint64_t i = first; i < first + 32; i++)
            x[i] = ldexp(nearbyint(ldexp(x[i], 14 - exponent)), exponent - 14);
    }
}

static double multiplied_weight(const struct model *model, enum way way, int e, int p, uint64_t r, uint64_t c)
{
    double weight = weight_of(model, e, p, r, c);
    return way == ROUNDED ? round_bf16(weight) : weight;
}

static double activate(const struct model *model, double gate, double up)
{
    if (model->layout != GPT_OSS)
        return gate / (1 + exp(-gate)) * up;
    gate = fmin(gate, 7);
    up = fmax(fmin(up, 7), -7);
    return gate / (1 + exp(-1.702 * gate)) * (up + 1);
}

/* Adds to what a token gives, and to how far it may be off: an h close to the middle between two bfloat16
 * numbers may become either. */
static void expect_expert(const struct model *model, enum way way, int e, const double *x, double weight,
                          double *sum, double *doubt)
{
    double h[INTERMEDIATE], apart[INTERMEDIATE], bias = model->layout == GPT_OSS;
    for (uint64_t i = 0; i < INTERMEDIATE; i++) {
        double gate = bias * bias_of(e, KT_GATE, i), up = bias * bias_of(e, KT_UP, i);
        for (uint64_t c = 0; c < HIDDEN; c++) {
            gate += multiplied_weight(model, way, e, KT_GATE, i, c) * x[c];
            up += multiplied_weight(model, way, e, KT_UP, i, c) * x[c];
        }
        h[i] = activate(model, gate, up);
        apart[i] =
            way == EXACT ? 0 : fabs(round_bf16(h[i] * (1 + H_ERROR)) - round_bf16(h[i] * (1 - H_ERROR)));
    }
    round_row(way, h, INTERMEDIATE);
    for (uint64_t r = 0; r < HIDDEN; r++) {
        double y = bias * bias_of(e, KT_DOWN, r);
        for (uint64_t c = 0; c < INTERMEDIATE; c++) {
            double w = multiplied_weight(model, way, e, KT_DOWN, r, c);
            y += w * h[c];
            doubt[r] += weight * fabs(w) * apart[c];
        }
        sum[r] += weight * y;
    }
}

/* The error of all outputs, relative to them, beside what they may be off. */
static double find_error(const struct model *model, enum way way, const struct kt_forward *forward)
{
    const float *input = forward->input, *output = forward->output;
    double wrong = 0, size = 0;
    for (uint32_t t = 0; t < forward->n_tokens; t++) {
        double x[HIDDEN], sum[HIDDEN] = {0}, doubt[HIDDEN] = {0};
        for (uint32_t c = 0; c < HIDDEN; c++)
            x[c] = (double)input[t * HIDDEN + c];
        round_row(way, x, HIDDEN);
        for (uint32_t k = t * CHOSEN; k < (t + 1) * CHOSEN; k++)
            expect_expert(model, way, (int)forward->expert_ids[k], x, (double)forward->router_weights[k], sum,
                          doubt);
        for (uint32_t r = 0; r < HIDDEN; r++) {
            double error = fabs((double)output[t * HIDDEN + r] - sum[r]);
            wrong += pow(fmax(error - doubt[r], 0), 2);
            size += pow(sum[r], 2);
        }
    }
    ck_assert(size > 0);
    return sqrt(wrong / size);
}

static struct kt_layer *load_layer(const struct model *model, const char *backend, struct kt_context *context)
{
    struct kt_layer *layer;
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    model_write(model);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_layer_params(checkpoint, 3, &params, &problem), KT_OK);
    params.max_tokens = TOKENS;
    params.top_k = CHOSEN;
    params.backend = backend;
    ck_assert_msg(kt_layer_create(context, &params, &layer, &problem) == KT_OK, "%s", problem.message);
    ck_assert_msg(kt_layer_load_checkpoint(layer, checkpoint, 3, &problem) == KT_OK, "%s", problem.message);
    kt_checkpoint_close(checkpoint);
    return layer;
}

/* The backend may multiply in any of the ways first..last, but all of a batch in one. With n tokens two
 * experts have n rows each: rawint4's level avx2 turns to ROUNDED at 4. */
static void expect_layer(const struct model *model, const char *backend, enum way first, enum way last,
                         double most)
{
    struct kt_context *context;
    static float x[TOKENS * HIDDEN], y[TOKENS * HIDDEN];
    int64_t ids[TOKENS * CHOSEN];
    float weights[TOKENS * CHOSEN];
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        x[i] = (float)((i * 37 + i * i) % 31 - 15) / 32;
    for (int i = 0; i < TOKENS * CHOSEN; i++) {
        ids[i] = (i / CHOSEN + i) % EXPERTS;
        weights[i] = 0.25f + 0.125f * (float)i;
    }
    ck_assert_msg(kt_context_create(NULL, &context, &problem) == KT_OK, "%s", problem.message);
    struct kt_layer *layer = load_layer(model, backend, context);
    for (unsigned n = TOKENS - 1; n <= TOKENS; n++) {
        struct kt_forward forward = {.struct_size = sizeof forward,
                                     .n_tokens = n,
                                     .top_k = CHOSEN,
                                     .expert_ids = ids,
                                     .router_weights = weights,
                                     .input = x,
                                     .output = y,
                                     .input_dtype = KT_DTYPE_F32,
                                     .output_dtype = KT_DTYPE_F32};
        double error = INFINITY;
        ck_assert_msg(kt_layer_forward(layer, &forward, &problem) == KT_OK, "%s", problem.message);
        for (enum way way = first; way <= last; way++)
            error = fmin(error, find_error(model, way, &forward));
        ck_assert_msg(error < most, "the error is %g with %u tokens", error, n);
    }
    kt_layer_destroy(layer);
    kt_context_destroy(context);
}

START_TEST(a_layer)
{
    struct model model = right(_i);
    expect_layer(&model, "reference", EXACT, EXACT, REFERENCE_ERROR);
}
END_TEST

/* Makes the plugin known, and sets its level; false: it was not built. */
static bool enable_rawint4(const char *level)
{
    const char *module = sandbox_backend("rawint4");
    if (module)
        sandbox_write("shipped/rawint4.ini",
                      "[plugin.rawint4]\nenabled = required\nmodule = %s\nlevel = %s\n", module, level);
    return module != NULL;
}

/* At the best level that runs here. */
START_TEST(a_layer_of_rawint4)
{
    struct model model = right(_i);
    if (!enable_rawint4("auto"))
        return;
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_STRICT", "yes", 1), 0);
    expect_layer(&model, "rawint4", CODES, ROUNDED, RAWINT4_ERROR);
}
END_TEST

/* So few rows are multiplied as codes. */
START_TEST(a_layer_of_rawint4_scalar)
{
    struct model model = right(_i);
    if (!enable_rawint4("scalar"))
        return;
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_STRICT", "yes", 1), 0);
    expect_layer(&model, "rawint4", CODES, CODES, RAWINT4_ERROR);
}
END_TEST

/* Of 64 columns and of 96. */
START_TEST(groups_that_rawint4_refuses)
{
    static const struct {
        uint64_t group;
        const char *message;
    } wrong[] = {
        {4, "not supported by backend rawint4: the gate projection has a scale for each 4 columns of 64; it "
            "must be a multiple"},
        {2, "not supported by backend rawint4: the gate projection has a scale for each 2 columns of 64; it "
            "must be a multiple"},
    };
    struct model model = model_of(PACKED_WORDS);
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_context *context;
    struct kt_layer *layer;
    if (!enable_rawint4("auto"))
        return;
    model.group = wrong[_i].group;
    model_write(&model);
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_STRICT", "yes", 1), 0);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_msg(kt_context_create(NULL, &context, &problem) == KT_OK, "%s", problem.message);
    ck_assert_int_eq(kt_checkpoint_layer_params(checkpoint, 3, &params, &problem), KT_OK);
    params.max_tokens = TOKENS;
    params.top_k = CHOSEN;
    params.backend = "rawint4";
    ck_assert_int_eq(kt_layer_create(context, &params, &layer, &problem), KT_OK);
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &problem), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(problem.message, wrong[_i].message) != NULL, "%s", problem.message);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
}
END_TEST

START_TEST(what_config_says_of_gpt_oss)
{
    struct model model = model_of(GPT_OSS);
    struct kt_moe_info moe;
    model_write(&model);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 3, &moe, &problem), KT_OK);
    ck_assert_uint_eq(moe.has_bias, 7);
    ck_assert_uint_eq(moe.activation, KT_ACTIVATION_SWIGLUOAI);
    ck_assert_float_eq(moe.alpha, 1.702f);
    ck_assert_float_eq(moe.limit, 7.0f);
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("int4");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_weight, 0, N_MODELS);
    tcase_add_loop_test(tests, a_layer, 0, N_MODELS);
    tcase_add_loop_test(tests, a_layer_of_rawint4, 0, N_MODELS);
    tcase_add_loop_test(tests, a_layer_of_rawint4_scalar, 0, N_MODELS);
    tcase_add_loop_test(tests, groups_that_rawint4_refuses, 0, 2);
    tcase_add_test(tests, what_config_says_of_gpt_oss);
    return run_tests("int4", tests);
}
