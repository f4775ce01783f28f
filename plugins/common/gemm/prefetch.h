/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/prefetch.h - brings weights from memory into L2 before they are multiplied.
 *
 * Nearly all of the read bandwidth of a core comes from the L2 streamer, which follows ascending
 * accesses inside pages of 4 KB; a software prefetch is of use as the access that it follows.
 * It follows one stream well. A second one that is read beside it, be it a line in 16, halves what a Zen 4
 * reads (30 instead of 58 GB/s of 66), unless software prefetches all lines some 8 KB ahead, which costs a
 * third as well: what is read together lies together, in the order of reading. Hence
 *   near    a product of few rows runs as fast as memory: all lines, NEAR bytes ahead in the same
 *           stream. Farther than 1 KB the gain goes, prefetcht0 and nta never have one.
 *   spread  a product of many rows leaves the streamer idle for long: the lines LEAD bytes ahead,
 *           evenly over the work, in rows of 8 lines, one in each of 8 consecutive pages, so that 8
 *           streams are followed at once; on AMD line after line.
 * Distances are what was best on a Sapphire Rapids with two cores; flat within a factor of two. There, 8
 * pages were a quarter faster than one. With one instead of 8, two cores of a Zen 4 take 55 instead of 68 ms
 * for 512 tokens of amx_int8, 31 instead of 43 for 256; bf16 gains a twelfth.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_PREFETCH_H
#define KT_PLUGINS_COMMON_GEMM_PREFETCH_H

#include "plugins/common/simd/simd.h"

#include <stdbool.h>
#include <stdint.h>

#if defined __x86_64__ && defined __SSE__
#include <immintrin.h>
#define PREFETCH_LINE(address) _mm_prefetch((const char *)(address), _MM_HINT_T1)
#else
#define PREFETCH_LINE(address) __builtin_prefetch((const void *)(address), 0, 2)
#endif

#define STREAMED_DISTANCE 1024
#define PACED_DISTANCE 65536
#define PREFETCH_PAGE 4096
#define PREFETCH_PAGES 8
#define PREFETCH_ONE 65536 /* of a row, in `due` */

/* Addresses are numbers here: some lie behind the end of an object, and are never read. */
struct prefetcher {
    uintptr_t page[PREFETCH_PAGES];
    uintptr_t base, next;
    uint64_t size, next_size;
    uint64_t pages;     /* at a time: PREFETCH_PAGES or 1 */
    uint64_t chunk;     /* the next chunk's offset in base, then next */
    uint64_t line;      /* offset of the next row's lines in their pages */
    uint64_t due, rate; /* rows of lines to bring, and how many become due with each step */
};

/* Points at the pages of the next chunk; where there is nothing left, at a page that is there. */
static __attribute__((noinline)) void prefetcher_chunk(struct prefetcher *prefetcher)
{
    for (uint64_t i = 0; i < prefetcher->pages; i++) {
        uint64_t offset = prefetcher->chunk + i * PREFETCH_PAGE;
        if (offset < prefetcher->size)
            prefetcher->page[i] = prefetcher->base + offset;
        else if (offset - prefetcher->size < prefetcher->next_size)
            prefetcher->page[i] = prefetcher->next + (offset - prefetcher->size);
        else
            prefetcher->page[i] = i ? prefetcher->page[0] : prefetcher->base;
    }
    prefetcher->chunk += prefetcher->pages * PREFETCH_PAGE;
    prefetcher->line = 0;
}

/* `size` bytes at base are read in `steps` steps, then probably next. Without spread, steps do nothing.
 * ahead: struct kt_caps.stream_ahead, which tells AMD from Intel. */
static inline void prefetcher_start(struct prefetcher *prefetcher, bool paced, uint64_t distance,
                                    const void *base, uint64_t size, uint64_t steps, const void *next,
                                    uint64_t next_size)
{
    const uint64_t pages = distance > STREAMED_DISTANCE ? 1 : PREFETCH_PAGES;
    prefetcher->base = (uintptr_t)base;
    prefetcher->size = size;
    prefetcher->next = (uintptr_t)next;
    prefetcher->next_size = next ? next_size : 0;
    prefetcher->pages = pages;
    prefetcher->chunk = PACED_DISTANCE;
    prefetcher->due = 0;
    prefetcher->rate = paced && steps ? size / (64 * pages) * PREFETCH_ONE / steps : 0;
    prefetcher_chunk(prefetcher);
}

/* One step of a spread stream. */
static inline __attribute__((always_inline)) void prefetcher_step(struct prefetcher *prefetcher)
{
    prefetcher->due += prefetcher->rate;
    while (prefetcher->due >= PREFETCH_ONE) {
        for (uint64_t i = 0; i < prefetcher->pages; i++)
            PREFETCH_LINE(prefetcher->page[i] + prefetcher->line);
        prefetcher->line += 64;
        prefetcher->due -= PREFETCH_ONE;
        if (prefetcher->line == PREFETCH_PAGE)
            prefetcher_chunk(prefetcher);
    }
}

/* The lines NEAR bytes ahead of the 1 KB at p. */
static inline __attribute__((always_inline)) void prefetch_streamed(const void *p)
{
    UNROLL_FOR (unsigned i = 0; i < 16; i++)
        PREFETCH_LINE((uintptr_t)p + STREAMED_DISTANCE + i * 64);
}

/* The start of what is read next: streams find the rest themselves. */
static inline void prefetch_begin(const void *next, uint64_t next_size)
{
    for (uint64_t i = 0; next && i < next_size && i < 2 * STREAMED_DISTANCE; i += 64)
        PREFETCH_LINE((uintptr_t)next + i);
}

#endif
