/* SPDX-License-Identifier: Apache-2.0 */
/* A log beside the line that shows how far something is: at a terminal, neither is glued to the other. */
#define _GNU_SOURCE
#include "tools/kt/base/cli.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

START_TEST(a_log_stands_on_lines_of_its_own)
{
    static const char wanted[] = "\r\033[Kkt run: loading\r\033[Kone\ntwo\n\r\033[Kkt run: loading\r\033[K";
    const struct kt_cli cli = {.verb = "run"};
    char got[sizeof(wanted)] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios modes;
    ck_assert(end >= 0 && tcgetattr(end, &modes) == 0);
    cfmakeraw(&modes);
    ck_assert_int_eq(tcsetattr(end, TCSANOW, &modes), 0);
    int before = dup(STDERR_FILENO);
    dup2(end, STDERR_FILENO);
    kt_progress_show(&cli, "loading");
    bool done = kt_progress_log("one\n", 4) && kt_progress_log("two\n", 4);
    kt_progress_show(&cli, "loading");
    kt_progress_clear();
    dup2(before, STDERR_FILENO);
    close(end);
    ck_assert(done);
    ssize_t more = 1; /* what was written comes first, then an error */
    for (size_t n = 0; more > 0 && n<sizeof(got) - 1; n += more> 0 ? (size_t)more : 0)
        more = read(terminal, got + n, sizeof(got) - 1 - n);
    ck_assert_str_eq(got, wanted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("progress");
    TCase *tests = tcase_create("progress");
    tcase_add_test(tests, a_log_stands_on_lines_of_its_own);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
