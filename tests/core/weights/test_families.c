/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of safetensors checkpoints: names of families, fused tensors, biases, contradictions. */
#include "tests/support/family_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_config(const char *more)
{
    folder_text("config.json",
                "{\"model_type\":\"testmoe\",\"hidden_size\":%d,\"moe_intermediate_size\":%d,"
                "\"num_experts\":%d,\"num_experts_per_tok\":%d,\"num_hidden_layers\":9%s}",
                H, I, E, TOP_K, more);
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *const prefixes[] = {"model.layers.", "language_model.model.layers.",
                                       "model.language_model.layers.", "layers."};
static void expect_layer(struct kt_checkpoint *checkpoint, const char *prefix, const struct family *family,
                         int layer, const char *dtype)
{
    struct kt_expert experts[E];
    struct kt_moe_info moe;
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, (uint64_t)layer, &moe, &problem), KT_OK);
    ck_assert_uint_eq(moe.n_experts, E);
    ck_assert_uint_eq(moe.top_k, TOP_K);
    ck_assert_uint_eq(moe.hidden_size, H);
    ck_assert_uint_eq(moe.intermediate_size, I);
    ck_assert_uint_eq(moe.activation, KT_ACTIVATION_SILU);
    ck_assert_uint_eq(moe.has_bias, 0);
    ck_assert_msg(kt_checkpoint_experts(checkpoint, (uint64_t)layer, experts, E, &problem) == KT_OK, "%s",
                  problem.message);
    for (int e = 0; e < E; e++) {
        const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        for (int p = 0; p < 3; p++) {
            const uint64_t *dims = shape_of(p);
            struct place place = {.name = name_of(prefix, family, layer, e, p, "weight"),
                                  .dtype = dtype,
                                  .row_step = dims[1],
                                  .col_step = 1};
            expect_view(views[p], dims[0], dims[1], &place);
        }
        ck_assert_ptr_null(experts[e].gate_bias);
    }
}

START_TEST(names_of_every_family)
{
    static const char *const dtypes[] = {"BF16", "F16", "F32"};
    const char *prefix = prefixes[_i % 4];
    const struct family *family = &families[_i / 4];
    for (int d = 0; d < 3; d++) {
        struct kt_checkpoint_info info;
        shard_begin(&shard);
        add_layer(prefix, family, 8, dtypes[d]);
        shard_add(&shard, "model.norm.weight", "BF16", 1, (uint64_t[]){3});
        shard_add(&shard, "model.layers.0.mlp.shared_experts.gate_proj.weight", "BF16", 2,
                  (uint64_t[]){2, 2});
        shard_add(&shard, "model.layers.0.mlp.gate_proj.weight", "BF16", 2, (uint64_t[]){2, 2});
        add_layer(prefix, family, 1, dtypes[d]);
        shard_write(&shard, "model.safetensors");
        write_config("");
        struct kt_checkpoint *checkpoint = open_model(d % 2 ? KT_IO_READ : KT_IO_MMAP);
        kt_checkpoint_info(checkpoint, &info);
        ck_assert_str_eq(info.architecture, "testmoe");
        ck_assert_uint_eq(info.n_layers, 9);
        ck_assert_uint_eq(info.n_moe_layers, 2);
        ck_assert_uint_eq(info.expert_size, 2 * E * 3 * I * H * (d == 2 ? 4 : 2));
        expect_layer(checkpoint, prefix, family, 1, dtypes[d]);
        expect_layer(checkpoint, prefix, family, 8, dtypes[d]);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

static void add_gateless(const char *first)
{
    char name[96];
    shard_begin(&shard);
    for (int e = 0; e < E; e++) {
        (void)snprintf(name, sizeof name, "backbone.layers.3.mixer.experts.%d.%s.weight", e, first);
        shard_add(&shard, name, "BF16", 2, (uint64_t[]){I, H});
        (void)snprintf(name, sizeof name, "backbone.layers.3.mixer.experts.%d.down_proj.weight", e);
        shard_add(&shard, name, "BF16", 2, (uint64_t[]){H, I});
    }
    shard_write(&shard, "model.safetensors");
}

/* Nemotron-H: experts of up and down, whose hidden size may be that of a latent space. */
START_TEST(experts_without_a_gate)
{
    struct kt_expert experts[E];
    struct kt_moe_info moe;
    add_gateless("up_proj");
    folder_text("config.json",
                "{\"model_type\":\"nemotron_h\",\"mlp_hidden_act\":\"relu2\",\"hidden_size\":999,"
                "\"moe_latent_size\":%d,\"moe_intermediate_size\":%d}",
                H, I);
    struct kt_checkpoint *checkpoint = open_model((enum kt_io)_i);
    ck_assert_msg(kt_checkpoint_moe(checkpoint, 3, &moe, &problem) == KT_OK, "%s", problem.message);
    ck_assert_uint_eq(moe.activation, KT_ACTIVATION_RELU2);
    ck_assert(moe.hidden_size == H && moe.intermediate_size == I && moe.dtype[KT_GATE] == KT_DTYPE_NONE);
    ck_assert_uint_eq(moe.size, 2 * E * I * H * 2);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 3, experts, E, &problem), KT_OK);
    for (int e = 0; e < E; e++)
        ck_assert(!experts[e].gate.data && experts[e].up.rows == I && experts[e].down.rows == H);
    kt_checkpoint_close(checkpoint);
    folder_text("config.json", "{\"model_type\":\"nemotron_h\"}");
    expect(KT_E_FORMAT, "tensor \"backbone.layers.3.mixer.experts.0.gate_proj.weight\" is missing");
}
END_TEST

START_TEST(names_that_are_nearly_right)
{
    static const char *const names[] =
        {"model.layers.00.mlp.experts.0.gate_proj.weight", "model.layers..mlp.experts.0.gate_proj.weight",
         "model.layers.0.mlp.experts.00.gate_proj.weight", "model.layers.0.mlp.experts.x.gate_proj.weight",
         "model.layers.0.mlp.experts.0.gate_projx.weight", "model.layers.0.mlp.expert.0.gate_proj.weight",
         "xmodel.layers.0.mlp.experts.0.gate_proj.weight", "model.layers.-1.mlp.experts.0.w1.weight",
         "model.layers.1234567890.experts.0.w1.weight",    "mtp.layers.0.mlp.experts.0.gate_proj.weight",
         "model.layers.0.mlp.experts.0.w1.weight",         "model.layers.0.mlp.experts.gate_up_projx"};
    struct kt_moe_info moe;
    shard_begin(&shard);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        shard_add(&shard, names[i], "BF16", 2, (uint64_t[]){2, 2});
    shard_write(&shard, "model.safetensors");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &problem), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(problem.message, "known family"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* ---- fused ---------------------------------------------------------------------------------- */

#define GATE_UP "model.layers.0.mlp.experts.gate_up_proj"
#define DOWN "model.layers.0.mlp.experts.down_proj"

static void add_fused(bool turned, uint64_t i, uint64_t h, bool bias)
{
    shard_begin(&shard);
    shard_add(&shard, GATE_UP, "BF16", 3, turned ? (uint64_t[]){E, h, 2 * i} : (uint64_t[]){E, 2 * i, h});
    shard_add(&shard, DOWN, "BF16", 3, turned ? (uint64_t[]){E, i, h} : (uint64_t[]){E, h, i});
    if (bias) {
        shard_add(&shard, GATE_UP "_bias", "BF16", 2, (uint64_t[]){E, 2 * i});
        shard_add(&shard, DOWN "_bias", "F32", 2, (uint64_t[]){E, h});
    }
    shard_write(&shard, "model.safetensors");
}

START_TEST(names_of_fused_experts)
{
    static const char *const names[][2] =
        {{"mlp.experts.gate_up_proj", "mlp.experts.down_proj"},
         {"experts.gate_up_proj", "experts.down_proj"},
         {"feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"},
         {"mlp.experts.fc1.weight", "mlp.experts.fc2.weight"},
         {"block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"},
         {"block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"}};
    char both[80], down[80];
    struct kt_moe_info moe;
    (void)snprintf(both, sizeof both, "model.layers.0.%s", names[_i][0]);
    (void)snprintf(down, sizeof down, "model.layers.0.%s", names[_i][1]);
    shard_begin(&shard);
    shard_add(&shard, both, "BF16", 3, (uint64_t[]){E, 2 * I, H});
    shard_add(&shard, down, "BF16", 3, (uint64_t[]){E, H, I});
    shard_write(&shard, "model.safetensors");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_msg(kt_checkpoint_moe(checkpoint, 0, &moe, &problem) == KT_OK, "%s", problem.message);
    ck_assert_uint_eq(moe.n_experts, E);
    ck_assert_uint_eq(moe.hidden_size, H);
    ck_assert_uint_eq(moe.intermediate_size, I);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* DBRX: the rows of one expert below another's, and down is transposed. */
#define STACK "transformer.blocks.0.ffn.experts.mlp."

static void add_stacked(uint32_t n_dims, uint64_t rows_of_down)
{
    shard_begin(&shard);
    shard_add(&shard, STACK "w1", "BF16", n_dims,
              n_dims == 2 ? (uint64_t[]){E * I, H} : (uint64_t[]){E, I, H});
    shard_add(&shard, STACK "v1", "BF16", 2, (uint64_t[]){E * I, H});
    shard_add(&shard, STACK "w2", "BF16", 2, (uint64_t[]){rows_of_down, H});
    shard_write(&shard, "model.safetensors");
}

START_TEST(experts_below_one_another)
{
    static const char *const names[] = {STACK "w1", STACK "v1", STACK "w2"};
    struct kt_expert experts[E];
    struct kt_moe_info moe;
    add_stacked(2, E * I);
    folder_text("config.json",
                "{\"d_model\":%d,\"n_layers\":1,\"ffn_config\":{\"ffn_hidden_size\":%d,"
                "\"moe_num_experts\":%d,\"moe_top_k\":2,\"ffn_act_fn\":{\"name\":\"silu\"}}}",
                H, I, E);
    struct kt_checkpoint *checkpoint = open_model((enum kt_io)_i);
    ck_assert_msg(kt_checkpoint_moe(checkpoint, 0, &moe, &problem) == KT_OK, "%s", problem.message);
    ck_assert(moe.n_experts == E && moe.hidden_size == H && moe.intermediate_size == I && moe.top_k == 2);
    ck_assert_uint_eq(moe.size, E * 3 * I * H * 2);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, E, &problem), KT_OK);
    for (uint64_t e = 0; e < E; e++) {
        const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        for (int p = 0; p < 3; p++) {
            struct place place = {.name = names[p],
                                  .dtype = "BF16",
                                  .first = e * I * H,
                                  .row_step = p == KT_DOWN ? 1 : H,
                                  .col_step = p == KT_DOWN ? H : 1};
            expect_view(views[p], p == KT_DOWN ? H : I, p == KT_DOWN ? I : H, &place);
        }
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(experts_below_one_another_that_are_wrong)
{
    static const struct {
        const char *config, *fragment;
        uint32_t n_dims;
        uint64_t rows_of_down;
    } cases[] = {{"{}", "says that there are 0 experts", 2, E * I},
                 {"{\"ffn_config\":{\"moe_num_experts\":7}}", "says that there are 7 experts", 2, E * I},
                 {"{\"num_experts\":3}", "that does not fit tensor", 2, E * I - 3},
                 {"{\"num_experts\":3}", "must be [experts x intermediate size][hidden size]", 3, E * I}};
    add_stacked(cases[_i].n_dims, cases[_i].rows_of_down);
    folder_text("config.json", "%s", cases[_i].config);
    expect(KT_E_FORMAT, cases[_i].fragment);
}
END_TEST

/* alternate: gate and up rows take turns, as in gpt-oss */
static void expect_fused(struct kt_checkpoint *checkpoint, bool turned, bool alternate, uint64_t i,
                         uint64_t h)
{
    struct kt_expert experts[E];
    ck_assert_msg(kt_checkpoint_experts(checkpoint, 0, experts, E, &problem) == KT_OK, "%s", problem.message);
    for (uint64_t e = 0; e < E; e++) {
        uint64_t begin = e * 2 * i * h, row = turned ? 1 : h;
        struct place place = {.name = GATE_UP,
                              .dtype = "BF16",
                              .first = begin,
                              .row_step = alternate ? 2 * row : row,
                              .col_step = turned ? 2 * i : 1};
        expect_view(&experts[e].gate, i, h, &place);
        place.first = begin + (alternate ? row : i * row);
        expect_view(&experts[e].up, i, h, &place);
        place = (struct place){.name = DOWN,
                               .dtype = "BF16",
                               .first = e * i * h,
                               .row_step = turned ? 1 : i,
                               .col_step = turned ? h : 1};
        expect_view(&experts[e].down, h, i, &place);
        for (uint64_t r = 0; experts[e].gate_bias && r < i; r++) {
            uint64_t gate = e * 2 * i + (alternate ? 2 * r : r);
            ck_assert(experts[e].gate_bias[r] == value_of(GATE_UP "_bias", "BF16", gate));
            ck_assert(experts[e].up_bias[r] == value_of(GATE_UP "_bias", "BF16", gate + (alternate ? 1 : i)));
        }
        for (uint64_t r = 0; experts[e].down_bias && r < h; r++)
            ck_assert(experts[e].down_bias[r] == value_of(DOWN "_bias", "F32", e * h + r));
    }
}

START_TEST(fused_tensors)
{
    /* H is twice I in the second row: gate_up_proj alone does not say how it lies. */
    static const uint64_t sizes[][2] = {{24, 40}, {24, 48}, {32, 32}};
    for (int s = 0; s < 3; s++)
        for (int turned = 0; turned < 2; turned++)
            for (int config = 0; config < 2; config++) {
                struct kt_moe_info moe;
                uint64_t i = sizes[s][0], h = sizes[s][1];
                add_fused(turned, i, h, false);
                if (config)
                    folder_text("config.json",
                                "{\"hidden_size\":%d,\"moe_intermediate_size\":%d,"
                                "\"num_local_experts\":%d}",
                                (int)h, (int)i, E);
                struct kt_checkpoint *checkpoint = open_model((enum kt_io)_i);
                ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &problem), KT_OK);
                ck_assert_uint_eq(moe.hidden_size, h);
                ck_assert_uint_eq(moe.intermediate_size, i);
                ck_assert_uint_eq(moe.size, E * 3 * i * h * 2);
                expect_fused(checkpoint, turned, false, i, h);
                kt_checkpoint_close(checkpoint);
                if (config)
                    folder_delete("config.json");
            }
}
END_TEST

START_TEST(fused_tensors_of_gpt_oss)
{
    for (int turned = 0; turned < 2; turned++) {
        struct kt_moe_info moe;
        add_fused(turned, 24, 40, true);
        folder_text("config.json", "{\"model_type\":\"gpt_oss\",\"hidden_act\":\"silu\","
                                   "\"swiglu_limit\":7.0,\"intermediate_size\":24}");
        struct kt_checkpoint *checkpoint = open_model((enum kt_io)_i);
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &problem), KT_OK);
        ck_assert_uint_eq(moe.has_bias, 7);
        ck_assert_uint_eq(moe.activation, KT_ACTIVATION_SWIGLUOAI);
        ck_assert_float_eq(moe.alpha, 1.702f);
        ck_assert_float_eq(moe.limit, 7.0f);
        expect_fused(checkpoint, turned, true, 24, 40);
        expect_fused(checkpoint, turned, true, 24, 40);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* Without a model_type nobody knows whether gate and up alternate; the sizes have bounds. */
START_TEST(fused_tensors_that_are_refused)
{
    static const struct {
        uint64_t experts, layer;
        const char *fragment;
    } cases[] = {{65537, 0, "layers up to 65535 and 65536 experts can be handled"},
                 {2, 65536, "layers up to 65535 and 65536 experts can be handled"}};
    add_fused(false, 24, 40, true);
    kt_checkpoint_close(open_model(KT_IO_MMAP));
    ck_assert_msg(strstr(logged, "whether gate and up rows alternate") != NULL, "%s", logged);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_checkpoint_info info;
        char name[2][64];
        (void)snprintf(name[0], sizeof name[0], "layers.%d.mlp.experts.gate_up_proj", (int)cases[i].layer);
        (void)snprintf(name[1], sizeof name[1], "layers.%d.mlp.experts.down_proj", (int)cases[i].layer);
        shard_begin(&shard);
        shard_add(&shard, name[0], "BF16", 3, (uint64_t[]){cases[i].experts, 2, 1});
        shard_add(&shard, name[1], "BF16", 3, (uint64_t[]){cases[i].experts, 1, 1});
        shard_write(&shard, "model.safetensors");
        struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
        kt_checkpoint_info(checkpoint, &info);
        ck_assert_uint_eq(info.n_moe_layers, 0);
        ck_assert_msg(strstr(logged, cases[i].fragment) != NULL, "%s", logged);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

START_TEST(fused_tensors_that_are_wrong)
{
    static const struct {
        uint64_t both[3], down[3];
        unsigned n_dims;
        const char *config, *fragment;
    } cases[] = {
        {{3, 48, 40}, {3, 24, 40}, 3, "{}", "does not fit"}, /* one turned, the other not */
        {{3, 40, 48}, {3, 40, 24}, 3, "{}", "does not fit"},
        {{3, 47, 40}, {3, 40, 23}, 3, "{}", "is [3][40][23], slowest dimension first; that does"},
        {{3, 48, 40}, {2, 40, 24}, 3, "{}", "does not fit"},
        {{3, 48, 40}, {3, 40, 24}, 2, "{}", "it must be [experts][2 x intermediate size]"},
        {{3, 48, 40},
         {3, 40, 24},
         3,
         "{\"hidden_size\":48}",
         "\"hidden_size\" is 48, but layer 0 has hidden size 40: tensor \"" GATE_UP "\""},
        {{3, 48, 40},
         {3, 40, 24},
         3,
         "{\"moe_intermediate_size\":48}",
         "\"moe_intermediate_size\" is 48, but layer 0 has intermediate size 24"},
        {{3, 48, 40},
         {3, 40, 24},
         3,
         "{\"num_experts\":4}",
         "\"num_experts\" is 4, but layer 0 has number of experts 3"},
        {{0, 48, 40}, {0, 40, 24}, 3, "{}", "it must be [experts]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shard_begin(&shard);
        shard_add(&shard, GATE_UP, "BF16", cases[i].n_dims, cases[i].both);
        shard_add(&shard, DOWN, "BF16", cases[i].n_dims, cases[i].down);
        shard_write(&shard, "model.safetensors");
        folder_text("config.json", "%s", cases[i].config);
        expect(KT_E_FORMAT, cases[i].fragment);
    }
    shard_begin(&shard);
    shard_add(&shard, GATE_UP, "BF16", 3, (uint64_t[]){3, 48, 40});
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "{}");
    expect(KT_E_FORMAT, "tensor \"" DOWN "\" is missing");
    shard_add(&shard, DOWN, "BF16", 3, (uint64_t[]){3, 40, 24});
    shard_add(&shard, GATE_UP "_bias", "BF16", 2, (uint64_t[]){3, 24});
    shard_write(&shard, "model.safetensors");
    expect(KT_E_FORMAT, "tensor \"" GATE_UP "_bias\" is [3][24]");
}
END_TEST

START_TEST(biases_of_experts)
{
    static const char *const dtypes[] = {"BF16", "F16", "F32"};
    const char *dtype = dtypes[_i];
    struct kt_expert experts[E], again[E];
    struct kt_moe_info moe;
    shard_begin(&shard);
    add_layer("model.layers.", &families[0], 0, "BF16");
    shard_add(&shard, "odd", "U8", 1, (uint64_t[]){1});
    for (int e = 0; e < E; e++)
        for (int p = 0; p < 3; p++)
            shard_add(&shard, name_of("model.layers.", &families[0], 0, e, p, "bias"), dtype, 1, shape_of(p));
    shard_write(&shard, "model.safetensors");
    write_config("");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &problem), KT_OK);
    ck_assert_uint_eq(moe.has_bias, 7);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, experts, E, &problem), KT_OK);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, again, 1, &problem), KT_OK);
    ck_assert_ptr_eq(experts[0].up_bias, again[0].up_bias);
    for (int e = 0; e < E; e++) {
        const float *biases[] = {experts[e].gate_bias, experts[e].up_bias, experts[e].down_bias};
        for (int p = 0; p < 3; p++)
            for (uint64_t r = 0; r < shape_of(p)[0]; r++)
                ck_assert(biases[p][r] ==
                          value_of(name_of("model.layers.", &families[0], 0, e, p, "bias"), dtype, r));
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* ---- contradictions ------------------------------------------------------------------------- */

#define EXPERT(n) "model.layers.4.mlp.experts." #n "."

/* One layer of three experts in BF16; what is wrong with it. */
static const struct change {
    const char *left_out, *changed, *dtype; /* the tensor `changed` has this dtype ... */
    uint64_t rows, cols;                    /* ... and this shape, 0: its own */
    const char *added, *added_dtype;        /* [I][H], or [I] with cols 0 */
    enum kt_status status;
    const char *fragment;
} changes[] = {
    {EXPERT(1) "up_proj.weight", NULL, NULL, 0, 0, NULL, NULL, KT_E_FORMAT,
     "layer 4, expert 1: tensor \"" EXPERT(1) "up_proj.weight\" is missing"},
    {EXPERT(0) "down_proj.weight", NULL, NULL, 0, 0, NULL, NULL, KT_E_FORMAT,
     "layer 4, expert 0: tensor \"" EXPERT(0) "down_proj.weight\" is missing"},
    {NULL, NULL, NULL, 0, 0, EXPERT(3) "gate_proj.weight", "BF16", KT_E_FORMAT,
     "layer 4, expert 3: tensor \"" EXPERT(3) "up_proj.weight\" is missing"},
    {NULL, NULL, NULL, 0, 0, EXPERT(5) "gate_proj.weight", "BF16", KT_E_FORMAT,
     "layer 4: expert 3 is missing, but there is tensor \"" EXPERT(5) "gate_proj.weight\""},
    {NULL, NULL, NULL, 0, 0, EXPERT(999999999) "gate_proj.weight", "BF16", KT_E_FORMAT,
     "layer 4: expert 3 is missing"},
    {NULL, EXPERT(2) "gate_proj.weight", "F16", 0, 0, NULL, NULL, KT_E_UNSUPPORTED,
     "layer 4, expert 2: tensor \"" EXPERT(
         2) "gate_proj.weight\" is f16 [24][40], but that of expert 0 is bf16 [24][40]"},
    {NULL, EXPERT(1) "down_proj.weight", "BF16", 24, 40, NULL, NULL, KT_E_FORMAT,
     "layer 4, expert 1: tensor \"" EXPERT(1) "down_proj.weight\" is bf16 [24][40], but"},
    {NULL, EXPERT(0) "up_proj.weight", "BF16", 24, 41, NULL, NULL, KT_E_FORMAT,
     "layer 4, expert 1: tensor \"" EXPERT(1) "up_proj.weight\""},
    {NULL, EXPERT(1) "gate_proj.weight", "BF16", 0, 40, NULL, NULL, KT_E_FORMAT, "is bf16 [0][40]"},
    {NULL, NULL, NULL, 0, 0, EXPERT(1) "up_proj.bias", "BF16", KT_E_FORMAT,
     "there is tensor \"" EXPERT(1) "up_proj.bias\", but expert 0 has none like it"},
    {NULL, NULL, NULL, 0, 0, EXPERT(0) "up_proj.bias", "BF16", KT_E_FORMAT,
     "there is tensor \"" EXPERT(0) "up_proj.bias\", but expert 1 has none like it"},
    {NULL, NULL, NULL, 0, 0, "model.layers.4.block_sparse_moe.experts.0.w1.weight", "BF16", KT_E_FORMAT,
     "layer 4 has experts under two kinds of names"},
    {NULL, NULL, NULL, 0, 0, "layers.4.mlp.experts.0.gate_proj.weight", "BF16", KT_E_FORMAT,
     "layer 4 has experts under two kinds of names"},
    {NULL, NULL, NULL, 0, 0, "model.layers.4.mlp.experts.down_proj", "BF16", KT_E_FORMAT,
     "layer 4 has experts under two kinds of names"},
    {NULL, NULL, NULL, 0, 0, EXPERT(0) "up_proj", "BF16", KT_E_FORMAT, "stand for the same"},
};

START_TEST(contradictions_between_tensors)
{
    const struct change *change = &changes[_i];
    shard_begin(&shard);
    for (int e = 0; e < E; e++)
        for (int p = 0; p < 3; p++) {
            const char *name = name_of("model.layers.", &families[0], 4, e, p, "weight");
            const uint64_t *shape = shape_of(p);
            bool changed = change->changed && strcmp(name, change->changed) == 0;
            if (change->left_out && strcmp(name, change->left_out) == 0)
                continue;
            const uint64_t other[] = {change->rows, change->cols};
            shard_add(&shard, name, changed ? change->dtype : "BF16", 2,
                      changed && change->cols ? other : shape);
        }
    if (change->added)
        shard_add(&shard, change->added, change->added_dtype, 2, (uint64_t[]){I, H});
    shard_write(&shard, "model.safetensors");
    if (change->status == KT_E_UNSUPPORTED)
        expect_warning(change->fragment);
    else
        expect(change->status, change->fragment);
}
END_TEST

START_TEST(shapes_that_do_not_fit)
{
    static const struct {
        uint64_t gate[2], up[2], down[2];
        const char *fragment;
    } cases[] = {
        {{24, 40}, {40, 24}, {40, 24}, "w3.weight\" is [40][24], slowest dimension first; that"},
        {{24, 40}, {24, 40}, {24, 40}, "w2.weight\" is [24][40], slowest dimension first; that"},
        {{0, 40}, {0, 40}, {40, 0}, "w1.weight\" is [0][40], slowest dimension first; it must"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shard_begin(&shard);
        shard_add(&shard, "layers.0.experts.0.w1.weight", "BF16", 2, cases[i].gate);
        shard_add(&shard, "layers.0.experts.0.w3.weight", "BF16", 2, cases[i].up);
        shard_add(&shard, "layers.0.experts.0.w2.weight", "BF16", 2, cases[i].down);
        shard_write(&shard, "model.safetensors");
        expect(KT_E_FORMAT, cases[i].fragment);
    }
}
END_TEST

/* Layers beyond the model's own are not layers of it, however they look. Those that can be read are found by
 * their number. */
START_TEST(layers_beyond_the_model)
{
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    write_model();
    for (int i = 0; i < 6; i++) {
        char name[80];
        snprintf(name, sizeof name, "mtp.layers.2.mlp.experts.%d.%s.weight", i / 3, projections[i % 3]);
        shard_add(&shard, name, "BF16", 2, i % 3 == 2 ? (uint64_t[]){40, 24} : (uint64_t[]){24, 40});
    }
    shard_add(&shard, "model.layers.5.mlp.experts.7.gate_proj.qweight", "I32", 1, (uint64_t[]){2});
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "{\"num_hidden_layers\":4,\"num_experts_per_tok\":2}");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_moe_layers, 1);
    ck_assert_uint_eq(info.n_tensors, 25);
    ck_assert(kt_checkpoint_moe(checkpoint, 4, &moe, NULL) == KT_OK);
    ck_assert(kt_checkpoint_moe(checkpoint, 6, &moe, NULL) == KT_OK);
    ck_assert(moe.layer == 6 && moe.n_experts == 2 && moe.hidden_size == 40);
    ck_assert(kt_checkpoint_moe(checkpoint, 5, &moe, NULL) == KT_E_NOT_FOUND);
    expect_layer(checkpoint, "model.layers.", &families[0], 2, "BF16");
    ck_assert_msg(strstr(logged, "2 ") && strstr(logged, "up to 6 are left out: the model has 4"), "%s",
                  logged);
    kt_checkpoint_close(checkpoint);
    folder_text("config.json", "{\"num_hidden_layers\":0}");
    checkpoint = open_model(KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_moe_layers, 0);
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("families");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_loop_test(tests, names_of_every_family, 0, 16);
    tcase_add_loop_test(tests, experts_without_a_gate, 0, 2);
    tcase_add_loop_test(tests, names_of_fused_experts, 0, 6);
    tcase_add_loop_test(tests, experts_below_one_another, 0, 2);
    tcase_add_loop_test(tests, experts_below_one_another_that_are_wrong, 0, 4);
    tcase_add_test(tests, names_that_are_nearly_right);
    tcase_add_loop_test(tests, fused_tensors, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, fused_tensors_of_gpt_oss, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, fused_tensors_that_are_refused);
    tcase_add_test(tests, fused_tensors_that_are_wrong);
    tcase_add_loop_test(tests, biases_of_experts, 0, 3);
    tcase_add_loop_test(tests, contradictions_between_tensors, 0, (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(tests, shapes_that_do_not_fit);
    tcase_add_test(tests, layers_beyond_the_model);
    return run_tests("families", tests);
}
