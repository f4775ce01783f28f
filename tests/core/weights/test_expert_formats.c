/* SPDX-License-Identifier: Apache-2.0 */
/* Number formats of experts in safetensors checkpoints: scales, formats that cannot be read. */
#include "tests/support/family_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- number formats ------------------------------------------------------------------------- */

static const struct scaled {
    uint64_t n, k;            /* the weight of gate */
    const char *part, *dtype; /* of the scales */
    unsigned n_dims;
    bool rows; /* the scales stand for rows, or for all: [n], [n][1], [1], [] */
    uint64_t block_rows, block_cols;
    const char *config;
} scaled[] = {
    {130, 257, "weight_scale_inv", "F32", 2, false, 128, 128, "{}"},
    {256, 128, "weight_scale_inv", "BF16", 2, false, 128, 128, "{}"},
    {130, 257, "weight_scale_inv", "F32", 2, false, 64, 32,
     "{\"quantization_config\":{\"weight_block_size\":[64,32]}}"},
    {100, 70, "weight_scale", "F16", 2, false, 16, 48,
     "{\"quantization_config\":{\"config_groups\":{\"group_0\":{\"weights\":{\"block_structure\":"
     "[16,48]}}}}}"},
    {100, 70, "weight_scale", "F16", 2, false, 16, 48,
     "{\"quantization_config\":{\"config_groups\":{\"group_0\":{\"weights\":{\"block_structure\":"
     "\"16x48\"}}}}}"},
    /* The block of any group of modules. */
    {100, 70, "weight_scale", "F16", 2, false, 16, 48,
     "{\"quantization_config\":{\"config_groups\":{"
     "\"a\":{\"targets\":[\"re:.*experts.*\"],\"weights\":{\"block_structure\":[128,128]}},"
     "\"b\":{\"targets\":[\"x\"],\"weights\":{\"num_bits\":4,\"group_size\":32}},"
     "\"c\":{\"targets\":[\"Linear\"],\"weights\":{\"block_structure\":[16,48]}}}}}"},
    {40, 24, "scale", "F32", 2, false, 128, 128, "{}"},
    /* Dimensions of 1: modelopt's blocks, and others. */
    {130, 257, "weight_scale", "F32", 4, false, 128, 128, "{}"},
    {130, 257, "weight_scale", "F32", 3, false, 128, 128, "{}"},
    {100, 257, "weight_scale", "BF16", 4, false, 128, 128, "{}"},
    {40, 72, "weight_scale", "U8", 3, false, 1, 32, "{}"},
    {40, 24, "weight_scale", "F32", 3, true, 1, 0, "{}"},
    {40, 24, "weight_scale", "F32", 2, true, 0, 0, "{}"},
    {200, 200, "weight_scale", "F32", 4, true, 0, 0, "{}"},
    {40, 24, "weight_scale", "F32", 1, true, 1, 0, "{}"},
    {40, 24, "weight_scale", "BF16", 2, true, 1, 0, "{}"},
    {40, 24, "weight_scale", "F32", 1, true, 0, 0, "{}"},
    {40, 24, "weight_scale", "F32", 0, true, 0, 0, "{}"},
    {40, 72, "weight_scale_inv", "U8", 2, false, 1, 32, "{}"},
    {40, 72, "weight_scale_inv", "U8", 2, false, 1, 32,
     "{\"quantization_config\":{\"quant_method\":\"mxfp8\",\"weight_block_size\":[1,32]}}"},
    {40, 64, "weight_scale", "F8_E8M0", 2, false, 1, 32, "{}"},
    {40, 72, "weight_scale_inv", "F8_E8M0", 2, false, 1, 32,
     "{\"quantization_config\":{\"weight_block_size\":[128,128]}}"},
    {140, 140, "scale", "F8_E8M0", 2, false, 128, 128,
     "{\"quantization_config\":{\"weight_block_size\":[128,128]}}"},
};

/* Scales of a weight of [rows][cols]; gives the columns of the grid. */
static uint64_t add_scales(const struct scaled *format, const char *name, uint64_t rows, uint64_t cols)
{
    uint64_t dims[2] = {format->block_rows ? rows : 1, 1};
    if (!format->rows) {
        dims[0] = (rows + format->block_rows - 1) / format->block_rows;
        dims[1] = (cols + format->block_cols - 1) / format->block_cols;
    }
    const uint64_t four[] = {dims[0], 1, dims[1], 1}, three[] = {dims[0], dims[1], 1};
    shard_add(&shard, name, format->dtype, format->n_dims,
              format->n_dims == 4   ? four
              : format->n_dims == 3 ? three
                                    : dims);
    return dims[1];
}

START_TEST(fp8_with_scales)
{
    const struct scaled *format = &scaled[_i];
    const struct family *family = &families[_i % 4];
    struct kt_expert experts[2];
    struct kt_moe_info moe;
    uint64_t shapes[3][2] = {{format->n, format->k}, {format->n, format->k}, {format->k, format->n}};
    uint64_t scale_cols[3], size = 0;
    shard_begin(&shard);
    for (int e = 0; e < 2; e++)
        for (int p = 0; p < 3; p++) {
            shard_add(&shard, name_of("layers.", family, 0, e, p, "weight"), "F8_E4M3", 2, shapes[p]);
            scale_cols[p] = add_scales(format, name_of("layers.", family, 0, e, p, format->part),
                                       shapes[p][0], shapes[p][1]);
            shard_add(&shard, name_of("layers.", family, 0, e, p, "input_scale"), "F32", 0, NULL);
        }
    size = shard.size - 2 * 3 * 4;
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "%s", format->config);
    struct kt_checkpoint *checkpoint = open_model(_i % 2 ? KT_IO_READ : KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &problem), KT_OK);
    ck_assert_uint_eq(moe.dtype[KT_DOWN], KT_DTYPE_F8_E4M3);
    ck_assert_uint_eq(moe.size, size);
    ck_assert_msg(kt_checkpoint_experts(checkpoint, 0, experts, 2, &problem) == KT_OK, "%s", problem.message);
    for (int e = 0; e < 2; e++) {
        const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        for (int p = 0; p < 3; p++) {
            struct place place = {.name = name_of("layers.", family, 0, e, p, "weight"),
                                  .dtype = "F8_E4M3",
                                  .row_step = shapes[p][1],
                                  .col_step = 1,
                                  .scale = name_of("layers.", family, 0, e, p, format->part),
                                  .scale_dtype = format->dtype,
                                  .group_rows = format->block_rows ? format->block_rows : 1000,
                                  .group_cols = format->block_cols ? format->block_cols : 1000,
                                  .scale_cols = scale_cols[p]};
            expect_view(views[p], shapes[p][0], shapes[p][1], &place);
        }
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Formats for backends to come: the tensors are listed, a warning and experts() say the format. */
START_TEST(formats_that_cannot_be_read)
{
    static const struct {
        const char *part, *dtype, *fragment;
        bool fused;
    } cases[] = {
        {"weight_zero_point", "I8", "int4 of compressed-tensors with zero points", false},
        {"input_global_scale", "F32", "NVFP4", false},
        {"weight_scale_2", "F32", "NVFP4", false},
        {"lora_A", "BF16", "a kind that is not known", false},
        {"down_proj_scale_inv", "F32", "FP8 in fused tensors", true},
        {"weight", "I8", "is i8 (8-bit integers); a later backend may read it", false},
        {"weight", "F8_E5M2", "is f8_e5m2 (no format of weights", false},
        {"weight", "F8_E4M3FNUZ", "is of type F8_E4M3FNUZ, which cannot be read", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_checkpoint_info info;
        struct kt_expert experts[E];
        char name[128];
        shard_begin(&shard);
        add_layer("model.layers.", &families[0], 1, "BF16");
        for (int p = 0; p < 3; p++) {
            (void)snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s%s%s", cases[i].fused ? "" : "0.",
                           cases[i].fused ? "" : families[0].projection[p], cases[i].fused ? "" : ".");
            (void)snprintf(name + strlen(name), sizeof name - strlen(name), "%s", cases[i].part);
            if (p == 0 || !cases[i].fused)
                shard_add(&shard, name, cases[i].dtype, 2, (uint64_t[]){8, 8});
        }
        shard_write(&shard, "model.safetensors");
        struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
        kt_checkpoint_info(checkpoint, &info);
        ck_assert_uint_eq(info.n_moe_layers, 0);
        ck_assert_uint_eq(info.expert_size, 0);
        ck_assert_msg(strstr(logged, cases[i].fragment) && strstr(logged, "model.safetensors"), "%s: %s",
                      cases[i].fragment, logged);
        ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 1, experts, E, &problem), KT_E_UNSUPPORTED);
        ck_assert_msg(strstr(problem.message, cases[i].fragment) != NULL, "%s", problem.message);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* One expert was not quantized: the file is right, but no layer has two formats. */
START_TEST(a_mixed_layer)
{
    shard_begin(&shard);
    for (int e = 0; e < E; e++)
        for (int p = 0; p < 3; p++) {
            bool odd = e == 1;
            shard_add(&shard, name_of("layers.", &families[2], 0, e, p, "weight"), odd ? "BF16" : "F8_E4M3",
                      2, (uint64_t[]){8, 8});
            if (!odd)
                shard_add(&shard, name_of("layers.", &families[2], 0, e, p, "weight_scale"), "F32", 0, NULL);
        }
    shard_write(&shard, "model.safetensors");
    expect_warning("layer 0, expert 1: tensor \"layers.0.experts.1.w1.weight\" is bf16 [8][8], but that of "
                   "expert 0 is f8_e4m3 [8][8]");
}
END_TEST

START_TEST(scales_that_do_not_fit)
{
    static const struct {
        const char *part, *dtype, *config, *fragment;
        unsigned n_dims;
        uint64_t dims[4];
        enum kt_status status;
    } cases[] = {
        {NULL, NULL, "{}", "is f8_e4m3 without scales", 0, {0}, KT_E_FORMAT},
        {"weight_scale_inv",
         "F32",
         "{}",
         "must be [2][2] for blocks of 128 x 128, [130] for rows",
         2,
         {1, 2},
         KT_E_FORMAT},
        {"weight_scale_inv", "F32", "{}", "is [2][3]; the scales", 2, {2, 3}, KT_E_FORMAT},
        {"weight_scale_inv",
         "F32",
         "{\"quantization_config\":{\"weight_block_size\":[128,128]}}",
         "is [1][1]; the scales",
         2,
         {1, 1},
         KT_E_FORMAT},
        {"weight_scale", "F32", "{}", "is [1][1][130]; the scales", 3, {1, 1, 130}, KT_E_FORMAT},
        {"weight_scale", "F32", "{}", "is [2][2][2]; the scales", 3, {2, 2, 2}, KT_E_FORMAT},
        {"weight_scale", "F32", "{}", "is [2][1][3][1]; the scales", 4, {2, 1, 3, 1}, KT_E_FORMAT},
        {"weight_scale", "U8", "{}", "is [5][1][130]; the scales", 3, {5, 1, 130}, KT_E_FORMAT},
        {"weight_scale", "F32", "{}", "is [129]; the scales", 1, {129}, KT_E_FORMAT},
        {"weight_scale", "F32", "{}", "is [1][130]; the scales", 2, {1, 130}, KT_E_FORMAT},
        {"weight_scale_inv",
         "F32",
         "{\"quantization_config\":{\"weight_block_size\":[64,64]}}",
         "must be [3][3] for blocks of 64 x 64",
         2,
         {2, 2},
         KT_E_FORMAT},
        {"weight_scale_inv", "U8", "{}", "must be [130][5] for blocks of 1 x 32", 2, {130, 4}, KT_E_FORMAT},
        {"weight_scale_inv",
         "F32",
         "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}",
         "\"quant_method\" is gptq, but tensor",
         2,
         {2, 2},
         KT_E_FORMAT},
        {"weight_scale_inv", "I32", "{}", "is of type i32; scales must be", 2, {2, 2}, KT_OK},
        {"weight_scale",
         "F32",
         "{\"quantization_config\":{\"config_groups\":{"
         "\"a\":{\"targets\":[\"x\"],\"weights\":{\"block_structure\":[70,70]}},"
         "\"b\":{\"targets\":[\"Linear\"],\"weights\":{\"block_structure\":[80,80]}}}}}",
         "the blocks of several groups in config_groups fit it",
         2,
         {2, 2},
         KT_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shard_begin(&shard);
        for (int p = 0; p < 3; p++) {
            shard_add(&shard, name_of("layers.", &families[2], 0, 0, p, "weight"), "F8_E4M3", 2,
                      (uint64_t[]){130, 130});
            if (cases[i].part)
                shard_add(&shard, name_of("layers.", &families[2], 0, 0, p, cases[i].part), cases[i].dtype,
                          cases[i].n_dims, cases[i].dims);
        }
        shard_write(&shard, "model.safetensors");
        folder_text("config.json", "%s", cases[i].config);
        if (cases[i].status != KT_OK) {
            expect(cases[i].status, cases[i].fragment);
            continue;
        }
        kt_checkpoint_close(open_model(KT_IO_MMAP));
        ck_assert_msg(strstr(logged, cases[i].fragment) != NULL, "%s", logged);
    }
    /* Two sets of scales, and scales of weights that need none. */
    shard_begin(&shard);
    add_layer("layers.", &families[2], 0, "BF16");
    for (int e = 0; e < E; e++)
        for (int p = 0; p < 3; p++)
            shard_add(&shard, name_of("layers.", &families[2], 0, e, p, "weight_scale"), "F32", 1,
                      (uint64_t[]){1});
    shard_write(&shard, "model.safetensors");
    kt_checkpoint_close(open_model(KT_IO_MMAP));
    ck_assert_msg(strstr(logged, "it is not known what they stand for") != NULL, "%s", logged);
    shard_add(&shard, "layers.0.experts.0.w1.weight_scale_inv", "F32", 1, (uint64_t[]){1});
    shard_write(&shard, "model.safetensors");
    expect(KT_E_FORMAT, "stand for the same");
}
END_TEST

/* One projection of all experts a tensor. */
static const char *const stacked[] = {"model.layers.0.moe.gate_proj.weight",
                                      "model.layers.0.moe.up_proj.weight",
                                      "model.layers.0.moe.down_proj.weight"};

/* Tensors of all but `missing`, with scales for blocks of 16 x 16 if it is FP8. */
static void add_stacked(const char *dtype, int missing, uint64_t rows_of_up, uint64_t n_scaled)
{
    char scale[80];
    shard_begin(&shard);
    shard_add(&shard, "model.layers.0.moe.gate.weight", "BF16", 2, (uint64_t[]){E, H});
    for (int p = 0; p < 3; p++) {
        const uint64_t *own = shape_of(p), rows = p == KT_UP ? rows_of_up : own[0];
        if (p == missing)
            continue;
        shard_add(&shard, stacked[p], dtype, 3, (uint64_t[]){E, rows, own[1]});
        (void)snprintf(scale, sizeof scale, "%s_scale_inv", stacked[p]);
        if (strcmp(dtype, "BF16") != 0)
            shard_add(&shard, scale, "F32", 3,
                      (uint64_t[]){n_scaled, (own[0] + 15) / 16, (own[1] + 15) / 16});
    }
    shard_write(&shard, "model.safetensors");
}

START_TEST(a_tensor_for_each_projection)
{
    static const char *const dtypes[] = {"BF16", "F8_E4M3"};
    struct kt_expert experts[E];
    struct kt_moe_info moe;
    char scale[80];
    add_stacked(dtypes[_i], -1, I, E);
    folder_text("config.json",
                "{\"hidden_size\":%d,\"moe_intermediate_size\":%d,\"moe_num_experts\":%d,\"moe_top_k\":%d,"
                "\"swiglu_limits\":[7.0],\"quantization_config\":{\"weight_block_size\":[16,16]}}",
                H, I, E, TOP_K);
    struct kt_checkpoint *checkpoint = open_model(_i ? KT_IO_READ : KT_IO_MMAP);
    ck_assert_msg(kt_checkpoint_moe(checkpoint, 0, &moe, &problem) == KT_OK, "%s%s", problem.message, logged);
    ck_assert(moe.n_experts == E && moe.top_k == TOP_K && moe.hidden_size == H && moe.intermediate_size == I);
    ck_assert(moe.activation == KT_ACTIVATION_SWIGLUSTEP && moe.limit == 7.0f);
    ck_assert_uint_eq(moe.size, _i ? E * 3 * (I * H + 2 * 3 * 4) : E * 3 * I * H * 2);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, E, &problem), KT_OK);
    for (uint64_t e = 0; e < E; e++)
        for (int p = 0; p < 3; p++) {
            const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
            const uint64_t *dims = shape_of(p);
            struct place place = {.name = stacked[p],
                                  .dtype = dtypes[_i],
                                  .first = e * I * H,
                                  .row_step = dims[1],
                                  .col_step = 1};
            (void)snprintf(scale, sizeof scale, "%s_scale_inv", stacked[p]);
            if (_i) {
                place.scale = scale;
                place.scale_dtype = "F32";
                place.group_rows = place.group_cols = 16;
                place.scale_cols = (dims[1] + 15) / 16;
                place.scale_first = e * 2 * 3;
            }
            expect_view(views[p], dims[0], dims[1], &place);
        }
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(a_projection_of_all_experts_is_missing_or_of_another_shape)
{
    for (int p = 0; p < 3; p++) {
        char words[96];
        add_stacked("BF16", p, I, E);
        (void)snprintf(words, sizeof words, "tensor \"%s\" is missing", stacked[p]);
        expect(KT_E_FORMAT, words);
    }
    add_stacked("BF16", -1, I + 1, E);
    expect(KT_E_FORMAT, "does not fit tensor \"model.layers.0.moe.gate_proj.weight\"");
    add_stacked("F8_E4M3", -1, I, E);
    folder_text("config.json", "{\"quantization_config\":{\"weight_block_size\":[8,8]}}");
    expect(KT_E_FORMAT, "the scales of a weight of [24][40] must be [3][5]");
    add_stacked("F8_E4M3", -1, I, E + 1);
    expect(KT_E_FORMAT, "does not fit tensor \"model.layers.0.moe.gate_proj.weight\"");
    shard_begin(&shard);
    for (int p = 0; p < 3; p++)
        shard_add(&shard, stacked[p], "BF16", 2, (uint64_t[]){I, H});
    shard_write(&shard, "model.safetensors");
    expect(KT_E_FORMAT, "it must be [experts][intermediate size][hidden size]");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("expert formats");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_loop_test(tests, fp8_with_scales, 0, (int)(sizeof scaled / sizeof scaled[0]));
    tcase_add_test(tests, formats_that_cannot_be_read);
    tcase_add_test(tests, a_mixed_layer);
    tcase_add_test(tests, scales_that_do_not_fit);
    tcase_add_loop_test(tests, a_tensor_for_each_projection, 0, 2);
    tcase_add_test(tests, a_projection_of_all_experts_is_missing_or_of_another_shape);
    return run_tests("expert formats", tests);
}
