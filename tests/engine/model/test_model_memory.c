/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_memory.c - what models and sessions take: as planned, no more later, and what if there is none.
 */
#define _GNU_SOURCE /* memmem */
#include "tests/engine/model/world.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/mapped.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>
#define HAS_MALLINFO2
#endif

/* ---- what the library takes, by the linker's --wrap ---- */

static int64_t mapped; /* bytes of anonymous memory that are mapped now */

void *__real_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t size);

static int64_t whole_pages(size_t size)
{
    return (int64_t)((size + 4095) / 4096 * 4096);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    mapped += flags & MAP_ANONYMOUS ? whole_pages(size) : 0;
    return __real_mmap(at, size, protection, flags, file, offset);
}

/* Files stay open while a test counts. */
int __wrap_munmap(void *at, size_t size)
{
    mapped -= whole_pages(size);
    return __real_munmap(at, size);
}

START_TEST(takes_what_was_planned)
{
    struct world w;
    struct kt_model_plan plan;
    struct kt_model_info info;
    struct kt_model *model = NULL;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    params.cache_dtype = KT_DTYPE_F32;
    if (!world_open(&w, world_tiny(), 2, &params))
        return;
    ck_assert_msg(kt_model_plan(w.context, w.checkpoint, &params, &plan, &error) == KT_OK, "%s",
                  error.message);
    kt_model_info(w.model, &info);
    ck_assert_uint_eq(plan.weight_size, info.weight_size);
    ck_assert_uint_eq(plan.cache_size, info.cache_size);
    ck_assert_uint_eq(plan.max_tokens, 2048);
    ck_assert_uint_eq(plan.total, plan.weight_size + plan.cache_size + plan.buffer_size + plan.row_size +
                                      plan.mapped_size);
    uint64_t total = plan.total;
    params.n_logits = 7;
    ck_assert(kt_model_plan(w.context, w.checkpoint, &params, &plan, &error) == KT_OK);
    ck_assert_uint_eq(plan.total, total + 7 * VOCABULARY * sizeof(float));
    ck_assert(plan.row_size > 512 * 256 * sizeof(float) && plan.buffer_size > 0);
    /* Too much is known before anything is read. */
    params.cache_tokens = UINT64_C(1) << 31;
    params.max_sessions = 1;
    ck_assert(kt_model_plan(w.context, w.checkpoint, &params, &plan, &error) == KT_OK);
    ck_assert(plan.available == 0 || plan.total > plan.available);
    if (plan.available > 0) {
        ck_assert(kt_model_open(w.context, w.checkpoint, &params, &model, &error) == KT_E_NOMEM);
        ck_assert_msg(strstr(error.message, "GB free"), "%s", error.message);
    }
    world_close(&w);
}
END_TEST

/* Rows that are planned for the tiny model whose first router has numbers of bfloat16, but for one where it
 * is spoilt. */
static uint64_t plan_router(struct kt_context *context, bool spoilt, struct kt_view *router)
{
    struct kt_checkpoint *checkpoint;
    struct kt_model_plan plan;
    struct kt_error error = {KT_OK, ""};
    FILE *file = fopen(world_tiny(), "rb");
    ck_assert(file && fseek(file, 0, SEEK_END) == 0);
    size_t size = (size_t)ftell(file);
    char *bytes = malloc(size);
    rewind(file);
    ck_assert(fread(bytes, 1, size, file) == size);
    fclose(file);
    ck_assert(kt_checkpoint_open(world_tiny(), NULL, &checkpoint, NULL) == KT_OK);
    ck_assert(kt_checkpoint_weight(checkpoint, "blk.0.ffn_gate_inp", router, NULL, NULL) == KT_OK);
    ck_assert_uint_eq(router->dtype, KT_DTYPE_F32);
    char *numbers = memmem(bytes, size, router->data, router->size);
    ck_assert_ptr_nonnull(numbers);
    for (uint64_t i = 0; i < router->size; i += sizeof(float))
        numbers[i] = numbers[i + 1] = 0;
    numbers[0] = spoilt;
    kt_checkpoint_close(checkpoint);
    sandbox_write_bytes("routed.gguf", bytes, size);
    free(bytes);
    ck_assert(kt_checkpoint_open(sandbox_path("routed.gguf"), NULL, &checkpoint, NULL) == KT_OK);
    ck_assert_msg(kt_model_plan(context, checkpoint, NULL, &plan, &error) == KT_OK, "%s", error.message);
    kt_checkpoint_close(checkpoint);
    return plan.row_size;
}

/* A router that is float32 in the file takes half of that where all of its numbers are bfloat16's. */
START_TEST(routers_stay_as_small_as_their_numbers)
{
    struct kt_context *context = world_context(1, "scalar");
    struct kt_view router = KT_VIEW_INIT;
    if (!context)
        return;
    uint64_t small = plan_router(context, false, &router), large = plan_router(context, true, &router);
    ck_assert_uint_eq(large - small, router.rows * router.cols * sizeof(uint16_t));
    kt_context_destroy(context);
}
END_TEST

#if defined HAS_MALLINFO2 && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static int64_t memory_now(void)
{
    struct mallinfo2 heap = mallinfo2();
    return mapped + (int64_t)(heap.uordblks + heap.hblkhd);
}

/* Opened, and after a step of all rows and logits, a model has taken what was planned within 3 %. */
static void check_plan(struct kt_context *context, const char *path, uint32_t max_batch, uint32_t n_logits)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_model_plan plan;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    struct kt_error error = {KT_OK, ""};
    static int32_t ids[512];
    params.max_batch = max_batch;
    params.n_logits = n_logits;
    ck_assert(kt_checkpoint_open(path, NULL, &checkpoint, NULL) == KT_OK);
    int64_t before = memory_now(); /* planning makes the context's buffers as large as attention wants them */
    ck_assert_msg(kt_model_plan(context, checkpoint, &params, &plan, &error) == KT_OK, "%s", error.message);
    ck_assert_msg(kt_model_open(context, checkpoint, &params, &model, &error) == KT_OK, "%s", error.message);
    ck_assert(kt_session_open(model, &session, NULL) == KT_OK);
    float *logits = malloc((size_t)n_logits * VOCABULARY * sizeof(*logits));
    const struct kt_step one = {session, ids, max_batch, n_logits, logits};
    ck_assert_msg(kt_model_step(model, &one, 1, &error) == KT_OK, "%s", error.message);
    double taken = (double)(memory_now() - before), planned = (double)(plan.total - plan.mapped_size);
    ck_assert_msg(taken > 0.97 * planned && taken < 1.03 * planned, "%.0f bytes were taken, %.0f planned",
                  taken, planned);
    free(logits);
    kt_session_close(session);
    kt_model_close(model);
    kt_checkpoint_close(checkpoint);
}

/* Layers of bfloat16 fill more than a huge page, but for large test data there are none here. */
static const char *path_for(const char *backend)
{
    static char path[4200];
    const char *large = getenv("KT_TEST_DATA_SHARED");
    if (strcmp(backend, "bf16") != 0 || !large || !*large)
        return world_tiny();
    snprintf(path, sizeof(path), "%s/tiny-moe/tiny-moe-bf16.gguf", large);
    return path;
}

START_TEST(memory_is_what_was_planned)
{
    static const char *const backends[] = {"reference", "llamafile", "bf16", "amx_int8"};
    char module[4200], attention[4200], wish[64];
    const char *own = sandbox_backend(backends[_i]), *path = path_for(backends[_i]), *file;
    if (_i > 0 && !own) {
        printf("SKIP: the plugin %s was not built\n", backends[_i]);
        return;
    }
    snprintf(module, sizeof(module), "plugin.%s.module=%s", _i > 0 ? backends[_i] : "attention",
             _i > 0 ? own : sandbox_backend("attention"));
    if (!(file = sandbox_backend("attention")))
        return;
    snprintf(attention, sizeof(attention), "plugin.attention.module=%s", file);
    snprintf(wish, sizeof(wish), "core.backend=%s", backends[_i]);
    struct kt_context *context =
        fixture_context_with((const char *const[]){attention, module, wish, "core.threads=2"}, 4);
    check_plan(context, path, 512, 8);
    kt_context_destroy(context);
    context = fixture_context_with((const char *const[]){attention, module, wish, "core.threads=2"}, 4);
    check_plan(context, path, 64, 64);
    kt_context_destroy(context);
}
END_TEST
#endif

/* What a session took is there again for the next one, to the byte. Most of the first ones' is kept. */
START_TEST(memory_does_not_grow)
{
#ifdef HAS_MALLINFO2
    struct world w;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    size_t used = 0;
    params.max_sessions = 2;
    if (!world_open(&w, world_tiny(), 1, &params))
        return;
    for (int i = 0; i < 24; i++) {
        struct kt_session *session;
        if (i == 8)
            used = mallinfo2().uordblks;
        ck_assert(kt_session_open(w.model, &session, NULL) == KT_OK);
        free(world_step(&w, session, w.ids, 3));
        for (int t = 3; t < 6; t++)
            free(world_step(&w, session, w.ids + t, 1));
        kt_session_close(session);
    }
    ck_assert_uint_eq(mallinfo2().uordblks, used);
    world_close(&w);
#endif
}
END_TEST

/* Rows were touched when the model was opened: a first step waits for few pages. Sanitizers and emulators
 * make pages of their own. */
START_TEST(first_step_finds_its_memory)
{
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    enum { N = 256 };
    struct world w;
    struct rusage before, after;
    struct kt_model_plan plan;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    static int32_t ids[N];
    static float logits[VOCABULARY];
    const char *emulator = getenv("EMULATOR");
    params.max_batch = N;
    params.max_tokens = 2 * N;
    if ((emulator && *emulator) || !world_open(&w, world_tiny(), 2, &params))
        return;
    ck_assert(kt_model_plan(w.context, w.checkpoint, &params, &plan, NULL) == KT_OK);
    const struct kt_step one = {w.session, ids, N, 1, logits};
    memset(logits, 0, sizeof(logits));
    getrusage(RUSAGE_SELF, &before);
    ck_assert(kt_model_step(w.model, &one, 1, NULL) == KT_OK);
    getrusage(RUSAGE_SELF, &after);
    long n_faults = after.ru_minflt - before.ru_minflt, n_pages = (long)(plan.row_size / 4096);
    ck_assert_msg(n_faults < n_pages / 3, "%ld faults, %ld pages of rows", n_faults, n_pages);
    world_close(&w);
#endif
}
END_TEST

/* The reference backend reads matrices where they lie: all of them are read when the model is opened. */
START_TEST(opening_brings_weights_into_memory)
{
    struct world w;
    struct kt_model_info info;
    if (!mapped_is_known() || !world_open(&w, world_tiny(), 2, NULL))
        return;
    kt_model_info(w.model, &info);
    uint64_t size = info.dense_bytes + info.expert_bytes;
    ck_assert_msg(mapped_bytes(world_tiny()) >= size, "%llu bytes are mapped in, matrices have %llu",
                  (unsigned long long)mapped_bytes(world_tiny()), (unsigned long long)size);
    world_close(&w);
}
END_TEST

START_TEST(survives_failed_allocations)
{
    struct kt_context *context = world_context(1, "scalar");
    struct kt_checkpoint *checkpoint;
    float *logits = malloc(VOCABULARY * sizeof(*logits));
    const int32_t id = 5;
    bool hit = true;
    if (!context)
        return;
    ck_assert(kt_checkpoint_open(world_tiny(), NULL, &checkpoint, NULL) == KT_OK);
    for (unsigned long n = 1; hit; n += n < 40 ? 1 : 1 + n / 8) {
        struct kt_model *model = NULL;
        struct kt_session *session = NULL;
        struct kt_error error = {KT_OK, ""};
        faults_arm(n);
        enum kt_status status = kt_model_open(context, checkpoint, NULL, &model, &error);
        if (status == KT_OK)
            status = kt_session_open(model, &session, &error);
        const struct kt_step step = {session, &id, 1, 1, logits};
        if (status == KT_OK)
            status = kt_model_step(model, &step, 1, &error);
        hit = faults_hit();
        faults_arm(0);
        ck_assert_msg(status == (hit ? KT_E_NOMEM : KT_OK), "allocation %lu: status %d, %s", n, (int)status,
                      error.message);
        kt_session_close(session);
        kt_model_close(model);
    }
    free(logits);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("memory of models");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, takes_what_was_planned);
    tcase_add_test(tests, routers_stay_as_small_as_their_numbers);
#if defined HAS_MALLINFO2 && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    tcase_add_loop_test(tests, memory_is_what_was_planned, 0, 4);
#endif
    tcase_add_test(tests, memory_does_not_grow);
    tcase_add_test(tests, first_step_finds_its_memory);
    tcase_add_test(tests, opening_brings_weights_into_memory);
    tcase_add_test(tests, survives_failed_allocations);
    return run_tests("memory of models", tests);
}
