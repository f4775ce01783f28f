/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: layers with experts, contradictions, views, files that shrink, memory. */
#include "core/weights/table/checkpoint.h"
#include "core/base/text.h"
#include "core/weights/decode/view.h"
#include "core/weights/weights.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct kt_error error;
static struct bytes file;

static struct kt_checkpoint *open_model(const struct model *model, enum kt_io io)
{
    struct kt_checkpoint *checkpoint;
    build_model(&file, model);
    ck_assert_msg(open_bytes(file.data, file.size, io, &checkpoint, &error) == KT_OK, "%s", error.message);
    return checkpoint;
}

static void expect(const struct model *model, enum kt_status status, const char *fragment)
{
    struct kt_checkpoint *checkpoint;
    build_model(&file, model);
    enum kt_status found = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
    ck_assert_msg(found == status && error.status == status, "%s: %s: %s", fragment, kt_status_name(found),
                  error.message);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "\"%s\" is not in: %s", fragment, error.message);
}

/* The bytes of the file where tensor `name` lies. */
static const uint8_t *bytes_of(const struct kt_checkpoint *checkpoint, const char *name)
{
    struct kt_tensor_info info;
    uint64_t index;
    ck_assert_msg(kt_checkpoint_find(checkpoint, name, &index, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, index, &info, &error), KT_OK);
    return file.data + info.offset;
}

START_TEST(model_of_two_layers)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    struct kt_expert experts[2];
    uint64_t layer;
    model.h = model.hidden = 64;
    model.layer[0] = 3, model.layer[1] = 1; /* order in the file does not matter */
    struct kt_checkpoint *checkpoint = open_model(&model, (enum kt_io)_i);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_str_eq(info.architecture, "testmoe");
    ck_assert_uint_eq(info.n_tensors, 6);
    ck_assert_uint_eq(info.n_layers, 4);
    ck_assert_uint_eq(info.n_moe_layers, 2);
    ck_assert_uint_eq(info.expert_size, 2 * 2 * 32 * 64 / 32 * (34 + 18 + 64));
    for (uint64_t i = 0; i < 2; i++) {
        ck_assert_int_eq(kt_checkpoint_moe_layer(checkpoint, i, &layer, &error), KT_OK);
        ck_assert_uint_eq(layer, 2 * i + 1);
    }
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 3, &moe, &error), KT_OK);
    ck_assert_uint_eq(moe.layer, 3);
    ck_assert_uint_eq(moe.n_experts, 2);
    ck_assert_uint_eq(moe.top_k, 1);
    ck_assert_uint_eq(moe.hidden_size, 64);
    ck_assert_uint_eq(moe.intermediate_size, 32);
    ck_assert_uint_eq(moe.dtype[KT_GATE], KT_DTYPE_Q8_0);
    ck_assert_uint_eq(moe.dtype[KT_UP], KT_DTYPE_Q4_0);
    ck_assert_uint_eq(moe.dtype[KT_DOWN], KT_DTYPE_F16);
    ck_assert_uint_eq(moe.has_bias, 0);
    ck_assert_uint_eq(moe.activation, KT_ACTIVATION_SILU);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, experts, 2, &error), KT_OK);
    ck_assert_uint_eq(experts[1].gate.rows, 32);
    ck_assert_uint_eq(experts[1].gate.cols, 64);
    ck_assert_uint_eq(experts[1].down.rows, 64);
    ck_assert_uint_eq(experts[1].down.cols, 32);
    ck_assert_str_eq(experts[1].up.name, "blk.3.ffn_up_exps.weight");
    for (int e = 0; e < 2; e++) {
        const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        static const char *const names[] = {"blk.3.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight",
                                            "blk.3.ffn_down_exps.weight"};
        static const uint64_t sizes[] = {32 * 68, 32 * 36, 64 * 64};
        for (int p = 0; p < 3; p++) {
            ck_assert_int_eq(kt_view_check(views[p], &error), KT_OK);
            ck_assert_uint_eq(views[p]->size, sizes[p]);
            ck_assert_uint_eq(kt_view_bytes(views[p]), sizes[p]);
            ck_assert_mem_eq(views[p]->data, bytes_of(checkpoint, names[p]) + (uint64_t)e * sizes[p],
                             sizes[p]);
        }
        ck_assert_ptr_null(experts[e].gate_bias);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(fused_gate_and_up)
{
    struct model model = MODEL_INIT;
    struct kt_expert experts[2];
    struct kt_moe_info moe;
    model.fused = model.has_bias = model.has_scale = 1;
    struct kt_checkpoint *checkpoint = open_model(&model, (enum kt_io)_i);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &error), KT_OK);
    ck_assert_uint_eq(moe.intermediate_size, 32);
    ck_assert_uint_eq(moe.has_bias, 7);
    ck_assert_uint_eq(moe.size, 2 * (64 * 34 + 32 * 64));
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_OK);
    const uint8_t *weights = bytes_of(checkpoint, "blk.0.ffn_gate_up_exps.weight");
    const uint8_t *biases = bytes_of(checkpoint, "blk.0.ffn_gate_up_exps.bias");
    const uint8_t *scales = bytes_of(checkpoint, "blk.0.ffn_gate_up_exps.scale");
    for (uint64_t e = 0; e < 2; e++) {
        ck_assert_mem_eq(experts[e].gate.data, weights + e * 64 * 34, 32 * 34);
        ck_assert_mem_eq(experts[e].up.data, weights + e * 64 * 34 + 32 * 34, 32 * 34);
        ck_assert_mem_eq(experts[e].gate_bias, biases + e * 64 * 4, 32 * 4);
        ck_assert_mem_eq(experts[e].up_bias, biases + e * 64 * 4 + 32 * 4, 32 * 4);
        ck_assert_mem_eq(experts[e].up.scales.data, scales + e * 4, 4);
        ck_assert_uint_eq(experts[e].up.scales.group_rows, 32);
        ck_assert_ptr_null(experts[e].down.scales.data);
        ck_assert_int_eq(kt_view_check(&experts[e].up, &error), KT_OK);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(biases)
{
    static const uint32_t types[] = {0, 1, 30}; /* f32, f16, bf16 */
    for (int t = 0; t < 3; t++)
        for (uint32_t alignment = 1; alignment <= 32; alignment *= 32) {
            struct model model = MODEL_INIT;
            struct kt_expert experts[2], again[2];
            float expected[32];
            struct kt_view view;
            model.has_bias = 1;
            model.bias_type = types[t];
            model.alignment = alignment; /* 1: numbers lie at odd addresses */
            struct kt_checkpoint *checkpoint = open_model(&model, (enum kt_io)_i);
            ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, experts, 2, &error), KT_OK);
            ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, again, 2, &error), KT_OK);
            const uint8_t *bytes = bytes_of(checkpoint, "blk.3.ffn_down_exps.bias");
            uint64_t size = types[t] ? 64 : 128;
            ck_assert_int_eq(kt_view_dense(&view,
                                           types[t] == 0   ? KT_DTYPE_F32
                                           : types[t] == 1 ? KT_DTYPE_F16
                                                           : KT_DTYPE_BF16,
                                           bytes + size, size, 1, 32, &error),
                             KT_OK);
            ck_assert_int_eq(kt_view_row(&view, 0, expected, &error), KT_OK);
            ck_assert_uint_eq((uintptr_t)experts[1].down_bias % sizeof(float), 0);
            ck_assert_mem_eq(experts[1].down_bias, expected, sizeof expected);
            ck_assert_ptr_eq(experts[1].down_bias, again[1].down_bias);
            ck_assert_ptr_nonnull(experts[0].up_bias);
            kt_checkpoint_close(checkpoint);
        }
}
END_TEST

START_TEST(contradictions)
{
    struct model good = MODEL_INIT, model = good;
    model.experts = 3;
    expect(&model, KT_E_FORMAT,
           "\"testmoe.expert_count\" is 3, but tensor "
           "\"blk.0.ffn_gate_exps.weight\" has 2 experts");
    model.experts = 0;
    expect(&model, KT_E_FORMAT, "\"testmoe.expert_count\" is 0, but");
    model = good, model.hidden = 64;
    expect(&model, KT_E_FORMAT, "\"testmoe.embedding_length\" is 64, but");
    model = good, model.intermediate = 31;
    expect(&model, KT_E_FORMAT, "\"testmoe.expert_feed_forward_length\" is 31, but");
    model = good, model.top_k = 3;
    expect(&model, KT_E_FORMAT, "\"testmoe.expert_used_count\" is 3, but");
    /* block_count 0, too few, 513, 2^31 (llama.cpp 25821, CVE-2024-8063) */
    model = good, model.layers = 0;
    expect(&model, KT_E_FORMAT, "\"testmoe.block_count\" is 0, but there is a tensor \"blk.0.");
    model.layers = 3;
    expect(&model, KT_E_FORMAT, "\"testmoe.block_count\" is 3, but there is a tensor \"blk.3.");
    model.layers = UINT64_C(1) << 31;
    expect(&model, KT_E_UNSUPPORTED, "\"testmoe.block_count\" is 2147483648; at most 65536");
    model.layers = 513;
    kt_checkpoint_close(open_model(&model, KT_IO_MMAP));
    model = good, model.layer[1] = 70000;
    expect(&model, KT_E_FORMAT, "is 4, but there is a tensor \"blk.70000.");
    model.layers = UINT64_MAX;
    expect(&model, KT_E_UNSUPPORTED, "\"blk.70000.ffn_gate_exps.weight\": layers up to 65535");
    model = good;
    model.reshaped = "blk.3.ffn_up_exps.weight";
    expect(&model, KT_E_FORMAT, "\"blk.3.ffn_up_exps.weight\" is [3][32][32]");
    model.reshaped = "blk.3.ffn_down_exps.weight";
    expect(&model, KT_E_FORMAT, "[2][32][32] is needed to fit tensor \"blk.3.ffn_gate_exps.weight\"");
    model = good;
    model.left_out = "blk.3.ffn_up_exps.weight";
    expect(&model, KT_E_FORMAT, "layer 3 has experts, but tensor blk.3.ffn_up_exps.weight is missing");
    model.left_out = "blk.0.ffn_gate_exps.weight";
    expect(&model, KT_E_FORMAT, "blk.0.ffn_gate_exps.weight is missing");
    model.left_out = "blk.0.ffn_down_exps.weight";
    expect(&model, KT_E_FORMAT, "blk.0.ffn_down_exps.weight is missing");
    model = good;
    model.has_bias = model.has_scale = 1;
    model.reshaped = "blk.0.ffn_down_exps.bias";
    expect(&model, KT_E_FORMAT, "tensor \"blk.0.ffn_down_exps.bias\" is [3][32]");
    model.reshaped = "blk.0.ffn_gate_exps.scale";
    expect(&model, KT_E_FORMAT, "tensor \"blk.0.ffn_gate_exps.scale\" is [3]");
    model.reshaped = NULL;
    model.bias_type = 24;
    expect(&model, KT_E_UNSUPPORTED, "is of type i8; f32, f16 or bf16");
    model = good, model.experts = 65537;
    expect(&model, KT_E_UNSUPPORTED, "at most 65536");
    model = good, model.fused = 1, model.stray = "blk.3.ffn_up_exps.weight";
    expect(&model, KT_E_FORMAT, "blk.3.ffn_gate_up_exps.weight stands beside one of gate or up");
    model.stray = "blk.3.ffn_up_exps.scale";
    expect(&model, KT_E_FORMAT,
           "\"blk.3.ffn_up_exps.scale\" goes with blk.3.ffn_up_exps.weight, which is missing");
    model.fused = 0, model.stray = "blk.0.ffn_gate_up_exps.bias";
    expect(&model, KT_E_FORMAT, "goes with blk.0.ffn_gate_up_exps.weight, which is missing");
    model = good, model.left_out = model.stray = "blk.3.ffn_gate_exps.weight";
    expect(&model, KT_E_FORMAT, "\"blk.3.ffn_gate_exps.weight\" has 1 dimensions");
}
END_TEST

/* One layer of n_experts experts with matrices of 1 x cols; the data is a hole. */
static enum kt_status open_large(uint64_t n_experts, uint64_t cols, uint64_t layers)
{
    static const char *const kinds[] = {"gate", "up", "down"};
    struct kt_checkpoint *checkpoint;
    struct kt_moe_info moe;
    uint64_t size = (n_experts * cols * 4 + 31) / 32 * 32;
    file.size = 0;
    put_header(&file, 3, 3 * layers, 0);
    for (uint64_t i = 0; i < 3 * layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", (int)(i / 3 + i / 12), kinds[i % 3]);
        put_tensor(&file, name, 3,
                   i % 3 == 2 ? (uint64_t[]){1, cols, n_experts} : (uint64_t[]){cols, 1, n_experts}, 0,
                   i * size);
    }
    put_padding(&file, 32);
    char *path = write_file(file.data, file.size);
    ck_assert_int_eq(truncate(path, (off_t)(file.size + 3 * layers * size)), 0);
    enum kt_status status = kt_checkpoint_open(path, NULL, &checkpoint, &error);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    if (status == KT_OK) {
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 99999, &moe, &error), KT_E_NOT_FOUND);
        kt_checkpoint_close(checkpoint);
    }
    return status;
}

START_TEST(large_models)
{
    ck_assert_msg(open_large(65536, 1, 1) == KT_OK, "%s", error.message);
    ck_assert_msg(open_large(1, 1 << 20, 1) == KT_OK, "%s", error.message);
    ck_assert_int_eq(open_large(65537, 1, 1), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "is [65537][1][1]; at most 65536 experts"));
    ck_assert_int_eq(open_large(1, (1 << 20) + 1, 1), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "sizes of 1048576"));
    /* The message lists what layers there are, and stays a message. */
    ck_assert_int_eq(open_large(1, 8, 20), KT_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "these do: 0-3,5-8"));
    ck_assert_int_eq(open_large(1, 8, 200), KT_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "20-23,25-28"));
    ck_assert_msg(strstr(error.message, ",...") != NULL, "%s", error.message);
}
END_TEST

START_TEST(metadata_that_is_missing)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    model.layers = model.experts = model.top_k = model.hidden = model.intermediate = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct kt_checkpoint *checkpoint = open_model(&model, KT_IO_MMAP);
        kt_checkpoint_info(checkpoint, &info);
        ck_assert_uint_eq(info.n_layers, 0);
        ck_assert_uint_eq(info.n_moe_layers, 2);
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 3, &moe, &error), KT_OK);
        ck_assert_uint_eq(moe.top_k, 0);
        ck_assert_uint_eq(moe.n_experts, 2);
        kt_checkpoint_close(checkpoint);
        model.architecture = "";
    }
}
END_TEST

/* The key testmoe.expert_count with a value of another type (llama.cpp 26690). */
static enum kt_status open_count(uint32_t type, uint32_t element, uint64_t value)
{
    struct kt_checkpoint *checkpoint;
    file.size = 0;
    put_header(&file, 3, 0, 2);
    put_key_string(&file, "general.architecture", "testmoe");
    if (type == 9) {
        put_string(&file, "testmoe.expert_count");
        put_u32(&file, type);
        put_u32(&file, element);
        put_u64(&file, 4);
        put_u32(&file, 0xffffffff);
        put_zeros(&file, 64);
    } else if (type == 8) {
        put_key_string(&file, "testmoe.expert_count", "8");
    } else {
        put_key(&file, "testmoe.expert_count", type, value);
    }
    put_zeros(&file, 64);
    enum kt_status status = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
    if (status == KT_OK)
        kt_checkpoint_close(checkpoint);
    return status;
}

START_TEST(metadata_of_wrong_type)
{
    static const uint32_t wrong[] = {6, 7, 8, 12}, right[] = {0, 1, 2, 3, 4, 5, 10, 11};
    static const uint32_t signed_types[] = {1, 3, 5, 11};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(open_count(wrong[i], 0, 1), KT_E_FORMAT);
        ck_assert_ptr_nonnull(strstr(error.message, "\"testmoe.expert_count\" is of type"));
        ck_assert_ptr_nonnull(strstr(error.message, "a whole number is needed"));
        ck_assert_int_eq(open_count(signed_types[i], 0, UINT64_MAX), KT_E_FORMAT);
        ck_assert_ptr_nonnull(strstr(error.message, "is -1, below 0"));
    }
    for (uint32_t element = 0; element < 13; element++)
        if (element != 9) {
            ck_assert_int_eq(open_count(9, element, 0), KT_E_FORMAT);
            ck_assert(element == 8 || strstr(error.message, "is of type array of "));
        }
    for (int i = 0; i < 8; i++)
        ck_assert_msg(open_count(right[i], 0, 100) == KT_OK, "%s", error.message);
}
END_TEST

START_TEST(arguments)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint *checkpoint = open_model(&model, KT_IO_MMAP), *other;
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct kt_moe_info moe;
    struct kt_expert experts[3];
    const void *data;
    uint64_t number;
    ck_assert_int_eq(kt_checkpoint_open(NULL, NULL, &other, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_open("", NULL, &other, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_open("x", NULL, NULL, &error), KT_E_INVALID);
    params.struct_size = 1;
    ck_assert_int_eq(kt_checkpoint_open("x", &params, &other, &error), KT_E_INVALID);
    params.struct_size = sizeof params;
    params.io = (enum kt_io)7;
    ck_assert_int_eq(kt_checkpoint_open("x", &params, &other, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_open("/nonexistent/x.gguf", NULL, &other, &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "/nonexistent/x.gguf"));
    ck_assert_int_eq(kt_checkpoint_open("/", NULL, &other, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_checkpoint_open("/dev/null", NULL, &other, NULL), KT_E_IO);
    kt_checkpoint_info(NULL, &info);
    kt_checkpoint_info(checkpoint, NULL);
    ck_assert_int_eq(kt_checkpoint_tensor(NULL, 0, &tensor, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, 0, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, 6, &tensor, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, UINT64_MAX, &tensor, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_find(NULL, "x", &number, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_find(checkpoint, NULL, &number, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_find(checkpoint, "x", NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_find(checkpoint, "x", &number, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_checkpoint_data(NULL, 0, &data, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_data(checkpoint, 0, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_data(checkpoint, 6, &data, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_moe_layer(NULL, 0, &number, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_moe_layer(checkpoint, 2, &number, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_moe(NULL, 0, &moe, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 1, &moe, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "layer 1 holds no experts; these do: 0,3"));
    ck_assert_int_eq(kt_checkpoint_experts(NULL, 0, experts, 2, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, NULL, 2, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 0, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 3, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 9, experts, 2, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 1, &error), KT_OK);
    /* A holder keeps it open. */
    kt_checkpoint_retain(checkpoint);
    kt_checkpoint_close(checkpoint);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_tensors, 6);
    kt_checkpoint_close(checkpoint);
    kt_checkpoint_close(NULL);
}
END_TEST

START_TEST(long_paths)
{
    char path[3000];
    struct kt_checkpoint *checkpoint;
    for (size_t i = 0; i < sizeof path - 1; i++)
        path[i] = "\xc3\xa4/\nx"[i % 5];
    path[sizeof path - 1] = 0;
    ck_assert_int_eq(kt_checkpoint_open(path, NULL, &checkpoint, &error), KT_E_IO);
    ck_assert_ptr_null(strchr(error.message, '\n'));
    ck_assert(kt_name_valid(error.message, strlen(error.message)));
    ck_assert_ptr_nonnull(strstr(error.message, "cannot be opened"));
}
END_TEST

static void expect_shrunk(enum kt_status status)
{
    ck_assert_int_eq(status, KT_E_IO);
    ck_assert_msg(strstr(error.message, "bytes after opening") != NULL, "%s", error.message);
}

START_TEST(file_that_shrinks)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    struct kt_expert experts[2];
    const void *data;
    build_model(&file, &model);
    params.io = (enum kt_io)_i;
    char *path = write_file(file.data, file.size), byte;
    ck_assert_int_eq(kt_checkpoint_open(path, &params, &checkpoint, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_OK);
    ck_assert_int_eq(truncate(path, (off_t)file.size - 1), 0);
    expect_shrunk(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error));
    expect_shrunk(kt_checkpoint_experts(checkpoint, 3, experts, 2, &error));
    expect_shrunk(kt_checkpoint_data(checkpoint, 5, &data, &error));
    /* Between the check of the size and the reading. */
    expect_shrunk(kt_file_read(&checkpoint->part[0].file, file.size - 1, &byte, 1, &error));
    ck_assert_int_eq(truncate(path, 0), 0);
    expect_shrunk(kt_checkpoint_data(checkpoint, 0, &data, &error));
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

struct shaker {
    const char *path;
    size_t size;
    atomic_bool stop;
};

/* Cuts the file and makes it whole again, all the time. */
static void *shake(void *argument)
{
    struct shaker *shaker = argument;
    for (size_t i = 0; !atomic_load(&shaker->stop); i++)
        if (truncate(shaker->path, (off_t)(i * 997 % shaker->size)) != 0 ||
            truncate(shaker->path, (off_t)shaker->size) != 0)
            return shaker;
    return NULL;
}

START_TEST(file_that_changes_all_the_time)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    pthread_t thread;
    void *failed;
    build_model(&file, &model);
    char *path = write_file(file.data, file.size);
    struct shaker shaker = {.path = path, .size = file.size};
    params.io = KT_IO_READ;
    ck_assert_int_eq(pthread_create(&thread, NULL, shake, &shaker), 0);
    for (int run = 0; run < 1000; run++) {
        struct kt_checkpoint *checkpoint;
        struct kt_expert experts[2];
        enum kt_status status = kt_checkpoint_open(path, &params, &checkpoint, &error);
        if (status == KT_OK) {
            status = kt_checkpoint_experts(checkpoint, 0, experts, 2, &error);
            kt_checkpoint_close(checkpoint);
        }
        ck_assert_msg(status == KT_OK || status == KT_E_IO || status == KT_E_FORMAT ||
                          status == KT_E_UNSUPPORTED,
                      "%s: %s", kt_status_name(status), error.message);
    }
    atomic_store(&shaker.stop, true);
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

START_TEST(trained_models)
{
    static const struct {
        const char *path;
        uint64_t tensors, layers;
        enum kt_dtype gate, down;
    } models[] = {
        {"tiny-moe/tiny-moe-q4_k_m.gguf", 51, 4, KT_DTYPE_Q4_K, KT_DTYPE_Q6_K},
        {"tiny-moe/tiny-moe-bf16-l0-l3.gguf", 6, 2, KT_DTYPE_BF16, KT_DTYPE_BF16},
        {"tiny-moe/tiny-moe-q8_0-l0-l3.gguf", 6, 2, KT_DTYPE_Q8_0, KT_DTYPE_Q8_0},
        {"tiny-moe/tiny-moe-iq4_xs-l0-l3.gguf", 6, 2, KT_DTYPE_IQ4_XS, KT_DTYPE_IQ4_XS},
    };
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    for (int m = 0; m < 4; m++)
        for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
            struct kt_checkpoint *checkpoint;
            struct kt_checkpoint_info info;
            struct kt_moe_info moe;
            struct kt_expert experts[8];
            float row[256];
            char *path = data_path(models[m].path);
            params.io = (enum kt_io)io;
            ck_assert_msg(kt_checkpoint_open(path, &params, &checkpoint, &error) == KT_OK, "%s",
                          error.message);
            free(path);
            kt_checkpoint_info(checkpoint, &info);
            ck_assert_str_eq(info.architecture, "qwen3moe");
            ck_assert_str_eq(info.name, "tiny shakespeare moe");
            ck_assert_uint_eq(info.n_layers, 4);
            ck_assert_uint_eq(info.n_tensors, models[m].tensors);
            ck_assert_uint_eq(info.n_moe_layers, models[m].layers);
            ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 3, &moe, &error), KT_OK);
            ck_assert_uint_eq(moe.n_experts, 8);
            ck_assert_uint_eq(moe.top_k, 2);
            ck_assert_uint_eq(moe.dtype[KT_GATE], models[m].gate);
            ck_assert_uint_eq(moe.dtype[KT_DOWN], models[m].down);
            ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, experts, 8, &error), KT_OK);
            ck_assert_int_eq(kt_view_row(&experts[7].down, 255, row, &error), KT_OK);
            kt_checkpoint_close(checkpoint);
        }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("checkpoint");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, model_of_two_layers, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, fused_gate_and_up, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, biases, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, contradictions);
    tcase_add_test(tests, large_models);
    tcase_add_test(tests, metadata_that_is_missing);
    tcase_add_test(tests, metadata_of_wrong_type);
    tcase_add_test(tests, arguments);
    tcase_add_test(tests, long_paths);
    tcase_add_loop_test(tests, file_that_shrinks, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, file_that_changes_all_the_time);
    tcase_add_test(tests, trained_models);
    return run_tests("checkpoint", tests);
}
