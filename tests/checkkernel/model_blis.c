/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_blis.c - the backend blis_int8 beside what it shares with amx_int8: level aocl with a stub of
 * AMD's library, or with the library that KT_CHECK_AOCL names, and libraries that must be refused.
 */
#include "tests/checkkernel/int8_case.h"

#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A variant of aocl_stub.c. */
static const char *find_stub(const char *variant)
{
    static char path[4096];
    const char *build = getenv("KT_TEST_BUILD");

    (void)snprintf(path, sizeof path, "%s/tests/checkkernel/aocl_%s.so", build ? build : ".", variant);
    return path;
}

void model_open(void *instance)
{
    struct blis_instance *self = instance;
    struct kt_error error = { KT_OK, "" };
    const char *library = getenv("KT_CHECK_AOCL");

    self->library = library ? library : find_stub("good");
    enum kt_status status = aocl_open(&check_host, self->library, &self->aocl, &error);
    ck_assert_msg(status == KT_OK, "%s", error.message);
}

static const struct {
    const char *variant, *reason;
} unfit[] = {
    { "old", "is version \"AOCL-BLAS 4.1.0 Build 20230630\"; 4.2 is needed" },
    { "upstream", "calls itself \"0.9.0\", which is no version of AOCL" },
    { "mute", "does not say its version" },
    { "bare", "has no aocl_get_reorder_buf_size_s8s8s32os32: it is no AOCL-DLP, nor an AOCL-BLAS with" },
    { "zero", "wants 0 bytes for a matrix of 532480: it does not know this CPU" },
    { "vast", "wants 18446744073709551615 bytes" },
    { "idle", "does not multiply" },
    { "inexact", "does not multiply" },
};

START_TEST(unfit_libraries_are_refused)
{
    struct aocl aocl = { 0 }, before = aocl;
    struct kt_error error = { KT_OK, "" };
    const char *path = find_stub(unfit[_i].variant);

    ck_assert_int_eq(aocl_open(&check_host, path, &aocl, &error), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, unfit[_i].reason), "%s", error.message);
    ck_assert_msg(strstr(error.message, path), "%s", error.message);
    ck_assert_int_eq(memcmp(&aocl, &before, sizeof aocl), 0);
    ck_assert_int_eq(check_allocated, 0);
}
END_TEST

START_TEST(libraries_that_are_not_there)
{
    static const struct {
        const char *library, *reason;
        enum kt_status status;
    } wrong[] = {
        { "none", "library = none", KT_E_UNSUPPORTED },
        { "", "neither an absolute path nor a name", KT_E_INVALID },
        { "./libblis.so", "neither an absolute path nor a name", KT_E_INVALID },
        { "libkt-nobody.so", "libkt-nobody.so: cannot open shared object file", KT_E_NOT_FOUND },
        { "/nowhere/libblis.so", "/nowhere/libblis.so does not exist", KT_E_NOT_FOUND },
        { "/dev/null", "", KT_E_PLUGIN },
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct aocl aocl;
        struct kt_error error = { KT_OK, "" };
        ck_assert_int_eq(aocl_open(&check_host, wrong[i].library, &aocl, &error), wrong[i].status);
        ck_assert_msg(strstr(error.message, wrong[i].reason), "%s", error.message);
    }
}
END_TEST

START_TEST(no_memory_to_try)
{
    struct aocl aocl;
    struct kt_error error = { KT_OK, "" };

    check_fail_next = CHECK_FAIL_ALLOCATE;
    ck_assert_int_eq(aocl_open(&check_host, find_stub("good"), &aocl, &error), KT_E_NOMEM);
    ck_assert_int_eq(check_allocated, 0);
}
END_TEST

/* Who uses the library as well finds his setting as it was. */
START_TEST(threads_are_given_back)
{
    static const char *const variants[] = { "good", "dlp" };

    for (size_t i = 0; i < COUNT(variants); i++) {
        struct aocl aocl;
        struct kt_error error = { KT_OK, "" };
        int64_t (*stub_threads)(void);
        void *handle = dlopen(find_stub(variants[i]), RTLD_NOW | RTLD_LOCAL);
        ck_assert_ptr_nonnull(handle);
        void *address = dlsym(handle, "stub_threads");
        memcpy(&stub_threads, &address, sizeof address);
        ck_assert_int_eq(aocl_open(&check_host, find_stub(variants[i]), &aocl, &error), KT_OK);
        aocl.set_threads(4); /* without forks, tests before this one have used the library */
        ck_assert_int_eq(aocl_open(&check_host, find_stub(variants[i]), &aocl, &error), KT_OK);
        ck_assert_int_eq(stub_threads(), 4);
        aocl_dim before = aocl_enter(&aocl);
        ck_assert_int_eq(stub_threads(), 1);
        aocl_leave(&aocl, before);
        ck_assert_int_eq(stub_threads(), 4);
    }
}
END_TEST

/* y of 20 rows, by a level that lays out as expert->layout asks. */
static float *run_expert(const struct check_level *level, struct expert *expert, const struct batch *batch)
{
    uint64_t stride = expert->layout.shape.hidden_size * sizeof(float);
    float *y = guard_take(batch->n * stride);
    struct run run;

    start_run(&run, level, expert, 1 << 20, KT_DTYPE_F32);
    ck_assert_str_eq(run.layout.form, FORM);
    float *h = run_gate_up(&run, expert, batch->source, KT_DTYPE_F32, batch->n_tokens, batch->index,
                           batch->n);
    run_down(&run, expert, h, batch->n, batch->out_index, y, stride);
    guard_free(h);
    end_run(&run);
    return y;
}

/* The level's own kernels, whose weights a store holds. */
static const struct check_level *find_own(const struct check_level *level)
{
    char name[64];

    (void)snprintf(name, sizeof name, "avx512_vnni%s", level->name + strlen("aocl"));
    for (size_t l = 0; l < check_n_levels; l++)
        if (strcmp(check_levels[l].name, name) == 0)
            return &check_levels[l];
    ck_abort_msg("no level %s", name);
    return NULL;
}

/* What goes into a store, or comes out of one, has the form, the bytes and the results of the own levels. */
START_TEST(stored_weights_have_one_form)
{
    static const struct check_shape shape = { { .hidden_size = 200, .intermediate_size = 150,
                                                .activation = KT_ACTIVATION_SILU },
                                              { KT_DTYPE_F32, KT_DTYPE_F32, KT_DTYPE_F32 }, KT_DTYPE_F32, 0,
                                              true, 1 << 20, 0, NULL };
    struct expert expert;
    struct batch batch;

    make_expert(&expert, &shape);
    make_batch(&batch, 200, KT_DTYPE_F32, 20);
    for (size_t l = 0; l < check_n_levels; l++) {
        struct check_level level = check_levels[l];
        struct run run;
        if (!level.opaque || !check_can_run(&level))
            continue;
        float *want = run_expert(find_own(&level), &expert, &batch);
        start_run(&run, &level, &expert, 1 << 20, KT_DTYPE_F32);
        ck_assert_str_eq(run.layout.form, "");
        end_run(&run);
        level.opaque = false; /* start_run compares the bytes */
        for (unsigned of_store = 0; of_store < 2; of_store++) {
            expert.layout.stored = !of_store;
            (void)snprintf(expert.layout.form, sizeof expert.layout.form, "%s", of_store ? FORM : "");
            float *y = run_expert(&level, &expert, &batch);
            ck_assert_int_eq(memcmp(y, want, 20 * 200 * sizeof *y), 0);
            guard_free(y);
        }
        expert.layout.form[0] = '\0';
        guard_free(want);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* A product that is not computed, after the library was found good, is an error of both stages and of
 * weight_row. */
START_TEST(a_library_that_gives_up)
{
    static const struct check_shape shape = { { .hidden_size = 100, .intermediate_size = 80,
                                                .activation = KT_ACTIVATION_SILU },
                                              { KT_DTYPE_F32, KT_DTYPE_F32, KT_DTYPE_F32 }, KT_DTYPE_F32, 0,
                                              true, 1 << 20, 0, NULL };
    struct expert expert;
    void (*stub_idle)(int);
    void *handle = dlopen(find_stub("good"), RTLD_NOW | RTLD_LOCAL);

    ck_assert_ptr_nonnull(handle);
    void *address = dlsym(handle, "stub_idle");
    memcpy(&stub_idle, &address, sizeof address);
    make_expert(&expert, &shape);
    for (size_t l = 0; l < check_n_levels && !getenv("KT_CHECK_AOCL"); l++) {
        struct run run;
        if (!check_levels[l].opaque || !check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, KT_DTYPE_F32);
        const struct kt_ops *ops = run.level->ops;
        float *out = guard_take(100 * sizeof(float));
        for (int stage = 0; stage < 3; stage++) {
            struct kt_error error = { KT_OK, "" };
            void *act = guard_take(run.layout.row_unit * run.layout.act_row_size[stage == 1]);
            void *h = guard_take(run.layout.row_unit * run.layout.h_row_size);
            struct kt_product job = { .layout = &run.layout, .packed = run.packed[stage == 1], .panel_end = 1,
                                      .n_rows = 1, .act = act, .out = stage ? (void *)out : h,
                                      .out_index = (const uint32_t[]){ 0 }, .out_stride = 400,
                                      .scratch = run.scratch, .error = &error };
            memset(act, 0, run.layout.row_unit * run.layout.act_row_size[stage == 1]);
            stub_idle(1);
            if (stage == 0)
                ops->gate_up(&run.instance, &job);
            else if (stage == 1)
                ops->down(&run.instance, &job);
            else
                ck_assert_int_eq(ops->weight_row(&run.instance, &run.layout, run.packed[0], &expert.source,
                                                 KT_GATE, 0, out, &error), KT_E_BACKEND);
            stub_idle(0);
            ck_assert_int_eq(error.status, KT_E_BACKEND);
            ck_assert_msg(strstr(error.message, "AOCL returned without computing"), "%s", error.message);
            guard_free(act);
            guard_free(h);
        }
        guard_free(out);
        end_run(&run);
    }
    free_expert(&expert);
}
END_TEST

void model_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, unfit_libraries_are_refused, 0, (int)COUNT(unfit));
    tcase_add_test(tcase, libraries_that_are_not_there);
    tcase_add_test(tcase, no_memory_to_try);
    tcase_add_test(tcase, threads_are_given_back);
    tcase_add_test(tcase, stored_weights_have_one_form);
    tcase_add_test(tcase, a_library_that_gives_up);
}
