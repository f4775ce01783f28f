/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h - a mutex that a forked child may meet. A child has the memory of its parent but one thread only: a
 * mutex that another one held at the fork is never unlocked there, and what it guards may be half changed.
 */
#ifndef KT_CORE_BASE_LOCK_H
#define KT_CORE_BASE_LOCK_H

#include <kt/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct kt_lock {
    pthread_mutex_t mutex;
    _Atomic pid_t pid; /* of the process whose threads wait for the mutex; minus that of one that renews it */
    atomic_bool held;
    atomic_bool torn; /* another thread held it at a fork: it can never be taken again */
};

void kt_lock_init(struct kt_lock *lock);
void kt_lock_destroy(struct kt_lock *lock);

/* False: this process was forked while another thread held the lock. Then it is not taken, and what it
 * guards must be neither used nor freed. */
bool kt_lock_take(struct kt_lock *lock);
void kt_lock_give(struct kt_lock *lock);

/* The error where it cannot be taken: `what` is the object, such as a file's name. */
enum kt_status kt_lock_fail(const char *what, struct kt_error *error);

#endif
