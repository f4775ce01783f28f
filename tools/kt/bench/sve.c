/* SPDX-License-Identifier: Apache-2.0 */
/* sve.c - the multiply instruction of ARM's SVE, for the vector lengths of level sve. */
#include "tools/kt/bench/neon.h"

#define SDOT(r) "sdot z" r ".s, z30.b, z31.b\n\t"
static void multiply_sdot(uint64_t rounds)
{
    LOOP(SDOT);
}

static const struct bench_peak peaks[] = {
    {"svdot", "256 bits", KT_CPU_SVE, 256, 24 * 32 * 2, multiply_sdot},
    {"svdot", "512 bits", KT_CPU_SVE, 512, 24 * 64 * 2, multiply_sdot},
};

const struct bench_isa bench_isa_sve = {KT_CPU_SVE, 0, NULL, 0, peaks, sizeof peaks / sizeof *peaks};
