/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h - the buffers that engines copy batches to and from; a context has its own. */
#ifndef KT_CORE_ASYNC_STAGING_H
#define KT_CORE_ASYNC_STAGING_H

#include <pthread.h>

struct kt_staging_set;

struct kt_stagings {
    pthread_mutex_t lock;
    struct kt_staging_set *first; /* in any order: there are a few dozen */
};

void kt_stagings_init(struct kt_stagings *stagings);
void kt_stagings_destroy(struct kt_stagings *stagings);

#endif
