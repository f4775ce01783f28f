/* SPDX-License-Identifier: Apache-2.0 */
/* serve_clock.c - preloaded by serve_limits.py: the clock of dates goes an hour ahead of the system's, as if
 * somebody had set that back since it was looked at. Whoever waits until a date waits an hour longer. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AHEAD 3600

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME)
        now->tv_sec += AHEAD;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (result == 0)
        now->tv_sec += AHEAD;
    return result;
}

time_t time(time_t *result)
{
    struct timespec now = {.tv_sec = 0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
