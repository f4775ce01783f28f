/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - checks a level when memory runs out, and with several threads through the library. */
#include "tools/kt/plugin/plugin.h"
#include "tools/kt/plugin/selftest.h"

#include <stdlib.h>
#include <string.h>
#if defined __GLIBC__
#include <malloc.h>
#endif

#define MAX_FAILURES 1000
#define WARM_ROUNDS 8 /* glibc keeps seven freed blocks of a size, and counts them as in use */
#define LEAK_ROUNDS 8

/* ---- every allocation fails once ---------------------------------------------------------------- */

/* Is this the failure that the host injected? */
static bool may_fail(struct check *check, enum kt_status status, const struct kt_error *error,
                     uint64_t fail_at)
{
    if (status == KT_OK)
        return false;
    if (fail_at == 0 || plugin_host_allocations() < fail_at)
        check_fail(check, "%.200s", error->message);
    else if (status != KT_E_NOMEM || !error->message[0])
        check_fail(check,
                   "without memory it gives status %d and \"%.200s\"; KT_E_NOMEM and a reason are needed",
                   (int)status, error->message);
    return true;
}

static uint64_t failing; /* of this round; 0: none */

static void step_memory(struct plugin_case *item)
{
    struct check *check = &item->check;
    const struct kt_ops *ops = check->level->ops;
    struct kt_error error = {.message = ""};
    float *row = check_need(malloc(check->layout.shape.hidden_size * sizeof(*row)));
    bool stopped = false;
    for (int s = 0; s < 2 && !stopped; s++) {
        check_guard("packed weights", check->layout.weight_size[s], 64, true, &check->packed[s]);
        struct kt_pack job = {&check->layout,
                              (enum kt_stage)s,
                              &check->source.expert,
                              0,
                              count_panels(check, (enum kt_stage)s),
                              check->packed[s].data};
        check_enter(check, "pack");
        if (ops->pack)
            stopped = may_fail(check, ops->pack(check->instance, &job, &error), &error, failing);
    }
    if (!stopped) {
        make_inputs(check);
        plugin_forward(check);
        check_enter(check, "weight_row");
        may_fail(check,
                 ops->weight_row(check->instance, &check->layout, check->packed[0].data,
                                 &check->source.expert, check_first_projection(check), 0, row, &error),
                 &error, failing);
    }
    free(row);
}

/* A shape of attention: only its layout may ask for memory. */
static bool try_attention(struct plugin_run *run, uint64_t fail_at)
{
    struct kt_error error;
    bool taken = plugin_attention_run(run, false, &error);
    if (!taken && error.status == KT_E_NOMEM && (fail_at == 0 || plugin_host_allocations() < fail_at))
        plugin_fail(run, "%.200s", error.message);
    return taken;
}

/* From open to close, with allocation `fail_at` failing. */
static bool run_round(struct plugin_run *run, uint64_t fail_at)
{
    static const uint32_t dtypes[] = {KT_DTYPE_BF16, KT_DTYPE_F32,     KT_DTYPE_F16, KT_DTYPE_Q8_0,
                                      KT_DTYPE_Q4_K, KT_DTYPE_Q4_0,    KT_DTYPE_I8,  KT_DTYPE_F8_E4M3,
                                      KT_DTYPE_INT4, KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};
    struct kt_error error = {.message = ""};
    bool taken = false;
    failing = fail_at;
    plugin_host_reset(fail_at);
    plugin_where(run, "open, allocation %llu fails", (unsigned long long)fail_at);
    run->instance = NULL;
    enum kt_status status = KT_OK;
    if (run->plugin->open)
        status = run->plugin->open(&run->host, &run->caps, run->values, &run->instance, &error);
    if (status != KT_OK && (fail_at == 0 || status != KT_E_NOMEM || !error.message[0]))
        plugin_fail(run, "it gives status %d and \"%.200s\"; KT_E_NOMEM and a reason are needed", (int)status,
                    error.message);
    if (status == KT_OK) {
        bool ready = plugin_ready(run, &error) == KT_OK;
        bool experts = ready && run->level->ops;
        for (const uint32_t *dtype = dtypes; *dtype && experts && !taken && !plugin_failed(run); dtype++)
            taken = plugin_case_run(run, *dtype, 1, step_memory);
        if (ready && PLUGIN_FIELD(run->level, attention))
            taken |= try_attention(run, fail_at);
        plugin_detach(run);
    }
    if (plugin_host_live() != 0)
        plugin_fail(
            run,
            "%llu blocks of the host's memory were not given back, with allocation %llu failing (0: none)",
            (unsigned long long)plugin_host_live(), (unsigned long long)fail_at);
    return taken;
}

/* Bytes of malloc in use; always 0 if the C library cannot tell. */
static uint64_t count_malloc(void)
{
#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    struct mallinfo2 info = mallinfo2();
    return (uint64_t)info.uordblks + (uint64_t)info.hblkhd;
#else
    return 0;
#endif
}

/* The first rounds may allocate tables that stay. A leak grows in every round; occasional growth is the C
 * library's. */
static void check_malloc(struct plugin_run *run)
{
    uint64_t first = 0, last = 0;
    int n_grown = 0;
    for (int round = 0; round < WARM_ROUNDS + LEAK_ROUNDS && !plugin_failed(run); round++) {
        run_round(run, 0);
        uint64_t used = count_malloc();
        n_grown += round >= WARM_ROUNDS && used > last;
        last = used;
        if (round < WARM_ROUNDS)
            first = used;
    }
    if (n_grown > LEAK_ROUNDS / 2 && last >= first + LEAK_ROUNDS)
        plugin_fail(run, "from open to close, %llu bytes of malloc are not given back each time",
                    (unsigned long long)((last - first) / LEAK_ROUNDS));
}

void plugin_job_memory(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    if (!plugin_attach(run, child))
        return;
    bool taken = run_round(run, 0);
    uint64_t n = plugin_host_allocations();
    check_malloc(run);
    for (uint64_t i = 1; i <= n && i <= MAX_FAILURES && !plugin_failed(run); i++)
        run_round(run, i);
    if (plugin_failed(run))
        return;
    plugin_say(&child->verdict, PLUGIN_OK, "%llu allocations, each failed once%s; all was given back",
               (unsigned long long)(n < MAX_FAILURES ? n : MAX_FAILURES), taken ? "" : " (no layer)");
}

/* ---- threads -------------------------------------------------------------------------------------- */

/* Runs a layer through the library, with its routing, ranges of panels and barriers. `first`: the same by one
 * thread, NULL: this is. */
static bool run_layer(struct plugin_run *run, unsigned threads, uint32_t dtype,
                      const struct kt_selftest *first, struct kt_selftest *test)
{
    struct kt_context *context;
    struct kt_error error;
    kt_cli_set(run->cli, "core.threads=%u", threads);
    plugin_where(run, "a layer of %s by %u threads, level %s", kt_dtype_name(dtype), threads,
                 run->facts->levels[run->level_index].name);
    if (plugin_context(run->cli, &context, &error) != KT_OK) {
        plugin_fail(run, "%s", error.message);
        return false;
    }
    kt_selftest_run(run->cli, context, run->file->name, false, dtype, first, test);
    kt_context_destroy(context);
    if (test->state == KT_SELFTEST_FAILED)
        plugin_fail(run, "%.400s", test->message);
    else if (test->state == KT_SELFTEST_WRONG)
        plugin_fail(run, "its error is %.2g, at most %.0e is allowed", test->error, test->limit);
    return test->state == KT_SELFTEST_PASSED;
}

void plugin_job_threads(void *data, struct plugin_child *child)
{
    static const unsigned threads[] = {1, 2, 3, 5};
    struct plugin_run *run = data;
    unsigned n_formats = 0;
    run->child = child;
    kt_cli_set(run->cli, "plugin.%s.level=%s", run->file->name, run->facts->levels[run->level_index].name);
    for (const uint32_t *dtype = kt_selftest_dtypes; *dtype && !plugin_failed(run); dtype++) {
        struct kt_selftest first, test;
        if (!run_layer(run, threads[0], *dtype, NULL, &first))
            continue;
        for (size_t i = 1; i < sizeof(threads) / sizeof(threads[0]); i++)
            if (run_layer(run, threads[i], *dtype, &first, &test) && test.hash != first.hash)
                plugin_fail(run, "the bits differ from those of one thread");
        n_formats++;
    }
    if (plugin_failed(run))
        return;
    if (n_formats == 0)
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it takes no format of kt doctor's layer");
    else
        plugin_say(&child->verdict, PLUGIN_OK, "%u formats, the same bits by 1, 2, 3 and 5 threads",
                   n_formats);
}
