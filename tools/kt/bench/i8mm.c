/* SPDX-License-Identifier: Apache-2.0 */
/* i8mm.c - the multiply instructions of ARM's FEAT_I8MM. */
#include "tools/kt/bench/neon.h"

#define USDOT(r) "usdot v" r ".4s, v30.16b, v31.16b\n\t"
static void multiply_usdot(uint64_t rounds)
{
    LOOP(USDOT);
}

#define USMMLA(r) "usmmla v" r ".4s, v30.16b, v31.16b\n\t"
static void multiply_usmmla(uint64_t rounds)
{
    LOOP(USMMLA);
}

static const struct bench_peak peaks[] = {
    {"usdot", "128 bits", KT_CPU_I8MM, 128, 24 * 16 * 2, multiply_usdot},
    {"usmmla smmla", "128 bits", KT_CPU_I8MM, 128, 24 * 32 * 2, multiply_usmmla},
};

const struct bench_isa bench_isa_i8mm = {KT_CPU_I8MM, 128, NULL, 0, peaks, sizeof peaks / sizeof *peaks};
