/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of GGUF models with fused tensors, biases and a type for each tensor, against a plain model. */
#include "tests/support/gguf_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8, BF16 = 30, MXFP4 = 39, EXPERTS = 3, H = 32, I = 64 };

static struct kt_error error;
static struct bytes file;

static const struct {
    const char *architecture;
    int fused, has_bias;
    uint32_t bias_type;
    uint32_t types[2][3];
} cases[] = {
    {"gpt-oss", 0, 1, F32, {{MXFP4, MXFP4, MXFP4}, {MXFP4, MXFP4, MXFP4}}},
    {"gpt-oss", 1, 1, BF16, {{MXFP4, 0, Q8_0}, {BF16, 0, MXFP4}}},
    {"testmoe", 0, 0, F32, {{F32, BF16, F16}, {Q8_0, Q4_0, F32}}},
    {"testmoe", 1, 0, F32, {{F32, 0, BF16}, {F16, 0, Q4_0}}},
    {"testmoe", 0, 1, F16, {{MXFP4, Q8_0, Q4_0}, {F16, F32, BF16}}},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

/* Rows of all experts, as the views give them. */
static void decode(struct kt_checkpoint *checkpoint, uint64_t layer, struct fixture *fixture)
{
    struct kt_expert experts[EXPERTS];
    ck_ok(kt_checkpoint_experts(checkpoint, layer, experts, EXPERTS, &ck_error));
    for (uint64_t e = 0; e < EXPERTS; e++) {
        const struct kt_expert *expert = &experts[e];
        for (uint64_t r = 0; r < I; r++) {
            ck_ok(kt_view_row(&expert->gate, r, fixture->gate + (e * I + r) * H, &ck_error));
            ck_ok(kt_view_row(&expert->up, r, fixture->up + (e * I + r) * H, &ck_error));
        }
        for (uint64_t r = 0; r < H; r++)
            ck_ok(kt_view_row(&expert->down, r, fixture->down + (e * H + r) * I, &ck_error));
        ck_assert_int_eq(expert->gate_bias != NULL, fixture->bias);
        if (!fixture->bias)
            continue;
        memcpy(fixture->gate_bias + e * I, expert->gate_bias, I * sizeof(float));
        memcpy(fixture->up_bias + e * I, expert->up_bias, I * sizeof(float));
        memcpy(fixture->down_bias + e * H, expert->down_bias, H * sizeof(float));
    }
}

/* What the file means does not depend on the reader: gate rows come first in a fused tensor, biases go
 * with their rows. Weights of the plain types are the numbers that were written. */
static void expect_numbers(const struct model *model, struct kt_checkpoint *checkpoint,
                           const struct fixture *fixture)
{
    if (model->types[0][0] != F32 || !model->fused)
        return;
    struct kt_tensor_info info;
    uint64_t index;
    ck_ok(kt_checkpoint_find(checkpoint, "blk.0.ffn_gate_up_exps.weight", &index, &ck_error));
    ck_ok(kt_checkpoint_tensor(checkpoint, index, &info, &ck_error));
    for (uint64_t e = 0; e < EXPERTS; e++) {
        const uint8_t *expert = file.data + info.offset + e * 2 * I * H * sizeof(float);
        ck_assert_mem_eq(fixture->gate + e * I * H, expert, I * H * sizeof(float));
        ck_assert_mem_eq(fixture->up + e * I * H, expert + I * H * sizeof(float), I * H * sizeof(float));
    }
}

START_TEST(layers_against_a_plain_model)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint *checkpoint;
    model.architecture = cases[_i].architecture;
    model.fused = cases[_i].fused;
    model.has_bias = cases[_i].has_bias;
    model.bias_type = cases[_i].bias_type;
    model.experts = model.e = EXPERTS;
    model.top_k = 2;
    model.hidden = model.h = H;
    model.intermediate = model.i = I;
    model.has_types = 1;
    memcpy(model.types, cases[_i].types, sizeof model.types);
    build_model(&file, &model);
    ck_assert_msg(open_bytes(file.data, file.size, KT_IO_MMAP, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    for (uint64_t layer = 0; layer < 4; layer += 3) {
        struct fixture fixture = {.n_experts = EXPERTS,
                                  .top_k = 2,
                                  .n_tokens = 9,
                                  .max_tokens = 16,
                                  .hidden = H,
                                  .intermediate = I,
                                  .bias = model.has_bias};
        struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
        ck_ok(kt_checkpoint_layer_params(checkpoint, layer, &params, &ck_error));
        fixture.activation = params.activation;
        fixture.alpha = params.alpha;
        fixture.limit = params.limit;
        fixture_fill(&fixture, 7 + layer);
        for (uint64_t i = 0; i < fixture.n_tokens * H; i++)
            fixture.input[i] *= 3; /* so that the activation's limit is met */
        decode(checkpoint, layer, &fixture);
        if (layer == 0)
            expect_numbers(&model, checkpoint, &fixture);
        fixture_model(&fixture);
        params.max_tokens = 16;
        params.backend = "reference";
        fixture.context = fixture_context(2);
        ck_ok(kt_layer_create(fixture.context, &params, &fixture.layer, &ck_error));
        ck_ok(kt_layer_load_checkpoint(fixture.layer, checkpoint, layer, &ck_error));
        struct kt_forward forward = fixture_forward(&fixture);
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        double distance = fixture_error(&fixture);
        ck_assert_msg(distance < 1e-5, "layer %d: %g", (int)layer, distance);
        fixture_free(&fixture);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gguf_layer");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, layers_against_a_plain_model, 0, N_CASES);
    return run_tests("gguf_layer", tests);
}
