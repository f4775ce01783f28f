/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor_tests.h - a level whose products are a vendor's (plugins/common/vendor/gemm_tmpl.h), with stubs of
 * its library: the tests of backends that have one. What includes it says
 *
 *   VENDOR_LEVEL, VENDOR_OWN_LEVEL       names of the level, and of the one that multiplies stored weights
 *   VENDOR_LIBRARY                       the struct of its functions
 *   VENDOR_OPEN, VENDOR_CALLS            what opens a library, and its struct vendor
 *   VENDOR_CHECKED                       an environment variable that names the vendor's library itself
 *   find_stub(variant), fit[], with_threads[], unfit[]    stubs, those to take, those of them with threads to
 *                                        give back, those to refuse and why
 */
#ifndef KT_TESTS_VENDOR_TESTS_H
#define KT_TESTS_VENDOR_TESTS_H

START_TEST(unfit_libraries_are_refused)
{
    VENDOR_LIBRARY library = {0}, before = library;
    struct kt_error error = {KT_OK, ""};
    const char *path = find_stub(unfit[_i].variant);

    ck_assert_int_eq(VENDOR_OPEN(&check_host, path, &library, &error), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, unfit[_i].reason), "%s", error.message);
    ck_assert_msg(strstr(error.message, path), "%s", error.message);
    ck_assert_int_eq(memcmp(&library, &before, sizeof library), 0);
    ck_assert_int_eq(check_allocated, 0);
}
END_TEST

START_TEST(fit_libraries_are_taken)
{
    VENDOR_LIBRARY library;
    struct kt_error error = {KT_OK, ""};

    ck_assert_msg(VENDOR_OPEN(&check_host, find_stub(fit[_i]), &library, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_int_eq(check_allocated, 0);
}
END_TEST

START_TEST(libraries_that_are_not_there)
{
    static const struct {
        const char *library, *reason;
        enum kt_status status;
    } wrong[] = {
        {"none", "library = none", KT_E_UNSUPPORTED},
        {"", "neither an absolute path nor a name", KT_E_INVALID},
        {"./libblis.so", "neither an absolute path nor a name", KT_E_INVALID},
        {"libkt-nobody.so", "libkt-nobody.so: cannot open shared object file", KT_E_NOT_FOUND},
        {"/nowhere/libblis.so", "/nowhere/libblis.so does not exist", KT_E_NOT_FOUND},
        {"/dev/null", "", KT_E_PLUGIN},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        VENDOR_LIBRARY library;
        struct kt_error error = {KT_OK, ""};
        ck_assert_int_eq(VENDOR_OPEN(&check_host, wrong[i].library, &library, &error), wrong[i].status);
        ck_assert_msg(strstr(error.message, wrong[i].reason), "%s", error.message);
    }
}
END_TEST

START_TEST(no_memory_to_try)
{
    VENDOR_LIBRARY library;
    struct kt_error error = {KT_OK, ""};

    check_fail_next = CHECK_FAIL_ALLOCATE;
    ck_assert_int_eq(VENDOR_OPEN(&check_host, find_stub("good"), &library, &error), KT_E_NOMEM);
    ck_assert_int_eq(check_allocated, 0);
}
END_TEST

/* Who uses the library as well finds his setting as it was. */
START_TEST(threads_are_given_back)
{
    for (size_t i = 0; i < COUNT(with_threads); i++) {
        VENDOR_LIBRARY library;
        struct kt_error error = {KT_OK, ""};
        int64_t (*stub_threads)(void);
        void *handle = dlopen(find_stub(with_threads[i]), RTLD_NOW | RTLD_LOCAL);
        ck_assert_ptr_nonnull(handle);
        void *address = dlsym(handle, "stub_threads");
        memcpy(&stub_threads, &address, sizeof address);
        ck_assert_int_eq(VENDOR_OPEN(&check_host, find_stub(with_threads[i]), &library, &error), KT_OK);
        library.set_threads(4); /* without forks, tests before this one have used the library */
        ck_assert_int_eq(VENDOR_OPEN(&check_host, find_stub(with_threads[i]), &library, &error), KT_OK);
        ck_assert_int_eq(stub_threads(), 4);
        int64_t before = VENDOR_CALLS.enter(&library);
        ck_assert_int_eq(stub_threads(), 1);
        VENDOR_CALLS.leave(&library, before);
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
    float *h =
        run_gate_up(&run, expert, batch->source, KT_DTYPE_F32, batch->n_tokens, batch->index, batch->n);
    run_down(&run, expert, h, batch->n, batch->out_index, y, stride);
    guard_give(h);
    end_run(&run);
    return y;
}

/* The level's own kernels, whose weights a store holds. */
static const struct check_level *find_own(const struct check_level *level)
{
    char name[64];
    (void)snprintf(name, sizeof name, VENDOR_OWN_LEVEL "%s", level->name + strlen(VENDOR_LEVEL));
    for (size_t l = 0; l < check_n_levels; l++)
        if (strcmp(check_levels[l].name, name) == 0)
            return &check_levels[l];
    ck_abort_msg("no level %s", name);
    return NULL;
}

/* What goes into a store, or comes out of one, has the form, the bytes and the results of the own levels. */
START_TEST(stored_weights_have_one_form)
{
    static const struct check_shape shape = {{.hidden_size = 200,
                                              .intermediate_size = 150,
                                              .activation = KT_ACTIVATION_SILU},
                                             {KT_DTYPE_F32, KT_DTYPE_F32, KT_DTYPE_F32},
                                             KT_DTYPE_F32,
                                             0,
                                             true,
                                             1 << 20,
                                             0,
                                             NULL};
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
            guard_give(y);
        }
        expert.layout.form[0] = '\0';
        guard_give(want);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* A product that is not computed, after the library was found good, is an error of both stages and of
 * weight_row. */
START_TEST(a_library_that_gives_up)
{
    static const struct check_shape shape = {{.hidden_size = 100,
                                              .intermediate_size = 80,
                                              .activation = KT_ACTIVATION_SILU},
                                             {KT_DTYPE_F32, KT_DTYPE_F32, KT_DTYPE_F32},
                                             KT_DTYPE_F32,
                                             0,
                                             true,
                                             1 << 20,
                                             0,
                                             NULL};
    struct expert expert;
    void (*stub_idle)(int);
    void *handle = dlopen(find_stub("good"), RTLD_NOW | RTLD_LOCAL);

    ck_assert_ptr_nonnull(handle);
    void *address = dlsym(handle, "stub_idle");
    memcpy(&stub_idle, &address, sizeof address);
    make_expert(&expert, &shape);
    for (size_t l = 0; l < check_n_levels && !getenv(VENDOR_CHECKED); l++) {
        struct run run;
        if (!check_levels[l].opaque || !check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, KT_DTYPE_F32);
        const struct kt_ops *ops = run.level->ops;
        float *out = guard_take(100 * sizeof(float));
        for (int stage = 0; stage < 3; stage++) {
            struct kt_error error = {KT_OK, ""};
            void *act = guard_take(run.layout.row_unit * run.layout.act_row_size[stage == 1]);
            void *h = guard_take(run.layout.row_unit * run.layout.h_row_size);
            struct kt_product job = {.layout = &run.layout,
                                     .packed = run.packed[stage == 1],
                                     .panel_end = 1,
                                     .n_rows = 1,
                                     .act = act,
                                     .out = stage ? (void *)out : h,
                                     .out_index = (const uint32_t[]){0},
                                     .out_stride = 400,
                                     .scratch = run.scratch,
                                     .error = &error};
            memset(act, 0, run.layout.row_unit * run.layout.act_row_size[stage == 1]);
            stub_idle(1);
            if (stage == 0)
                ops->gate_up(&run.instance, &job);
            else if (stage == 1)
                ops->down(&run.instance, &job);
            else
                ck_assert_int_eq(ops->weight_row(&run.instance, &run.layout, run.packed[0], &expert.source,
                                                 KT_GATE, 0, out, &error),
                                 KT_E_BACKEND);
            stub_idle(0);
            ck_assert_int_eq(error.status, KT_E_BACKEND);
            ck_assert_msg(strstr(error.message, " returned without computing"), "%s", error.message);
            guard_give(act);
            guard_give(h);
        }
        guard_give(out);
        end_run(&run);
    }
    free_expert(&expert);
}
END_TEST

void model_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, unfit_libraries_are_refused, 0, (int)COUNT(unfit));
    tcase_add_loop_test(tcase, fit_libraries_are_taken, 0, (int)COUNT(fit));
    tcase_add_test(tcase, libraries_that_are_not_there);
    tcase_add_test(tcase, no_memory_to_try);
    tcase_add_test(tcase, threads_are_given_back);
    tcase_add_test(tcase, stored_weights_have_one_form);
    tcase_add_test(tcase, a_library_that_gives_up);
}

#endif
