/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts lie on a GPU. */
#include "tests/support/suite.h"

#include <check.h>
#include <kt/kt.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, EXPERTS = 7, ALL = LAYERS * EXPERTS };

static struct kt_error error;

static struct kt_place_params make_params(enum kt_placement placement, uint64_t n_on_gpu)
{
    struct kt_place_params params = KT_PLACE_PARAMS_INIT;
    params.placement = placement;
    params.n_layers = LAYERS;
    params.n_experts = EXPERTS;
    params.n_on_gpu = n_on_gpu;
    return params;
}

static uint64_t count_ones(const uint8_t *masks, size_t n)
{
    uint64_t ones = 0;
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_le(masks[i], 1);
        ones += masks[i];
    }
    return ones;
}

/* Every number of experts, every way: as many as asked for. */
START_TEST(as_many_as_asked_for)
{
    uint64_t counts[ALL];
    uint8_t masks[ALL];
    for (unsigned i = 0; i < ALL; i++)
        counts[i] = i * 37 % 11;
    for (int placement = KT_PLACE_UNIFORM; placement <= KT_PLACE_RANDOM; placement++)
        for (uint64_t n = 0; n <= ALL; n++) {
            struct kt_place_params params = make_params((enum kt_placement)placement, n);
            params.counts = counts;
            memset(masks, 7, sizeof masks);
            ck_assert_int_eq(kt_place(&params, masks, &error), KT_OK);
            ck_assert_uint_eq(count_ones(masks, ALL), n);
        }
}
END_TEST

START_TEST(uniform_and_front)
{
    uint8_t masks[ALL];
    struct kt_place_params params = make_params(KT_PLACE_UNIFORM, 2 * LAYERS + 3);
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_OK);
    for (unsigned l = 0; l < LAYERS; l++)
        for (unsigned e = 0; e < EXPERTS; e++)
            ck_assert_uint_eq(masks[l * EXPERTS + e], e < (l < 3 ? 3u : 2u));
    params = make_params(KT_PLACE_FRONT, EXPERTS + 2);
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_OK);
    for (unsigned i = 0; i < ALL; i++)
        ck_assert_uint_eq(masks[i], i < EXPERTS + 2);
}
END_TEST

/* No expert that is left out was used more often than one that is not; equal ones by their place. */
START_TEST(most_used_of_all_layers)
{
    uint64_t counts[ALL];
    uint8_t masks[ALL];
    for (unsigned i = 0; i < ALL; i++)
        counts[i] = (uint64_t)(i * i % 13);
    for (uint64_t n = 1; n < ALL; n++) {
        struct kt_place_params params = make_params(KT_PLACE_FREQUENCY, n);
        params.counts = counts;
        ck_assert_int_eq(kt_place(&params, masks, &error), KT_OK);
        for (unsigned in = 0; in < ALL; in++)
            for (unsigned out = 0; out < ALL; out++)
                if (masks[in] && !masks[out])
                    ck_assert(counts[in] > counts[out] || (counts[in] == counts[out] && in < out));
    }
}
END_TEST

/* The same seed gives the same ones, another seed others, and each expert gets its turn. */
START_TEST(random_ones)
{
    uint8_t first[ALL], second[ALL];
    unsigned chosen[ALL] = {0};
    struct kt_place_params params = make_params(KT_PLACE_RANDOM, ALL / 2);
    ck_assert_int_eq(kt_place(&params, first, &error), KT_OK);
    ck_assert_int_eq(kt_place(&params, second, &error), KT_OK);
    ck_assert_mem_eq(first, second, ALL);
    params.seed = 43;
    ck_assert_int_eq(kt_place(&params, second, &error), KT_OK);
    ck_assert_mem_ne(first, second, ALL);
    for (params.seed = 0; params.seed < 2000; params.seed++) {
        ck_assert_int_eq(kt_place(&params, first, &error), KT_OK);
        for (unsigned i = 0; i < ALL; i++)
            chosen[i] += first[i];
    }
    /* 17 of 35: 971 expected, with a deviation of 22 */
    for (unsigned i = 0; i < ALL; i++)
        ck_assert_msg(chosen[i] > 861 && chosen[i] < 1081, "expert %u was chosen %u times", i, chosen[i]);
}
END_TEST

START_TEST(update_swaps_the_largest_gain_first)
{
    const uint64_t counts[2 * 4] = {5, 1, 9, 0, 3, 3, 20, 4};
    uint8_t masks[2 * 4] = {1, 1, 0, 0, 1, 1, 0, 0};
    struct kt_place_move moves[8];
    uint32_t n = 99;
    ck_assert_int_eq(kt_place_update(counts, 2, 4, masks, 2, moves, &n, &error), KT_OK);
    ck_assert_uint_eq(n, 2);
    ck_assert(moves[0].layer == 1 && moves[0].leaves == 0 && moves[0].comes == 2); /* 17 */
    ck_assert(moves[1].layer == 0 && moves[1].leaves == 1 && moves[1].comes == 2); /* 8 */
    ck_assert_mem_eq(masks, ((const uint8_t[]){1, 0, 1, 0, 0, 1, 1, 0}), 8);
    ck_assert_int_eq(kt_place_update(counts, 2, 4, masks, 8, moves, &n, &error), KT_OK);
    ck_assert_uint_eq(n, 1); /* 4 for 3; nothing is left to gain */
    ck_assert(moves[0].layer == 1 && moves[0].leaves == 1 && moves[0].comes == 3);
    ck_assert_int_eq(kt_place_update(counts, 2, 4, masks, 8, moves, &n, &error), KT_OK);
    ck_assert_uint_eq(n, 0);
    /* With moves enough, each layer ends with its most used ones. */
    ck_assert_mem_eq(masks, ((const uint8_t[]){1, 0, 1, 0, 0, 0, 1, 1}), 8);
    memset(masks, 1, 8);
    ck_assert_int_eq(kt_place_update(counts, 2, 4, masks, 8, moves, &n, &error), KT_OK);
    ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(refusals)
{
    uint8_t masks[ALL];
    struct kt_place_move move;
    uint32_t n;
    const uint64_t counts[ALL] = {0};
    struct kt_place_params params = make_params(KT_PLACE_FRONT, ALL + 1);
    memset(masks, 7, sizeof masks);
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_E_RANGE);
    ck_assert_msg(strstr(error.message, "36 experts") != NULL, "%s", error.message);
    params = make_params(KT_PLACE_FREQUENCY, 1);
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_place(NULL, masks, &error), KT_E_INVALID);
    params = make_params((enum kt_placement)4, 1);
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_E_INVALID);
    params = make_params(KT_PLACE_FRONT, 0);
    params.n_layers = 0;
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_E_INVALID);
    params = make_params(KT_PLACE_FRONT, 1);
    ck_assert_int_eq(kt_place(&params, NULL, &error), KT_E_INVALID);
    params.struct_size = 8;
    ck_assert_int_eq(kt_place(&params, masks, &error), KT_E_INVALID);
    for (unsigned i = 0; i < ALL; i++)
        ck_assert_uint_eq(masks[i], 7);
    ck_assert_int_eq(kt_place_update(NULL, 1, 1, masks, 1, &move, &n, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_place_update(counts, 1, 1, masks, 1, NULL, &n, &error), KT_E_INVALID);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("place");
    tcase_add_test(tcase, as_many_as_asked_for);
    tcase_add_test(tcase, uniform_and_front);
    tcase_add_test(tcase, most_used_of_all_layers);
    tcase_add_test(tcase, random_ones);
    tcase_add_test(tcase, update_swaps_the_largest_gain_first);
    tcase_add_test(tcase, refusals);
    return run_tests("place", tcase);
}
