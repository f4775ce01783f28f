/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is finished has its name for good, or is not there. The linker's --wrap leads fsync and rename
 * here; fwrite is this program's own, which libraries call, too. */
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"
#include "tools/engine/base/rename.h"
#include "tools/engine/chat/conversation.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ino_t synced;       /* what was synced last */
static bool is_renamed;    /* before that */
static int sync_error;     /* of the next fsync */
static int n_writes, lost; /* calls of fwrite; which of them fails, 0: none */

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_fsync(int fd);

int __wrap_rename(const char *from, const char *to)
{
    is_renamed = __real_rename(from, to) == 0;
    return is_renamed ? 0 : -1;
}

int __wrap_fsync(int fd)
{
    struct stat known;
    synced = fstat(fd, &known) == 0 ? known.st_ino : 0; /* no ck_assert: libcheck writes, too */
    errno = sync_error;
    return sync_error ? -1 : 0;
}

size_t fwrite(const void *from, size_t size, size_t n, FILE *file)
{
    if (++n_writes == lost)
        return 0;
    for (size_t i = 0; i < size * n; i++)
        if (putc(((const char *)from)[i], file) == EOF)
            return 0;
    return n;
}

static ino_t folder_of(const char *path)
{
    struct stat known;
    ck_assert_int_eq(stat(path, &known), 0);
    return known.st_ino;
}

static bool finish(const char *from, const char *to, int error)
{
    sandbox_write("folder/part", "text");
    synced = 0;
    is_renamed = false;
    sync_error = error;
    bool done = kt_rename_synced(from, to);
    sync_error = errno == error ? 0 : -1;
    return done;
}

START_TEST(folders_are_synced)
{
    sandbox_folder("folder");
    char *from = strdup(sandbox_path("folder/part")), *to = strdup(sandbox_path("folder/whole"));
    ck_assert(finish(from, to, 0) && is_renamed);
    ck_assert(synced == folder_of(sandbox_path("folder")));
    ck_assert(access(from, F_OK) != 0 && access(to, R_OK) == 0);
    ck_assert(!finish(from, to, EIO) && is_renamed);
    ck_assert_int_eq(sync_error, 0);     /* errno said so */
    ck_assert(finish(from, to, EINVAL)); /* a file system that syncs no folders */
    ck_assert(!finish(from, sandbox_path("elsewhere/whole"), 0));
    ck_assert(!is_renamed && synced == 0);
    ck_assert_int_eq(chdir(sandbox_path("folder")), 0);
    ck_assert(finish("part", "whole", 0) && synced == folder_of("."));
    ck_assert_int_eq(chdir("/"), 0);
    free(from);
    free(to);
}
END_TEST

/* Each write in turn is lost; the next ones find room again. */
START_TEST(conversations_are_absent_or_right)
{
    struct kt_conversation conversation, again;
    struct kt_error error;
    ck_assert(kt_conversation_open(&conversation) && kt_conversation_open(&again));
    ck_assert(kt_conversation_add(&conversation, "user", "Who is it?", 10, "", 0));
    ck_assert(kt_conversation_add(&conversation, "assistant", "Me.", 3, "", 0));
    sync_error = 0;
    for (int n = 1;; n++) {
        const char *path = sandbox_path("conversation");
        (void)unlink(path);
        n_writes = 0;
        lost = n;
        enum kt_status status = kt_conversation_save(&conversation, path, &error);
        lost = 0;
        if (status == KT_OK) {
            status = kt_conversation_load(&again, path, &error);
            ck_assert_msg(status == KT_OK && json_equal(again.messages, conversation.messages),
                          "write %d: %s", n, error.message);
        } else {
            ck_assert_msg(access(path, F_OK) != 0, "write %d", n);
        }
        if (n_writes < n)
            break;
    }
    kt_conversation_close(&conversation);
    kt_conversation_close(&again);
}
END_TEST

int main(void)
{
    TCase *group = tcase_create("files");
    tcase_add_checked_fixture(group, sandbox_open, sandbox_close);
    tcase_add_test(group, folders_are_synced);
    tcase_add_test(group, conversations_are_absent_or_right);
    return run_tests("rename", group);
}
