/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor_stub.h - what stubs of vendors' libraries have in common: the threads that the calling thread has
 * asked for, and what tests ask a stub. STUB_SHARED: all threads have one setting.
 */
#ifndef KT_TESTS_VENDOR_STUB_H
#define KT_TESTS_VENDOR_STUB_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef STUB_SHARED
static int64_t n_threads = 4;
#else
/* Initial-exec, as it is opened at run time: LeakSanitizer looks for the bounds of other such variables in
 * the bytes before them, which glibc's malloc gives, and may crash on what it finds. */
static _Thread_local int64_t n_threads __attribute__((tls_model("initial-exec"))) = 4;
#endif

/* What the calling thread has. */
EXPORT int64_t stub_threads(void);
int64_t stub_threads(void)
{
    return n_threads;
}

/* Not 0: from now on products return without computing. */
static int idle;
EXPORT void stub_idle(int now);
void stub_idle(int now)
{
    idle = now;
}

#endif
