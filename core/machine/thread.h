/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - how the library starts a thread. */
#ifndef KT_CORE_MACHINE_THREAD_H
#define KT_CORE_MACHINE_THREAD_H

#include <pthread.h>

/**
 * pthread_create with signals blocked, so that the application's handlers never run on a thread of
 * ours; but not the signals of a thread's own fault, such as a mapped file that shrank: blocked, they
 * kill the process without a word. Returns 0 or an errno.
 */
int kt_thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

#endif
