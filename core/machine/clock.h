/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the time, for measuring and for time limits. */
#ifndef KT_CORE_MACHINE_CLOCK_H
#define KT_CORE_MACHINE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t kt_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
