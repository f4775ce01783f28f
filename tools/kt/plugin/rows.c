/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - checks of a level's functions of rows: norms, gates, rotary positions, routers, Gated
 * DeltaNet. */
#include "tools/kt/plugin/rows.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 12 /* of each function and kind */
#define N_THREADS 4
#define THREAD_CALLS 3

static const struct rows_function *const functions[] = {&rows_norm_function,   &rows_gate_function,
                                                        &rows_rotate_function, &rows_multiply_function,
                                                        &rows_route_function,  &rows_convolve_function,
                                                        &rows_decay_function,  &rows_delta_function};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

typedef void rows_step(struct rows_case *item);

/* ---- calls ---- */

static void reset(struct rows_case *item)
{
    for (int role = 0; role < ROWS_N_ROLES; role++) {
        struct rows_plane *plane = &item->planes[role];
        if (plane->name && plane->written)
            memcpy(plane->memory.data, plane->before, plane->memory.size);
    }
}

static void call(struct rows_case *item, struct rows_slice slice)
{
    plugin_check_modes(item->run);
    plugin_where(item->run, "%s, level %s%s, %s, --seed %llu", item->function->name, item->run->level->name,
                 item->run->of, item->text, (unsigned long long)item->run->seed);
    plugin_host_forbid(item->function->name);
    item->function->call(item, &slice);
    rows_check_memory(item);
}

static void call_whole(struct rows_case *item)
{
    reset(item);
    call(item, (struct rows_slice){0, item->n_rows, 0, item->n_cuts});
}

/* Makes a case: what is read only is read-only. */
static void start_case(struct plugin_run *run, const struct rows_function *function, unsigned round,
                       struct rows_case *item)
{
    *item = (struct rows_case){.run = run,
                               .ops = PLUGIN_FIELD(run->level, rows),
                               .function = function,
                               .round = round,
                               .random = run->seed + 1000003u * round + 17u};
    for (int role = 0; role < ROWS_N_ROLES; role++)
        item->role[role] = (enum rows_role)role;
    function->make(item);
    for (int role = ROWS_STATE; role < ROWS_N_ROLES; role++) /* in place */
        item->planes[item->role[role]].written = item->planes[item->role[role]].name != NULL;
    for (int role = 0; role < ROWS_N_ROLES; role++)
        if (item->planes[role].name && !item->planes[role].written)
            guard_seal(&item->planes[role].memory);
}

static void run_functions(void *data, struct plugin_child *child, rows_step *step)
{
    struct plugin_run *run = data;
    struct kt_error error;
    unsigned n = 0;
    if (!plugin_attach(run, child) || !plugin_instance(run))
        return;
    if (plugin_ready(run, &error) != KT_OK)
        plugin_fail(run, "the level could be used before: %.400s", error.message);
    for (size_t f = 0; f < N_FUNCTIONS; f++)
        for (unsigned round = 0; round < ROUNDS * run->n_kinds && !plugin_failed(run); round++, n++) {
            struct rows_case item;
            start_case(run, functions[f], round, &item);
            if (!plugin_failed(run))
                step(&item);
            rows_planes_free(&item);
        }
    if (plugin_failed(run))
        return;
    plugin_detach(run);
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    else
        plugin_say(&child->verdict, PLUGIN_OK, "%zu functions, %u cases", N_FUNCTIONS, n);
}

/* ---- numbers ---- */

static void step_numbers(struct rows_case *item)
{
    call_whole(item);
    if (!plugin_failed(item->run))
        item->function->compare(item);
}

void plugin_job_rows_numbers(void *data, struct plugin_child *child)
{
    run_functions(data, child, step_numbers);
}

/* ---- isolation ---- */

/* Copies of what is written, one after the other. */
static uint8_t *keep(const struct rows_case *item)
{
    uint64_t size = 1, at = 0;
    for (int role = 0; role < ROWS_SCRATCH; role++)
        size += item->planes[role].written ? item->planes[role].memory.size : 0;
    uint8_t *kept = check_need(malloc(size));
    for (int role = 0; role < ROWS_SCRATCH; role++) {
        const struct rows_plane *plane = &item->planes[role];
        if (plane->written) {
            memcpy(kept + at, plane->memory.data, plane->memory.size);
            at += plane->memory.size;
        }
    }
    return kept;
}

static void compare_kept(struct rows_case *item, const uint8_t *kept, const char *why)
{
    for (int role = 0; role < ROWS_SCRATCH && !plugin_failed(item->run); role++) {
        const struct rows_plane *plane = &item->planes[role];
        if (!plane->written)
            continue;
        for (uint64_t i = 0; i < plane->memory.size && !plugin_failed(item->run); i++)
            if (plane->memory.data[i] != kept[i])
                plugin_fail(item->run, "its %s have other bits %s, row %llu", plane->name, why,
                            (unsigned long long)(i / (uint64_t)plane->stride));
        kept += plane->memory.size;
    }
}

/* Rows one by one, and parts in two calls: the same bits. */
static void try_cuts(struct rows_case *item, const uint8_t *kept)
{
    bool chunked = item->function == &rows_delta_function && !item->job.delta.deterministic &&
                   item->n_rows >= KT_DELTA_CHUNKED;
    if (!chunked) {
        reset(item);
        for (uint32_t r = 0; r < item->n_rows && !plugin_failed(item->run); r++)
            call(item, (struct rows_slice){r, 1, 0, item->n_cuts});
        compare_kept(item, kept, "where each row is a call of its own");
    }
    if (item->n_cuts > 1 && !plugin_failed(item->run)) {
        uint32_t half = 1 + random_below(&item->random, item->n_cuts - 1);
        reset(item);
        call(item, (struct rows_slice){0, item->n_rows, 0, half});
        call(item, (struct rows_slice){0, item->n_rows, half, item->n_cuts - half});
        compare_kept(item, kept, "where parts, heads or channels are divided");
    }
}

/* A NaN at `bad`: what may have changed in an output? */
static bool is_affected(const struct rows_case *item, const uint32_t bad[3], uint32_t row, uint32_t part,
                        uint32_t i)
{
    const struct rows_function *function = item->function;
    if (function->sequence ? row < bad[0] : row != bad[0])
        return false;
    return function->cut_numbers && !function->spreads ? i == bad[2] : part == bad[1];
}

static void compare_nan(struct rows_case *item, enum rows_role role, const uint32_t bad[3],
                        const uint8_t *kept)
{
    const struct rows_plane *plane = &item->planes[role];
    const uint32_t size = plane->dtype == KT_DTYPE_F32 ? 4 : 2;
    const bool shows = item->role[ROWS_OUT] == role;
    for (uint32_t r = 0; r < plane->rows; r++)
        for (uint32_t p = 0; p < plane->parts; p++)
            for (uint32_t i = 0; i < plane->size && !plugin_failed(item->run); i++) {
                const uint8_t *at = rows_at(plane, r, p, i);
                if (!is_affected(item, bad, r, p, i)) {
                    if (memcmp(at, kept + (at - plane->memory.data), size) != 0)
                        plugin_fail(item->run, "a NaN in row %u, part %u changes its %s, row %u, part %u",
                                    bad[0], bad[1], plane->name, r, p);
                } else if (shows && r == bad[0] && (item->function->spreads || i == bad[2]) &&
                           !isnan(rows_get(plane, r, p, i))) {
                    plugin_fail(item->run, "a NaN in row %u, part %u gave the number %.8g: it is hidden",
                                bad[0], bad[1], rows_get(plane, r, p, i));
                }
            }
}

static void try_nan(struct rows_case *item, const uint8_t *kept)
{
    struct rows_plane *x = rows_plane(item, ROWS_X);
    const uint32_t bad[3] = {random_below(&item->random, x->rows), random_below(&item->random, x->parts),
                             random_below(&item->random, x->size)};
    guard_unseal(&x->memory);
    rows_set(x, bad[0], bad[1], bad[2], NAN);
    if (!x->written)
        guard_seal(&x->memory);
    call_whole(item);
    for (int role = 0; role < ROWS_SCRATCH && !plugin_failed(item->run); role++) {
        const struct rows_plane *plane = &item->planes[role];
        if (!plane->written)
            continue;
        if (role != ROWS_STATE || !item->function->sequence)
            compare_nan(item, (enum rows_role)role, bad, kept);
        kept += plane->memory.size;
    }
}

static void step_isolation(struct rows_case *item)
{
    call_whole(item);
    uint8_t *kept = keep(item);
    if (!plugin_failed(item->run))
        try_cuts(item, kept);
    if (!plugin_failed(item->run))
        try_nan(item, kept);
    free(kept);
}

void plugin_job_rows_isolation(void *data, struct plugin_child *child)
{
    run_functions(data, child, step_isolation);
}

/* ---- threads ---- */

struct thread {
    struct rows_case item; /* with memory of its own for what is written */
    const uint8_t *kept;
    pthread_t id;
    bool wrong;
};

static void *run_thread(void *data)
{
    struct thread *thread = data;
    struct rows_case *item = &thread->item;
    for (int n = 0; n < THREAD_CALLS; n++) {
        const struct rows_slice whole = {0, item->n_rows, 0, item->n_cuts};
        const uint8_t *kept = thread->kept;
        reset(item);
        item->function->call(item, &whole);
        for (int role = 0; role < ROWS_SCRATCH; role++) {
            const struct rows_plane *plane = &item->planes[role];
            if (!plane->written)
                continue;
            thread->wrong |= memcmp(plane->memory.data, kept, plane->memory.size) != 0;
            kept += plane->memory.size;
        }
    }
    return NULL;
}

static void copy_case(const struct rows_case *item, struct rows_case *copy)
{
    *copy = *item;
    for (int role = 0; role < ROWS_N_ROLES; role++)
        if (item->planes[role].written)
            check_guard(item->planes[role].name, item->planes[role].memory.size, 64, false,
                        &copy->planes[role].memory);
}

static void step_threads(struct rows_case *item)
{
    struct thread threads[N_THREADS];
    uint32_t n_threads = 0, n_wrong = 0;
    call_whole(item);
    uint8_t *kept = keep(item);
    for (; n_threads < N_THREADS && !plugin_failed(item->run); n_threads++) {
        struct thread *thread = &threads[n_threads];
        thread->kept = kept;
        thread->wrong = false;
        copy_case(item, &thread->item);
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0)
            break;
    }
    for (uint32_t i = 0; i < n_threads; i++) {
        (void)pthread_join(threads[i].id, NULL);
        n_wrong += threads[i].wrong;
        for (int role = 0; role < ROWS_N_ROLES; role++)
            if (item->planes[role].written)
                guard_free(&threads[i].item.planes[role].memory);
    }
    free(kept);
    if (n_wrong)
        plugin_fail(item->run, "%u of %u threads have other bits than one thread alone", n_wrong, n_threads);
}

void plugin_job_rows_threads(void *data, struct plugin_child *child)
{
    run_functions(data, child, step_threads);
}
