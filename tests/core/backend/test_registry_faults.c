/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that crash or never come back, and calls of the library that fail. */
#include "core/config/config.h"
#include "core/machine/cpu.h"
#include "tests/core/backend/registry_world.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* One that takes its process with it, and one that does not come back, are found by a process of their own.
 */
START_TEST(plugins_are_tried_first)
{
    struct kt_config *config;
    struct kt_caps caps;
    struct kt_registry *registry;
    registry_add_plugin("fake", "");
    registry_add_plugin("wrong_major", "");
    registry_add_plugin("crashes", "");
    registry_add_plugin("option_help", "");
    registry_add_plugin("exits", "");
    registry_add_plugin("hangs", "");
    sandbox_write("etc/kt.ini", "[plugin.off]\nenabled = no\n");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_config_try_plugins(config, 400, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert_int_eq(kt_registry_create(config, &caps, &registry, NULL), KT_OK);
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    registry_expect(registry, "off", KT_BACKEND_DISABLED, "");
    registry_expect(registry, "wrong_major", KT_BACKEND_FAILED, "it was built for plugin ABI");
    registry_expect(registry, "crashes", KT_BACKEND_FAILED, "it crashed with SIGABRT when it was opened");
    registry_expect(registry, "option_help", KT_BACKEND_FAILED,
                    "it crashed with SIGSEGV when it was opened"); /* its help is nowhere */
    registry_expect(registry, "exits", KT_BACKEND_FAILED, "it ended the process with exit status 7");
    registry_expect(registry, "hangs", KT_BACKEND_FAILED, "it did not come back within 0.4 seconds");
    kt_registry_destroy(registry);
    kt_config_destroy(config);
    ck_assert_int_eq(kt_config_try_plugins(NULL, 400, NULL), KT_E_INVALID);
}
END_TEST

/* What may be over in a second is an error of the call, not of the plugin, which another would replace. */
START_TEST(errors_that_pass_change_no_backend)
{
    struct kt_config *config;
    struct kt_caps caps;
    struct kt_registry *registry;
    struct kt_error error = {0};
    struct rlimit before, few;
    int fds[64], n = 0;
    registry_add_plugin("fake", "");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 40;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0)
        n++;
    /* One descriptor after the other is free, until all is well. */
    enum kt_status status = KT_E_SYSTEM;
    int failures = 0;
    for (; status != KT_OK && n > 0; failures++) {
        status = kt_registry_create(config, &caps, &registry, &error);
        ck_assert_msg(status == KT_OK || (status == KT_E_SYSTEM && strstr(error.message, "plugin fake: ")),
                      "%d: %s", (int)status, error.message);
        (void)close(fds[--n]);
    }
    ck_assert_int_eq(status, KT_OK);
    ck_assert_int_ge(failures, 3);
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    kt_config_destroy(config);
    registry_add_plugin("lacks_memory", "");
    ck_assert_int_eq(registry_open_with(NULL, 0, &registry, &error), KT_E_NOMEM);
    ck_assert_ptr_nonnull(strstr(error.message, "lacks_memory"));
    while (n > 0)
        (void)close(fds[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

/* The dynamic linker's own memory is not ours to fail; all else is. */
START_TEST(every_allocation_may_fail)
{
    struct kt_config *config;
    struct kt_caps caps;
    registry_add_plugin("fake", "check = yes\n");
    registry_add_plugin("null_function", "");
    sandbox_write("etc/kt.ini", "[plugin.off]\nenabled = no\n");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    for (unsigned long n = 1;; n++) {
        struct kt_registry *registry = NULL;
        struct kt_error error = {0};
        ck_assert_uint_lt(n, 10000);
        faults_arm(n);
        enum kt_status status = kt_registry_create(config, &caps, &registry, &error);
        bool hit = faults_hit();
        faults_arm(0);
        if (!hit) {
            ck_assert_int_eq(status, KT_OK);
            registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
            kt_registry_destroy(registry);
            ck_assert_uint_gt(n, 15);
            break;
        }
        ck_assert_int_eq(status, KT_E_NOMEM);
        ck_assert_ptr_null(registry);
        ck_assert_uint_gt(strlen(error.message), 0);
    }
    kt_config_destroy(config);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("registry faults");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, plugins_are_tried_first);
    tcase_add_test(tests, errors_that_pass_change_no_backend);
    tcase_add_test(tests, every_allocation_may_fail);
    return run_tests("registry faults", tests);
}
