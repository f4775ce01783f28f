/* SPDX-License-Identifier: Apache-2.0 */
/* base.c - what every CPU of the architecture can do: 16-byte loads, scalar multiply-adds. */
#define VECTOR_BYTES 16
#include "tools/kt/bench/read.h"

#if defined __x86_64__

#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11")

/* Equally many products and sums, since the baseline has no fused multiply-add. 1.0 stays 1.0. */
#define PAIR(type, a, b) "mul" type " %[one], %%xmm" a "\n\tadd" type " %[one], %%xmm" b "\n\t"
#define PAIRS(type)      \
    PAIR(type, "0", "7") \
    PAIR(type, "1", "8") \
    PAIR(type, "2", "9") \
    PAIR(type, "3", "10") PAIR(type, "4", "11") PAIR(type, "5", "12") PAIR(type, "6", "13")
#define COPY(r) "movaps %[one], %%xmm" r "\n\t"
#define LOOP(PAIRS)                                                                                    \
    __asm__ volatile(EACH(COPY) COPY("12") COPY("13") "1:\n\t" PAIRS PAIRS "dec %[rounds]\n\tjnz 1b"   \
                     : [rounds] "+r"(rounds)                                                           \
                     : [one] "x"(one)                                                                  \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
                       "xmm10", "xmm11", "xmm12", "xmm13", "cc")
static void multiply_float(uint64_t rounds)
{
    float one = 1.0f;
    LOOP(PAIRS("ss"));
}

static void multiply_double(uint64_t rounds)
{
    double one = 1.0;
    LOOP(PAIRS("sd"));
}

static const struct bench_peak peaks[] = {
    {"mulss scalar", "scalar, product and sum", 0, 32, 14 * 2, multiply_float},
    {"mulsd", "scalar, product and sum", 0, 64, 14 * 2, multiply_double},
};
#define N_PEAKS 2

#elif defined __aarch64__

#include "tools/kt/bench/neon.h"

#define STEP_FLOAT(r) "fmadd s" r ", s30, s31, s" r "\n\t"
static void multiply_float(uint64_t rounds)
{
    LOOP(STEP_FLOAT);
}

#define STEP_DOUBLE(r) "fmadd d" r ", d30, d31, d" r "\n\t"
static void multiply_double(uint64_t rounds)
{
    LOOP(STEP_DOUBLE);
}

#define STEP_VECTOR(r) "fmla v" r ".4s, v30.4s, v31.4s\n\t"
static void multiply_vector(uint64_t rounds)
{
    LOOP(STEP_VECTOR);
}

#define STEP_BYTES(r) "smull v" r ".8h, v30.8b, v31.8b\n\t"
static void multiply_bytes(uint64_t rounds)
{
    LOOP(STEP_BYTES);
}

static const struct bench_peak peaks[] = {
    {"fmadd scalar", "scalar", 0, 32, 24 * 2, multiply_float},
    {"fmaddd mulsd", "scalar, 64 bits", 0, 64, 24 * 2, multiply_double},
    {"fmla", "128 bits", KT_CPU_NEON, 128, 24 * 4 * 2, multiply_vector},
    {"smull", "128 bits", KT_CPU_NEON, 128, 24 * 8 * 2, multiply_bytes},
};
#define N_PEAKS 4

#else
static const struct bench_peak peaks[1];
#define N_PEAKS 0
#endif

const struct bench_isa bench_isa_base = {0, 128, reads, sizeof reads / sizeof *reads, peaks, N_PEAKS};
