/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - checks of a level's attention: shapes that models have, in every form of the cache. */
#include "tools/kt/plugin/attention.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_QUERIES 65536 /* as the core has it */
#define MOST_BYTES (UINT64_C(1) << 32)
#define FULL_TILE 600 /* queries of a tile that are computed at once here */
#define N_THREADS 4
#define ROUNDS 3 /* of each thread */

struct form {
    uint32_t n_heads, key_size, value_size, width; /* of values in the cache; 0: as many as value_size */
    uint32_t key_dtype, value_dtype;
    bool latent, sinks;
    float softcap;
    uint64_t window; /* 0: all */
};

static const struct form forms[] = {
    {8, 128, 128, 0, KT_DTYPE_BF16, KT_DTYPE_BF16, false, false, 0, 0},
    {8, 64, 64, 0, KT_DTYPE_BF16, KT_DTYPE_BF16, false, true, 0, 128},
    {6, 256, 256, 0, KT_DTYPE_Q8_0, KT_DTYPE_Q8_0, false, false, 30, 0},
    {16, 576, 512, 0, KT_DTYPE_BF16, KT_DTYPE_BF16, true, false, 0, 0},
    {5, 80, 72, 0, KT_DTYPE_F32, KT_DTYPE_F32, false, true, 5, 300},
    {1, 192, 128, 0, KT_DTYPE_BF16, KT_DTYPE_Q8_0, false, false, 0, 0},
    {20, 576, 512, 0, KT_DTYPE_Q8_0, KT_DTYPE_Q8_0, true, true, 0, 0},
    {3, 96, 80, 0, KT_DTYPE_F32, KT_DTYPE_F32, true, false, 0, 70},
    {4, 33, 17, 40, KT_DTYPE_BF16, KT_DTYPE_F32, false, false, 0, 257},
    {40, 47, 49, 0, KT_DTYPE_Q8_0, KT_DTYPE_BF16, false, true, 0, 1},
};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};

typedef void attention_step(struct attention_case *item);
static attention_step step_layout; /* which needs no cache */

/* ---- a case ---- */

static void make_shape(const struct form *form, struct kt_attention_shape *shape)
{
    *shape = (struct kt_attention_shape){
        .n_heads = form->n_heads,
        .key_size = form->key_size,
        .value_size = form->value_size,
        .latent = form->latent,
        .scale = (float)(1 / sqrt((double)form->key_size)),
        .softcap = form->softcap,
        .window = form->window ? form->window : UINT64_MAX,
        .key = {.kind = KT_KV_ROWS,
                .layout = KT_KV_KEY,
                .dtype = form->key_dtype,
                .heads = 2,
                .width = form->key_size,
                .stride = 1},
    };
    shape->value = shape->key;
    if (form->latent)
        return;
    shape->value.layout = KT_KV_VALUE;
    shape->value.dtype = form->value_dtype;
    shape->value.width = form->width ? form->width : form->value_size;
}

static void describe(struct attention_case *item)
{
    const struct kt_attention_shape *shape = &item->layout.shape;
    char more[80] = "";
    if (shape->window != UINT64_MAX)
        snprintf(more, sizeof(more), ", window %llu", (unsigned long long)shape->window);
    if (shape->softcap > 0)
        snprintf(more + strlen(more), sizeof(more) - strlen(more), ", softcap %g", (double)shape->softcap);
    snprintf(item->text, sizeof(item->text), "%u heads, keys %u %s, values %s%u %s%s%s", shape->n_heads,
             shape->key_size, kt_dtype_name(shape->key.dtype), shape->latent ? "the first " : "",
             shape->value_size, kt_dtype_name(shape->value.dtype), more, item->sinks ? ", sinks" : "");
}

/* The core's conditions. */
static void check_layout(struct attention_case *item, const struct kt_attention_shape *shape)
{
    const struct kt_attention_layout *layout = &item->layout;
    if (memcmp(&layout->shape, shape, sizeof(*shape)) != 0)
        plugin_fail(item->run, "it changed the shape that it was asked for");
    if (layout->max_queries < 1 || layout->max_queries > MOST_QUERIES)
        plugin_fail(item->run, "max_queries is %u; 1 to %d is possible", layout->max_queries, MOST_QUERIES);
    if (layout->partial_stride < 64 || layout->partial_stride % 64 != 0 ||
        layout->partial_stride > MOST_BYTES)
        plugin_fail(item->run, "partial_stride is %llu; multiples of 64 from 64 to 2^32 are possible",
                    (unsigned long long)layout->partial_stride);
    if (layout->scratch_size > MOST_BYTES)
        plugin_fail(item->run, "scratch_size is %llu; 2^32 is the most",
                    (unsigned long long)layout->scratch_size);
}

/* As the core does it, but for one of the tunables in turn, which gets an end of its range: results are right
 * with all values. */
static void fill_tuned(struct attention_case *item)
{
    size_t size = offsetof(struct kt_attention_ops, n_tunables) + sizeof(item->ops->n_tunables);
    uint32_t n = item->ops->struct_size >= size ? item->ops->n_tunables : 0;
    uint64_t turn =
        (item->run->seed + item->layout.shape.n_heads + item->layout.shape.key_size) % (2 * n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct kt_tunable *tunable = &item->ops->tunables[i];
        item->layout.tuned[i] = turn == 2 * i       ? tunable->minimum
                                : turn == 2 * i + 1 ? tunable->maximum
                                                    : tunable->standard;
    }
}

/* False: it refused, with a reason. */
static bool ask(struct attention_case *item, struct kt_error *error)
{
    struct kt_attention_shape shape;
    memcpy(&shape, &item->layout.shape, sizeof(shape));
    fill_tuned(item);
    *error = (struct kt_error){.message = ""};
    attention_enter(item, NULL, "layout");
    enum kt_status status = item->ops->layout(item->run->instance, &item->layout, error);
    error->status = status;
    error->message[sizeof(error->message) - 1] = '\0';
    plugin_check_modes(item->run);
    if (status == KT_OK)
        check_layout(item, &shape);
    else if (!error->message[0])
        plugin_fail(item->run, "it refuses with status %d and does not say why", (int)status);
    return status == KT_OK;
}

static void start_case(struct plugin_run *run, size_t form, unsigned kind, struct attention_case *item)
{
    *item = (struct attention_case){
        .run = run,
        .ops = PLUGIN_FIELD(run->level, attention),
        .random = run->seed + 1000003u * form + 17u * kind,
        .query_dtype = dtypes[(form + kind) % 3],
        .output_dtype = dtypes[(form / 2 + kind) % 3],
    };
    make_shape(&forms[form], &item->layout.shape);
    item->layout.deterministic = kind % 2 == 0;
    describe(item);
}

static void make_sinks(struct attention_case *item)
{
    uint32_t n = item->layout.shape.n_heads;
    item->sinks = check_need(malloc(n * sizeof(float)));
    for (uint32_t h = 0; h < n; h++)
        item->sinks[h] = h % 3 == 1 ? -INFINITY : (float)random_below(&item->random, 1000) / 125 - 2;
    describe(item);
}

/* Runs `step` on a case; false: the plugin does not take it. */
static bool run_case(struct plugin_run *run, size_t form, unsigned kind, attention_step *step,
                     struct kt_error *error)
{
    struct attention_case item;
    start_case(run, form, kind, &item);
    if (step && forms[form].sinks)
        make_sinks(&item);
    bool taken = ask(&item, error);
    if (taken && step == step_layout) {
        step(&item);
    } else if (taken && step && !plugin_failed(run)) {
        attention_cache_create(&item);
        if (item.ops->thread_enter)
            item.ops->thread_enter(run->instance);
        step(&item);
        plugin_host_forbid(NULL);
        if (item.ops->thread_leave)
            item.ops->thread_leave(run->instance);
        attention_cache_free(&item);
    }
    free(item.sinks);
    return taken;
}

static void run_cases(void *data, struct plugin_child *child, attention_step *step)
{
    struct plugin_run *run = data;
    struct kt_error error;
    char refused[400] = "";
    unsigned n_forms = 0, n_cases = 0;
    if (!plugin_attach(run, child) || !plugin_instance(run))
        return;
    if (plugin_ready(run, &error) != KT_OK)
        plugin_fail(run, "the level could be used before: %.400s", error.message);
    for (size_t form = 0; form < N_FORMS && !plugin_failed(run); form++) {
        unsigned before = n_cases;
        for (unsigned kind = 0; kind < run->n_kinds && !plugin_failed(run); kind++) {
            bool taken = run_case(run, form, kind, step, &error);
            if (!taken)
                snprintf(refused, sizeof(refused), "; it refuses others: %.360s", error.message);
            n_cases += taken;
        }
        n_forms += n_cases > before;
    }
    if (plugin_failed(run))
        return;
    plugin_detach(run);
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    else if (n_cases == 0)
        plugin_fail(run, "it takes no shape%s", refused);
    else
        plugin_say(&child->verdict, PLUGIN_OK, "%u shapes, %u cases%s", n_forms, n_cases, refused);
}

/* ---- layout ---- */

/* Shapes at the ends of what the core may ask for: taken or refused, with a reason. */
static void try_limits(struct attention_case *item)
{
    static const struct {
        uint32_t n_heads, key_size, value_size;
    } limits[] = {{1, 1, 1}, {65536, 64, 64}, {1, 65536, 65536}, {65536, 65536, 65536}};
    const struct kt_attention_layout kept = item->layout;
    struct kt_error error;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && !plugin_failed(item->run); i++) {
        struct kt_attention_shape shape = kept.shape;
        shape.n_heads = limits[i].n_heads;
        shape.key_size = shape.key.width = limits[i].key_size;
        shape.value_size = limits[i].value_size;
        shape.value.width = shape.latent ? limits[i].key_size : limits[i].value_size;
        item->layout = (struct kt_attention_layout){.deterministic = kept.deterministic};
        memcpy(&item->layout.shape, &shape, sizeof(shape));
        describe(item);
        if (ask(item, &error) && item->layout.partial_stride < shape.value_size * UINT64_C(2))
            plugin_fail(item->run, "partial_stride is %llu; a partial result of %u numbers needs more",
                        (unsigned long long)item->layout.partial_stride, shape.value_size);
    }
    item->layout = kept;
}

/* A second layout of the same shape must be equal. */
static void step_layout(struct attention_case *item)
{
    const struct kt_attention_layout first = item->layout;
    struct kt_error error;
    item->layout = (struct kt_attention_layout){.deterministic = first.deterministic};
    memcpy(&item->layout.shape, &first.shape, sizeof(first.shape));
    if (!ask(item, &error))
        plugin_fail(item->run, "it was refused when it was asked for again: %.300s", error.message);
    else if (first.max_queries != item->layout.max_queries ||
             first.partial_stride != item->layout.partial_stride ||
             first.scratch_size != item->layout.scratch_size)
        plugin_fail(item->run, "the same shape has another layout when it is asked for again");
    try_limits(item);
}

void plugin_job_attention_layout(void *data, struct plugin_child *child)
{
    run_cases(data, child, step_layout);
}

/* ---- numbers ---- */

/* Tokens of a tile at `position` with so many heads, at most `most`. */
static uint32_t pick_tokens(const struct attention_case *item, uint64_t position, uint32_t n_heads,
                            uint32_t most)
{
    uint64_t left = ATTENTION_TOKENS - position, n = item->layout.max_queries / n_heads;
    n = n < most ? n : most;
    return (uint32_t)(n < left ? n : left);
}

static uint32_t pick_heads(const struct attention_case *item, uint32_t most)
{
    uint32_t n = item->layout.shape.n_heads;
    n = n < most ? n : most;
    return n < item->layout.max_queries ? n : item->layout.max_queries;
}

static void try_tile(struct attention_case *item, uint64_t position, uint32_t n_tokens, uint32_t n_heads,
                     uint64_t step)
{
    struct attention_tile tile;
    attention_tile_create(item, position, n_tokens, n_heads, &tile);
    attention_run(item, &tile, attention_first_key(item, &tile), step);
    if (!plugin_failed(item->run))
        attention_compare(item, &tile);
    attention_tile_free(&tile);
}

/* Decodes at the ends of blocks, pages and chunks; prompts across them; a tile as full as it may be. */
static void step_numbers(struct attention_case *item)
{
    static const uint64_t decodes[] = {0, 15, 16, 63, 64, 255, 256, ATTENTION_TOKENS - 1};
    static const uint64_t prompts[] = {0, 60, 250, 505, ATTENTION_TOKENS - 9};
    for (size_t i = 0; i < sizeof(decodes) / sizeof(decodes[0]) && !plugin_failed(item->run); i++)
        try_tile(item, decodes[i], 1, pick_heads(item, i % 2 ? 3 : UINT32_MAX), KT_ATTENTION_CHUNK);
    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]) && !plugin_failed(item->run); i++) {
        uint32_t n_heads = pick_heads(item, i % 2 ? UINT32_MAX : 2);
        try_tile(item, prompts[i], pick_tokens(item, prompts[i], n_heads, 9), n_heads,
                 i == 2 ? KT_KV_PAGE : KT_ATTENTION_CHUNK);
    }
    uint32_t n_heads = pick_heads(item, UINT32_MAX);
    if (!plugin_failed(item->run))
        try_tile(item, 230, pick_tokens(item, 230, n_heads, (FULL_TILE + n_heads - 1) / n_heads), n_heads,
                 KT_ATTENTION_CHUNK);
    if (!plugin_failed(item->run))
        attention_scores(item);
}

void plugin_job_attention_numbers(void *data, struct plugin_child *child)
{
    run_cases(data, child, step_numbers);
}

bool plugin_attention_run(struct plugin_run *run, bool whole, struct kt_error *error)
{
    bool taken = false;
    *error = (struct kt_error){.message = ""};
    for (size_t form = 0; form < N_FORMS && !taken && !plugin_failed(run); form++)
        taken = run_case(run, form, 0, whole ? step_numbers : NULL, error);
    return taken;
}

/* ---- isolation ---- */

/* Do the outputs of query `query` of `tile` and query `other` of `single` have the same bits? NaN is NaN. */
static void compare_bits(struct attention_case *item, const struct attention_tile *tile, uint32_t query,
                         const struct attention_tile *single, uint32_t other, const char *why)
{
    for (uint32_t i = 0; i < item->layout.shape.value_size && !plugin_failed(item->run); i++) {
        float a = attention_output(item, tile, query, i), b = attention_output(item, single, other, i);
        if (!same_floats(&a, &b, 1))
            plugin_fail(item->run, "number %u of token %u, head %u is %.9g, but %.9g %s", i,
                        query / tile->n_heads, query % tile->n_heads, (double)a, (double)b, why);
    }
}

/* Each query of a tile by itself, with the keys that the core would give it then. */
static void try_single(struct attention_case *item, const struct attention_tile *tile)
{
    uint32_t n = tile->n_tokens * tile->n_heads, step = n / 6 + 1;
    float *sinks = item->sinks;
    for (uint32_t q = 0; q < n && !plugin_failed(item->run); q += step) {
        struct attention_tile single;
        attention_tile_single(item, tile, q, &single);
        item->sinks = sinks ? sinks + q % tile->n_heads : NULL;
        attention_run(item, &single, attention_first_key(item, &single), KT_ATTENTION_CHUNK);
        item->sinks = sinks;
        attention_enter(item, tile, "attend");
        if (!plugin_failed(item->run))
            compare_bits(item, tile, q, &single, 0, "if it is the tile's only query");
        attention_tile_free(&single);
    }
}

/* A partial result that saw no key changes none, as the first or the second one, and alone gives zeros. */
static void try_unseen(struct attention_case *item)
{
    const uint64_t begin = KT_ATTENTION_CHUNK, position = begin + 44;
    struct attention_tile tile, other;
    attention_tile_create(item, position, 1, pick_heads(item, UINT32_MAX), &tile);
    attention_tile_copy(item, &tile, &other);
    attention_attend(item, &tile, begin, position + 1, 0);
    attention_finish(item, &tile);
    for (int unseen = 0; unseen < 2 && !plugin_failed(item->run); unseen++) {
        attention_attend(item, &other, begin, position + 1, !unseen);
        attention_attend(item, &other, 0, KT_KV_PAGE, unseen);
        attention_merge(item, &other);
        attention_finish(item, &other);
        for (uint32_t q = 0; q < tile.n_heads && !plugin_failed(item->run); q++)
            compare_bits(item, &tile, q, &other, q, "after a merge with a result that saw no key");
    }
    if (!plugin_failed(item->run)) {
        attention_attend(item, &other, 0, KT_KV_PAGE, 0);
        attention_finish(item, &other);
    }
    for (uint32_t i = 0; i < item->layout.shape.value_size && !plugin_failed(item->run); i++)
        if (attention_output(item, &other, 0, i) != 0)
            plugin_fail(item->run, "number %u is %.8g, of a query that saw no key", i,
                        (double)attention_output(item, &other, 0, i));
    attention_tile_free(&tile);
    attention_tile_free(&other);
}

/* Chunks that attend() adds up itself, all in one call or the later ones in a second one, have the bits of
 * merge(). */
static void try_adds(struct attention_case *item)
{
    const uint64_t position = 2 * KT_ATTENTION_CHUNK - 7;
    const uint32_t n_heads = pick_heads(item, UINT32_MAX);
    struct attention_tile tile, other;
    attention_tile_create(item, position, pick_tokens(item, position, n_heads, 11), n_heads, &tile);
    attention_tile_copy(item, &tile, &other);
    const uint64_t begin = attention_first_key(item, &tile), last = position + tile.n_tokens;
    const uint64_t ends[] = {last, (begin / KT_ATTENTION_CHUNK + 1) * KT_ATTENTION_CHUNK};
    attention_run(item, &tile, begin, KT_ATTENTION_CHUNK);
    for (size_t i = 0; i < 2 && !plugin_failed(item->run); i++) {
        const uint64_t end = ends[i] < last ? ends[i] : last;
        attention_attend(item, &other, begin, end, 0);
        if (end < last)
            attention_add(item, &other, end, last);
        attention_finish(item, &other);
        for (uint32_t q = 0; q < tile.n_tokens * n_heads && !plugin_failed(item->run); q++)
            compare_bits(item, &tile, q, &other, q,
                         i ? "with struct kt_attend.add" : "in one attend of several chunks");
    }
    attention_tile_free(&tile);
    attention_tile_free(&other);
}

/* NaN in one query: its own outputs are NaN, the others stay. */
static void try_nan(struct attention_case *item, struct attention_tile *tile)
{
    const struct kt_attention_shape *shape = &item->layout.shape;
    uint32_t n = tile->n_tokens * tile->n_heads, bad = random_below(&item->random, n);
    struct attention_tile before = *tile;
    before.output.data = check_need(malloc(tile->output.size));
    memcpy(before.output.data, tile->output.data, tile->output.size);
    attention_tile_set(item, tile, bad, random_below(&item->random, shape->key_size), NAN);
    attention_run(item, tile, attention_first_key(item, tile), KT_ATTENTION_CHUNK);
    for (uint32_t q = 0; q < n && !plugin_failed(item->run); q++) {
        if (q != bad)
            compare_bits(item, tile, q, &before, q, "without a NaN in another query of the tile");
        for (uint32_t i = 0; q == bad && i < shape->value_size && !plugin_failed(item->run); i++)
            if (!isnan(attention_output(item, tile, q, i)))
                plugin_fail(item->run,
                            "a NaN in the query of token %u, head %u gave the number %.8g: it is hidden",
                            q / tile->n_heads, q % tile->n_heads, (double)attention_output(item, tile, q, i));
    }
    free(before.output.data);
}

static void step_isolation(struct attention_case *item)
{
    static const uint64_t positions[] = {250, 120};
    uint32_t n_heads = pick_heads(item, UINT32_MAX);
    for (size_t i = 0; i < 2 && !plugin_failed(item->run); i++) {
        struct attention_tile tile;
        attention_tile_create(item, positions[i], pick_tokens(item, positions[i], n_heads, 11), n_heads,
                              &tile);
        attention_run(item, &tile, attention_first_key(item, &tile), KT_ATTENTION_CHUNK);
        if (item->layout.deterministic && !plugin_failed(item->run))
            try_single(item, &tile);
        if (!plugin_failed(item->run))
            try_nan(item, &tile);
        attention_tile_free(&tile);
    }
    if (item->layout.shape.window < KT_ATTENTION_CHUNK - KT_KV_PAGE && !plugin_failed(item->run))
        try_unseen(item);
    if (item->layout.adds && !plugin_failed(item->run))
        try_adds(item);
}

void plugin_job_attention_isolation(void *data, struct plugin_child *child)
{
    run_cases(data, child, step_isolation);
}

/* ---- threads ---- */

struct thread {
    struct attention_case *item;
    struct attention_tile tile;
    const struct attention_tile *first; /* what one thread computed */
    uint64_t begin;
    pthread_t id;
    bool wrong;
};

/* The calls of attention_run, without what only one thread may do. */
static void call_all(struct thread *thread)
{
    const struct attention_case *item = thread->item;
    struct attention_tile *tile = &thread->tile;
    void *instance = item->run->instance;
    struct kt_error error = {.message = ""};
    uint64_t last = tile->position + tile->n_tokens, end;
    for (uint64_t begin = thread->begin; begin < last; begin = end) {
        end = (begin / KT_ATTENTION_CHUNK + 1) * KT_ATTENTION_CHUNK;
        end = end < last ? end : last;
        struct kt_attend attend =
            attention_attend_job(item, tile, begin, end, begin != thread->begin, &error);
        struct kt_attention_merge merge = attention_merge_job(item, tile);
        item->ops->attend(instance, &attend);
        if (begin != thread->begin)
            item->ops->merge(instance, &merge);
    }
    struct kt_attention_finish finish = attention_finish_job(item, tile);
    item->ops->finish(instance, &finish);
    thread->wrong |= error.message[0] != '\0';
}

static void *run_thread(void *data)
{
    struct thread *thread = data;
    const struct attention_case *item = thread->item;
    struct guarded *output = &thread->tile.output;
    if (item->ops->thread_enter)
        item->ops->thread_enter(item->run->instance);
    for (int round = 0; round < ROUNDS; round++) {
        memset(output->data, 0x5a, output->size);
        call_all(thread);
        thread->wrong |= memcmp(output->data, thread->first->output.data, output->size) != 0;
    }
    if (item->ops->thread_leave)
        item->ops->thread_leave(item->run->instance);
    return NULL;
}

static void step_threads(struct attention_case *item)
{
    struct thread threads[N_THREADS];
    struct attention_tile tile;
    uint32_t n_heads = pick_heads(item, UINT32_MAX), n_threads = 0, n_wrong = 0;
    attention_tile_create(item, 250, pick_tokens(item, 250, n_heads, 11), n_heads, &tile);
    uint64_t begin = attention_first_key(item, &tile);
    attention_run(item, &tile, begin, KT_ATTENTION_CHUNK);
    attention_enter(item, &tile, "several threads");
    plugin_host_forbid(NULL);
    for (; n_threads < N_THREADS && !plugin_failed(item->run); n_threads++) {
        struct thread *thread = &threads[n_threads];
        *thread = (struct thread){.item = item, .first = &tile, .begin = begin};
        attention_tile_copy(item, &tile, &thread->tile);
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0)
            break;
    }
    for (uint32_t i = 0; i < n_threads; i++) {
        (void)pthread_join(threads[i].id, NULL);
        n_wrong += threads[i].wrong;
        attention_tile_free(&threads[i].tile);
    }
    if (n_wrong)
        plugin_fail(item->run, "%u of %u threads have other bits than one thread alone", n_wrong, n_threads);
    attention_tile_free(&tile);
}

void plugin_job_attention_threads(void *data, struct plugin_child *child)
{
    run_cases(data, child, step_threads);
}
