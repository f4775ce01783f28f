/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/thread.h"

#include <signal.h>

int kt_thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    (void)sigdelset(&blocked, SIGBUS);
    (void)sigdelset(&blocked, SIGSEGV);
    (void)sigdelset(&blocked, SIGFPE);
    (void)sigdelset(&blocked, SIGILL);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failure = pthread_create(thread, NULL, function, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}
