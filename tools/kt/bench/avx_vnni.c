/* SPDX-License-Identifier: Apache-2.0 */
/* avx_vnni.c - vpdpbusd of CPUs that have it without AVX-512. */
#include "tools/kt/bench/isa.h"

#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11")
#define CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
/* {vex}: without it an assembler may take the AVX-512 encoding. */
#define STEP(r) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" r "\n\t"

static void multiply_bytes(uint64_t rounds)
{
    static const float one = 1.0f;
    __asm__ volatile(EACH(CLEAR) "vbroadcastss %[one], %%ymm12\n\tvbroadcastss %[one], %%ymm13\n\t"
                                 "1:\n\t" EACH(STEP) EACH(STEP) "dec %[rounds]\n\tjnz 1b\n\tvzeroupper"
                     : [rounds] "+r"(rounds)
                     : [one] "m"(one)
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "cc");
}

static const struct bench_peak peaks[] = {
    {"vpdpbusd", "ymm", KT_CPU_AVX2 | KT_CPU_AVX_VNNI, 256, 24 * 32 * 2, multiply_bytes},
};

const struct bench_isa bench_isa_avx_vnni = {KT_CPU_AVX2 | KT_CPU_AVX_VNNI, 256, NULL, 0, peaks,
                                             sizeof peaks / sizeof *peaks};
