/* SPDX-License-Identifier: Apache-2.0 */
/* avx2.c - 32-byte loads, and the multiply instructions of AVX2 and FMA. */
#define VECTOR_BYTES 32
#include "tools/kt/bench/read.h"

/* Assembly keeps compilers from folding, hoisting and spilling. Twelve accumulators cover a latency of 5
 * cycles at two a cycle. The operands are 1.0f: normal numbers, and any bytes for the rest. */
#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11")
#define CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
#define LOOP(STEP)                                                                                      \
    static const float one = 1.0f;                                                                      \
    __asm__ volatile(EACH(CLEAR) "vbroadcastss %[one], %%ymm12\n\tvbroadcastss %[one], %%ymm13\n\t"     \
                                 "1:\n\t" EACH(STEP) EACH(STEP) "dec %[rounds]\n\tjnz 1b\n\tvzeroupper" \
                     : [rounds] "+r"(rounds)                                                            \
                     : [one] "m"(one)                                                                   \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",  \
                       "xmm10", "xmm11", "xmm12", "xmm13", "cc")

#define FMA_SCALAR(r) "vfmadd231ss %%xmm12, %%xmm13, %%xmm" r "\n\t"
static void multiply_scalar(uint64_t rounds)
{
    LOOP(FMA_SCALAR);
}

#define FMA(r) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" r "\n\t"
static void multiply_float(uint64_t rounds)
{
    LOOP(FMA);
}

#define MADD(r) "vpmaddubsw %%ymm12, %%ymm13, %%ymm" r "\n\t"
static void multiply_bytes(uint64_t rounds)
{
    LOOP(MADD);
}

static const struct bench_peak peaks[] = {
    {"vfmadd231ss", "scalar", KT_CPU_AVX2 | KT_CPU_FMA, 32, 24 * 2, multiply_scalar},
    {"vfmadd vfmadd231ps", "ymm", KT_CPU_AVX2 | KT_CPU_FMA, 256, 24 * 8 * 2, multiply_float},
    {"vpmaddubsw", "ymm", KT_CPU_AVX2, 256, 24 * 32 * 2, multiply_bytes},
};

const struct bench_isa bench_isa_avx2 = {KT_CPU_AVX2 | KT_CPU_FMA,     256,   reads,
                                         sizeof reads / sizeof *reads, peaks, sizeof peaks / sizeof *peaks};
