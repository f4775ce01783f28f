/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that KT-Kernel's converter packed: every one comes back, in both containers; bad ones do not. */
#define _GNU_SOURCE
#include "core/weights/ktkernel/ktkernel.h"
#include "core/weights/weights.h"
#include "tests/support/ktkernel_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct kt_error error;

static void setup(void)
{
    sandbox_open();
    sandbox_folder("model");
}

static struct kt_checkpoint *open_model(enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    params.io = io;
    ck_ok(kt_checkpoint_open(sandbox_path("model"), &params, &checkpoint, &ck_error));
    return checkpoint;
}

/* ---- right ones ----------------------------------------------------------------------------- */

static const struct right {
    enum ktk_method method;
    uint32_t n_experts, n_parts;
    uint64_t intermediate, hidden;
    bool files;
    enum kt_io io;
} right[] = {
    {KTK_INT8, 2, 1, 128, 192, false, KT_IO_MMAP},     {KTK_INT8, 3, 2, 128, 192, false, KT_IO_READ},
    {KTK_INT8, 3, 3, 192, 64, true, KT_IO_MMAP},       {KTK_INT8, 1, 1, 64, 3648, false, KT_IO_MMAP},
    {KTK_INT8, 1, 2, 7296, 64, true, KT_IO_READ},      {KTK_INT4, 2, 1, 256, 128, false, KT_IO_MMAP},
    {KTK_INT4, 2, 2, 256, 384, false, KT_IO_READ},     {KTK_INT4, 1, 1, 128, 3712, true, KT_IO_MMAP},
    {KTK_INT4, 1, 2, 7424, 128, false, KT_IO_MMAP},    {KTK_MOE_INT8, 2, 2, 40, 24, true, KT_IO_MMAP},
    {KTK_MOE_INT8, 2, 2, 128, 192, false, KT_IO_READ}, {KTK_MOE_INT8, 2, 1, 24, 40, false, KT_IO_MMAP},
};

static void expect_weights(const struct ktk_model *model, const struct kt_expert *experts)
{
    float *row = malloc((model->intermediate + model->hidden) * sizeof *row);
    for (uint32_t i = 0; i < 3 * model->n_experts; i++) {
        uint32_t e = i / 3;
        int p = (int)(i % 3);
        const struct kt_view *view = p == 0 ? &experts[e].gate : p == 1 ? &experts[e].up : &experts[e].down;
        uint64_t rows = p == 2 ? model->hidden : model->intermediate;
        ck_assert_uint_eq(view->rows, rows);
        ck_assert_uint_eq(view->cols, p == 2 ? model->intermediate : model->hidden);
        ck_assert_uint_eq(view->dtype, KT_DTYPE_I8);
        ck_assert_uint_eq(view->scales.dtype, KT_DTYPE_F32);
        ck_assert_uint_eq(view->scales.group_rows, 1);
        ck_assert_uint_eq(view->scales.group_cols, p == 2 ? view->cols / model->n_parts : view->cols);
        uint64_t width = view->scales.group_cols;
        for (uint64_t r = 0; r < rows; r++) {
            if (kt_view_row(view, r, row, &error) != KT_OK)
                ck_abort_msg("%s", error.message);
            float scale = 0;
            for (uint64_t c = 0; c < view->cols; c++) {
                if (c % width == 0)
                    scale = ktk_scale(model, e, p, r, c);
                float source = model->weights[p][(e * rows + r) * view->cols + c];
                float step = model->method == KTK_INT4 ? 16 * scale : scale;
                /* Not every weight by the definition, which looks at the whole row each time. */
                bool exact = r % 61 == 0 && c % 7 == 0;
                if (fabsf(row[c] - source) > 0.54f * step ||
                    (exact && row[c] != (float)ktk_code(model, e, p, r, c) * scale))
                    ck_abort_msg("expert %u, projection %d, row %d, column %d: %g of %g", e, p, (int)r,
                                 (int)c, (double)row[c], (double)source);
            }
        }
    }
    free(row);
}

START_TEST(comes_back)
{
    const struct right *is = &right[_i];
    struct ktk_model model = {.method = is->method,
                              .n_experts = is->n_experts,
                              .n_parts = is->n_parts,
                              .intermediate = is->intermediate,
                              .hidden = is->hidden};
    ktk_fill(&model, (uint64_t)_i + 1);
    ktk_write(&model, sandbox_path("model"), 5, is->files);
    ktk_write(&model, sandbox_path("model"), 12, is->files);
    /* The index that the converter leaves says nothing. */
    if (!is->files)
        sandbox_write("model/model.safetensors.index.json", "%s",
                      is->io == KT_IO_MMAP ? "{\"metadata\":{\"total_size\":0}}"
                                           : "{\"metadata\":{\"total_size\":0},\"weight_map\":"
                                             "{\"blk.5.ffn_up_exps.0.numa.0.scale\":\"gone\"}}");
    struct kt_checkpoint *checkpoint = open_model(is->io);
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    struct kt_expert experts[3];
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_str_eq(info.format, is->files ? "kt" : "safetensors");
    ck_assert_uint_eq(info.n_moe_layers, 2);
    ck_assert_uint_eq(info.n_files, is->files ? 12 * is->n_experts * is->n_parts : 2);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 12, &moe, &error), KT_OK);
    ck_assert_uint_eq(moe.n_experts, is->n_experts);
    ck_assert_uint_eq(moe.hidden_size, is->hidden);
    ck_assert_uint_eq(moe.intermediate_size, is->intermediate);
    ck_assert_uint_eq(moe.top_k, 0);
    ck_assert_uint_eq(moe.size,
                      is->n_experts * (3 * is->intermediate * is->hidden / (is->method == KTK_INT4 ? 2 : 1) +
                                       8 * is->intermediate + 4 * is->hidden * is->n_parts));
    ck_assert_uint_eq(info.expert_size, 2 * moe.size);
    ck_assert_msg(kt_checkpoint_experts(checkpoint, 12, experts, is->n_experts, &error) == KT_OK, "%s",
                  error.message);
    expect_weights(&model, experts);
    kt_checkpoint_close(checkpoint);
    ktk_free(&model);
}
END_TEST

/* ---- wrong ones ----------------------------------------------------------------------------- */

static const struct wrong {
    struct ktk_model model;
    bool files;
    bool opens; /* found only when experts are asked for */
    const char *fragments[4];
} wrong[] = {
    {{KTK_INT8, 2, 2, 128, 64, {NULL}, KTK_MISSING, 1, 1, 2, 1},
     false,
     false,
     {"blk.3.ffn_down_exps.1.numa.1.scale", "missing", "24", "23"}},
    {{KTK_INT8, 2, 2, 128, 64, {NULL}, KTK_MISSING, 0, 1, 0, 0},
     true,
     false,
     {"_layer_3/_numa_1/INT8_gate_0_", "missing", "24", "23"}},
    {{KTK_INT8, 2, 2, 128, 64, {NULL}, KTK_LONGER, 1, 0, 1, 0},
     false,
     false,
     {"blk.3.ffn_up_exps.1.numa.0.weight", "4160", "4096", "alike"}},
    {{KTK_INT4, 2, 2, 256, 128, {NULL}, KTK_LONGER, 1, 1, 0, 1},
     true,
     false,
     {"_layer_3/_numa_1/INT4_gate_1_576Byte_scale_.kt", "576", "512", "alike"}},
    {{KTK_INT4, 1, 1, 128, 128, {NULL}, KTK_LONGER, 0, 0, 2, 0},
     false,
     false,
     {"blk.3.ffn_down_exps.0.numa.0.weight", "8256", "8192", "INT4"}},
    {{KTK_INT8, 1, 1, 64, 64, {NULL}, KTK_LONGER, 0, 0, 2, 1},
     true,
     false,
     {"_layer_3/_numa_0/INT8_gate_0_4096Byte_quant_.kt", "64 x 80", "5120", "kt convert"}},
    {{KTK_INT8, 1, 1, 64, 64, {NULL}, KTK_BAD_TYPE, 0, 0, 1, 0},
     false,
     false,
     {"blk.3.ffn_up_exps.0.numa.0.weight", "u8", "i8", "kt convert"}},
    {{KTK_INT8, 1, 1, 64, 64, {NULL}, KTK_BAD_TYPE, 0, 0, 1, 1},
     false,
     false,
     {"blk.3.ffn_up_exps.0.numa.0.scale", "i32", "f32", "kt convert"}},
    {{KTK_INT8, 1, 2, 64, 64, {NULL}, KTK_NO_FAULT, 0, 0, 0, 0},
     true,
     false,
     {"32 x 64", "multiples of 64", "INT8", "kt convert"}},
    {{KTK_INT8, 2, 1, 64, 64, {NULL}, KTK_BAD_SCALE, 1, 0, 2, 1},
     false,
     true,
     {"blk.3.ffn_down_exps.1.numa.0.scale", "row 1 is nan", "finite", "kt convert"}},
    {{KTK_INT8, 2, 1, 64, 64, {NULL}, KTK_BAD_CODE, 1, 0, 0, 0},
     true,
     true,
     {"INT8_gate_1_4096Byte_quant_.kt", "row 1 is 63", "127", "another order"}},
    {{KTK_INT8, 2, 1, 64, 64, {NULL}, KTK_BAD_CODE, 0, 0, 0, 0},
     false,
     true,
     {"blk.3.ffn_gate_exps.0.numa.0.weight", "row 1 is 63", "INT8 makes it 127", "another order"}},
    {{KTK_MOE_INT8, 2, 1, 64, 64, {NULL}, KTK_BAD_CODE, 1, 0, 2, 0},
     false,
     true,
     {"blk.3.ffn_down_exps.1.numa.0.weight", "row 1 is 63", "MOE_INT8 makes it 127", "kt convert"}},
    {{KTK_INT4, 2, 1, 128, 128, {NULL}, KTK_BAD_CODE, 0, 0, 1, 0},
     false,
     true,
     {"blk.3.ffn_up_exps.0.numa.0.weight", "row 1 is 3", "makes it 7", "another order"}},
};

static void expect_message(const char *const fragments[4])
{
    ck_assert_uint_lt(strlen(error.message), 700);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(strstr(error.message, fragments[i]), "\"%s\" is not in: %s", fragments[i],
                      error.message);
}

START_TEST(is_refused)
{
    const struct wrong *is = &wrong[_i];
    struct ktk_model model = is->model;
    struct kt_checkpoint *checkpoint = NULL;
    struct kt_expert experts[2];
    ktk_fill(&model, 7);
    ktk_write(&model, sandbox_path("model"), 3, is->files);
    ktk_free(&model);
    enum kt_status status = kt_checkpoint_open(sandbox_path("model"), NULL, &checkpoint, &error);
    if (is->opens) {
        ck_assert_msg(status == KT_OK, "%s", error.message);
        status = kt_checkpoint_experts(checkpoint, 3, experts, is->model.n_experts, &error);
        kt_checkpoint_close(checkpoint);
    }
    ck_assert_int_eq(status, KT_E_FORMAT);
    expect_message(is->fragments);
}
END_TEST

static void write_small(enum ktk_method method, unsigned layer, bool files)
{
    struct ktk_model model = {.method = method,
                              .n_experts = 2,
                              .n_parts = 1,
                              .intermediate = 128,
                              .hidden = 128};
    ktk_fill(&model, 3);
    ktk_write(&model, sandbox_path("model"), layer, files);
    ktk_free(&model);
}

static void expect_open(enum kt_status status, const char *const fragments[4])
{
    struct kt_checkpoint *checkpoint;
    ck_assert_int_eq(kt_checkpoint_open(sandbox_path("model"), NULL, &checkpoint, &error), status);
    expect_message(fragments);
}

START_TEST(mixed_methods)
{
    write_small(KTK_INT8, 3, true);
    write_small(KTK_INT4, 3, true);
    expect_open(KT_E_FORMAT, (const char *const[]){"_layer_3/_numa_0/INT8_gate_0_16384Byte_quant_.kt",
                                                   "INT4_gate_0_8192Byte_quant_.kt", "mixes two methods",
                                                   "INT8 and INT4"});
}
END_TEST

START_TEST(left_from_an_older_run)
{
    write_small(KTK_INT8, 3, true);
    sandbox_write("model/_layer_3/_numa_0/INT8_down_1_64Byte_scale_.kt", "%064d", 1);
    expect_open(KT_E_FORMAT,
                (const char *const[]){"_numa_0/INT8_down_1_", "Byte_scale_.kt", "twice", "remove the files"});
}
END_TEST

START_TEST(other_files_do_not_matter)
{
    struct kt_checkpoint *checkpoint;
    struct kt_checkpoint_info info;
    write_small(KTK_INT8, 3, true);
    sandbox_write("model/_layer_3/_numa_0/INT8_gate_bwd_0_64Byte_quant_.kt", "x");
    sandbox_write("model/_layer_3/_numa_0/INT8_gate_007_64Byte_quant_.kt", "x");
    sandbox_write("model/_layer_3/_numa_0/INT9_gate_7_64Byte_quant_.kt", "x");
    sandbox_write("model/_layer_3/_numa_0/INT8_gate_7_64Byte_quant_.kt.part", "x");
    sandbox_write("model/_layer_3/_numa_64/INT8_gate_7_64Byte_quant_.kt", "x");
    sandbox_write("model/_layer_x/_numa_0/INT8_gate_7_64Byte_quant_.kt", "x");
    checkpoint = open_model(KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_files, 12);
    ck_assert_uint_eq(info.n_moe_layers, 1);
    kt_checkpoint_close(checkpoint);
    sandbox_folder("model/_layer_9/_numa_0");
    expect_open(KT_E_FORMAT,
                (const char *const[]){"_layer_9", "holds no file like", "_numa_0", "kt convert"});
}
END_TEST

START_TEST(cut_file)
{
    const char *path;
    struct kt_expert experts[2];
    write_small(KTK_INT4, 0, true);
    path = sandbox_path("model/_layer_0/_numa_0/INT4_up_1_8192Byte_quant_.kt");
    ck_assert_int_eq(truncate(path, 8191), 0);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 1, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_E_FORMAT);
    expect_message((const char *const[]){"INT4_up_1_8192Byte_quant_.kt", "8191", "8192", "kt convert"});
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_E_IO);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(unknown_method)
{
    struct kt_checkpoint_info info;
    struct kt_expert expert;
    write_small(KTK_MOE_INT4, 0, true);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_moe_layers, 0);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error), KT_E_UNSUPPORTED);
    expect_message((const char *const[]){"MOE_INT4_gate_0_", "order of bytes", "not known", "kt convert"});
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(configuration)
{
    struct kt_moe_info moe;
    write_small(KTK_INT8, 2, _i);
    sandbox_write("model/config.json", "{\"model_type\":\"m\",\"num_experts\":2,\"hidden_size\":128,"
                                       "\"moe_intermediate_size\":128,\"num_experts_per_tok\":2}");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 2, &moe, &error), KT_OK);
    ck_assert_uint_eq(moe.top_k, 2);
    kt_checkpoint_close(checkpoint);
    sandbox_write("model/config.json", "{\"num_experts_per_tok\":3}");
    expect_open(KT_E_FORMAT, (const char *const[]){"num_experts_per_tok", "3", "2 experts", "config.json"});
    sandbox_write("model/config.json", "{\"moe_intermediate_size\":256}");
    expect_open(KT_E_FORMAT,
                (const char *const[]){"moe_intermediate_size", "256", "intermediate size 128", "kt convert"});
}
END_TEST

/* ---- memory and fingerprint ----------------------------------------------------------------- */

/* Is there memory for the weights of the first layer's expert? */
static bool is_decoded(const struct kt_checkpoint *checkpoint, uint32_t expert)
{
    const struct kt_packed *packed = checkpoint->moe[0].map;
    return packed->decoded[expert] != NULL;
}

START_TEST(released)
{
    struct kt_expert first[2], again[2];
    write_small(KTK_INT8, 0, _i);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, first, 1, &error), KT_OK);
    ck_assert(is_decoded(checkpoint, 0) && !is_decoded(checkpoint, 1));
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, again, 2, &error), KT_OK);
    ck_assert_ptr_eq(first[0].gate.data, again[0].gate.data);
    /* Asked for twice, once for a use that ends: the views stay. */
    ck_assert_int_eq(kt_checkpoint_use(checkpoint, 0, again, 2, &error), KT_OK);
    kt_checkpoint_unuse(checkpoint, 0);
    ck_assert(is_decoded(checkpoint, 0) && is_decoded(checkpoint, 1));
    /* In use while released: they stay until the use ends. */
    ck_assert_int_eq(kt_checkpoint_use(checkpoint, 0, again, 2, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_release_layer(checkpoint, 0, &error), KT_OK);
    ck_assert(is_decoded(checkpoint, 1));
    float row[128];
    ck_assert_int_eq(kt_view_row(&again[1].down, 127, row, &error), KT_OK);
    kt_checkpoint_unuse(checkpoint, 0);
    ck_assert(!is_decoded(checkpoint, 0) && !is_decoded(checkpoint, 1));
    ck_assert_int_eq(kt_checkpoint_release_layer(checkpoint, 0, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, first, 2, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&first[1].down, 127, row, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_release_layer(checkpoint, 1, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_checkpoint_release_layer(NULL, 0, &error), KT_E_INVALID);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(fingerprint)
{
    char first[17], second[17];
    write_small(KTK_INT8, 0, _i);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_fingerprint(checkpoint, first, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_fingerprint(checkpoint, second, &error), KT_OK);
    ck_assert_str_eq(first, second);
    kt_checkpoint_close(checkpoint);
    write_small(KTK_INT8, 1, _i);
    checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_fingerprint(checkpoint, second, &error), KT_OK);
    ck_assert_str_ne(first, second);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* ---- layers --------------------------------------------------------------------------------- */

/* The path of amx_int8 in the sandbox, or NULL: it was not built. */
static const char *copy_plugin(void)
{
    const char *build = getenv("KT_TEST_BUILD");
    char path[4096];
    ck_assert_ptr_nonnull(build);
    (void)snprintf(path, sizeof path, "%s/.libs/kt_amx_int8.so", build);
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    size_t room = 16 << 20;
    char *data = malloc(room);
    size_t size = fread(data, 1, room, file);
    ck_assert(size > 0 && size < room);
    ck_assert_int_eq(fclose(file), 0);
    sandbox_write_bytes("lib/kt_amx_int8.so", data, size);
    free(data);
    return sandbox_path("lib/kt_amx_int8.so");
}

static struct kt_layer *load(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const char *backend)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_plan *plan = malloc(sizeof *plan);
    params.backend = backend;
    params.max_tokens = 4;
    ck_ok(kt_checkpoint_layer_params(checkpoint, 4, &params, &ck_error));
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_ok(kt_layer_plan_checkpoint(layer, checkpoint, 4, plan, &ck_error));
    ck_assert(!is_decoded(checkpoint, 0));
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 4, &ck_error));
    free(plan);
    return layer;
}

/* Of an amx_int8 layer: the codes of gate and up are those that KT-Kernel stored. */
static void expect_codes(const struct ktk_model *model, const struct kt_layer *layer)
{
    float row[192];
    for (uint32_t e = 0; e < model->n_experts; e++)
        for (int p = 0; p < 2; p++)
            for (uint64_t r = 0; r < model->intermediate; r++) {
                ck_ok(kt_layer_weights(layer, e, (enum kt_projection)p, r, 1, row, &ck_error));
                float scale = ktk_scale(model, e, p, r, 0);
                for (uint64_t c = 0; c < model->hidden; c++) {
                    int code = ktk_code(model, e, p, r, c);
                    if (lroundf(row[c] / scale) != code ||
                        fabsf(row[c] - (float)code * scale) > 1e-6f * fabsf(row[c]))
                        ck_abort_msg("row %d, column %d: %g of %d", (int)r, (int)c, (double)row[c], code);
                }
            }
}

START_TEST(runs)
{
    struct ktk_model model = {.method = KTK_INT8,
                              .n_experts = 2,
                              .n_parts = 2,
                              .intermediate = 128,
                              .hidden = 192};
    const char *module = copy_plugin();
    char setting[300] = "core.spin_us=50";
    ktk_fill(&model, 11);
    ktk_write(&model, sandbox_path("model"), 4, _i);
    if (module)
        (void)snprintf(setting, sizeof setting, "plugin.amx_int8.module=%s", module);
    struct kt_context *context = fixture_context_with((const char *const[]){"core.threads=2", setting}, 2);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    struct kt_layer *layer = load(context, checkpoint, "reference");
    struct kt_layer_info info;
    float row[192];
    /* A layer that reads its source holds it, others do not. */
    ck_assert(is_decoded(checkpoint, 1));
    ck_ok(kt_checkpoint_release_layer(checkpoint, 4, &ck_error));
    ck_ok(kt_layer_weights(layer, 1, KT_UP, 5, 1, row, &ck_error));
    ck_assert(row[9] == (float)ktk_code(&model, 1, 1, 5, 9) * ktk_scale(&model, 1, 1, 5, 9));
    kt_layer_destroy(layer);
    ck_assert(!is_decoded(checkpoint, 1));
    if (module) {
        layer = load(context, checkpoint, "amx_int8");
        kt_layer_info(layer, &info);
        ck_assert_str_eq(info.backend, "amx_int8");
        ck_assert(!is_decoded(checkpoint, 1));
        expect_codes(&model, layer);
        kt_layer_destroy(layer);
    }
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
    ktk_free(&model);
}
END_TEST

/* int8 numbers that nothing scales are not weights. */
START_TEST(without_scales)
{
    static const int8_t data[64 * 64];
    struct kt_context *context = fixture_context(1);
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_expert expert = {.gate_bias = NULL};
    float row[64];
    struct kt_view *views[] = {&expert.gate, &expert.up, &expert.down};
    for (int p = 0; p < 3; p++)
        ck_ok(kt_view_dense(views[p], KT_DTYPE_I8, data, sizeof data, 64, 64, &ck_error));
    params.n_experts = params.top_k = params.max_tokens = 1;
    params.hidden_size = params.intermediate_size = 64;
    params.backend = "reference";
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_assert_int_eq(kt_view_row(&expert.gate, 0, row, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "scales"));
    ck_assert_int_eq(kt_layer_load(layer, &expert, 1, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "without scales"));
    kt_layer_destroy(layer);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("packed");
    tcase_add_checked_fixture(tcase, setup, sandbox_close);
    tcase_add_loop_test(tcase, comes_back, 0, sizeof right / sizeof right[0]);
    tcase_add_loop_test(tcase, is_refused, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tcase, mixed_methods);
    tcase_add_test(tcase, left_from_an_older_run);
    tcase_add_test(tcase, other_files_do_not_matter);
    tcase_add_test(tcase, cut_file);
    tcase_add_test(tcase, unknown_method);
    tcase_add_loop_test(tcase, configuration, 0, 2);
    tcase_add_loop_test(tcase, released, 0, 2);
    tcase_add_loop_test(tcase, fingerprint, 0, 2);
    tcase_add_loop_test(tcase, runs, 0, 2);
    tcase_add_test(tcase, without_scales);
    return run_tests("ktkernel", tcase);
}
