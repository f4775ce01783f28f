/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attention_faults.c - every allocation and mapping of an attention's creation, of its values for speed
 * and of its forward fails once: the call says so, nothing leaks, and the next one gives the same bits. Also:
 * a forward allocates nothing.
 */
#include "tests/core/attention/attention_world.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TOKENS 300
#define ASKED 5

static atomic_long countdown = -1; /* the call that brings it to 0 fails; negative: none does */
static atomic_long calls;

static bool fails(void)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    errno = ENOMEM;
    return true;
}

#define WRAP(type, name, parameters, arguments, result)      \
    type __real_##name parameters;                           \
    type __wrap_##name parameters;                           \
    type __wrap_##name parameters                            \
    {                                                        \
        return fails() ? (result) : __real_##name arguments; \
    }
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(void *, realloc, (void *memory, size_t size), (memory, size), NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(void *, mmap, (void *address, size_t size, int protection, int flags, int file, off_t offset),
     (address, size, protection, flags, file, offset), MAP_FAILED)

/* A selector of the keys of latents, whose queries and weights are those of attention. */
static enum kt_status select_life(const struct world *world, const struct request *request,
                                  struct kt_error *error)
{
    struct kt_selector_params params = KT_SELECTOR_PARAMS_INIT;
    struct kt_selector_batch batch = KT_SELECTOR_BATCH_INIT;
    struct kt_selector *selector = NULL;
    uint32_t rows[ASKED], n_rows[ASKED];
    const struct kt_selector_item item =
        {request->item.sequence, request->item.position, ASKED, 0, request->queries,
         request->queries,       {rows, n_rows, 1, 0}};
    params.n_heads = world->shape->n_heads;
    params.budget = 1;
    params.max_tokens = TOKENS;
    batch.items = &item;
    batch.n_items = 1;
    enum kt_status status = kt_selector_create(world->kv, &params, &selector, error);
    if ((status == KT_OK) != (selector != NULL))
        status = KT_E_STATE;
    if (status == KT_OK)
        status = kt_selector_forward(selector, &batch, error);
    kt_selector_destroy(selector);
    return status;
}

/* An attention from its creation on; stops at the first error. libcheck's assertions allocate: none here. */
static enum kt_status whole_life(const struct world *world, const struct request *request,
                                 struct kt_error *error)
{
    const struct kt_attention_params params = world_params(world);
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    struct kt_attention *attention = NULL;
    batch.items = &request->item;
    batch.n_items = 1;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    enum kt_status status = kt_attention_create(world->kv, &params, &attention, error);
    if ((status == KT_OK) != (attention != NULL))
        status = KT_E_STATE;
    if (status == KT_OK)
        status = kt_attention_tune(attention, "tile_queries", 0, error);
    if (status == KT_OK)
        status = kt_attention_forward(attention, &batch, error);
    kt_attention_destroy(attention);
    return status == KT_OK && world->shape->latent ? select_life(world, request, error) : status;
}

/* The world's own attention was made before: it computes the same bits after each failure. */
START_TEST(every_call)
{
    static const int with[] = {1, 4}; /* sinks; latents */
    struct world world;
    ck_assert(world_open(&world, &shapes[with[_i]], "auto", 2, 2));
    struct kt_kv_sequence *sequence = world_fill(&world, TOKENS, 1);
    struct request expected = world_ask(&world, sequence, TOKENS - ASKED, ASKED),
                   request = world_ask(&world, sequence, TOKENS - ASKED, ASKED);
    const uint64_t size = world_output_size(&world, ASKED);
    world_run(&world, &expected, 1);
    enum kt_status status;
    long n = 1, reached;
    do {
        struct kt_error error = {KT_OK, ""};
        memset(request.output, 0x55, size);
        atomic_store(&countdown, n++);
        status = whole_life(&world, &request, &error);
        reached = atomic_exchange(&countdown, -1) <= 0;
        if (status != KT_OK)
            ck_assert_msg(status == KT_E_NOMEM && error.message[0] && error.status == status,
                          "call %ld: %s: %s", n - 1, kt_status_name(status), error.message);
        else
            ck_assert_int_eq(memcmp(request.output, expected.output, size), 0);
        world_run(&world, &request, 1);
        ck_assert_int_eq(memcmp(request.output, expected.output, size), 0);
    } while (status != KT_OK || reached);
    ck_assert_int_gt(n, 6);
    world_free_request(&request);
    world_free_request(&expected);
    kt_kv_sequence_close(sequence);
    world_close(&world);
}
END_TEST

START_TEST(forward_allocates_nothing)
{
    struct world world;
    ck_assert(world_open(&world, &shapes[_i], "auto", 2, 0));
    struct kt_kv_sequence *sequence = world_fill(&world, TOKENS, 1);
    struct request request[] = {world_ask(&world, sequence, TOKENS - 1, 1),
                                world_ask(&world, sequence, TOKENS - 40, 40)};
    const struct kt_attention_item items[] = {request[0].item, request[1].item};
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = items;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    int failures = 0;
    long before = atomic_load(&calls);
    for (batch.n_items = 1; batch.n_items <= 2; batch.n_items++)
        failures += kt_attention_forward(world.attention, &batch, NULL) != KT_OK;
    long made = atomic_load(&calls) - before;
    ck_assert_int_eq(failures, 0);
    ck_assert_int_eq(made, 0);
    world_free_request(&request[0]);
    world_free_request(&request[1]);
    kt_kv_sequence_close(sequence);
    world_close(&world);
}
END_TEST

int main(void)
{
    if (!world_has_plugin()) {
        puts("SKIP: the plugin attention is not built");
        return 77;
    }
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_call, 0, 2);
    tcase_add_loop_test(tests, forward_allocates_nothing, 0, 3);
    return run_tests("attention faults", tests);
}
