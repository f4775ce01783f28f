/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/amx.h - AMX tiles. All have 16 rows of 64 bytes, packed (1 KB) unless rows are apart.
 *
 * Inline assembly with full operands instead of the compiler's intrinsics: those of gcc 12 name 8 bytes of
 * a configuration's 64 and no memory at all in loads and stores, so that stores to what is loaded next may
 * be moved or deleted.
 *
 * KT_AMX_MODEL names a header that models the tiles in plain C, for tests on machines without them.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AMX_H
#define KT_PLUGINS_COMMON_SIMD_AMX_H

#include <stdint.h>
#include <string.h>

struct amx_tile {
    _Alignas(64) uint8_t byte[1024];
};

/* What ldtilecfg reads. */
struct amx_config {
    _Alignas(64) uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t bytes_per_row[16]; /* of 8 tiles; the others do not exist */
    uint8_t rows[16];
};

#ifdef KT_AMX_MODEL
#include KT_AMX_MODEL
#else

#define AMX_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" : : "m"(*(config)))
#define AMX_RELEASE() __asm__ volatile("tilerelease")
#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define AMX_LOAD(tile, address)                         \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile \
                     :                                  \
                     : "r"(address), "r"(INT64_C(64)),  \
                       "m"(*(const struct amx_tile *)(const void *)(address)))
/* The same where they are not read again soon: what L1 has stays in it. */
#define AMX_LOAD_ONCE(tile, address)                      \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile \
                     :                                    \
                     : "r"(address), "r"(INT64_C(64)),    \
                       "m"(*(const struct amx_tile *)(const void *)(address)))
#define AMX_STORE(tile, address)                                   \
    __asm__ volatile("tilestored %%tmm" #tile ", (%1,%2,1)"        \
                     : "=m"(*(struct amx_tile *)(void *)(address)) \
                     : "r"(address), "r"(INT64_C(64)))
/* Rows that are `stride` bytes apart */
#define AMX_LOAD_ROWS(tile, address, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(address), "r"((int64_t)(stride)) : "memory")
#define AMX_LOAD_ROWS_ONCE(tile, address, stride) \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile : : "r"(address), "r"((int64_t)(stride)) : "memory")
#define AMX_STORE_ROWS(tile, address, stride)               \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" \
                     :                                      \
                     : "r"(address), "r"((int64_t)(stride)) \
                     : "memory")
/* sum += a (int8, rows x k) * b (uint8 codes, k x columns) */
#define AMX_DOT_SU(sum, a, b) __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)
/* The same of bfloat16, two side by side in 4 bytes, added up in float32 */
#define AMX_DOT_BF16(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

#endif

/* All 8 tiles with 16 rows of 64 bytes. */
static inline void amx_enter(void)
{
    struct amx_config config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.bytes_per_row[i] = 64;
        config.rows[i] = 16;
    }
    AMX_CONFIGURE(&config);
}

static inline void amx_leave(void)
{
    AMX_RELEASE();
}

#endif
