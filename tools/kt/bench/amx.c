/* SPDX-License-Identifier: Apache-2.0 */
/* amx.c - the tile multiplications. */
#include "tools/kt/bench/isa.h"

/* Palette 1: eight tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static const struct tile_config config __attribute__((aligned(64))) = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* Small normal numbers, as bf16 and as bytes: a tile of zeros might draw less power. */
struct tile {
    uint16_t value[16][32];
};
static const struct tile ones __attribute__((aligned(64))) = {
    {[0 ... 15] = {[0 ... 31] = 0x3f81}},
};

/* Everything in one piece of assembly with its memory operands in full: the compilers' intrinsics
 * describe neither the configuration nor the tiles well enough. Six accumulators of 16 cycles each
 * cover the latency of 52. */
#define EACH(F) F("0") F("1") F("2") F("3") F("4") F("5")
#define CLEAR(r) "tilezero %%tmm" r "\n\t"
#define LOOP(STEP)                                                                                      \
    uint64_t row = 64;                                                                                  \
    __asm__ volatile("ldtilecfg %[config]\n\t" EACH(                                                    \
                         CLEAR) "tileloadd (%[data],%[row],1), %%tmm6\n\t"                              \
                                "tileloadd (%[data],%[row],1), %%tmm7\n\t"                              \
                                "1:\n\t" EACH(STEP) EACH(STEP) "dec %[rounds]\n\tjnz 1b\n\ttilerelease" \
                     : [rounds] "+r"(rounds)                                                            \
                     : [config] "m"(config), [data] "r"(&ones), [row] "r"(row), "m"(ones)               \
                     : "cc")

#define DOT_BYTES(r) "tdpbssd %%tmm6, %%tmm7, %%tmm" r "\n\t"
static void dot_bytes(uint64_t rounds)
{
    LOOP(DOT_BYTES);
}

#define DOT_BF16(r) "tdpbf16ps %%tmm6, %%tmm7, %%tmm" r "\n\t"
static void dot_bf16(uint64_t rounds)
{
    LOOP(DOT_BF16);
}

static const struct bench_peak peaks[] = {
    {"tdpbssd", "tiles", KT_CPU_AMX_TILE | KT_CPU_AMX_INT8, 0, 12 * 16 * 16 * 64 * 2, dot_bytes},
    {"tdpbf16ps", "tiles", KT_CPU_AMX_TILE | KT_CPU_AMX_BF16, 0, 12 * 16 * 16 * 32 * 2, dot_bf16},
};

const struct bench_isa bench_isa_amx = {KT_CPU_AMX_TILE, 0, NULL, 0, peaks, sizeof peaks / sizeof *peaks};
