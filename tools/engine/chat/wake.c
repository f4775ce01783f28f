/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/chat/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGWINCH, SIGTSTP, SIGTERM, SIGHUP};
static int ends[2] = {-1, -1};
static volatile sig_atomic_t came[NSIG];

static void handle(int number)
{
    int saved = errno;
    came[number] = 1;
    if (write(ends[1], "", 1) < 0)
        errno = 0; /* the pipe is full: whoever waits is awake */
    errno = saved;
}

bool kt_wake_install(void)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof(action));
        action.sa_handler = handle;
        action.sa_flags = SA_RESTART;
        sigaction(numbers[i], &action, NULL);
    }
    return true;
}

int kt_wake_fd(void)
{
    return ends[0];
}

void kt_wake_drain(void)
{
    char bytes[64];
    while (read(ends[0], bytes, sizeof(bytes)) > 0)
        continue;
}

bool kt_wake_take(int number)
{
    if (!came[number])
        return false; /* and is not cleared: the signal may come here */
    came[number] = 0;
    return true;
}

int kt_wake_ends(void)
{
    return came[SIGTERM] ? SIGTERM : came[SIGHUP] ? SIGHUP : 0;
}

void kt_wake_suspend(void)
{
    (void)raise(SIGSTOP);
}
