/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unload.c - a program that loads the library at run time, and closes it while a context still has
 * threads: these go on, in code that must still be there.
 */
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A function of the library by its name. */
static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    ck_assert_msg(found != NULL, "%s", name);
    memcpy(function, &found, sizeof found);
}

static void *open_library(const char *name, int flags)
{
    char path[512];
    const char *build = getenv("KT_TEST_BUILD");
    (void)snprintf(path, sizeof path, "%s/.libs/%s", build ? build : ".", name);
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL | flags) : NULL;
}

START_TEST(threads_go_on)
{
    __typeof__(&kt_config_create) create_config;
    __typeof__(&kt_config_destroy) destroy_config;
    __typeof__(&kt_context_create) create;
    __typeof__(&kt_context_dispatch_time) dispatch;
    __typeof__(&kt_context_destroy) destroy;
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    const char *const settings[] = {"core.threads=3"};
    struct kt_config *config;
    struct kt_context *context;
    struct kt_error error = {KT_OK, ""};
    double nanoseconds;
    void *library = open_library("libktkernel.so", 0);
    if (!library) /* a static build */
        return;
    sandbox_open();
    find(library, "kt_config_create", &create_config);
    find(library, "kt_config_destroy", &destroy_config);
    find(library, "kt_context_create", &create);
    find(library, "kt_context_dispatch_time", &dispatch);
    find(library, "kt_context_destroy", &destroy);
    params.settings = settings;
    params.n_settings = 1;
    ck_assert_msg(create_config(&params, &config, &error) == KT_OK, "%s", error.message);
    ck_assert_msg(create(config, &context, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(dlclose(library), 0);
    library = open_library("libktkernel.so", RTLD_NOLOAD);
    ck_assert_msg(library != NULL, "the library is gone");
    ck_assert_int_eq(dlclose(library), 0);
    ck_assert_msg(dispatch(context, 10, 0, &nanoseconds, &error) == KT_OK, "%s", error.message);
    destroy(context);
    destroy_config(config);
    sandbox_close();
}
END_TEST

START_TEST(engine_stays)
{
    void *library = open_library("libktengine.so", 0);
    if (!library)
        return;
    ck_assert_int_eq(dlclose(library), 0);
    ck_assert_ptr_nonnull(open_library("libktengine.so", RTLD_NOLOAD));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("unload");
    tcase_add_test(tests, threads_go_on);
    tcase_add_test(tests, engine_stays);
    return run_tests("unload", tests);
}
