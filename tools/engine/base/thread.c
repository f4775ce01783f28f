/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/thread.h"

#include <signal.h>

int kt_engine_thread(pthread_t *thread, void *(*function)(void *), void *argument)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        (void)sigdelset(&blocked, faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failure = pthread_create(thread, NULL, function, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}
