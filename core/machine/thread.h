/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - how the library starts a thread. */
#ifndef KT_CORE_MACHINE_THREAD_H
#define KT_CORE_MACHINE_THREAD_H

#include <pthread.h>

/**
 * pthread_create with signals blocked, so that the application's handlers never run on threads of the
 * library. Signals of a fault of the thread itself, such as reading a mapped file that shrank, stay enabled:
 * blocked, they would kill the process without a message. Returns 0 or an errno.
 */
int kt_thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

#endif
