/* SPDX-License-Identifier: Apache-2.0 */
/* neon.h - a loop of one instruction on the vector registers of ARM. In assembly, so that no compiler
 * folds, hoists or spills. Twelve accumulators cover a latency of 3 cycles at four a cycle. */
#ifndef KT_TOOL_BENCH_NEON_H
#define KT_TOOL_BENCH_NEON_H

#include "tools/kt/bench/isa.h"

#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11")
#define CLEAR(r) "movi v" r ".4s, #0\n\t"

/* STEP(r) is the instruction that adds to register r; v30 and v31 are its factors, float 1.0 and 0.5. */
#define LOOP(STEP)                                                                                         \
    __asm__ volatile(EACH(CLEAR) "fmov v30.4s, #1.0\n\tfmov v31.4s, #0.5\n\t"                              \
                                 "1:\n\t" EACH(STEP) EACH(STEP) "subs %[rounds], %[rounds], #1\n\tb.ne 1b" \
                     : [rounds] "+r"(rounds)                                                               \
                     :                                                                                     \
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v30",    \
                       "v31", "cc")

#endif
