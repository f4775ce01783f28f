/* SPDX-License-Identifier: Apache-2.0 */
/* mode.c - whether subnormal numbers are read as 0: by plugins with --no-subnormal, by the model never. */
#include "tests/checkkernel/check.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

bool check_drops_subnormal;

static void set_mode(bool drops)
{
#ifdef __SSE2__
    if (check_drops_subnormal)
        _mm_setcsr(drops ? _mm_getcsr() | 0x40u : _mm_getcsr() & ~0x40u);
#else
    (void)drops;
#endif
}

void check_in_mode(void)
{
    set_mode(true);
}

void check_exactly(void)
{
    set_mode(false);
}
