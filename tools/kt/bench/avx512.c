/* SPDX-License-Identifier: Apache-2.0 */
/* avx512.c - 64-byte loads, and the multiply instructions on 512-bit registers. */
#define VECTOR_BYTES 64
#include "tools/kt/bench/read.h"

#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11")
#define CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
/* The operands are 1.0f, which as bf16 pairs is 1.0 and 0: no subnormal numbers, no NaN. */
#define LOOP(STEP)                                                                                      \
    static const float one = 1.0f;                                                                      \
    __asm__ volatile(EACH(CLEAR) "vbroadcastss %[one], %%zmm12\n\tvbroadcastss %[one], %%zmm13\n\t"     \
                                 "1:\n\t" EACH(STEP) EACH(STEP) "dec %[rounds]\n\tjnz 1b\n\tvzeroupper" \
                     : [rounds] "+r"(rounds)                                                            \
                     : [one] "m"(one)                                                                   \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",  \
                       "xmm10", "xmm11", "xmm12", "xmm13", "cc")

#define FMA(r) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" r "\n\t"
static void multiply_float(uint64_t rounds)
{
    LOOP(FMA);
}

#define MADD(r) "vpmaddubsw %%zmm12, %%zmm13, %%zmm" r "\n\t"
static void multiply_bytes(uint64_t rounds)
{
    LOOP(MADD);
}

#define DOT_BYTES(r) "vpdpbusd %%zmm12, %%zmm13, %%zmm" r "\n\t"
static void dot_bytes(uint64_t rounds)
{
    LOOP(DOT_BYTES);
}

#define DOT_BF16(r) "vdpbf16ps %%zmm12, %%zmm13, %%zmm" r "\n\t"
static void dot_bf16(uint64_t rounds)
{
    LOOP(DOT_BF16);
}

#define BASE (KT_CPU_AVX512F | KT_CPU_AVX512BW)
static const struct bench_peak peaks[] = {
    {"vfmadd vfmadd231ps", "zmm", BASE, 512, 24 * 16 * 2, multiply_float},
    {"vpmaddubsw", "zmm", BASE, 512, 24 * 64 * 2, multiply_bytes},
    {"vpdpbusd", "zmm", BASE | KT_CPU_AVX512_VNNI, 512, 24 * 64 * 2, dot_bytes},
    {"vdpbf16ps", "zmm", BASE | KT_CPU_AVX512_BF16, 512, 24 * 32 * 2, dot_bf16},
};

const struct bench_isa bench_isa_avx512 = {BASE | KT_CPU_AVX512VL | KT_CPU_AVX512DQ,
                                           512,
                                           reads,
                                           sizeof reads / sizeof *reads,
                                           peaks,
                                           sizeof peaks / sizeof *peaks};
