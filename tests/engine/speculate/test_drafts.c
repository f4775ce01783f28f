/* SPDX-License-Identifier: Apache-2.0 */
/* test_drafts.c - what is looked up, beside a search of the whole text; what drafts cost and win, on clocks
 * that the test makes. */
#include "tools/engine/speculate/drafter.h"
#include "tools/engine/speculate/gain.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

/* ---- lookup ---- */

static const uint32_t grams[KT_LOOKUP_GRAMS] = {2, 3, 5, 8};

/* The latest place at which the last tokens stand, of the longest length that does; 0: none. */
static size_t search(const int32_t *ids, size_t n, uint32_t *gram)
{
    for (uint32_t g = KT_LOOKUP_GRAMS; g-- > 0;)
        for (size_t end = n; end-- > grams[g];)
            if (memcmp(ids + end - grams[g], ids + n - grams[g], grams[g] * sizeof(*ids)) == 0) {
                *gram = g;
                return end;
            }
    return 0;
}

/* Few different tokens, so that all lengths are found; and passages again, as texts have them. */
START_TEST(finds_what_a_search_finds)
{
    enum { N = 3000 };
    static int32_t ids[N];
    struct kt_lookup lookup = {.ids = NULL};
    uint32_t n_found[KT_LOOKUP_GRAMS] = {0}, n_lost = 0, n_all = 0;
    for (size_t i = 0; i < N; i++) {
        size_t back = i > 600 && i / 40 % 3 == 0 ? 577 : 0;
        ids[i] = back ? ids[i - back] : (int32_t)draw(i < N / 2 ? 25 : 100000);
        ck_assert(kt_lookup_add(&lookup, &ids[i], 1));
        int32_t got[20];
        uint32_t gram = 9, wanted_gram = 9;
        uint32_t n = kt_lookup_find(&lookup, 20, got, &gram);
        size_t wanted = search(ids, i + 1, &wanted_gram);
        n_all += wanted > 0;
        if (n == 0 || gram != wanted_gram) { /* an entry that another one has overwritten */
            ck_assert_msg(wanted > 0 || n == 0, "token %zu: found what is not there", i);
            n_lost += wanted > 0;
            continue;
        }
        ck_assert_uint_eq(n, 20);
        n_found[gram]++;
        for (uint32_t j = 0; j < n; j++)
            ck_assert_msg(got[j] == (wanted + j <= i ? ids[wanted + j] : got[wanted + j - i - 1]),
                          "token %zu: other drafts", i);
    }
    for (int g = 0; g < KT_LOOKUP_GRAMS; g++)
        ck_assert_msg(n_found[g] > 50, "length %u was found %u times only", grams[g], n_found[g]);
    ck_assert_msg(n_lost <= n_all / 5, "%u of %u were lost", n_lost, n_all);
    kt_lookup_free(&lookup);
}
END_TEST

START_TEST(goes_on_with_itself)
{
    const int32_t ids[] = {7, 8, 9, 4, 8, 9};
    const int32_t wanted[] = {4, 8, 9, 4, 8, 9, 4};
    struct kt_lookup lookup = {.ids = NULL};
    int32_t got[7];
    uint32_t gram;
    ck_assert_uint_eq(kt_lookup_find(&lookup, 7, got, &gram), 0);
    ck_assert(kt_lookup_add(&lookup, ids, 5));
    ck_assert_uint_eq(kt_lookup_find(&lookup, 7, got, &gram), 0); /* a single token says nothing */
    ck_assert(kt_lookup_add(&lookup, ids + 5, 1));
    ck_assert_uint_eq(kt_lookup_find(&lookup, 7, got, &gram), 7);
    ck_assert_uint_eq(gram, 0);
    ck_assert(memcmp(got, wanted, sizeof(wanted)) == 0);
    kt_lookup_free(&lookup);
}
END_TEST

/* ---- how often drafts are right ---- */

START_TEST(drafts_are_judged_by_what_comes)
{
    const int32_t ids[] = {1, 2, 3, 4, 1, 2};
    struct kt_drafter d;
    kt_drafter_init(&d);
    ck_assert(kt_drafter_add(&d, ids, 6));
    for (int i = 0; i < 40; i++) {
        ck_assert(kt_drafter_look(&d));
        ck_assert(kt_drafter_add(&d, d.draft, 3));
    }
    ck_assert(kt_drafter_hope(&d, 3) > 0.95); /* of the longest length, all but the first one */
    ck_assert(kt_drafter_hope(&d, 0) > 0.7 && kt_drafter_hope(&d, 0) < 0.8);
    for (int32_t i = 0; i < 30; i++) {
        const int32_t other[] = {1, 2, 900 + i};
        (void)kt_drafter_look(&d);
        ck_assert(kt_drafter_add(&d, other, 2));
        ck_assert(kt_drafter_look(&d));
        ck_assert_uint_eq(d.source, 0);
        ck_assert(kt_drafter_add(&d, other + 2, 1));
    }
    ck_assert(kt_drafter_hope(&d, 0) < 0.1);
    kt_drafter_free(&d);
}
END_TEST

/* ---- what is won ---- */

/* A machine: seconds of a step of so many rows. */
typedef double (*clock_fn)(uint32_t rows);

static double cheap_rows(uint32_t rows)
{
    return 1 + 0.05 * (rows - 1);
}

static double dear_rows(uint32_t rows)
{
    return rows;
}

static double busy(uint32_t rows)
{
    return cheap_rows(rows) * (draw(20) == 0 ? 10 : 1);
}

struct outcome {
    double seconds, plain;
    uint64_t tokens, drafted, accepted;
    uint32_t longest;
};

/* n tokens of a text whose drafts come true with `chance`, where `hope` is thought to be it. */
static struct outcome run(clock_fn clock, double chance, double hope, uint64_t n, bool measures, bool replays)
{
    struct outcome o = {.tokens = 0};
    struct kt_gain gain;
    uint32_t rows = 1;
    kt_gain_init(&gain, measures);
    while (o.tokens < n) {
        struct kt_offer offer = {.hope = hope, .n = KT_MOST_DRAFTS};
        uint32_t right = 0;
        (void)kt_gain_plan(&gain, rows, &offer, 1, 0, replays);
        while (right < offer.taken && draw(1000) < 1000 * chance)
            right++;
        double seconds = clock(rows + offer.taken);
        kt_gain_learn(&gain, rows + offer.taken, rows, 1, right + 1, seconds, 0);
        o.seconds += seconds;
        o.tokens += right + 1;
        o.drafted += offer.taken;
        o.accepted += right;
        o.longest = offer.taken > o.longest ? offer.taken : o.longest;
        rows = replays && right < offer.taken ? right + 2 : 1;
    }
    for (uint64_t i = 0; i < o.tokens; i++)
        o.plain += clock(1);
    return o;
}

/* However much is hoped for: what is lost is bounded. */
START_TEST(never_loses_much)
{
    static const double chances[] = {0, 0.2, 0.5, 0.8};
    for (size_t c = 0; c < 4; c++)
        for (int dear = 0; dear < 2; dear++)
            for (int replays = 0; replays < 2; replays++)
                for (uint64_t n = 32; n <= 2048; n *= 8) {
                    struct outcome o = run(dear ? dear_rows : cheap_rows, chances[c], 0.95, n, true, replays);
                    ck_assert_msg(o.seconds <= 1.012 * o.plain + (replays ? 2.1 : 1.1),
                                  "%d tokens, chance %g, %s rows: %g seconds, %g without drafts", (int)n,
                                  chances[c], dear ? "dear" : "cheap", o.seconds, o.plain);
                }
}
END_TEST

START_TEST(wins_where_there_is_something)
{
    struct outcome o = run(cheap_rows, 0.95, 0.95, 1000, true, false);
    ck_assert_msg(o.seconds < 0.25 * o.plain, "%g of %g", o.seconds, o.plain);
    ck_assert_uint_ge(o.longest, 12);
    o = run(busy, 0.9, 0.9, 4000, true, false);
    ck_assert_msg(o.seconds < 0.7 * o.plain, "on a busy machine %g of %g", o.seconds, o.plain);
    o = run(dear_rows, 0.9, 0.9, 2000, true, false); /* two rows take two steps: nothing can be won */
    ck_assert_msg(o.drafted < 60, "%d drafts for nothing", (int)o.drafted);
    o = run(cheap_rows, 0.3, 0.3, 1000, true, false);
    ck_assert_uint_le(o.longest, 3);
    o = run(cheap_rows, 0.05, 0.05, 1000, true, false);
    ck_assert_uint_eq(o.drafted, 0);
}
END_TEST

/* Without a clock the same drafts are taken whatever steps cost. */
START_TEST(without_a_clock_text_decides)
{
    for (int i = 0; i < 3; i++) {
        struct kt_gain gain;
        struct kt_offer offers[2] = {{.hope = 0.9, .n = 6}, {.hope = 0.3, .n = 6}};
        kt_gain_init(&gain, false);
        for (int step = 0; step < 10 * i; step++)
            kt_gain_learn(&gain, 1 + (uint32_t)step % 4, 1, 1, 1, i == 1 ? 100 : 0.001, 0);
        ck_assert(kt_gain_plan(&gain, 2, offers, 2, 0, false) > 0);
        ck_assert_uint_ge(offers[0].taken, 4);
        ck_assert_uint_eq(offers[1].taken, 0);
    }
}
END_TEST

/* Of several texts that share a step, those with the better drafts get the rows. */
START_TEST(texts_share_a_step)
{
    struct kt_gain gain;
    struct kt_offer offers[3] = {{.hope = 0.95, .n = 15}, {.hope = 0, .n = 0}, {.hope = 0.6, .n = 15}};
    kt_gain_init(&gain, true);
    ck_assert(kt_gain_plan(&gain, 3, offers, 3, 0, false) == 0); /* nothing is known */
    for (int i = 0; i < 20; i++)
        kt_gain_learn(&gain, 3, 3, 3, 3, 1, 0);
    kt_gain_allow(&gain, 1000);
    double expected = kt_gain_plan(&gain, 3, offers, 3, 0, false);
    ck_assert(expected > 3 && offers[0].taken > offers[2].taken && offers[2].taken > 0);
    ck_assert_uint_eq(offers[1].taken, 0);
    ck_assert(kt_gain_plan(&gain, 3, offers, 3, 100, false) == 0); /* drafts that take so long */
    ck_assert_uint_eq(offers[0].taken, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("drafts");
    tcase_add_test(tests, finds_what_a_search_finds);
    tcase_add_test(tests, goes_on_with_itself);
    tcase_add_test(tests, drafts_are_judged_by_what_comes);
    tcase_add_test(tests, never_loses_much);
    tcase_add_test(tests, wins_where_there_is_something);
    tcase_add_test(tests, without_a_clock_text_decides);
    tcase_add_test(tests, texts_share_a_step);
    return run_tests("drafts", tests);
}
