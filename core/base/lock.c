/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/lock.h"

#include "core/base/error.h"

#include <sched.h>
#include <unistd.h>

void kt_lock_init(struct kt_lock *lock)
{
    (void)pthread_mutex_init(&lock->mutex, NULL); /* cannot fail with default attributes on Linux */
    atomic_init(&lock->pid, getpid());
    atomic_init(&lock->held, false);
    atomic_init(&lock->torn, false);
}

void kt_lock_destroy(struct kt_lock *lock)
{
    if (atomic_load(&lock->pid) == getpid())
        (void)pthread_mutex_destroy(&lock->mutex);
}

/* The first thread of a child that comes here makes the mutex again. */
static void renew(struct kt_lock *lock, pid_t own)
{
    pid_t of = atomic_load(&lock->pid);
    while (of != own) {
        if (of == -own) {
            (void)sched_yield();
            of = atomic_load(&lock->pid);
        } else if (atomic_compare_exchange_strong(&lock->pid, &of, -own)) {
            /* Below 0 it was of a parent that renewed it just then: `held` is still that of before. */
            if (atomic_load(&lock->held))
                atomic_store(&lock->torn, true);
            (void)pthread_mutex_init(&lock->mutex, NULL);
            atomic_store(&lock->pid, own);
            return;
        }
    }
}

bool kt_lock_take(struct kt_lock *lock)
{
    pid_t own = getpid();
    if (atomic_load(&lock->pid) != own)
        renew(lock, own);
    if (atomic_load(&lock->torn))
        return false;
    (void)pthread_mutex_lock(&lock->mutex);
    atomic_store(&lock->held, true);
    return true;
}

void kt_lock_give(struct kt_lock *lock)
{
    atomic_store(&lock->held, false);
    if (!atomic_load(&lock->torn)) /* by this very thread, in a child that it forked meanwhile */
        (void)pthread_mutex_unlock(&lock->mutex);
}

enum kt_status kt_lock_fail(const char *what, struct kt_error *error)
{
    return kt_fail(error, KT_E_STATE,
                   "%s: this process was forked while another thread of its parent used it; create it "
                   "again after the fork",
                   what);
}
