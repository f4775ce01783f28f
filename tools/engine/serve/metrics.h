/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - numbers for Prometheus: those of HTTP, and beside them the scheduler's. */
#ifndef KT_ENGINE_SERVE_METRICS_H
#define KT_ENGINE_SERVE_METRICS_H

#include "tools/engine/base/buffer.h"
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/models.h"

#include <pthread.h>
#include <stdint.h>

/* Any thread may add to them. */
struct kt_metrics {
    pthread_mutex_t lock;
    uint64_t status[6]; /* replies by the hundreds of their status */
    uint64_t hung_up;   /* requests whose client went away before the answer was whole */
    struct kt_histogram request;
};

/* A request that was answered, or not: how long that took. */
void kt_metrics_count(struct kt_metrics *metrics, unsigned status, double seconds, bool hung_up);
/* Prometheus' text; `stats` is NULL until there is a scheduler, `memory_rate` 0 where it was not measured.
 * False: out of memory. */
bool kt_metrics_write(struct kt_metrics *metrics, const struct kt_scheduler_stats *stats, unsigned n_requests,
                      double memory_rate, struct kt_buffer *out);
/* Of several models, which are in memory. */
bool kt_metrics_write_models(struct kt_models *models, struct kt_buffer *out);

#endif
