/* SPDX-License-Identifier: Apache-2.0 */
/* What experts of GGUF files compute, as their architecture and its limits say; experts without a gate. */
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <string.h>

static struct kt_error error;
static struct bytes file;
static struct kt_expert experts[2];

/* Opens a model of that architecture with a key, or none, of `count` numbers. */
static struct kt_checkpoint *open_model(struct model *model, const char *architecture, const char *key,
                                        uint32_t count)
{
    struct kt_checkpoint *checkpoint;
    model->architecture = architecture;
    model->extra_key = key;
    model->extra_count = count;
    build_model(&file, model);
    ck_assert_msg(open_bytes(file.data, file.size, KT_IO_MMAP, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    return checkpoint;
}

static void expect(const struct model *model, const char *fragment)
{
    struct kt_checkpoint *checkpoint;
    build_model(&file, model);
    ck_assert_int_eq(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error), KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "\"%s\" is not in: %s", fragment, error.message);
}

static void expect_layer(struct kt_checkpoint *checkpoint, uint64_t layer, uint32_t activation, float limit)
{
    struct kt_moe_info moe;
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, layer, &moe, &error), KT_OK);
    ck_assert_uint_eq(moe.activation, activation);
    ck_assert_float_eq(moe.limit, limit);
    ck_assert_float_eq(moe.alpha, activation == KT_ACTIVATION_SWIGLUOAI ? 1.702f : 0);
}

/* The same key is a limit before silu, or after it; of each layer, where it has several numbers. */
START_TEST(activation_of_architecture)
{
    static const struct {
        const char *architecture, *key;
        uint32_t activation;
        float limit;
    } cases[] = {{"gpt-oss", NULL, KT_ACTIVATION_SWIGLUOAI, 7},
                 {"minimax-m3", NULL, KT_ACTIVATION_SWIGLUOAI, 7},
                 {"gemma4", NULL, KT_ACTIVATION_GELU_TANH, 0},
                 {"deepseek4", NULL, KT_ACTIVATION_SILU, 0},
                 {"deepseek4", "deepseek4.swiglu_clamp_exp", KT_ACTIVATION_SWIGLU, 7},
                 {"step35", NULL, KT_ACTIVATION_SILU, 0},
                 {"step35", "step35.swiglu_clamp_exp", KT_ACTIVATION_SWIGLUSTEP, 7}};
    struct model model = MODEL_INIT;
    struct kt_checkpoint *checkpoint;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        checkpoint = open_model(&model, cases[i].architecture, cases[i].key, 0);
        expect_layer(checkpoint, 0, cases[i].activation, cases[i].limit);
        kt_checkpoint_close(checkpoint);
    }
    checkpoint = open_model(&model, "step35", "step35.swiglu_clamp_exp", 4);
    expect_layer(checkpoint, 0, KT_ACTIVATION_SILU, 0);
    expect_layer(checkpoint, 3, KT_ACTIVATION_SWIGLUSTEP, 7);
    kt_checkpoint_close(checkpoint);
    model.extra_count = 3;
    expect(&model, "is array of f32 of 3 elements; an f32, or one for each layer up to 3, is needed");
}
END_TEST

START_TEST(no_gate)
{
    struct model model = MODEL_INIT;
    struct kt_moe_info moe;
    model.architecture = "nemotron_h_moe";
    expect(&model,
           "\"blk.0.ffn_gate_exps.weight\" has a gate, but experts of architecture nemotron_h_moe have none");
    model.no_gate = 1;
    struct kt_checkpoint *checkpoint = open_model(&model, "nemotron_h_moe", NULL, 0);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &error), KT_OK);
    ck_assert(moe.activation == KT_ACTIVATION_RELU2 && moe.dtype[KT_GATE] == KT_DTYPE_NONE);
    ck_assert(moe.n_experts == 2 && moe.dtype[KT_UP] == KT_DTYPE_Q4_0);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_OK);
    ck_assert(!experts[1].gate.data && experts[1].up.data && experts[1].down.data);
    kt_checkpoint_close(checkpoint);
    model.architecture = "testmoe";
    expect(&model, "blk.0.ffn_gate_exps.weight is missing");
}
END_TEST

/* What no activation stands for is listed, but its experts are not handed out. */
START_TEST(unknown_activations)
{
    static const struct {
        const char *architecture, *key, *message;
    } cases[] = {{"grok", NULL, "is not supported"},
                 {"kimi-k3", NULL, "use situ"},
                 {"smallthinker", NULL, "is not supported"},
                 {"testmoe", "testmoe.swiglu_clamp_exp", "is not supported"}};
    struct model model = MODEL_INIT;
    struct kt_moe_info moe;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_checkpoint *checkpoint = open_model(&model, cases[i].architecture, cases[i].key, 0);
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &error), KT_OK);
        ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, 2, &error), KT_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.message, cases[i].message));
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gguf_activations");
    tcase_add_test(tests, activation_of_architecture);
    tcase_add_test(tests, no_gate);
    tcase_add_test(tests, unknown_activations);
    return run_tests("gguf_activations", tests);
}
