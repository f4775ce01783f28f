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

void kt_histogram_add(struct kt_histogram *histogram, uint64_t ns)
{
    double seconds = (double)ns * 1e-9;
    unsigned int bucket = 0;
    while (seconds > bounds[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->n++;
    histogram->sum += seconds;
}
