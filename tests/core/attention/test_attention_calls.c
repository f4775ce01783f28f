/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention_calls.c - NaN, rows of 16 bits, wrong parameters and batches, no plugin. */
#include "tests/core/attention/attention_world.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <kt/tune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NaN in a query stays there, NaN in a sequence does, and queries, outputs may be 16 bits wide. */
START_TEST(nan_stays)
{
    struct world world;
    ck_assert(world_open(&world, &shapes[_i], "auto", 2, 0));
    const struct shape *shape = &shapes[_i];
    struct kt_kv_sequence *good = world_fill(&world, 300, 1), *bad;
    struct request request[] = {world_ask(&world, good, 290, 3), world_ask(&world, good, 290, 3)};
    world_run(&world, request, 1);
    ck_ok(kt_kv_sequence_fork(good, 200, &bad, &ck_error));
    ck_ok(kt_kv_sequence_reserve(bad, 200, 1, &ck_error));
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    float *nan = malloc((uint64_t)shape->kv_heads * shape->key_size * sizeof *nan);
    for (uint64_t i = 0; i < (uint64_t)shape->kv_heads * shape->key_size; i++)
        nan[i] = NAN;
    rows.n_heads = shape->kv_heads;
    rows.row = 200;
    rows.n_rows = 1;
    rows.dtype = KT_DTYPE_F32;
    ck_ok(kt_kv_sequence_write(bad, &rows, nan, &ck_error));
    free(nan);
    struct request poisoned = world_ask(&world, bad, 200, 1);
    request[1].queries[0] = NAN;
    struct request all[] = {request[1], poisoned};
    world_run(&world, all, 2);
    ck_assert(isnan(request[1].output[0]) && isnan(poisoned.output[0]));
    ck_assert(memcmp(request[1].output + shape->value_size, request[0].output + shape->value_size,
                     world_output_size(&world, 3) - shape->value_size * sizeof(float)) == 0);
    for (size_t i = 0; i < 2; i++)
        world_free_request(&request[i]);
    world_free_request(&poisoned);
    kt_kv_sequence_close(bad);
    kt_kv_sequence_close(good);
    world_close(&world);
}
END_TEST

static float widen(const uint16_t *from, uint32_t dtype)
{
    if (dtype == KT_DTYPE_BF16) {
        uint32_t bits = (uint32_t)*from << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    int exponent = *from >> 10 & 31, fraction = *from & 1023;
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(*from >> 15 ? -value : value);
}

/* Rows of 16 bits with strides: outputs are those of float32, rounded; what lies between rows stays. */
START_TEST(narrow_rows)
{
    static const uint32_t dtypes[] = {KT_DTYPE_BF16, KT_DTYPE_F16};
    struct world world;
    const struct shape *shape = &shapes[8];
    uint32_t dtype = dtypes[_i], n_q = shape->n_heads * shape->key_size,
             n_o = shape->n_heads * shape->value_size;
    ck_assert(world_open(&world, shape, "auto", 2, 0));
    struct kt_kv_sequence *sequence = world_fill(&world, 300, 1);
    struct request wide = world_ask(&world, sequence, 280, 3);
    uint16_t *queries = calloc(3 * (n_q + 5), 2), *output = malloc(3 * (n_o + 3) * 2);
    memset(output, 0x55, 3 * (n_o + 3) * 2);
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t i = 0; i < n_q; i++) {
            queries[t * (n_q + 5) + i] =
                (uint16_t)(dtype == KT_DTYPE_BF16 ? 0x3e80 + i % 160 : 0x3400 + i % 900);
            wide.queries[t * n_q + i] = widen(&queries[t * (n_q + 5) + i], dtype);
        }
    world_run(&world, &wide, 1);
    struct kt_attention_item item = wide.item;
    item.queries = queries;
    item.output = output;
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = &item;
    batch.n_items = 1;
    batch.query_dtype = batch.output_dtype = dtype;
    batch.query_stride = (n_q + 5) * 2;
    batch.output_stride = (n_o + 3) * 2;
    ck_ok(kt_attention_forward(world.attention, &batch, &ck_error));
    double unit = dtype == KT_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t i = 0; i < n_o + 3; i++) {
            const uint16_t *got = &output[t * (n_o + 3) + i];
            double expected = i < n_o ? (double)wide.output[t * n_o + i] : 0;
            ck_assert(i < n_o ? fabs((double)widen(got, dtype) - expected) <= fabs(expected) * unit + 0x1p-25
                              : *got == 0x5555);
        }
    free(queries);
    free(output);
    world_free_request(&wide);
    kt_kv_sequence_close(sequence);
    world_close(&world);
}
END_TEST

/* ---- wrong calls ---- */

static void fails_create(const struct world *world, const struct kt_attention_params *params,
                         enum kt_status wanted, const char *text)
{
    struct kt_attention *attention = NULL;
    ck_fails(kt_attention_create(world->kv, params, &attention, &ck_error), wanted, text);
    ck_assert_ptr_null(attention);
}

START_TEST(wrong_params)
{
    struct world world;
    ck_assert(world_open(&world, &shapes[0], "auto", 2, 0));
    const struct kt_attention_params good = world_params(&world);
    struct kt_attention_params params = good;
    ck_fails(kt_attention_create(NULL, &good, NULL, &ck_error), KT_E_INVALID, "must not be NULL");
    params.struct_size = 8;
    fails_create(&world, &params, KT_E_INVALID, "KT_ATTENTION_PARAMS_INIT");
    params = good, params.n_heads = 6;
    fails_create(&world, &params, KT_E_INVALID, "blk.0.attn: n_heads is 6; a multiple of the 4 heads");
    params = good, params.layer = 3;
    fails_create(&world, &params, KT_E_RANGE, "3");
    params = good, params.key_field = 1;
    fails_create(&world, &params, KT_E_UNSUPPORTED, "holds no keys");
    params = good, params.value_size = 129;
    fails_create(&world, &params, KT_E_INVALID, "value_size is 129, rows of field 1 have 128");
    params = good, params.softcap = -1;
    fails_create(&world, &params, KT_E_INVALID, "softcap -1");
    params = good, params.scale = NAN;
    fails_create(&world, &params, KT_E_INVALID, "scale is nan");
    params = good, params.backend = "nobody";
    fails_create(&world, &params, KT_E_NOT_FOUND, "no plugin nobody");
    params = good, params.backend = "reference";
    fails_create(&world, &params, KT_E_UNSUPPORTED, "does not compute attention");
    world_close(&world);
}
END_TEST

START_TEST(wrong_batches)
{
    struct world world, other;
    ck_assert(world_open(&world, &shapes[0], "auto", 2, 0) && world_open(&other, &shapes[0], "auto", 1, 0));
    struct kt_kv_sequence *sequence = world_fill(&world, 100, 1), *foreign = world_fill(&other, 100, 1);
    struct request request = world_ask(&world, sequence, 90, 10);
    memset(request.output, 0x55, world_output_size(&world, 10));
    struct kt_attention_item items[10] = {request.item};
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = items;
    batch.n_items = 1;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    items[0].n_tokens = 11;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_STATE,
             "11 tokens from position 90 on; the sequence has 67 tokens, and 33 more are reserved");
    items[0].n_tokens = 10, items[0].first_key = 32;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID,
             "item 0: first_key is 32; multiples of 64 up to the position 90");
    items[0].first_key = 128;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID, "first_key is 128");
    items[0].first_key = 0, items[0].sequence = foreign;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID, "of another cache");
    items[0].sequence = sequence, items[0].output = request.queries + 9;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID,
             "item 0: output overlaps queries");
    items[0].output = NULL;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID,
             "output must not be NULL");
    for (int i = 0; i < 2; i++) {
        items[0] = request.item;
        if (i == 0)
            items[0].queries = (const char *)items[0].queries + 2;
        else
            items[0].output = (char *)items[0].output + 1;
        ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID,
                 "item 0: queries or output are at an address that is not a multiple");
    }
    items[0] = request.item, batch.n_items = 17;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID, "17 items; at most 16");
    batch.n_items = 1, batch.query_stride = 100;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID, "query_stride 100");
    batch.query_stride = 0, batch.output_dtype = KT_DTYPE_Q4_K;
    ck_fails(kt_attention_forward(world.attention, &batch, &ck_error), KT_E_INVALID, "output_dtype is q4_k");
    for (uint64_t i = 0; i < world_output_size(&world, 10); i++)
        ck_assert_int_eq(((const char *)request.output)[i], 0x55);
    world_free_request(&request);
    kt_kv_sequence_close(sequence);
    kt_kv_sequence_close(foreign);
    world_close(&world);
    world_close(&other);
}
END_TEST

/* Values reach the plugin: a tile takes as many queries; what is wrong changes nothing. */
START_TEST(tunables)
{
    struct world world;
    struct kt_tunable_info info;
    char text[256] = "x";
    ck_assert(world_open(&world, &shapes[0], "scalar", 1, 0));
    const uint64_t standard = world.info.max_queries;
    ck_ok(kt_attention_tunable(world.attention, 0, &info, &ck_error));
    ck_assert_str_eq(info.name, "tile_queries");
    ck_assert_str_eq(info.section, "tuned.attention");
    ck_assert_str_eq(info.key, "scalar.bf16.attention-8x128x128.tile_queries");
    ck_assert_uint_eq(info.value, standard);
    ck_assert(!info.bits && !info.forbidden);
    ck_ok(kt_attention_tune(world.attention, "tile_queries", info.maximum, &ck_error));
    kt_attention_info(world.attention, &world.info);
    ck_assert_uint_eq(world.info.max_queries, info.maximum);
    ck_fails(kt_attention_tune(world.attention, "tile_queries", info.maximum + 1, &ck_error), KT_E_RANGE,
             "or 0 for the standard");
    ck_fails(kt_attention_tune(world.attention, "tile_query", 16, &ck_error), KT_E_INVALID,
             "blk.0.attn: level scalar of attention has no tunable tile_query; did you mean tile_queries?");
    ck_fails(kt_attention_tune(NULL, "tile_queries", 16, &ck_error), KT_E_INVALID, "NULL");
    ck_fails(kt_attention_tunable(world.attention, 9, &info, &ck_error), KT_E_RANGE, "has 1");
    ck_fails(kt_attention_tunable(world.attention, 0, NULL, &ck_error), KT_E_INVALID, "NULL");
    kt_attention_tuned(world.attention, text, sizeof text);
    ck_assert_str_eq(text, ""); /* nothing is configured */
    ck_ok(kt_attention_tune(world.attention, "tile_queries", 0, &ck_error));
    kt_attention_info(world.attention, &world.info);
    ck_assert_uint_eq(world.info.max_queries, standard);
    world_close(&world);
}
END_TEST

/* A configured value is in force, and said. */
START_TEST(configured_tunables)
{
    static const char *const settings[] = {"tuned.attention.scalar.bf16.attention-8x128x128.tile_queries=32",
                                           "tuned.attention.scalar.*.*.gain=1.25"};
    struct world world;
    char text[256], little[12];
    ck_assert(world_open_with(&world, &shapes[0], "scalar", settings, 2));
    ck_assert_uint_eq(world.info.max_queries, 32);
    kt_attention_tuned(world.attention, text, sizeof text);
    ck_assert_str_eq(text, "tile_queries 32 instead of 16; 25.0 % faster");
    kt_attention_tuned(world.attention, little, sizeof little);
    ck_assert_str_eq(little, "");
    world_close(&world);
}
END_TEST

/* Without a plugin for attention there is none, and the message names the one that comes with the library. */
START_TEST(no_plugin)
{
    struct kt_context *context = fixture_context(1);
    const struct kt_kv_field field = {.kind = KT_KV_ROWS,
                                      .layout = KT_KV_KEY,
                                      .dtype = KT_DTYPE_BF16,
                                      .heads = 1,
                                      .width = 8};
    const struct kt_kv_layer layer = {&field, 1, 0};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_attention_params wanted = KT_ATTENTION_PARAMS_INIT;
    struct world world = {.context = context};
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 64;
    wanted.n_heads = 1;
    ck_ok(kt_kv_create(context, &params, &world.kv, &ck_error));
    fails_create(&world, &wanted, KT_E_NOT_FOUND, "[plugin.attention]");
    world_close(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("calls");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    if (world_has_plugin()) {
        tcase_add_loop_test(tests, nan_stays, 0, WORLD_SHAPES);
        tcase_add_loop_test(tests, narrow_rows, 0, 2);
        tcase_add_test(tests, wrong_params);
        tcase_add_test(tests, wrong_batches);
        tcase_add_test(tests, tunables);
        tcase_add_test(tests, configured_tunables);
    }
    tcase_add_test(tests, no_plugin);
    return run_tests("attention calls", tests);
}
