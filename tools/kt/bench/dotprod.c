/* SPDX-License-Identifier: Apache-2.0 */
/* dotprod.c - the multiply instructions of ARM's FEAT_DotProd. */
#include "tools/kt/bench/neon.h"

#define SDOT(r) "sdot v" r ".4s, v30.16b, v31.16b\n\t"
static void multiply_sdot(uint64_t rounds)
{
    LOOP(SDOT);
}

static const struct bench_peak peaks[] = {
    {"sdot", "128 bits", KT_CPU_DOTPROD, 128, 24 * 16 * 2, multiply_sdot},
};

const struct bench_isa bench_isa_dotprod = {KT_CPU_DOTPROD, 128,
                                            NULL,           0,
                                            peaks,          sizeof peaks / sizeof *peaks};
