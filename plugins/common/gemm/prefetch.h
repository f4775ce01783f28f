/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/prefetch.h - brings weights from memory into L2 before they are multiplied.
 *
 * Nearly all of a core's read bandwidth comes from the hardware prefetcher of L2, which follows ascending
 * accesses within pages of 4 KB. A software prefetch is useful as the access that it follows. It follows
 * one stream well, and two much worse, so what is read together lies together, in the order of reading
 * (plugins/common/README). There are two ways:
 *
 *   streamed   a product of few rows runs as fast as memory: every line is prefetched, a short distance
 *              ahead in the same stream. Farther ahead the gain is lost
 *   near       besides, a line may be asked for once more shortly before it is used, to L1 now: a load that
 *              misses L1 holds one of its few buffers until the line is there, and while memory is late, the
 *              core's window runs on into lines that nobody has asked for yet
 *   paced      a product of many rows leaves the hardware idle for long: lines far ahead are prefetched
 *              evenly over the work, one in each of 8 consecutive pages, so that 8 streams are followed at
 *              once; on AMD line after line
 *
 * Parameter  NEAR_AHEAD  bytes ahead at which streamed lines are brought to L1, too; default 0: not at all
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

#ifndef NEAR_AHEAD
#define NEAR_AHEAD 0
#endif
/* A line of a stream, `distance` ahead, by `far`, PREFETCH or PREFETCH_LINE; to L1 and to L2 in turns: of
 * prefetches that may be moved compilers make bursts of either, and most of the gain is lost. */
#if NEAR_AHEAD
#define PREFETCH_AHEAD(far, line, distance)                     \
    __asm__ volatile("prefetcht0 %c2(%0)\n\tprefetcht1 (%0,%1)" \
                     :                                          \
                     : "r"(line), "r"((uint64_t)(distance)), "i"(NEAR_AHEAD))
#else
#define PREFETCH_AHEAD(far, line, distance) far((const void *)((uintptr_t)(line) + (distance)))
#endif

#define STREAMED_DISTANCE 1024
#define PACED_DISTANCE 65536
#define PREFETCH_PAGE 4096
#define PREFETCH_PAGES 8
#define PREFETCH_ONE 65536 /* one row of lines, in `due` */

/* Addresses are numbers: some lie behind the end of an object, and are prefetched only, never read. */
struct prefetcher {
    uintptr_t page[PREFETCH_PAGES];
    uintptr_t base, next;
    uint64_t size, next_size;
    uint64_t pages;     /* at a time: PREFETCH_PAGES or 1 */
    uint64_t chunk;     /* the next chunk's offset in base, then next */
    uint64_t line;      /* offset of the next row's lines in their pages */
    uint64_t due, rate; /* rows of lines to prefetch, and how many become due with each step */
};

/* Moves on to the pages of the next chunk; where nothing is left, to a page that exists. */
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

/* `size` bytes at base are read in `steps` steps, then probably next. If not paced, steps prefetch nothing.
 * `distance`: struct kt_caps.stream_ahead, which tells AMD from Intel. */
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

/* `size` bytes at base are brought in during `steps` steps, from the first byte on. */
static inline void prefetcher_start_at(struct prefetcher *prefetcher, const void *base, uint64_t size,
                                       uint64_t steps)
{
    uint64_t pages = (size + PREFETCH_PAGE - 1) / PREFETCH_PAGE;
    prefetcher->base = (uintptr_t)base;
    prefetcher->size = size;
    prefetcher->next_size = 0;
    prefetcher->pages = pages < PREFETCH_PAGES ? pages : PREFETCH_PAGES;
    prefetcher->chunk = 0;
    prefetcher->due = 0;
    prefetcher->rate = (size + 64 * pages - 1) / (64 * prefetcher->pages) * PREFETCH_ONE / steps;
    prefetcher_chunk(prefetcher);
}

/* One step of the work, if paced. */
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

/* The 16 lines that are STREAMED_DISTANCE ahead of the 1 KB at p. */
static inline __attribute__((always_inline)) void prefetch_streamed(const void *p)
{
    UNROLL_FOR (unsigned i = 0; i < 16; i++)
        PREFETCH_LINE((uintptr_t)p + STREAMED_DISTANCE + i * 64);
}

/* The start of what is read next; the hardware finds the rest. */
static inline void prefetch_begin(const void *next, uint64_t next_size)
{
    for (uint64_t i = 0; next && i < next_size && i < 2 * STREAMED_DISTANCE; i += 64)
        PREFETCH_LINE((uintptr_t)next + i);
}

#endif
