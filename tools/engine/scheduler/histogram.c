/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c - how often what took how long: bounds of 1, 2, 5, 10 .. as Prometheus shows them. */
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
