/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - how the engine starts threads. */
#ifndef KT_ENGINE_BASE_THREAD_H
#define KT_ENGINE_BASE_THREAD_H

#include <pthread.h>

/** pthread_create with signals blocked, so that the application's handlers never run on threads of the
 * engine. Those of faults are not: blocked, they would kill the process without its handler, which says that
 * a mapped file shrank. Returns an error number, or 0. */
int kt_engine_thread(pthread_t *thread, void *(*function)(void *), void *argument);

#endif
