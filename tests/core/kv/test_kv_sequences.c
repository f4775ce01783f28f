/* SPDX-License-Identifier: Apache-2.0 */
/* test_kv_sequences.c - sequences grow, are forked, cut and closed at random; what they hold is compared with
 * a list of their tokens. A full cache, and states. */
#include "tests/core/kv/kv_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8, LONGEST = 700 };

static struct kt_error error;

/* ---- a small cache and what it should hold ---- */

static const struct kt_kv_field few[] = {
    {.layout = KT_KV_KEY, .dtype = KT_DTYPE_BF16, .heads = 2, .width = 4},
    {.layout = KT_KV_VALUE, .dtype = KT_DTYPE_Q8_0, .heads = 2, .width = 5},
    {.layout = KT_KV_PLAIN, .dtype = KT_DTYPE_F32, .heads = 1, .width = 2, .stride = 8},
    {.layout = KT_KV_KEY, .dtype = KT_DTYPE_BF16, .heads = 1, .width = 3, .stride = 128},
};
static const struct kt_kv_layer layers[] = {{few, 4, 0}, {few + 1, 2, 0}};

static struct kt_context *context;
static struct kt_kv_params params;
static struct kt_kv *kv;
static struct kt_kv_sequence *sequence[MOST];
static uint64_t tags[MOST][LONGEST];
static uint64_t length[MOST];
static uint64_t seed, next_tag;

static void make(uint64_t tokens, bool states, int nodes)
{
    context = kv_context(nodes);
    params = kv_mixed(states);
    if (!states) {
        params.layers = layers;
        params.n_layers = 2;
    }
    params.tokens = tokens;
    params.max_sequences = MOST;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    memset(sequence, 0, sizeof sequence);
    memset(length, 0, sizeof length);
    next_tag = 1;
}

static void finish(void)
{
    for (int s = 0; s < MOST; s++)
        kt_kv_sequence_close(sequence[s]);
    memset(sequence, 0, sizeof sequence);
    ck_text(kv_check_counts(kv, sequence, MOST));
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}

static void write_rows(int s, uint64_t begin, uint64_t end)
{
    for (uint32_t l = 0; l < params.n_layers; l++)
        for (uint32_t f = 0; f < params.layers[l].n_fields; f++) {
            uint64_t stride = params.layers[l].fields[f].stride;
            stride = stride ? stride : 1;
            if (params.layers[l].fields[f].kind == KT_KV_STATE)
                continue;
            for (uint64_t row = begin / stride; row < end / stride; row++)
                ck_ok(kv_write(sequence[s], &params, l, f, row, 1, &tags[s][(row + 1) * stride - 1],
                               &ck_error));
        }
}

/* Reserves n tokens, writes `written` of them and commits `committed` of these. */
static enum kt_status grow(int s, uint64_t n, uint64_t written, uint64_t committed)
{
    enum kt_status status = kt_kv_sequence_reserve(sequence[s], length[s], n, &error);
    if (status != KT_OK)
        return status;
    for (uint64_t i = 0; i < written; i++)
        tags[s][length[s] + i] = next_tag++;
    write_rows(s, length[s], length[s] + written);
    ck_ok(kt_kv_sequence_commit(sequence[s], committed, &ck_error));
    length[s] += committed;
    return KT_OK;
}

/* What is committed; rows beyond it are checked to be zero, so nothing may be reserved. */
static void check(int s)
{
    struct kt_kv_sequence_info info;
    kt_kv_sequence_info(sequence[s], &info);
    ck_assert_uint_eq(info.tokens, length[s]);
    if (info.room == 0)
        ck_text(kv_check(kv, sequence[s], &params, tags[s], length[s]));
}

static int pick(bool open)
{
    for (int tries = 0; tries < 100; tries++) {
        int s = (int)(fixture_uniform(&seed) * MOST);
        if (!sequence[s] == !open)
            return s;
    }
    return -1;
}

static void fork_one(void)
{
    int from = pick(true), to = pick(false);
    if (from < 0 || to < 0)
        return;
    double where = fixture_uniform(&seed);
    uint64_t n = where < 0.4 ? length[from] : (uint64_t)(where * (double)(length[from] + 1));
    if (n < length[from] && where > 0.8)
        n -= n % 64;
    enum kt_status status = kt_kv_sequence_fork(sequence[from], n, &sequence[to], &error);
    if (status != KT_OK) {
        ck_says(status, &error, KT_E_NOMEM, "1 pages of 64 tokens are wanted, and 0 of");
        return;
    }
    length[to] = n;
    memcpy(tags[to], tags[from], n * sizeof tags[to][0]);
    check(to);
}

static void cut_one(int s)
{
    uint64_t n = (uint64_t)(fixture_uniform(&seed) * (double)(length[s] + 1));
    n -= fixture_uniform(&seed) < 0.2 ? n % 64 : 0;
    n = fixture_uniform(&seed) < 0.2 ? length[s] : n;
    enum kt_status status = kt_kv_sequence_truncate(sequence[s], n, &error);
    if (status == KT_OK)
        length[s] = n;
    else
        ck_says(status, &error, KT_E_NOMEM, "1 pages of 64 tokens are wanted, and 0 of");
    check(s);
}

static void grow_one(int s)
{
    uint64_t n = (uint64_t)(fixture_uniform(&seed) * (fixture_uniform(&seed) < 0.3 ? 200 : 20));
    n = n < LONGEST - length[s] ? n : LONGEST - length[s];
    bool whole = fixture_uniform(&seed) < 0.7;
    uint64_t written = whole ? n : (uint64_t)(fixture_uniform(&seed) * (double)(n + 1));
    uint64_t committed = whole ? n : (uint64_t)(fixture_uniform(&seed) * (double)(written + 1));
    enum kt_status status = grow(s, n, written, committed);
    if (status != KT_OK)
        ck_says(status, &error, KT_E_NOMEM, "pages of 64 tokens are wanted, and");
}

START_TEST(random_lives)
{
    int steps = getenv("KT_TEST_QUICK") ? 500 : 2000;
    seed = 11 + (uint64_t)_i;
    make(25 * 64, false, _i);
    for (int step = 0; step < steps; step++) {
        double what = fixture_uniform(&seed);
        int s = pick(what > 0.1);
        if (s < 0)
            continue;
        if (what <= 0.1) {
            ck_ok(kt_kv_sequence_open(kv, &sequence[s], &ck_error));
            length[s] = 0;
        } else if (what < 0.15) {
            kt_kv_sequence_close(sequence[s]);
            sequence[s] = NULL;
        } else if (what < 0.3) {
            fork_one();
        } else if (what < 0.45) {
            cut_one(s);
        } else {
            grow_one(s);
        }
        if (sequence[s])
            check(s);
        ck_text(kv_check_counts(kv, sequence, MOST));
    }
    for (int s = 0; s < MOST; s++)
        if (sequence[s]) {
            ck_ok(kt_kv_sequence_truncate(sequence[s], length[s], &ck_error));
            check(s);
        }
    finish();
}
END_TEST

/* ---- a full cache ---- */

START_TEST(full_cache)
{
    make(256, false, 0);
    for (int s = 0; s < 3; s++)
        ck_ok(kt_kv_sequence_open(kv, &sequence[s], &ck_error));
    ck_ok(grow(0, 100, 100, 100));
    ck_says(kt_kv_sequence_reserve(sequence[1], 0, 129, &error), &error, KT_E_NOMEM,
            "3 pages of 64 tokens are wanted, and 2 of 4 are free: close or truncate sequences");
    ck_ok(grow(1, 128, 128, 128));
    ck_says(kt_kv_sequence_reserve(sequence[2], 0, 1, &error), &error, KT_E_NOMEM,
            "1 pages of 64 tokens are wanted, and 0 of 4 are free");
    ck_ok(kt_kv_sequence_reserve(sequence[0], 100, 28, &ck_error)); /* the rest of its page */
    ck_says(kt_kv_sequence_reserve(sequence[0], 100, 29, &error), &error, KT_E_NOMEM, "1 pages of 64 tokens");
    struct kt_kv_sequence_info info;
    kt_kv_sequence_info(sequence[0], &info);
    ck_assert_uint_eq(info.room, 28);
    /* A partial page that two have: neither can write, then one closes. */
    ck_ok(kt_kv_sequence_truncate(sequence[0], 100, &ck_error));
    ck_ok(kt_kv_sequence_fork(sequence[0], 100, &sequence[3], &ck_error));
    ck_says(kt_kv_sequence_reserve(sequence[0], 100, 1, &error), &error, KT_E_NOMEM, "1 pages of 64 tokens");
    ck_says(kt_kv_sequence_fork(sequence[0], 99, &sequence[4], &error), &error, KT_E_NOMEM,
            "1 pages of 64 tokens");
    ck_says(kt_kv_sequence_truncate(sequence[0], 99, &error), &error, KT_E_NOMEM, "1 pages of 64 tokens");
    length[3] = length[0];
    memcpy(tags[3], tags[0], sizeof tags[0]);
    for (int s = 0; s < 4; s++)
        check(s);
    struct kt_kv_info all;
    kt_kv_info(kv, &all);
    ck_assert_uint_eq(all.shared_pages, 2);
    ck_assert_uint_eq(all.free_pages, 0);
    kt_kv_sequence_close(sequence[0]);
    sequence[0] = NULL;
    ck_ok(grow(3, 28, 28, 28));
    check(3);
    /* More sequences than were declared. */
    for (int s = 0; s < MOST; s++)
        if (!sequence[s])
            ck_ok(kt_kv_sequence_open(kv, &sequence[s], &ck_error));
    struct kt_kv_sequence *more = NULL;
    ck_says(kt_kv_sequence_open(kv, &more, &error), &error, KT_E_NOMEM,
            "cannot open a sequence: all 8 are in use");
    ck_says(kt_kv_sequence_fork(sequence[3], 64, &more, &error), &error, KT_E_NOMEM, "all 8 are in use");
    finish();
}
END_TEST

/* Truncating frees the page that the copy of a shared one needs. */
START_TEST(truncation_pays_its_copy)
{
    make(256, false, 0);
    ck_ok(kt_kv_sequence_open(kv, &sequence[0], &ck_error));
    ck_ok(grow(0, 100, 100, 100));
    ck_ok(kt_kv_sequence_fork(sequence[0], 100, &sequence[1], &ck_error));
    length[1] = 100;
    memcpy(tags[1], tags[0], sizeof tags[0]);
    ck_ok(grow(0, 92, 92, 92)); /* 3 pages, of which 1 is shared, and a copy: all 4 */
    ck_ok(kt_kv_sequence_fork(sequence[0], 128, &sequence[2], &ck_error));
    length[2] = 128;
    memcpy(tags[2], tags[0], sizeof tags[0]);
    ck_ok(kt_kv_sequence_truncate(sequence[0], 70, &ck_error));
    length[0] = 70;
    for (int s = 0; s < 3; s++)
        check(s);
    finish();
}
END_TEST

/* ---- states ---- */

static unsigned char *state_of(int s, uint32_t field, uint32_t head)
{
    void *state = NULL;
    ck_ok(kt_kv_sequence_state(sequence[s], 4, field, head, &state, &ck_error));
    ck_assert_uint_eq((uintptr_t)state % 64, 0);
    return state;
}

static void fill_states(int s, int value)
{
    for (uint32_t h = 0; h < 5; h++)
        memset(state_of(s, 0, h), value + (int)h, 400);
    memset(state_of(s, 1, 0), value + 5, 66);
}

static void check_states(int s, int value)
{
    for (uint32_t h = 0; h < 6; h++) {
        const unsigned char *state = h < 5 ? state_of(s, 0, h) : state_of(s, 1, 0);
        for (int i = 0; i < (h < 5 ? 400 : 66); i++)
            if (state[i] != (value ? value + (int)h : 0)) /* an assertion for each is a write to a file */
                ck_abort_msg("byte %d of state %u is %d", i, h, state[i]);
    }
}

START_TEST(states)
{
    make(256, true, _i);
    ck_ok(kt_kv_sequence_open(kv, &sequence[0], &ck_error));
    check_states(0, 0);
    fill_states(0, 30); /* before any token */
    ck_ok(kt_kv_sequence_truncate(sequence[0], 0, &ck_error));
    check_states(0, 0);
    ck_ok(grow(0, 70, 70, 70));
    fill_states(0, 10);
    ck_ok(kt_kv_sequence_fork(sequence[0], 70, &sequence[1], &ck_error)); /* a snapshot */
    length[1] = 70;
    memcpy(tags[1], tags[0], sizeof tags[0]);
    ck_ok(grow(0, 5, 5, 5));
    fill_states(0, 20);
    check_states(1, 10);
    ck_says(kt_kv_sequence_truncate(sequence[0], 70, &error), &error, KT_E_UNSUPPORTED,
            "the first 70 of 75 tokens: states cannot be truncated; fork the sequence");
    ck_says(kt_kv_sequence_fork(sequence[0], 64, &sequence[2], &error), &error, KT_E_UNSUPPORTED,
            "or keep 0 tokens");
    ck_ok(kt_kv_sequence_truncate(sequence[0], 75, &ck_error));
    check_states(0, 20);
    check(0);
    /* Back to the snapshot. */
    kt_kv_sequence_close(sequence[0]);
    ck_ok(kt_kv_sequence_fork(sequence[1], 70, &sequence[0], &ck_error));
    length[0] = 70;
    check_states(0, 10);
    ck_ok(kt_kv_sequence_fork(sequence[1], 0, &sequence[2], &ck_error));
    check_states(2, 0);
    ck_ok(kt_kv_sequence_truncate(sequence[0], 0, &ck_error));
    length[0] = 0;
    check_states(0, 0);
    check(0);
    check(1);
    void *state;
    ck_says(kt_kv_sequence_state(sequence[0], 4, 0, 5, &state, &error), &error, KT_E_RANGE, "there are 5");
    struct kt_kv_place place;
    ck_says(kt_kv_place(kv, 4, 0, 0, &place, &error), &error, KT_E_INVALID, "has a state, not rows");
    ck_says(kt_kv_sequence_state(sequence[0], 3, 0, 0, &state, &error), &error, KT_E_RANGE,
            "the layer has 0");
    finish();
}
END_TEST

/* Pages large enough to be zeroed and copied by the threads of the pool. */
START_TEST(large_pages)
{
    const struct kt_kv_field wide[] =
        {{.layout = KT_KV_KEY, .dtype = KT_DTYPE_F32, .heads = 8, .width = 1000},
         {.kind = KT_KV_STATE, .dtype = KT_DTYPE_F32, .heads = 3, .width = 200000}};
    const struct kt_kv_layer layer = {wide, 2, 0};
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    struct kt_kv_sequence *made[3] = {NULL};
    void *state = NULL;
    context = kv_context(_i);
    params = kv_mixed(false);
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 4 * 64;
    params.max_sequences = 3;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    float *row = malloc(8000 * sizeof *row), *out = malloc(8000 * sizeof *out);
    for (int i = 0; i < 8000; i++)
        row[i] = (float)(i + 1);
    rows.n_heads = 8;
    rows.n_rows = 1;
    rows.dtype = KT_DTYPE_F32;
    for (int life = 0; life < 2; life++) {
        ck_ok(kt_kv_sequence_open(kv, &made[0], &ck_error));
        ck_ok(kt_kv_sequence_reserve(made[0], 0, 3, &ck_error));
        for (rows.row = 0; rows.row < 3; rows.row++) {
            ck_ok(kt_kv_sequence_read(made[0], &rows, out, &ck_error));
            for (int i = 0; i < 8000; i++)
                if (out[i] != 0)
                    ck_abort_msg("number %d is not 0", i);
            ck_ok(kt_kv_sequence_write(made[0], &rows, row, &ck_error));
        }
        ck_ok(kt_kv_sequence_commit(made[0], 3, &ck_error));
        ck_ok(kt_kv_sequence_state(made[0], 0, 1, 2, &state, &ck_error));
        ck_assert(((float *)state)[199999] == 0);
        ((float *)state)[199999] = 5;
        ck_ok(kt_kv_sequence_fork(made[0], 3, &made[1], &ck_error));
        ck_ok(kt_kv_sequence_fork(made[0], 3, &made[2], &ck_error));
        ck_ok(kt_kv_sequence_reserve(made[1], 3, 1, &ck_error));
        ck_ok(kt_kv_sequence_state(made[1], 0, 1, 2, &state, &ck_error));
        ck_assert(((float *)state)[199999] == 5);
        for (rows.row = 0; rows.row < 3; rows.row++) {
            ck_ok(kt_kv_sequence_read(made[1], &rows, out, &ck_error));
            ck_assert_mem_eq(out, row, 8000 * sizeof *out);
        }
        for (int s = 0; s < 3; s++)
            kt_kv_sequence_close(made[s]);
    }
    free(row);
    free(out);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sequences");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, random_lives, 0, 3);
    tcase_add_test(tests, full_cache);
    tcase_add_test(tests, truncation_pays_its_copy);
    tcase_add_loop_test(tests, states, 0, 3);
    tcase_add_loop_test(tests, large_pages, 0, 3);
    return run_tests("kv sequences", tests);
}
