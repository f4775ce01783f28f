/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor_tests.h - a level whose products are a vendor's (plugins/common/vendor/gemm_tmpl.h), with stubs of
 * its library: the tests of backends that have one. What includes it says
 *
 *   VENDOR_OPS, VENDOR_NEEDS             the level, if it was built, and what it needs of a CPU
 *   VENDOR_INSTANCE, VENDOR_FOUND        a backend's instance, and its library there
 *   VENDOR_LIBRARY                       the struct of its functions
 *   VENDOR_OPEN, VENDOR_CALLS            what opens a library, and its struct vendor
 *   VENDOR_CHECKED                       an environment variable that names the vendor's library itself
 *   find_stub(variant), fit[], with_threads[], unfit[]    stubs, those to take, those of them with threads to
 *                                        give back, those to refuse and why
 */
#ifndef KT_TESTS_VENDOR_TESTS_H
#define KT_TESTS_VENDOR_TESTS_H

#include "core/machine/cpu.h"

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

    check_service_fails = KT_E_NOMEM;
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

#ifdef VENDOR_OPS
void check_fail(struct check *check, const char *format, ...)
{
    (void)check;
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    ck_abort_msg("see above");
}

void check_enter(const struct check *check, const char *function)
{
    (void)check;
    (void)function;
}

/* A product of one row, or for stage 2 a row of weights: what the level says while its library is idle. */
static void run_idle(struct check *check, int stage, struct kt_error *error)
{
    const struct kt_layout *layout = &check->layout;
    const struct kt_ops *ops = check->level->ops;
    uint8_t *act = check_need(calloc(layout->row_unit, layout->act_row_size[stage == 1]));
    uint8_t *scratch = check_need(aligned_alloc(64, layout->scratch_size + 64 - layout->scratch_size % 64));
    float *out = check_need(calloc(layout->row_unit, layout->h_row_size));
    struct kt_product job = {.layout = layout,
                             .packed = check->packed[stage == 1].data,
                             .panel_end = 1,
                             .n_rows = 1,
                             .act = act,
                             .out = out,
                             .out_index = (const uint32_t[]){0},
                             .out_stride = 400,
                             .scratch = scratch,
                             .error = error};
    if (stage == 0)
        ops->gate_up(check->instance, &job);
    else if (stage == 1)
        ops->down(check->instance, &job);
    else
        ck_assert_int_eq(ops->weight_row(check->instance, layout, check->packed[0].data,
                                         &check->source.expert, KT_GATE, 0, out, error),
                         KT_E_BACKEND);
    free(out);
    free(scratch);
    free(act);
}

/* A product that is not computed, after the library was found good, is an error of both stages and of
 * weight_row. */
START_TEST(a_library_that_gives_up)
{
    static VENDOR_INSTANCE instance;
    const struct kt_level level = {.name = "vendor", .ops = &VENDOR_OPS};
    const struct instance base = {.host = &check_host, .l2_size = 1 << 20, .y_dtype = KT_DTYPE_F32};
    struct check check = {.level = &level, .instance = &instance, .host = &check_host, .random = 1};
    struct kt_shape *shape = &check.layout.shape;
    struct kt_error error = {KT_OK, ""};
    struct kt_caps caps;
    void (*stub_idle)(int);
    if (getenv(VENDOR_CHECKED) || kt_cpu_detect(NULL, &caps, &error) != KT_OK ||
        (VENDOR_NEEDS & ~caps.cpu) != 0)
        return;
    void *handle = dlopen(find_stub("good"), RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(handle);
    void *address = dlsym(handle, "stub_idle");
    memcpy(&stub_idle, &address, sizeof address);
    memcpy(&instance, &base, sizeof base);
    ck_assert_int_eq(VENDOR_OPEN(&check_host, find_stub("good"), &instance.VENDOR_FOUND, &error), KT_OK);
    *shape = (struct kt_shape){.hidden_size = 100,
                               .intermediate_size = 80,
                               .n_experts = 1,
                               .top_k = 1,
                               .activation = KT_ACTIVATION_SILU};
    for (int p = 0; p < 3; p++)
        shape->format[p].dtype = KT_DTYPE_F32;
    ck_assert_int_eq(level.ops->layout(&instance, &check.layout, &error), KT_OK);
    ck_assert_str_eq(check.layout.form, "");
    ck_assert(source_create(shape, &check.random, &check.source));
    check_pack_once(&check);
    for (int stage = 0; stage < 3; stage++) {
        error.status = KT_OK;
        stub_idle(1);
        run_idle(&check, stage, &error);
        stub_idle(0);
        ck_assert_int_eq(error.status, KT_E_BACKEND);
        ck_assert_msg(strstr(error.message, " returned without computing"), "%s", error.message);
    }
    free_case(&check);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create(BACKEND);
    TCase *tcase = tcase_create("libraries");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, unfit_libraries_are_refused, 0, (int)COUNT(unfit));
    tcase_add_loop_test(tcase, fit_libraries_are_taken, 0, (int)COUNT(fit));
    tcase_add_test(tcase, libraries_that_are_not_there);
    tcase_add_test(tcase, no_memory_to_try);
    tcase_add_test(tcase, threads_are_given_back);
#ifdef VENDOR_OPS
    tcase_add_test(tcase, a_library_that_gives_up);
#endif
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
