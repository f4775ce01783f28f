/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c - how often what took how long: bounds of 1, 2, 5, 10 .. as Prometheus shows them; sums. */
#include "tools/engine/scheduler/internal.h"

#include <math.h>

static const double bounds[KT_HISTOGRAM_BUCKETS] = {1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3,    1e-2,
                                                    2e-2, 5e-2, 0.1,  0.2,  0.5,  1,       2,
                                                    5,    10,   20,   60,   300,  INFINITY};

double kt_histogram_bound(unsigned int bucket)
{
    return bucket < KT_HISTOGRAM_BUCKETS ? bounds[bucket] : INFINITY;
}

static void add(struct kt_histogram *histogram, double value, double scale)
{
    unsigned int bucket = 0;
    while (value > bounds[bucket] * scale)
        bucket++;
    histogram->counts[bucket]++;
    histogram->n++;
    histogram->sum += value;
}

void kt_histogram_add(struct kt_histogram *histogram, double seconds)
{
    add(histogram, seconds, 1);
}

void kt_histogram_add_rate(struct kt_histogram *histogram, double rate)
{
    add(histogram, rate, KT_HISTOGRAM_RATE);
}

/* ---- sums ---- */

static void merge(struct kt_histogram *sum, const struct kt_histogram *histogram)
{
    for (unsigned int i = 0; i < KT_HISTOGRAM_BUCKETS; i++)
        sum->counts[i] += histogram->counts[i];
    sum->n += histogram->n;
    sum->sum += histogram->sum;
}

void kt_scheduler_stats_add(struct kt_scheduler_stats *sum, const struct kt_scheduler_stats *stats, bool now)
{
#define ADD(field) sum->field += stats->field
    if (now) {
        ADD(queued), ADD(running), ADD(prefixes), ADD(pages), ADD(pages_free), ADD(pages_kept);
    }
    for (unsigned int i = 0; i <= KT_END_ERROR; i++)
        ADD(ended[i]);
    ADD(taken), ADD(refused), ADD(prompt_tokens), ADD(cached_tokens), ADD(generated_tokens), ADD(preempted);
    ADD(prefix_hits), ADD(prefix_misses), ADD(prefixes_dropped), ADD(drafted_tokens), ADD(accepted_tokens);
    ADD(steps), ADD(step_bytes), ADD(model_seconds), ADD(other_seconds);
#undef ADD
    merge(&sum->first_token, &stats->first_token);
    merge(&sum->inter_token, &stats->inter_token);
    merge(&sum->step, &stats->step);
    merge(&sum->prompt_rate, &stats->prompt_rate);
    for (unsigned int i = 0; i < KT_PARTS; i++)
        merge(&sum->stages[i], &stats->stages[i]);
}
