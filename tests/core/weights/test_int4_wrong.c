/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of 4 bits that are wrong: tensors, config.json, and what is found when they are read. */
#include "core/weights/weights.h"
#include "tests/support/int4_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opened with a warning, and refused where they are asked for. */
static void expect_refusal(const char *fragment)
{
    struct kt_expert experts[EXPERTS];
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_msg(strstr(logged, fragment) != NULL, "\"%s\" is not in: %s", fragment, logged);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, experts, EXPERTS, &problem), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(problem.message, fragment));
    kt_checkpoint_close(checkpoint);
}

/* ---- tensors ---------------------------------------------------------------------------------- */

#define GATE "experts.0.gate_proj"

static const struct {
    enum layout layout;
    struct change change;
    const char *extra;
    enum kt_status status; /* KT_E_UNSUPPORTED: opened with a warning */
    const char *fragment;
} wrong[] = {
    /* something is missing */
    {PACKED_WORDS,
     {".weight_scale", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     GATE ".weight_packed\" is int4 of compressed-tensors without scales"},
    {PACKED_WORDS, {"1.up_proj.weight_scale", "", 0, {0}}, NULL, KT_E_FORMAT, "expert 1 has none like it"},
    {PACKED_WORDS,
     {"1.up_proj.weight_packed", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "expert 1: tensor \"model.layers.3.mlp.experts.1.up_proj.weight_packed\" is missing"},
    {GPTQ, {".scales", "", 0, {0}}, NULL, KT_E_FORMAT, GATE ".qweight\" is int4 of GPTQ without scales"},
    {GPTQ,
     {"2.down_proj.qweight", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "expert 2: tensor \"model.layers.3.mlp.experts.2.down_proj.qweight\" is missing"},
    {AWQ,
     {".qzeros", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     GATE ".qweight\" is int4 of AWQ without zeros (qzeros)"},
    {MX, {".scale", "", 0, {0}}, NULL, KT_E_UNSUPPORTED, "w1.weight\" is i8 (8-bit integers)"},
    {GPT_OSS,
     {"gate_up_proj_scales", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "gate_up_proj_blocks\" is MXFP4 of gpt-oss without scales"},
    {GPT_OSS,
     {"down_proj_blocks", "", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "tensor \"model.layers.3.mlp.experts.down_proj_blocks\" is missing"},
    /* shapes of weights */
    {PACKED_WORDS,
     {"up_proj.weight_packed", NULL, 2, {96, 7}},
     NULL,
     KT_E_FORMAT,
     "up_proj.weight_packed\" is [96][7], slowest dimension first; that does not fit"},
    {PACKED_WORDS,
     {"gate_proj.weight_packed", NULL, 1, {96}},
     NULL,
     KT_E_FORMAT,
     "gate_proj.weight_packed\" is [96], slowest"},
    {PACKED_BYTES,
     {"_proj.weight_packed", NULL, 2, {6, 3}},
     NULL,
     KT_E_FORMAT,
     "is [6][3], slowest dimension first; it must be of a multiple of 8 columns"},
    {GPTQ,
     {"down_proj.qweight", NULL, 2, {64, 12}},
     NULL,
     KT_E_FORMAT,
     "down_proj.qweight\" is [64][12], slowest dimension first; that does not fit"},
    {AWQ, {"_proj.qweight", NULL, 2, {12, 12}}, NULL, KT_E_FORMAT, "it must be of a multiple of 8"},
    {MX, {"w3.weight", NULL, 2, {95, 32}}, NULL, KT_E_FORMAT, "w3.weight\" is [95][32]"},
    {GPT_OSS,
     {"gate_up_proj_blocks", NULL, 4, {3, 191, 2, 16}},
     NULL,
     KT_E_FORMAT,
     "it must be [experts][2 x intermediate size][hidden size / 32][16]"},
    {GPT_OSS, {"gate_up_proj_blocks", NULL, 4, {3, 192, 4, 8}}, NULL, KT_E_FORMAT, "[16]"},
    {GPT_OSS, {"gate_up_proj_blocks", NULL, 3, {3, 192, 32}}, NULL, KT_E_FORMAT, "[16]"},
    {GPT_OSS,
     {"down_proj_blocks", NULL, 4, {3, 64, 2, 16}},
     NULL,
     KT_E_FORMAT,
     "down_proj_blocks\" is [3][64][2][16], slowest dimension first; that does not fit"},
    {GPT_OSS, {"down_proj_bias", NULL, 2, {3, 63}}, NULL, KT_E_FORMAT, "down_proj_bias\" is [3][63]"},
    {GPT_OSS,
     {"gate_up_proj_bias", NULL, 2, {5, 192}},
     NULL,
     KT_E_FORMAT,
     "gate_up_proj_bias\" is [5][192], slowest"},
    {GPT_OSS,
     {"gate_up_proj_scales", NULL, 3, {5, 192, 2}},
     NULL,
     KT_E_FORMAT,
     "gate_up_proj_scales\" is [5][192][2], slowest"},
    /* shapes of scales and zeros */
    {PACKED_WORDS,
     {"gate_proj.weight_scale", NULL, 2, {95, 2}},
     NULL,
     KT_E_FORMAT,
     "gate_proj.weight_scale\" is [95][2]; beside a weight of 96 x 64 (int4 of compressed-tensors) it "
     "must be [96][2], one a row and group"},
    {PACKED_WORDS,
     {"gate_proj.weight_scale", NULL, 2, {96, 3}},
     NULL,
     KT_E_FORMAT,
     "is [96][3], 3 groups of the weight's 64 columns; they must be alike"},
    {PACKED_WORDS, {"gate_proj.weight_scale", NULL, 2, {96, 0}}, NULL, KT_E_FORMAT, "0 groups"},
    {PACKED_WORDS,
     {"gate_proj.weight_scale", NULL, 3, {2, 96, 1}},
     NULL,
     KT_E_FORMAT,
     "is [2][96][1]; beside a weight"},
    {GPTQ, {"gate_proj.scales", NULL, 2, {3, 96}}, NULL, KT_E_FORMAT, "3 groups of the weight's 64 columns"},
    {GPTQ,
     {"gate_proj.scales", NULL, 2, {2, 95}},
     NULL,
     KT_E_FORMAT,
     "gate_proj.scales\" is [2][95]; beside a weight of 96 x 64 (int4 of GPTQ) it must be [2][96]"},
    {GPTQ, {"gate_proj.scales", NULL, 1, {96}}, NULL, KT_E_FORMAT, "is [96]; beside a weight"},
    {GPTQ,
     {"gate_proj.qzeros", NULL, 2, {2, 11}},
     NULL,
     KT_E_FORMAT,
     "gate_proj.qzeros\" is [2][11]; beside a weight of 96 x 64 (int4 of GPTQ) it must be [2][12], eight"},
    {AWQ, {"gate_proj.qzeros", NULL, 2, {12, 2}}, NULL, KT_E_FORMAT, "gate_proj.qzeros\" is [12][2]"},
    {AWQ, {"gate_proj.scales", NULL, 2, {5, 96}}, NULL, KT_E_FORMAT, "5 groups of the weight's 64"},
    {MX,
     {"w1.scale", NULL, 2, {96, 3}},
     NULL,
     KT_E_FORMAT,
     "w1.scale\" is [96][3]; beside a weight of 96 x 64 (MXFP4) it must be [96][2], one for 32 columns"},
    {MX, {"w1.scale", NULL, 1, {192}}, NULL, KT_E_FORMAT, "w1.scale\" is [192]; beside"},
    {GPT_OSS,
     {"gate_up_proj_scales", NULL, 3, {3, 192, 3}},
     NULL,
     KT_E_FORMAT,
     "gate_up_proj_scales\" is [3][192][3], slowest dimension first; that does not fit tensor"},
    {GPT_OSS, {"down_proj_scales", NULL, 2, {3, 64}}, NULL, KT_E_FORMAT, "down_proj_scales\" is [3][64]"},
    /* dtypes */
    {PACKED_WORDS,
     {"_proj.weight_packed", "F32", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "weight_packed\" is of type f32; int4 of compressed-tensors needs i32 or u8"},
    {GPTQ,
     {"_proj.qweight", "F32", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "qweight\" is of type f32; int4 of GPTQ needs"},
    {GPTQ, {"_proj.qzeros", "F32", 0, {0}}, NULL, KT_E_FORMAT, "qzeros\" is of type f32; zeros must be i32"},
    {GPT_OSS,
     {"_blocks", "I8", 0, {0}},
     NULL,
     KT_E_FORMAT,
     "blocks\" is of type i8; MXFP4 of gpt-oss needs u8"},
    {PACKED_WORDS,
     {".weight_scale", "U8", 2, {96, 2}},
     NULL,
     KT_E_UNSUPPORTED,
     "weight_scale\" is of type u8; scales of int4 of compressed-tensors must be f32, f16 or bf16"},
    {GPT_OSS, {"_scales", "I8", 0, {0}}, NULL, KT_E_UNSUPPORTED, "must be u8 or f8_e8m0"},
    /* what does not belong to it */
    {PACKED_WORDS,
     {NULL, NULL, 0, {0}},
     ".qzeros",
     KT_E_FORMAT,
     GATE ".qzeros\" does not belong to tensor \"model.layers.3.mlp." GATE ".weight_packed\""},
    {AWQ, {NULL, NULL, 0, {0}}, ".g_idx", KT_E_FORMAT, GATE ".g_idx\" does not belong to"},
    {GPTQ, {NULL, NULL, 0, {0}}, ".weight_packed", KT_E_FORMAT, "stand for the same"},
    {GPTQ, {NULL, NULL, 0, {0}}, ".weight_scale", KT_E_FORMAT, "stand for the same"},
    {PACKED_WORDS,
     {NULL, NULL, 0, {0}},
     ".weight_zero_point",
     KT_E_UNSUPPORTED,
     "int4 of compressed-tensors with zero points"},
    {PACKED_WORDS, {NULL, NULL, 0, {0}}, ".weight_global_scale", KT_E_UNSUPPORTED, "NVFP4"},
    {GPT_OSS, {NULL, NULL, 0, {0}}, NULL, KT_OK, ""},
};

START_TEST(tensors_that_are_wrong)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct model model = model_of(wrong[i].layout);
        model.change = wrong[i].change;
        model.extra = wrong[i].extra;
        model_write(&model);
        if (wrong[i].status == KT_E_FORMAT)
            expect(KT_E_FORMAT, wrong[i].fragment);
        else if (wrong[i].status == KT_E_UNSUPPORTED)
            expect_refusal(wrong[i].fragment);
        else
            kt_checkpoint_close(open_model(KT_IO_MMAP));
    }
}
END_TEST

/* Names that say of 4 bits what only fused tensors, or only others, have. */
START_TEST(fused_and_not)
{
    static const struct {
        const char *names[3], *dtype, *scale_part, *scale_dtype, *fragment;
    } cases[] = {
        {{"experts.gate_up_proj.qweight", "experts.down_proj.qweight"},
         "I32",
         ".scales",
         "F16",
         "has an unsupported format, int4 of GPTQ in fused tensors"},
        {{"experts.gate_up_proj", "experts.down_proj"},
         "F8_E4M3",
         ".weight_scale",
         "F32",
         "has an unsupported format, FP8 with scales in fused tensors"},
        {{"experts.gate_up_proj", "experts.down_proj"}, "U8", "_scales", "U8", "MXFP4 in fused tensors"},
        {{"experts.0.gate_proj_blocks", "experts.0.up_proj_blocks", "experts.0.down_proj_blocks"},
         "U8",
         "_scales",
         "U8",
         "MXFP4 of gpt-oss in tensors of an expert's own"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shard_begin(&shard);
        for (int p = 0; p < 3 && cases[i].names[p]; p++) {
            char name[128], scale[160];
            (void)snprintf(name, sizeof name, "model.layers.3.mlp.%s", cases[i].names[p]);
            shard_add(&shard, name, cases[i].dtype, 3, p ? (uint64_t[]){2, 8, 8} : (uint64_t[]){2, 16, 8});
            char *end = strstr(name, ".qweight");
            end = end ? end : strstr(name, "_blocks");
            (void)snprintf(scale, sizeof scale, "%.*s%s", (int)(end ? end - name : (long)strlen(name)), name,
                           cases[i].scale_part);
            shard_add(&shard, scale, cases[i].scale_dtype, 3, (uint64_t[]){2, 8, 1});
        }
        shard_write(&shard, "model.safetensors");
        expect_refusal(cases[i].fragment);
    }
}
END_TEST

/* One expert is packed otherwise, in tensors of the same type and shape. */
START_TEST(experts_that_are_not_alike)
{
    shard_begin(&shard);
    for (int e = 0; e < 2; e++)
        for (int p = 0; p < 3; p++) {
            bool odd = e == 1 && p == 1;
            shard_add(&shard, name_of("layers.", &families[0], 0, e, p, odd ? "qweight" : "weight_packed"),
                      "I32", 2, (uint64_t[]){8, 8});
            shard_add(&shard, name_of("layers.", &families[0], 0, e, p, "scales"), "F16", 2,
                      (uint64_t[]){8, 8});
        }
    shard_write(&shard, "model.safetensors");
    expect_warning("expert 1: tensor \"layers.0.mlp.experts.1.up_proj.qweight\" is packed as int4 of "
                   "GPTQ, but others of the same projection as int4 of compressed-tensors");
}
END_TEST

START_TEST(cut_short)
{
    for (enum layout layout = PACKED_WORDS; layout < N_LAYOUTS; layout++) {
        struct model model = model_of(layout);
        size_t size;
        model_write(&model);
        const uint8_t *file = shard_bytes(&shard, &size);
        folder_write("model.safetensors", file, size - 1);
        expect(KT_E_FORMAT, "model.safetensors");
    }
}
END_TEST

/* ---- config.json ------------------------------------------------------------------------------ */

#define QUANTIZATION(text) "{\"quantization_config\":{" text "}}"
#define GROUPS(weights) QUANTIZATION("\"config_groups\":{\"a\":{\"weights\":{" weights "}}}")

#define TWO_GROUPS(a, b)                                                              \
    QUANTIZATION("\"config_groups\":{\"a\":{\"targets\":[\"Linear\"],\"weights\":{" a \
                 "}},\"b\":{\"targets\":[\"re:.*experts.*\"],\"weights\":{" b "}}}")

static const struct {
    enum layout layout;
    const char *config;
    enum kt_status status;
    const char *fragment;
} contradictions[] = {
    {PACKED_WORDS, GROUPS("\"group_size\":64"), KT_E_FORMAT,
     "config.json: key \"group_size\" makes groups of 64 columns, but tensor "
     "\"model.layers.3.mlp.experts.0.gate_proj.weight_scale\" in"},
    {PACKED_WORDS, GROUPS("\"group_size\":64"), KT_E_FORMAT, "is [96][2]: groups of 32"},
    {PACKED_WORDS, GROUPS("\"group_size\":48"), KT_E_FORMAT,
     "key \"group_size\" is 48, of which the 64 columns of tensor \"model.layers.3."},
    {PACKED_WORDS, GROUPS("\"group_size\":-1"), KT_E_FORMAT, "key \"group_size\" makes groups of 64 columns"},
    {PACKED_WORDS, GROUPS("\"strategy\":\"channel\""), KT_E_FORMAT,
     "key \"strategy\" makes groups of 64 columns"},
    {PACKED_WORDS, GROUPS("\"group_size\":0"), KT_E_FORMAT, "\"group_size\" is 0; it must be at least 1"},
    {PACKED_WORDS, GROUPS("\"group_size\":-2"), KT_E_FORMAT, "\"group_size\" must be a whole number"},
    {PACKED_WORDS, GROUPS("\"group_size\":\"32\""), KT_E_FORMAT, "\"group_size\" must be a whole"},
    {PACKED_WORDS, GROUPS("\"num_bits\":4.0"), KT_E_FORMAT, "\"num_bits\" must be a whole number"},
    {PACKED_WORDS, GROUPS("\"symmetric\":1"), KT_E_FORMAT, "\"symmetric\" must be true or false"},
    {PACKED_WORDS, GROUPS("\"symmetric\":false"), KT_E_UNSUPPORTED,
     "key \"symmetric\" is false: such weights are not supported; tensor \"model.layers.3.mlp."},
    {PACKED_WORDS, GROUPS("\"num_bits\":8"), KT_E_UNSUPPORTED, "key \"num_bits\" is 8: packed weights"},
    {PACKED_WORDS, GROUPS("\"type\":\"float\""), KT_E_UNSUPPORTED, "key \"type\" is float: such"},
    {PACKED_WORDS, TWO_GROUPS("\"group_size\":64", "\"num_bits\":8,\"group_size\":32"), KT_E_FORMAT,
     "key \"group_size\" makes groups of 64 columns"},
    {PACKED_WORDS, TWO_GROUPS("\"num_bits\":8", "\"symmetric\":false"), KT_E_UNSUPPORTED,
     "key \"symmetric\" is false: such"},
    {PACKED_WORDS, TWO_GROUPS("\"group_size\":32", "\"group_size\":\"32\""), KT_E_FORMAT,
     "\"group_size\" must be a whole number"},
    {PACKED_WORDS, QUANTIZATION("\"quant_method\":\"gptq\""), KT_E_FORMAT,
     "key \"quant_method\" is gptq, but tensor \"model.layers.3.mlp.experts.0.gate_proj.weight_packed\" "
     "is int4 of compressed-tensors"},
    {GPTQ, QUANTIZATION("\"quant_method\":\"awq\""), KT_E_FORMAT, "is awq, but tensor"},
    {GPTQ, QUANTIZATION("\"quant_method\":\"fp8\""), KT_E_FORMAT, "is fp8, but tensor"},
    {GPTQ, QUANTIZATION("\"bits\":4,\"sym\":false"), KT_E_UNSUPPORTED, "key \"sym\" is false: such"},
    {GPTQ, QUANTIZATION("\"zero_point\":true"), KT_E_UNSUPPORTED, "key \"zero_point\" is true: such"},
    {GPTQ, QUANTIZATION("\"desc_act\":true"), KT_E_UNSUPPORTED, "key \"desc_act\" is true: such"},
    {GPTQ, QUANTIZATION("\"bits\":8"), KT_E_UNSUPPORTED, "key \"bits\" is 8: packed weights of 4 bits"},
    {GPTQ, QUANTIZATION("\"bits\":\"4\""), KT_E_FORMAT, "\"bits\" must be a whole number"},
    {GPTQ, QUANTIZATION("\"desc_act\":\"no\""), KT_E_FORMAT, "\"desc_act\" must be true or false"},
    {GPTQ, QUANTIZATION("\"group_size\":128"), KT_E_FORMAT,
     "key \"group_size\" is 128, of which the 64 columns"},
    {GPTQ, QUANTIZATION("\"group_size\":16"), KT_E_FORMAT, "makes groups of 16 columns, but tensor"},
    {GPTQ, QUANTIZATION("\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\""), KT_E_UNSUPPORTED,
     "key \"checkpoint_format\" is marlin: such weights"},
    {GPTQ, QUANTIZATION("\"quant_method\":\"gptq\",\"checkpoint_format\":7"), KT_E_FORMAT,
     "\"checkpoint_format\" must be a string"},
    {AWQ, QUANTIZATION("\"quant_method\":\"awq\",\"version\":\"gemv\""), KT_E_UNSUPPORTED,
     "key \"version\" is gemv: such weights"},
    {AWQ, QUANTIZATION("\"quant_method\":\"gptq\""), KT_E_FORMAT, "gptq, but tensor"},
    {AWQ, QUANTIZATION("\"quant_method\":\"awq\",\"group_size\":64"), KT_E_FORMAT, "groups of 64 columns"},
    {AWQ, QUANTIZATION("\"quant_method\":\"awq\",\"bits\":3"), KT_E_UNSUPPORTED, "key \"bits\" is 3"},
    {MX, QUANTIZATION("\"quant_method\":\"compressed-tensors\""), KT_E_FORMAT, "w1.weight\" is MXFP4"},
    {GPT_OSS, "{\"model_type\":\"gpt_oss\",\"quantization_config\":{\"quant_method\":\"awq\"}}", KT_E_FORMAT,
     "gate_up_proj_blocks\" is MXFP4 of gpt-oss"},
    {GPT_OSS, "{\"model_type\":\"gpt_oss\",\"hidden_size\":128}", KT_E_FORMAT,
     "\"hidden_size\" is 128, but layer 3 has hidden size 64"},
    {GPT_OSS, "{\"model_type\":\"gpt_oss\",\"intermediate_size\":64}", KT_E_FORMAT,
     "\"intermediate_size\" is 64, but layer 3 has intermediate size 96"},
    {GPT_OSS, "{\"model_type\":\"gpt_oss\",\"num_local_experts\":4}", KT_E_FORMAT,
     "\"num_local_experts\" is 4"},
    {GPT_OSS, "{}", KT_E_UNSUPPORTED, "whether gate and up rows alternate"},
};

START_TEST(contradictions_with_config)
{
    for (size_t i = 0; i < sizeof contradictions / sizeof contradictions[0]; i++) {
        struct model model = model_of(contradictions[i].layout);
        model.config = contradictions[i].config;
        model_write(&model);
        if (contradictions[i].status == KT_E_FORMAT)
            expect(KT_E_FORMAT, contradictions[i].fragment);
        else
            expect_refusal(contradictions[i].fragment);
    }
}
END_TEST

/* ---- what is read ----------------------------------------------------------------------------- */

static void expect_experts(const struct model *model, enum kt_status status, const char *fragment)
{
    struct kt_expert experts[EXPERTS];
    model_write(model);
    for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
        struct kt_checkpoint *checkpoint = open_model((enum kt_io)io);
        ck_assert_str_eq(logged, "");
        /* Expert 0 is right. */
        ck_assert_int_eq(kt_checkpoint_use(checkpoint, 3, experts, 1, &problem), KT_OK);
        kt_checkpoint_unuse(checkpoint, 3);
        enum kt_status found = kt_checkpoint_use(checkpoint, 3, experts, EXPERTS, &problem);
        ck_assert_msg(found == status, "%s: %s", fragment, kt_status_name(found));
        if (status != KT_OK)
            ck_assert_msg(strstr(problem.message, fragment) &&
                              strstr(problem.message, "model.safetensors: tensor"),
                          "\"%s\" is not in: %s", fragment, problem.message);
        if (status == KT_OK)
            kt_checkpoint_unuse(checkpoint, 3);
        kt_checkpoint_close(checkpoint);
    }
}

START_TEST(scales_that_are_no_numbers)
{
    static const struct {
        enum layout layout;
        const char *scale;
        uint64_t at;
        uint32_t bits;
        const char *fragment; /* NULL: that is a number */
    } cases[] = {
        {PACKED_WORDS, "BF16", 0, 0x7fc0, "up_proj.weight_scale\": the scale of row 0, column 0 on is nan"},
        {PACKED_WORDS, "BF16", 191, 0x7f80, "the scale of row 95, column 32 on is inf; it must be a finite"},
        {PACKED_WORDS, "BF16", 101, 0xff80, "the scale of row 50, column 32 on is -inf"},
        {PACKED_WORDS, "BF16", 101, 0xbf80, NULL}, /* what uses all 16 codes */
        {PACKED_WORDS, "BF16", 101, 0x7f7f, NULL},
        {PACKED_WORDS, "F32", 33, 0x7f800001, "row 16, column 32 on is nan"},
        {PACKED_WORDS, "F32", 33, 0xff7fffff, NULL},
        {PACKED_WORDS, "F16", 64, 0x7c00, "row 32, column 0 on is inf"},
        {PACKED_WORDS, "F16", 64, 0, NULL},
        {GPTQ, "F16", 97, 0x7e00, "up_proj.scales\": the scale of row 1, column 32 on is nan"},
        {GPTQ, "F16", 95, 0xfc00, "the scale of row 95, column 0 on is -inf"},
        {AWQ, "F16", 191, 0x7c01, "up_proj.scales\": the scale of row 95, column 32 on is nan"},
        {MX, "F8_E8M0", 7, 0xff, "w3.scale\": the scale of row 3, column 32 on is nan"},
        {MX, "U8", 7, 0xfe, NULL},
        {GPT_OSS, "U8", 5, 0xff, "gate_up_proj_scales\": the scale of row 5, column 32 on is nan"},
        {GPT_OSS, "U8", 95, 0xff, "gate_up_proj_scales\": the scale of row 95, column 32 on is nan"},
        {GPT_OSS, "U8", 5, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model = model_of(cases[i].layout);
        model.scale = cases[i].scale;
        model.poisoned = true;
        model.at = cases[i].at;
        model.bits = cases[i].bits;
        expect_experts(&model, cases[i].fragment ? KT_E_FORMAT : KT_OK, cases[i].fragment);
    }
}
END_TEST

/* Scales of FP8 in every shape; they are never negative. */
START_TEST(scales_of_fp8)
{
    static const struct {
        uint64_t dims[2];
        const char *dtype;
        uint64_t at;
        uint32_t bits;
        const char *fragment;
    } cases[] = {
        {{2, 1}, "F32", 1, 0x7fc00000, "up_proj.weight_scale\": the scale of row 128, column 0 on is nan"},
        {{2, 1}, "F32", 0, 0xbf800000, "row 0, column 0 on is -1; it must be a finite number of at least 0"},
        {{2, 1}, "F32", 0, 0x80000000, NULL}, /* -0 */
        {{2, 1}, "BF16", 1, 0x7f80, "row 128, column 0 on is inf"},
        {{130, 1}, "F32", 129, 0x7f800000, "row 129, column 0 on is inf"},
        {{130, 1}, "F16", 65, 0x8001, "row 65, column 0 on is -5.9"},
        {{130, 2}, "U8", 259, 0xff, "row 129, column 32 on is nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_expert expert;
        static uint8_t scales[4 * 300];
        unsigned bytes = *cases[i].dtype == 'U' ? 1 : strcmp(cases[i].dtype, "F32") == 0 ? 4 : 2;
        uint64_t turned[2] = {cases[i].dims[0] == 130 ? 64 : 1, cases[i].dims[0] == 2 ? 2 : 1};
        if (cases[i].dims[1] == 2)
            turned[1] = 5;
        shard_begin(&shard);
        for (int p = 0; p < 3; p++) {
            shard_add(&shard, name_of("layers.", &families[0], 0, 0, p, "weight"), "F8_E4M3", 2,
                      p == 2 ? (uint64_t[]){64, 130} : (uint64_t[]){130, 64});
            memset(scales, 0, sizeof scales);
            for (unsigned b = 0; b < bytes && p == 1; b++)
                scales[cases[i].at * bytes + b] = (uint8_t)(cases[i].bits >> 8 * b);
            shard_put(&shard, name_of("layers.", &families[0], 0, 0, p, "weight_scale"), cases[i].dtype, 2,
                      p == 2 ? turned : cases[i].dims, scales);
        }
        shard_write(&shard, "model.safetensors");
        struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
        ck_assert_str_eq(logged, "");
        enum kt_status status = kt_checkpoint_experts(checkpoint, 0, &expert, 1, &problem);
        ck_assert_int_eq(status, cases[i].fragment ? KT_E_FORMAT : KT_OK);
        if (cases[i].fragment)
            ck_assert_msg(strstr(problem.message, cases[i].fragment) != NULL, "%s", problem.message);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

START_TEST(zeros_order_and_shape)
{
    struct model model = model_of(GPTQ);
    model.odd_zero = 1;
    expect_experts(&model, KT_E_UNSUPPORTED,
                   "1.up_proj.qzeros\": the zero of row 0, column 0 on is stored as 3, not 7: GPTQ weights");
    model.odd_zero = 96 + 14;
    expect_experts(&model, KT_E_UNSUPPORTED, "the zero of row 13, column 32 on is stored as 3, not 7");
    model.odd_zero = 0;
    model.config = "{\"quantization_config\":{\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"}}";
    model.zero = 8;
    expect_experts(&model, KT_OK, "");
    model.odd_zero = 192;
    expect_experts(&model, KT_E_UNSUPPORTED, "the zero of row 95, column 32 on is stored as 3, not 8");
    model = model_of(GPTQ);
    model.odd_order = 32;
    expect_experts(&model, KT_E_UNSUPPORTED,
                   "1.up_proj.g_idx\": column 31 is of group 1, not 0: weights whose columns are not in");
    model.odd_order = 33; /* it is of group 1 */
    expect_experts(&model, KT_OK, "");
    model = model_of(PACKED_WORDS);
    model.shape_add = 8;
    expect_experts(
        &model, KT_E_FORMAT,
        "1.up_proj.weight_shape\" says that the weight is 96 x 72; its packed tensor holds 96 x 64");
    model = model_of(PACKED_WORDS);
    model.extra = ".weight_g_idx";
    model_write(&model);
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    struct kt_expert expert;
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, &expert, 1, &problem), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(problem.message, "weight_g_idx\" is i32 [8]; the groups of the weight's "
                                                  "columns must be i32 [64]"));
    kt_checkpoint_close(checkpoint);
    model = model_of(PACKED_WORDS);
    model.change = (struct change){".weight_shape", "I64", 1, {3}};
    model_write(&model);
    checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, &expert, 1, &problem), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(problem.message, "is i64 [3]; the shape of a weight must be i64 or i32"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("int4 wrong");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_test(tests, tensors_that_are_wrong);
    tcase_add_test(tests, fused_and_not);
    tcase_add_test(tests, experts_that_are_not_alike);
    tcase_add_test(tests, cut_short);
    tcase_add_test(tests, contradictions_with_config);
    tcase_add_test(tests, scales_that_are_no_numbers);
    tcase_add_test(tests, scales_of_fp8);
    tcase_add_test(tests, zeros_order_and_shape);
    return run_tests("int4 wrong", tests);
}
