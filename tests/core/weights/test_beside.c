/* SPDX-License-Identifier: Apache-2.0 */
/* What stands beside a weight: it is used, or says nothing about the weight, or the weight is refused. */
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

#define ok(call) ck_assert_msg((call) == KT_OK, "%s", error.message)

/* ---- GGUF ---- */

enum { F32 = 0, F16 = 1, I32 = 26, BF16 = 30 };

/* q.weight is 1, 2, 3 and so on. */
static void open_beside(const char *name, uint64_t n, uint32_t type, uint64_t bits,
                        struct kt_checkpoint **checkpoint)
{
    static struct bytes file;
    uint32_t width = type == F16 || type == BF16 ? 2 : 4;
    file.size = 0;
    put_header(&file, 3, 3, 0);
    put_tensor(&file, "q.weight", 2, (uint64_t[]){4, 3}, F32, 0);
    put_tensor(&file, "q.bias", 1, (uint64_t[]){3}, F32, 64);
    put_tensor(&file, name, 1, &n, type, 96);
    put_padding(&file, 32);
    for (int i = 0; i < 12; i++) {
        float value = (float)(i + 1);
        put_raw(&file, &value, sizeof value);
    }
    put_padding(&file, 32);
    put_u32(&file, 0x40000000);
    put_u32(&file, 0x40000000);
    put_u32(&file, 0x40000000);
    put_padding(&file, 32);
    for (uint64_t i = 0; i < n; i++)
        put_number(&file, bits, width);
    put_padding(&file, 32);
    ok(open_bytes(file.data, file.size, KT_IO_READ, checkpoint, &error));
}

START_TEST(beside_a_linear_of_gguf)
{
    static const struct {
        const char *name;
        uint64_t n;
        uint32_t type, bits;
        enum kt_status status;
        float factor;
        const char *fragment;
    } cases[] = {
        {"q.scale", 1, F32, 0x3f000000, KT_OK, 0.5f, ""},
        {"q.scale", 1, F16, 0x3400, KT_OK, 0.25f, ""},
        {"q.scale", 1, BF16, 0x4040, KT_OK, 3, ""},
        {"q.scale", 1, F32, 0xc0000000, KT_OK, -2, ""},
        {"q.scale", 1, F32, 0x7fc00000, KT_E_FORMAT, 0,
         "\"q.scale\": the scale of row 0, column 0 on is nan"},
        {"q.scale", 1, F16, 0x7c00, KT_E_FORMAT, 0, "is inf; it must be a finite number"},
        {"q.scale", 3, F32, 0x3f000000, KT_E_UNSUPPORTED, 0, "\"q.scale\" is [3]; only one scale"},
        {"q.scale", 1, I32, 1, KT_E_UNSUPPORTED, 0, "\"q.scale\" is of type i32; f32, f16 or bf16"},
        {"q.input_scale", 1, F32, 0x3f000000, KT_OK, 1, ""},
        {"q.k_scale", 1, F32, 0x3f000000, KT_OK, 1, ""},
        {"qq.scale", 1, F32, 0x3f000000, KT_OK, 1, ""},
        {"q.weight.scale", 1, F32, 0x3f000000, KT_E_UNSUPPORTED, 0, "tensor \"q.weight.scale\" belongs to"},
        {"q.lora_a", 4, F32, 0, KT_E_UNSUPPORTED, 0, "\"q.lora_a\" belongs to the weight \"q\""},
        {"q.scales", 1, F32, 0, KT_E_UNSUPPORTED, 0, "\"q.scales\" belongs to the weight \"q\""},
        {"q.weight_scale", 1, F32, 0, KT_E_UNSUPPORTED, 0, "and may change its values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_checkpoint *checkpoint;
        struct kt_view view;
        const float *bias;
        float row[4];
        open_beside(cases[i].name, cases[i].n, cases[i].type, cases[i].bits, &checkpoint);
        enum kt_status status = kt_checkpoint_weight(checkpoint, "q", &view, &bias, &error);
        ck_assert_msg(status == cases[i].status, "case %d: %s", (int)i, error.message);
        if (status == KT_OK) {
            ok(kt_view_row(&view, 2, row, &error));
            ck_assert_msg(row[3] == 12 * cases[i].factor, "case %d: %g", (int)i, (double)row[3]);
            ck_assert_msg(bias[2] == 2, "case %d: the bias is scaled", (int)i);
        } else {
            ck_assert_msg(strstr(error.message, cases[i].fragment) != NULL, "%s", error.message);
        }
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* One number for each expert and projection; the others' are not touched. */
START_TEST(scales_of_experts_of_gguf)
{
    static struct bytes file;
    struct model model = MODEL_INIT;
    struct kt_checkpoint *checkpoint;
    struct kt_expert experts[2];
    float row[2][32];
    model.has_scale = 1;
    size_t header = build_model(&file, &model);
    ok(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error));
    ok(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error));
    for (int e = 0; e < 2; e++) {
        struct kt_view plain = experts[e].gate;
        float scale;
        memcpy(&scale, plain.scales.data, sizeof scale);
        ck_assert_uint_ge(plain.scales.group_rows, plain.rows);
        ck_assert_uint_ge(plain.scales.group_cols, plain.cols);
        plain.scales = (struct kt_scales){.data = NULL};
        ok(kt_view_row(&plain, 1, row[0], &error));
        ok(kt_view_row(&experts[e].gate, 1, row[1], &error));
        for (int c = 0; c < 32; c++)
            ck_assert_float_eq(row[1][c], row[0][c] * scale);
    }
    /* the second one's, in the bytes of the file: NaN */
    struct kt_tensor_info info;
    uint64_t index;
    ok(kt_checkpoint_find(checkpoint, "blk.0.ffn_gate_exps.scale", &index, &error));
    ok(kt_checkpoint_tensor(checkpoint, index, &info, &error));
    kt_checkpoint_close(checkpoint);
    ck_assert_uint_ge(info.offset, header);
    memcpy(file.data + info.offset + 4, &(uint32_t){0x7fc00000}, 4);
    ok(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error));
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "\"blk.0.ffn_gate_exps.scale\": the scale of row 0"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(beside_experts_of_gguf)
{
    static struct bytes file;
    static const struct {
        const char *name, *fragment; /* NULL: opened */
    } cases[] = {
        {"blk.0.ffn_up_exps.input_scale", NULL},
        {"blk.0.ffn_up_exps.zero", "\"blk.0.ffn_up_exps.zero\" belongs to experts, but"},
        {"blk.3.ffn_down_exps.weight.scale", "\"blk.3.ffn_down_exps.weight.scale\" belongs to experts, but"},
        {"blk.1.ffn_gate_exps.scale", "goes with blk.1.ffn_gate_exps.weight, which is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model = MODEL_INIT;
        struct kt_checkpoint *checkpoint = NULL;
        model.stray = cases[i].name;
        (void)build_model(&file, &model);
        enum kt_status status = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
        ck_assert_msg((status == KT_OK) == !cases[i].fragment, "%s: %s", cases[i].name, error.message);
        if (cases[i].fragment)
            ck_assert_msg(strstr(error.message, cases[i].fragment) != NULL ||
                              strstr(error.message, "blk.1.ffn_"),
                          "%s", error.message);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* ---- safetensors ---- */

/* Of exporters: modelopt, compressed-tensors, Quark, FBGEMM, vLLM, bitsandbytes, peft, torch. What formats of
 * weights read is in the tests of these. */
static const struct {
    const char *part;
    bool refused;
} parts[] = {
    {"input_scale", false},
    {"input_scale_inv", false},
    {"input_scale_ub", false},
    {"input_zero_point", false},
    {"activation_scale", false},
    {"output_scale", false},
    {"output_zero_point", false},
    {"q_scale", false},
    {"k_scale", false},
    {"v_scale", false},
    {"kv_scale", false},
    {"prob_scale", false},
    {"prob_output_scale", false},
    {"k_zero_point", false},
    {"v_cache_scale", false},
    {"kv_cache_scaling_factor", false},
    {"pre_quant_scale", true},
    {"smooth_scale", true},
    {"weight_scale_2", true},
    {"weight_global_scale", true},
    {"weight_zero_point", true},
    {"weight_scales", true},
    {"weight_bitmask", true},
    {"weight_format", true},
    {"SCB", true},
    {"weight_g", true},
    {"weight_magnitude", true},
    {"weight.absmax", true},
    {"weight.quant_map", true},
    {"lora_A.weight", true},
    {"lora_B.default.weight", true},
    {"base_layer.weight", true},
    {"parametrizations.weight.original0", true},
    {"SU", true},
    {"codebooks", true},
    {"gamma", true},
};

static struct shard shard;

#define MODULE "model.layers.0.mlp.experts.0."

static void write_folder(const char *part)
{
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    char name[128];
    shard_begin(&shard);
    for (int p = 0; p < 3; p++) {
        (void)snprintf(name, sizeof name, MODULE "%s.weight", projections[p]);
        shard_add(&shard, name, "BF16", 2, (uint64_t[]){8, 8});
    }
    (void)snprintf(name, sizeof name, MODULE "up_proj.%s", part);
    shard_add(&shard, name, "F32", 1, (uint64_t[]){1});
    shard_add(&shard, "q.weight", "BF16", 2, (uint64_t[]){8, 8});
    (void)snprintf(name, sizeof name, "q.%s", part);
    shard_add(&shard, name, "F32", 1, (uint64_t[]){1});
    shard_write(&shard, "model.safetensors");
}

START_TEST(beside_weights_of_safetensors)
{
    folder_make();
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *part = parts[i].part;
        struct kt_checkpoint *checkpoint;
        struct kt_expert expert;
        struct kt_view view;
        float row[8];
        write_folder(part);
        ok(folder_open("", KT_IO_READ, &checkpoint, &error));
        enum kt_status wanted = parts[i].refused ? KT_E_UNSUPPORTED : KT_OK;
        enum kt_status status = kt_checkpoint_weight(checkpoint, "q", &view, NULL, &error);
        ck_assert_msg(status == wanted, "linear, %s: %s", part, error.message);
        ck_assert_msg(status == KT_OK || strstr(error.message, part), "%s", error.message);
        status = kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error);
        ck_assert_msg(status == wanted, "expert, %s: %s", part, error.message);
        ck_assert_msg(status == KT_OK || strstr(error.message, part), "%s", error.message);
        if (status == KT_OK) {
            ok(kt_view_row(&view, 7, row, &error));
            ck_assert_float_eq(row[7], value_of("q.weight", "BF16", 63));
            ok(kt_view_row(&expert.up, 7, row, &error));
            ck_assert_float_eq(row[7], value_of(MODULE "up_proj.weight", "BF16", 63));
        }
        kt_checkpoint_close(checkpoint);
    }
    folder_remove();
}
END_TEST

/* A router's correction is a weight of its own; what an expert has beside its projections is not known. */
START_TEST(names_under_other_names)
{
    struct kt_checkpoint *checkpoint;
    struct kt_expert expert;
    struct kt_view view;
    folder_make();
    for (int stray = 0; stray < 2; stray++) {
        write_folder("input_scale");
        shard_add(&shard, "mlp.gate.weight", "BF16", 2, (uint64_t[]){8, 8});
        shard_add(&shard, "mlp.gate.e_score_correction_bias", "F32", 1, (uint64_t[]){8});
        if (stray)
            shard_add(&shard, MODULE "norm.weight", "BF16", 1, (uint64_t[]){8});
        shard_write(&shard, "model.safetensors");
        ok(folder_open("", KT_IO_READ, &checkpoint, &error));
        ok(kt_checkpoint_weight(checkpoint, "mlp.gate", &view, NULL, &error));
        ok(kt_checkpoint_weight(checkpoint, "mlp.gate.e_score_correction_bias", &view, NULL, &error));
        ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error),
                         stray ? KT_E_UNSUPPORTED : KT_OK);
        ck_assert(!stray || strstr(error.message, "experts.0.norm.weight\" belongs to an expert"));
        kt_checkpoint_close(checkpoint);
    }
    folder_remove();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("beside");
    tcase_add_test(tests, beside_a_linear_of_gguf);
    tcase_add_test(tests, scales_of_experts_of_gguf);
    tcase_add_test(tests, beside_experts_of_gguf);
    tcase_add_test(tests, beside_weights_of_safetensors);
    tcase_add_test(tests, names_under_other_names);
    return run_tests("beside", tests);
}
