/* SPDX-License-Identifier: Apache-2.0 */
/* refuse ERRNO CALL... -- COMMAND...: runs a command for which the kernel refuses these calls with that
 * error, as in a container. Exit status 77: no such filter can be set here. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct name {
    const char *name;
    int value;
};

static const struct name errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {NULL, -1}};
static const struct name calls[] = {{"mbind", SYS_mbind},
                                    {"sched_setaffinity", SYS_sched_setaffinity},
                                    {NULL, -1}};

static int find(const struct name *list, const char *name)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    return list->value;
}

int main(int argc, char **argv)
{
    struct sock_filter filter[16];
    unsigned short n = 0;
    int error = argc > 1 ? find(errors, argv[1]) : -1, at = 2;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; at < argc && strcmp(argv[at], "--") != 0 && n < 12; at++) {
        int call = find(calls, argv[at]);
        if (call < 0)
            break;
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (error < 0 || at + 1 >= argc || strcmp(argv[at], "--") != 0) {
        (void)fprintf(stderr, "usage: refuse EPERM|ENOSYS mbind|sched_setaffinity... -- COMMAND...\n");
        return 2;
    }
    struct sock_fprog program = {n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse: prctl");
        return 77;
    }
    (void)execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 127;
}
