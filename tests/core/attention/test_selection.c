/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_selection.c - selections of rows against their definition in float64, at the levels that this CPU has;
 * attention to selected rows has the bits of attention to a sequence that has no others.
 */
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"scalar", "avx2", "avx512", "avx512_bf16", "amx", "arm_bf16", "neon"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { WIDTH = 96, VALUES = 64, HEADS = 4, SIZE = 34, INDEX_HEADS = 37, TOKENS = 900, BUDGET = 300 };
/* Fields of layer 0: plain latents and keys of an index; of layer 1 the same latents as blocks of keys. */
enum { LATENT, INDEX };

struct world {
    struct kt_context *context;
    struct kt_kv *kv;
    struct kt_selector *selector;
    struct kt_attention *plain, *blocks;
};

static float number(uint64_t seed)
{
    seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    seed ^= seed >> 29;
    seed *= UINT64_C(0xbf58476d1ce4e5b9);
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

/* false: the plugin is not built. */
static bool open_context(struct world *world, const char *level, int threads)
{
    char module[512], wish[64], count[32];
    const char *settings[] = {module, wish, count, "core.spin_us=0", "core.deterministic=yes"};
    const char *file = sandbox_backend("attention");
    memset(world, 0, sizeof *world);
    if (!file)
        return false;
    (void)snprintf(module, sizeof module, "plugin.attention.module=%s", file);
    (void)snprintf(wish, sizeof wish, "plugin.attention.level=%s", level);
    (void)snprintf(count, sizeof count, "core.threads=%d", threads);
    world->context = fixture_context_with(settings, COUNT(settings));
    return true;
}

static struct kt_selector_params selector_params(uint32_t budget)
{
    struct kt_selector_params params = KT_SELECTOR_PARAMS_INIT;
    params.field = INDEX;
    params.n_heads = INDEX_HEADS;
    params.budget = budget;
    params.max_tokens = 8000;
    return params;
}

static void make_cache(struct world *world, uint32_t latents, uint32_t index)
{
    struct kt_kv_field fields[] = {
        {.layout = KT_KV_PLAIN, .dtype = latents, .heads = 1, .width = WIDTH},
        {.layout = KT_KV_KEY, .dtype = index, .heads = 1, .width = SIZE},
        {.layout = KT_KV_KEY, .dtype = latents, .heads = 1, .width = WIDTH},
    };
    const struct kt_kv_layer layers[] = {{fields, 2, 0}, {fields + 2, 1, 0}};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    params.layers = layers;
    params.n_layers = 2;
    params.tokens = 8000;
    ck_ok(kt_kv_create(world->context, &params, &world->kv, &ck_error));
}

/* false: this CPU has no such level. */
static bool open_world(struct world *world, const char *level, int threads, uint32_t latents, uint32_t index)
{
    struct kt_attention_params attention = KT_ATTENTION_PARAMS_INIT;
    struct kt_selector_params params = selector_params(BUDGET);
    struct kt_error error;
    if (!open_context(world, level, threads))
        return false;
    make_cache(world, latents, index);
    enum kt_status status = kt_selector_create(world->kv, &params, &world->selector, &error);
    if (status == KT_E_NOT_FOUND && strcmp(level, "scalar") != 0)
        return false;
    ck_assert_msg(status == KT_OK, "%s", error.message);
    attention.n_heads = HEADS;
    attention.value_size = VALUES;
    ck_ok(kt_attention_create(world->kv, &attention, &world->plain, &ck_error));
    attention.layer = 1;
    ck_ok(kt_attention_create(world->kv, &attention, &world->blocks, &ck_error));
    return true;
}

static void close_world(struct world *world)
{
    kt_selector_destroy(world->selector);
    kt_attention_destroy(world->plain);
    kt_attention_destroy(world->blocks);
    kt_kv_destroy(world->kv);
    kt_context_destroy(world->context);
}

static void write_rows(struct kt_kv_sequence *sequence, uint32_t layer, uint32_t field, uint64_t row,
                       const float *data)
{
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    rows.layer = layer;
    rows.field = field;
    rows.n_heads = 1;
    rows.n_rows = 1;
    rows.row = row;
    rows.dtype = KT_DTYPE_F32;
    ck_ok(kt_kv_sequence_write(sequence, &rows, data, &ck_error));
}

/* Number i of the row of a field that stands for token t. Some keys of the index are equal. */
static float row_number(uint32_t field, uint32_t t, uint32_t i)
{
    return number(((field == INDEX && t % 7 == 3 ? 3 : (uint64_t)t) * 2 + field) * 1000 + i);
}

/* A sequence of n tokens; row i is that of token rows[i], or of token i. */
static struct kt_kv_sequence *fill(const struct world *world, const uint32_t *rows, uint32_t n)
{
    struct kt_kv_sequence *sequence;
    float data[WIDTH];
    ck_ok(kt_kv_sequence_open(world->kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, n, &ck_error));
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < WIDTH; i++)
            data[i] = row_number(LATENT, rows ? rows[r] : r, i);
        write_rows(sequence, 0, LATENT, r, data);
        write_rows(sequence, 1, LATENT, r, data);
        for (uint32_t i = 0; i < SIZE; i++)
            data[i] = row_number(INDEX, rows ? rows[r] : r, i);
        write_rows(sequence, 0, INDEX, r, data);
    }
    return sequence;
}

static float *draw(uint32_t first, uint32_t n, uint32_t width, uint32_t seed)
{
    float *data = malloc((uint64_t)n * width * sizeof *data);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < width; i++)
            data[(uint64_t)t * width + i] = number(((uint64_t)(first + t) * 4 + seed) * 100000 + i);
    return data;
}

/* Selections of tokens first .. first + n - 1, in calls of `step` tokens. */
static struct kt_selected_rows select_rows(const struct world *world, struct kt_kv_sequence *sequence,
                                           uint32_t first, uint32_t n, uint32_t step)
{
    struct kt_selected_rows all = {.rows = malloc((uint64_t)n * BUDGET * sizeof(uint32_t)),
                                   .n_rows = malloc(n * sizeof(uint32_t)),
                                   .stride = BUDGET};
    float *queries = draw(first, n, INDEX_HEADS * SIZE, 1), *weights = draw(first, n, INDEX_HEADS, 2);
    for (uint32_t t = 0; t < n; t += step) {
        struct kt_selector_item item = {.sequence = sequence,
                                        .position = first + t,
                                        .n_tokens = n - t < step ? n - t : step,
                                        .queries = queries + (uint64_t)t * INDEX_HEADS * SIZE,
                                        .weights = weights + (uint64_t)t * INDEX_HEADS,
                                        .selection = {all.rows + (uint64_t)t * BUDGET, all.n_rows + t, BUDGET,
                                                      0}};
        struct kt_selector_batch batch = KT_SELECTOR_BATCH_INIT;
        batch.items = &item;
        batch.n_items = 1;
        ck_ok(kt_selector_forward(world->selector, &batch, &ck_error));
    }
    free(queries);
    free(weights);
    return all;
}

static void free_selection(struct kt_selected_rows *selection)
{
    free(selection->rows);
    free(selection->n_rows);
}

/* ---- which rows ---- */

/* The float64 score of row j, and how far float32 may be off. */
static double define(const float *queries, const float *weights, const float *key, double *bound)
{
    double score = 0;
    *bound = 0;
    for (uint32_t h = 0; h < INDEX_HEADS; h++) {
        double sum = 0, sizes = 0;
        for (uint32_t i = 0; i < SIZE; i++) {
            sum += (double)queries[h * SIZE + i] * (double)key[i];
            sizes += fabs((double)queries[h * SIZE + i] * (double)key[i]);
        }
        score += (double)weights[h] * fmax(sum, 0);
        *bound += fabs((double)weights[h]) * sizes * (SIZE + INDEX_HEADS + 2) * 0x1p-24;
    }
    return score;
}

/* Rows of `selection` are the best of a token, ascending, the lower position first on equal keys. */
static void check_token(const float *queries, const float *weights, const float *keys, uint32_t position,
                        const uint32_t *rows)
{
    double least = INFINITY, least_bound = 0;
    bool chosen[TOKENS] = {false};
    for (uint32_t r = 0; r < BUDGET; r++) {
        double bound, score = define(queries, weights, keys + (uint64_t)rows[r] * SIZE, &bound);
        ck_assert_uint_le(rows[r], position);
        ck_assert_msg(r == 0 || rows[r] > rows[r - 1], "row %u behind row %u", rows[r], rows[r - 1]);
        chosen[rows[r]] = true;
        if (score + bound < least + least_bound) {
            least = score;
            least_bound = bound;
        }
    }
    for (uint32_t j = 0, last = 3; j <= position; j++) {
        double bound, score = define(queries, weights, keys + (uint64_t)j * SIZE, &bound);
        ck_assert_msg(chosen[j] || score - bound <= least + least_bound,
                      "token %u: row %u has %g and is not selected, one of %g is", position, j, score, least);
        if (j % 7 != 3)
            continue;
        ck_assert_msg(!chosen[j] || chosen[last],
                      "token %u: row %u is selected, row %u of equal score is not", position, j, last);
        last = j;
    }
}

START_TEST(best_rows)
{
    static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16};
    struct world world;
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        if (open_world(&world, levels[_i], 2, KT_DTYPE_F32, dtypes[d])) {
            const uint32_t first = BUDGET - 3, n = 24;
            struct kt_kv_sequence *sequence = fill(&world, NULL, TOKENS);
            float *keys = malloc((uint64_t)TOKENS * SIZE * sizeof *keys);
            struct kt_kv_rows rows = KT_KV_ROWS_INIT;
            rows.field = INDEX;
            rows.n_heads = 1;
            rows.n_rows = TOKENS;
            rows.dtype = KT_DTYPE_F32;
            ck_ok(kt_kv_sequence_read(sequence, &rows, keys, &ck_error));
            for (uint32_t at = first; at < TOKENS; at += 577) {
                struct kt_selected_rows got = select_rows(&world, sequence, at, n, n);
                float *queries = draw(at, n, INDEX_HEADS * SIZE, 1), *weights = draw(at, n, INDEX_HEADS, 2);
                for (uint32_t t = 0; t < n; t++) {
                    ck_assert_uint_eq(got.n_rows[t], at + t < BUDGET ? KT_SELECTION_ALL : BUDGET);
                    if (at + t >= BUDGET)
                        check_token(queries + (uint64_t)t * INDEX_HEADS * SIZE,
                                    weights + (uint64_t)t * INDEX_HEADS, keys, at + t,
                                    got.rows + (uint64_t)t * BUDGET);
                }
                free(queries);
                free(weights);
                free_selection(&got);
            }
            free(keys);
            kt_kv_sequence_close(sequence);
        }
        close_world(&world);
    }
}
END_TEST

/* With one head of the numbers (1, 0) scores are the keys' first numbers: which rows are selected is known
 * exactly, of 0 and -0 as of equal ones, and of NaN, whose product counts as 0. */
START_TEST(known_scores)
{
    enum { N = 200, FEW = 50 };
    static const float kinds[] = {0.0f, 3.0f, 1.0f, -0.0f, NAN, -2.0f, 0x1p-140f, INFINITY};
    struct world world;
    struct kt_kv_sequence *sequence;
    ck_assert(open_context(&world, "auto", 2));
    make_cache(&world, KT_DTYPE_F32, KT_DTYPE_F32);
    struct kt_selector_params params = selector_params(FEW);
    params.n_heads = 1;
    ck_ok(kt_selector_create(world.kv, &params, &world.selector, &ck_error));
    ck_ok(kt_kv_sequence_open(world.kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, N, &ck_error));
    float score[N], query[SIZE] = {1}, weight = _i ? -1 : 1;
    for (uint32_t t = 0; t < N; t++) {
        float key[SIZE] = {kinds[(t * 5 + t / 16) % COUNT(kinds)]};
        write_rows(sequence, 0, INDEX, t, key);
        score[t] = key[0] > 0 ? weight * key[0] : 0;
    }
    uint32_t rows[FEW], n_rows = 0, expected[FEW], n = 0;
    struct kt_selector_item item = {sequence, N - 1, 1, 0, query, &weight, {rows, &n_rows, FEW, 0}};
    struct kt_selector_batch batch = KT_SELECTOR_BATCH_INIT;
    batch.items = &item;
    batch.n_items = 1;
    ck_ok(kt_selector_forward(world.selector, &batch, &ck_error));
    for (uint32_t t = 0; t < N; t++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < N; j++)
            before += score[j] > score[t] || (score[j] == score[t] && j < t);
        if (before < FEW)
            expected[n++] = t;
    }
    ck_assert_uint_eq(n, FEW);
    ck_assert_uint_eq(n_rows, FEW);
    ck_assert_mem_eq(rows, expected, sizeof rows);
    kt_kv_sequence_close(sequence);
    close_world(&world);
}
END_TEST

/* The same rows in one call and many, on one thread and several, in one round of tokens and more. */
START_TEST(same_rows)
{
    static const struct {
        int threads;
        uint32_t step;
    } ways[] = {{1, 600}, {3, 600}, {2, 1}, {1, 37}};
    struct kt_selected_rows first = {0};
    for (size_t w = 0; w < COUNT(ways); w++) {
        struct world world;
        ck_assert(open_world(&world, "auto", ways[w].threads, KT_DTYPE_BF16, KT_DTYPE_BF16));
        struct kt_kv_sequence *sequence = fill(&world, NULL, TOKENS);
        struct kt_selected_rows got = select_rows(&world, sequence, 300, 600, ways[w].step);
        if (w > 0) {
            ck_assert_mem_eq(first.n_rows, got.n_rows, 600 * sizeof(uint32_t));
            ck_assert_mem_eq(first.rows, got.rows, 600 * BUDGET * sizeof(uint32_t));
            free_selection(&got);
        } else {
            first = got;
        }
        kt_kv_sequence_close(sequence);
        close_world(&world);
    }
    free_selection(&first);
}
END_TEST

/* ---- attention to them ---- */

/* Outputs of one query at `position`, over plain rows or blocks of keys. */
static void attend(const struct kt_attention *attention, struct kt_kv_sequence *sequence, uint32_t position,
                   uint32_t n, const struct kt_selected_rows *selection, uint32_t seed, float *output)
{
    float *queries = draw(seed, n, HEADS * WIDTH, 3);
    const struct kt_attention_item item = {sequence, position, n, 0, queries, output};
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = &item;
    batch.n_items = 1;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    batch.selections = selection;
    ck_ok(kt_attention_forward(attention, &batch, &ck_error));
    free(queries);
}

START_TEST(attention_to_selected_rows)
{
    static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_Q8_0};
    static const uint32_t counts[] = {1, 15, 16, 63, 64, 256, 257, 300};
    struct world world;
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        if (open_world(&world, levels[_i], 2, dtypes[d], KT_DTYPE_BF16)) {
            struct kt_kv_sequence *sequence = fill(&world, NULL, TOKENS);
            for (size_t c = 0; c < COUNT(counts); c++) {
                uint32_t rows[BUDGET], n = counts[c];
                float got[HEADS * VALUES], expected[HEADS * VALUES];
                for (uint32_t r = 0; r < n; r++)
                    rows[r] = r * (TOKENS - 1) / BUDGET + r % 2;
                struct kt_kv_sequence *alone = fill(&world, rows, n);
                const struct kt_selected_rows selection = {rows, &n, BUDGET, 0};
                attend(world.plain, sequence, TOKENS - 1, 1, &selection, n, got);
                attend(world.blocks, alone, n - 1, 1, NULL, n, expected);
                ck_assert_msg(memcmp(got, expected, sizeof got) == 0, "level %s, dtype %u, %u rows: %g, %g",
                              levels[_i], dtypes[d], n, (double)got[0], (double)expected[0]);
                kt_kv_sequence_close(alone);
            }
            kt_kv_sequence_close(sequence);
        }
        close_world(&world);
    }
}
END_TEST

/* Plain rows that are all seen are as good as blocks of keys, in prompts as well. */
START_TEST(attention_to_all_rows)
{
    struct world world;
    enum { FIRST = 200, N = 120 };
    if (open_world(&world, levels[_i], 2, KT_DTYPE_BF16, KT_DTYPE_BF16)) {
        struct kt_kv_sequence *sequence = fill(&world, NULL, TOKENS);
        static float got[N * HEADS * VALUES], expected[N * HEADS * VALUES];
        uint32_t counts[N], rows[1] = {0};
        for (uint32_t t = 0; t < N; t++)
            counts[t] = KT_SELECTION_ALL;
        const struct kt_selected_rows selection = {rows, counts, 0, 0};
        attend(world.blocks, sequence, FIRST, N, NULL, 0, expected);
        attend(world.plain, sequence, FIRST, N, NULL, 0, got);
        ck_assert_mem_eq(got, expected, sizeof got);
        attend(world.plain, sequence, FIRST, N, &selection, 0, got);
        ck_assert_mem_eq(got, expected, sizeof got);
        kt_kv_sequence_close(sequence);
    }
    close_world(&world);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(refused_selectors)
{
    struct world world;
    struct kt_selector *selector;
    struct kt_attention *attention;
    ck_assert(open_world(&world, "auto", 1, KT_DTYPE_BF16, KT_DTYPE_BF16));
    struct kt_selector_params params = selector_params(0);
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_INVALID, "budget is 0");
    params = selector_params(4);
    params.n_heads = 257;
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_INVALID, "n_heads is 257");
    params = selector_params(4);
    params.field = LATENT;
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_UNSUPPORTED, "in layout 2");
    params = selector_params(4);
    params.scoring = 1;
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_INVALID, "scoring is 1");
    params = selector_params(4);
    params.backend = "reference";
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_UNSUPPORTED,
             "does not score rows");
    params.backend = "nothing";
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_NOT_FOUND,
             "no plugin nothing is configured");
    params = selector_params(4);
    params.struct_size--;
    ck_fails(kt_selector_create(world.kv, &params, &selector, &ck_error), KT_E_INVALID, "struct_size");
    ck_fails(kt_selector_create(NULL, &params, &selector, &ck_error), KT_E_INVALID, "must not be NULL");
    struct kt_attention_params plain = KT_ATTENTION_PARAMS_INIT;
    plain.n_heads = HEADS;
    plain.window = 100;
    ck_fails(kt_attention_create(world.kv, &plain, &attention, &ck_error), KT_E_UNSUPPORTED,
             "without a window (100)");
    close_world(&world);
}
END_TEST

START_TEST(refused_batches)
{
    struct world world;
    ck_assert(open_world(&world, "auto", 1, KT_DTYPE_BF16, KT_DTYPE_BF16));
    struct kt_kv_sequence *sequence = fill(&world, NULL, TOKENS);
    uint32_t rows[BUDGET] = {401}, n_rows = 1;
    static float queries[INDEX_HEADS * SIZE], output[HEADS * VALUES];
    struct kt_selector_item item = {sequence, 400, 1, 0, queries, queries, {rows, &n_rows, BUDGET - 1, 0}};
    struct kt_selector_batch batch = KT_SELECTOR_BATCH_INIT;
    batch.items = &item;
    batch.n_items = 1;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_INVALID,
             "the selection's stride is 299, the budget 300");
    item.selection.stride = BUDGET;
    item.position = TOKENS;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_STATE,
             "1 tokens from position 900 on");
    item.position = 400;
    batch.query_stride = 3;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_INVALID, "query_stride 3");
    batch.query_stride = 0;
    batch.n_items = 65;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_INVALID, "65 items; at most 64");
    batch.n_items = 1;
    batch.struct_size--;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_INVALID, "struct_size");
    batch.struct_size++;
    ck_fails(kt_selector_forward(world.selector, NULL, &ck_error), KT_E_INVALID, "must not be NULL");
    struct kt_selector_params shorter = selector_params(BUDGET);
    struct kt_selector *selector;
    shorter.max_tokens = 400;
    ck_ok(kt_selector_create(world.kv, &shorter, &selector, &ck_error));
    ck_fails(kt_selector_forward(selector, &batch, &ck_error), KT_E_RANGE, "max_tokens is 400");
    kt_selector_destroy(selector);
    struct world other;
    ck_assert(open_world(&other, "auto", 1, KT_DTYPE_BF16, KT_DTYPE_BF16));
    ck_fails(kt_selector_forward(other.selector, &batch, &ck_error), KT_E_INVALID, "of another cache");
    close_world(&other);
    item.weights = NULL;
    ck_fails(kt_selector_forward(world.selector, &batch, &ck_error), KT_E_INVALID, "must not be NULL");
    struct kt_attention_item attended = {sequence, 400, 1, 0, queries, output};
    struct kt_attention_batch attention = KT_ATTENTION_BATCH_INIT;
    attention.items = &attended;
    attention.n_items = 1;
    attention.query_dtype = attention.output_dtype = KT_DTYPE_F32;
    attention.selections = &item.selection;
    ck_fails(kt_attention_forward(world.plain, &attention, &ck_error), KT_E_INVALID,
             "row 401 is selected, which is behind the token, 400");
    attention.selections = &(struct kt_selected_rows){NULL, &n_rows, BUDGET, 0};
    ck_fails(kt_attention_forward(world.plain, &attention, &ck_error), KT_E_INVALID, "must not be NULL");
    attention.selections = &item.selection;
    n_rows = 0;
    ck_fails(kt_attention_forward(world.plain, &attention, &ck_error), KT_E_INVALID, "0 rows are selected");
    ck_fails(kt_attention_forward(world.blocks, &attention, &ck_error), KT_E_UNSUPPORTED, "KT_KV_PLAIN");
    kt_kv_sequence_close(sequence);
    close_world(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("selection");
    TCase *tests = tcase_create("selection");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, best_rows, 0, (int)COUNT(levels));
    tcase_add_loop_test(tests, attention_to_selected_rows, 0, (int)COUNT(levels));
    tcase_add_loop_test(tests, attention_to_all_rows, 0, (int)COUNT(levels));
    const char *plugins = getenv("KT_TEST_PLUGINS");
    if (plugins && strstr(plugins, "kt_attention.la")) {
        tcase_add_loop_test(tests, known_scores, 0, 2);
        tcase_add_test(tests, same_rows);
        tcase_add_test(tests, refused_selectors);
        tcase_add_test(tests, refused_batches);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
