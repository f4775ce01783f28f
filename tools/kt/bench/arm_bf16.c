/* SPDX-License-Identifier: Apache-2.0 */
/* arm_bf16.c - the multiply instructions of ARM's FEAT_BF16. */
#include "tools/kt/bench/neon.h"

#define BFDOT(r) "bfdot v" r ".4s, v30.8h, v31.8h\n\t"
static void multiply_bfdot(uint64_t rounds)
{
    LOOP(BFDOT);
}

#define BFMMLA(r) "bfmmla v" r ".4s, v30.8h, v31.8h\n\t"
static void multiply_bfmmla(uint64_t rounds)
{
    LOOP(BFMMLA);
}

static const struct bench_peak peaks[] = {
    {"bfdot", "128 bits", KT_CPU_ARM_BF16, 128, 24 * 8 * 2, multiply_bfdot},
    {"bfmmla", "128 bits", KT_CPU_ARM_BF16, 128, 24 * 16 * 2, multiply_bfmmla},
};

const struct bench_isa bench_isa_arm_bf16 =
    {KT_CPU_ARM_BF16, 128, NULL, 0, peaks, sizeof peaks / sizeof *peaks};
