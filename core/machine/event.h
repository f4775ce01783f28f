/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - a number that threads wait on: spinning for a bounded time, then asleep on a futex.
 *
 * The waker pays for a system call only if somebody sleeps. Value and sleepers are read and written
 * in sequentially consistent order, so a waiter that announced itself either sees the new value or is
 * seen by the waker.
 */
#ifndef KT_CORE_MACHINE_EVENT_H
#define KT_CORE_MACHINE_EVENT_H

#include <stdatomic.h>
#include <stdint.h>

struct kt_event {
    _Alignas(64) atomic_uint value;
    atomic_uint sleepers;
};

/* How long to spin before sleeping. */
struct kt_patience {
    uint32_t spin_us; /* 0: sleep at once, after a few yields */
    int yield;        /* more threads than cores: give the core away instead of pausing */
};

/* Returns once the value differs from `old`; gives the new value. */
unsigned kt_event_wait(struct kt_event *event, unsigned old, struct kt_patience patience);

/* The same, but after `timeout_ns` it returns `old`. */
unsigned kt_event_wait_for(struct kt_event *event, unsigned old, struct kt_patience patience,
                           uint64_t timeout_ns);

/* Sets the value and wakes whoever sleeps on it. */
void kt_event_set(struct kt_event *event, unsigned value);

static inline unsigned kt_event_value(const struct kt_event *event)
{
    return atomic_load_explicit(&event->value, memory_order_acquire);
}

/* A barrier of n threads that can be used any number of times. */
struct kt_barrier {
    uint32_t n;
    _Alignas(64) atomic_uint arrived;
    struct kt_event phase;
};

void kt_barrier_wait(struct kt_barrier *barrier, struct kt_patience patience);

#endif
