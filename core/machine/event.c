/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/event.h"

#include "core/machine/clock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void pause_core(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* Spins until the value is new or the time is over; true: it is new. The clock is read once in 64 pauses. */
static int spin(struct kt_event *event, unsigned old, struct kt_patience patience)
{
    uint64_t end = 0;
    do {
        for (int i = 0; i < 64; i++) {
            if (kt_event_value(event) != old)
                return 1;
            pause_core();
        }
        if (patience.yield)
            (void)sched_yield();
        uint64_t now = kt_now_ns() / 1000;
        if (!end)
            end = now + patience.spin_us;
        if (now >= end)
            return 0;
    } while (1);
}

unsigned kt_event_wait(struct kt_event *event, unsigned old, struct kt_patience patience)
{
    if (!spin(event, old, patience)) {
        atomic_fetch_add(&event->sleepers, 1);
        /* EINTR, EAGAIN and stray wake-ups all mean: look again. */
        while (atomic_load(&event->value) == old)
            (void)syscall(SYS_futex, &event->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
        atomic_fetch_sub(&event->sleepers, 1);
    }
    return kt_event_value(event);
}

unsigned kt_event_wait_for(struct kt_event *event, unsigned old, struct kt_patience patience,
                           uint64_t timeout_ns)
{
    uint64_t begin = kt_now_ns() / 1000;
    if (!spin(event, old, patience)) {
        atomic_fetch_add(&event->sleepers, 1);
        while (atomic_load(&event->value) == old) {
            uint64_t passed = (kt_now_ns() / 1000 - begin) * 1000;
            if (passed >= timeout_ns)
                break;
            uint64_t left = timeout_ns - passed;
            struct timespec rest = {.tv_sec = (time_t)(left / 1000000000),
                                    .tv_nsec = (long)(left % 1000000000)};
            (void)syscall(SYS_futex, &event->value, FUTEX_WAIT_PRIVATE, old, &rest, NULL, 0);
        }
        atomic_fetch_sub(&event->sleepers, 1);
    }
    return kt_event_value(event);
}

void kt_event_set(struct kt_event *event, unsigned value)
{
    atomic_store(&event->value, value);
    if (atomic_load(&event->sleepers))
        (void)syscall(SYS_futex, &event->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void kt_barrier_wait(struct kt_barrier *barrier, struct kt_patience patience)
{
    if (barrier->n == 1)
        return;
    unsigned phase = kt_event_value(&barrier->phase);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->n) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        kt_event_set(&barrier->phase, phase + 1);
    } else {
        (void)kt_event_wait(&barrier->phase, phase, patience);
    }
}
