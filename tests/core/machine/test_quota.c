/* SPDX-License-Identifier: Apache-2.0 */
/* The quota of CPU time of made-up machines and containers. */
#include "core/machine/quota.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING "23 1 0:21 / /proc rw,nosuid - proc proc rw\n" /* what else is mounted */
#define UNIFIED \
    NOTHING "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n"
#define OLD                                                                                        \
    NOTHING "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" \
            "33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"

static const struct row {
    const char *name, *cgroup, *mountinfo;
    const char *file[6]; /* names and contents in turn */
    uint32_t quota;
} rows[] = {
    {"no control groups", NULL, NULL, {NULL}, 0},
    {"no mounts", "0::/a\n", NULL, {NULL}, 0},
    {"no limit", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "max 100000\n"}, 0},
    {"2.5", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "250000 100000\n"}, 2500},
    {"another period", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "20000 10000\n"}, 2000},
    {"rounded up", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "200001 100000\n"}, 2001},
    {"less than a thousandth", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "1 1000000\n"}, 1},
    {"the one above has less",
     "0::/a/b/c\n",
     UNIFIED,
     {"sys/fs/cgroup/a/b/c/cpu.max", "300000 100000\n", "sys/fs/cgroup/a/cpu.max", "150000 100000\n",
      "sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
     1500},
    {"one beside it does not count",
     "0::/a/b\n",
     UNIFIED,
     {"sys/fs/cgroup/a/b/cpu.max", "300000 100000\n", "sys/fs/cgroup/a/c/cpu.max", "1000 100000\n"},
     3000},
    {"a container with a namespace", "0::/\n", UNIFIED, {"sys/fs/cgroup/cpu.max", "400000 100000\n"}, 4000},
    {"a group that was deleted",
     "0::/a/b (deleted)\n",
     UNIFIED,
     {"sys/fs/cgroup/a/cpu.max", "400000 100000\n"},
     4000},
    {"version 1",
     "4:cpuset:/\n3:cpu,cpuacct:/a\n1:name=systemd:/x\n0::/x\n",
     OLD,
     {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "350000\n",
      "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
     3500},
    {"version 1 without a limit",
     "3:cpuacct,cpu:/a\n",
     OLD,
     {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us",
      "100000\n"},
     0},
    {"another controller's hierarchy",
     "4:cpuset:/a\n",
     OLD,
     {"sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "100000\n", "sys/fs/cgroup/cpuset/a/cpu.cfs_period_us",
      "100000\n"},
     0},
    {"version 1 in a container without a namespace",
     "3:cpu,cpuacct:/docker/0123\n",
     "32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro,relatime - cgroup cgroup rw,cpu,cpuacct\n",
     {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us",
      "100000\n"},
     1500},
    {"below the mounted group",
     "0::/docker/0123/mine\n",
     "32 31 0:29 /docker/0123 /sys/fs/cgroup ro,relatime - cgroup2 cgroup2 rw\n",
     {"sys/fs/cgroup/mine/cpu.max", "300000 100000\n", "sys/fs/cgroup/cpu.max", "200000 100000\n"},
     2000},
    {"a mount of another container's group",
     "0::/docker/0123\n",
     "32 31 0:29 /docker/01 /sys/fs/cgroup ro,relatime - cgroup2 cgroup2 rw\n",
     {"sys/fs/cgroup/cpu.max", "100000 100000\n"},
     0},
    {"mounted above the namespace",
     "0::/\n",
     "32 31 0:29 /../.. /sys/fs/cgroup ro,relatime - cgroup2 cgroup2 rw\n",
     {"sys/fs/cgroup/cpu.max", "100000 100000\n"},
     1000},
    {"moved out of its namespace", "0::/../b\n", UNIFIED, {"sys/fs/cgroup/cpu.max", "100000 100000\n"}, 0},
    {"a folder with a blank",
     "0::/a b\n",
     "32 31 0:29 / /my\\040groups rw - cgroup2 none rw\n",
     {"my groups/a b/cpu.max", "100000 50000\n"},
     2000},
    {"both versions, the unified one without the controller",
     "3:cpu:/a\n0::/b\n",
     NOTHING "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
     {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
     500},
    {"nonsense", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "100000 0\n"}, 0},
    {"more nonsense", "0\n::\n0::/a", "1 2 3\n1 2 3 / / rw\n" UNIFIED, {"sys/fs/cgroup/a/cpu.max", "x"}, 0},
    {"more than can be", "0::/a\n", UNIFIED, {"sys/fs/cgroup/a/cpu.max", "99999999999999999999 1\n"}, 0},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

START_TEST(made_up_machines)
{
    const struct row *row = &rows[_i];
    char path[128];
    sandbox_open();
    sandbox_folder("machine");
    if (row->cgroup)
        sandbox_write("machine/proc/self/cgroup", "%s", row->cgroup);
    if (row->mountinfo)
        sandbox_write("machine/proc/self/mountinfo", "%s", row->mountinfo);
    for (int i = 0; i < 6 && row->file[i]; i += 2) {
        (void)snprintf(path, sizeof path, "machine/%s", row->file[i]);
        sandbox_write(path, "%s", row->file[i + 1]);
    }
    uint32_t quota = kt_quota_read(sandbox_path("machine"));
    ck_assert_msg(quota == row->quota, "%s: %u, not %u", row->name, quota, row->quota);
    sandbox_close();
}
END_TEST

START_TEST(threads_of_a_quota)
{
    static const uint32_t cases[][3] = {{0, 8, 8},    {1, 8, 1},    {1000, 8, 1},          {1001, 8, 2},
                                        {2500, 8, 3}, {8000, 8, 8}, {UINT32_MAX - 1, 8, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_uint_eq(kt_quota_threads(cases[i][0], cases[i][1]), cases[i][2]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quota");
    TCase *tests = tcase_create("quota");
    tcase_add_loop_test(tests, made_up_machines, 0, ROWS);
    tcase_add_test(tests, threads_of_a_quota);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
