/* SPDX-License-Identifier: Apache-2.0 */
/* test_mask.c - an expert is masked, and is no longer, while batches are computed. The thread sanitizer sees
 * whether the mask is read as what another thread changes. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct mover {
    uint8_t mask[5];
    bool stop;
};

static void *move_one(void *data)
{
    struct mover *mover = data;
    while (!__atomic_load_n(&mover->stop, __ATOMIC_RELAXED)) {
        (void)__atomic_fetch_xor(&mover->mask[2], 1, __ATOMIC_RELAXED);
        (void)sched_yield();
    }
    return NULL;
}

/* Is expert 2 asked for once? Then its part is there or not, and nothing in between. */
static bool asks_once(const struct fixture *fixture, uint32_t token)
{
    int n = 0;
    for (uint32_t k = 0; k < fixture->top_k; k++)
        n += fixture->ids[token * fixture->top_k + k] == 2;
    return n == 1;
}

START_TEST(mask_that_changes)
{
    struct mover mover = {.stop = false};
    struct fixture fixture = {.n_tokens = 40, .mask = mover.mask};
    pthread_t thread;
    int met = 0;
    fixture_fill(&fixture, 3);
    fixture_load(&fixture, 2);
    struct kt_forward forward = fixture_forward(&fixture);
    size_t row = fixture.hidden, size = fixture.n_tokens * row * sizeof(float);
    float *kept[2] = {malloc(size), malloc(size)};
    for (int masked = 0; masked < 2; masked++) {
        mover.mask[2] = (uint8_t)masked;
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        memcpy(kept[masked], fixture.output, size);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, move_one, &mover), 0);
    for (int i = 0; i < 200; i++) {
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        for (uint32_t t = 0; t < fixture.n_tokens; t++) {
            const float *found = fixture.output + t * row;
            bool same[2];
            for (int masked = 0; masked < 2; masked++)
                same[masked] = memcmp(found, kept[masked] + t * row, row * sizeof *found) == 0;
            ck_assert(same[0] || same[1] || !asks_once(&fixture, t));
            met += asks_once(&fixture, t);
        }
    }
    __atomic_store_n(&mover.stop, true, __ATOMIC_RELAXED);
    (void)pthread_join(thread, NULL);
    ck_assert_int_gt(met, 0);
    free(kept[0]);
    free(kept[1]);
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, mask_that_changes);
    return run_tests("mask", all);
}
