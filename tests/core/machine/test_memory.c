/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory control groups leave. */
#include "core/machine/memory.h"
#include "core/machine/topology.h"
#include "tests/support/suite.h"

#include <check.h>
#include <kt/kt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* hwloc has crashed where memory ends; so does nothing here, however little is left. */
START_TEST(a_topology_needs_memory)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return; /* they take more room than there is */
#endif
    enum { STEP = 256 << 10 };
    bool enough = false;
    int failures = 0;
    for (rlim_t spare = 0; !enough && spare < (rlim_t)64 << 20; spare += STEP) {
        pid_t pid = fork();
        if (pid == 0) {
            struct kt_topology *topology;
            unsigned long pages = 0;
            FILE *file = fopen("/proc/self/statm", "r");
            if (!file || fscanf(file, "%lu", &pages) != 1)
                _exit(3);
            (void)fclose(file);
            rlim_t size = pages * (rlim_t)sysconf(_SC_PAGESIZE) + spare;
            alarm(20);
            if (setrlimit(RLIMIT_AS, &(struct rlimit){size, size}) != 0)
                _exit(3);
            enum kt_status status = kt_topology_create("all", &topology, NULL);
            _exit(status == KT_OK ? 0 : status == KT_E_NOMEM ? 1 : 2);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 2, "%llu bytes: status %x",
                      (unsigned long long)spare, (unsigned)status);
        enough = WEXITSTATUS(status) == 0;
        failures += !enough;
    }
    ck_assert(enough);
    ck_assert_int_ge(failures, 4);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, control_groups_limit_memory);
    tcase_add_test(tests, a_machine_has_some);
    tcase_add_test(tests, a_topology_needs_memory);
    return run_tests("memory", tests);
}
