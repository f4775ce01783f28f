/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory control groups leave. */
#include "core/machine/memory.h"

#include <check.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static uint64_t group_memory(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/groups", folder);
    return kt_group_memory(path, folder);
}

/* Both versions, the own group and one above it, a limit that is "max", and none at all. */
START_TEST(control_groups_limit_memory)
{
    snprintf(folder, sizeof folder, "/tmp/kt-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(group_memory() == UINT64_MAX);
    put("groups", "1:cpu:/x\n0::/above/own\n");
    ck_assert(group_memory() == UINT64_MAX);
    put("above/own/memory.max", "max\n");
    put("above/own/memory.current", "700\n");
    ck_assert(group_memory() == UINT64_MAX);
    put("above/memory.max", "1000\n");
    put("above/memory.current", "900\n");
    put("above/memory.stat", "anon 800\ninactive_file 50\nactive_file 50\n");
    ck_assert_uint_eq(group_memory(), 150);
    put("above/own/memory.max", "740\n");
    ck_assert_uint_eq(group_memory(), 40);
    put("above/own/memory.max", "600\n");
    ck_assert_uint_eq(group_memory(), 0);
    put("groups", "4:memory:/\n");
    ck_assert(group_memory() == UINT64_MAX);
    put("memory/memory.limit_in_bytes", "5000\n");
    put("memory/memory.usage_in_bytes", "3000\n");
    put("memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1000\n");
    ck_assert_uint_eq(group_memory(), 3000);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_machine_has_some)
{
    uint64_t bytes = kt_memory_available();
    ck_assert_uint_gt(bytes, 0);
    ck_assert_uint_lt(bytes, UINT64_C(1) << 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, control_groups_limit_memory);
    tcase_add_test(tests, a_machine_has_some);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
