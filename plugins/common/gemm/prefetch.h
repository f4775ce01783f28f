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
#define STREAM_LINE(address) _mm_prefetch((const char *)(address), _MM_HINT_T1)
#else
#define STREAM_LINE(address) __builtin_prefetch((const void *)(address), 0, 2)
#endif

#define STREAM_NEAR 1024
#define STREAM_LEAD 65536
#define STREAM_PAGE 4096
#define STREAM_PAGES 8
#define STREAM_ONE 65536 /* of a row, in `due` */

/* Addresses are numbers here: some lie behind the end of an object, and are never read. */
struct stream {
    uintptr_t page[STREAM_PAGES];
    uintptr_t base, next;
    uint64_t size, next_size;
    uint64_t pages;     /* at a time: STREAM_PAGES or 1 */
    uint64_t chunk;     /* the next chunk's offset in base, then next */
    uint64_t line;      /* offset of the next row's lines in their pages */
    uint64_t due, rate; /* rows of lines to bring, and how many become due with each step */
};

/* Points at the pages of the next chunk; where there is nothing left, at a page that is there. */
static __attribute__((noinline)) void stream_chunk(struct stream *stream)
{
    for (uint64_t i = 0; i < stream->pages; i++) {
        uint64_t offset = stream->chunk + i * STREAM_PAGE;
        if (offset < stream->size)
            stream->page[i] = stream->base + offset;
        else if (offset - stream->size < stream->next_size)
            stream->page[i] = stream->next + (offset - stream->size);
        else
            stream->page[i] = i ? stream->page[0] : stream->base;
    }
    stream->chunk += stream->pages * STREAM_PAGE;
    stream->line = 0;
}

/* `size` bytes at base are read in `steps` steps, then probably next. Without spread, steps do nothing.
 * ahead: struct kt_caps.stream_ahead, which tells AMD from Intel. */
static inline void stream_start(struct stream *stream, bool spread, uint64_t ahead, const void *base,
                                uint64_t size, uint64_t steps, const void *next, uint64_t next_size)
{
    const uint64_t pages = ahead > STREAM_NEAR ? 1 : STREAM_PAGES;
    stream->base = (uintptr_t)base;
    stream->size = size;
    stream->next = (uintptr_t)next;
    stream->next_size = next ? next_size : 0;
    stream->pages = pages;
    stream->chunk = STREAM_LEAD;
    stream->due = 0;
    stream->rate = spread && steps ? size / (64 * pages) * STREAM_ONE / steps : 0;
    stream_chunk(stream);
}

/* One step of a spread stream. */
static inline __attribute__((always_inline)) void stream_step(struct stream *stream)
{
    stream->due += stream->rate;
    while (stream->due >= STREAM_ONE) {
        for (uint64_t i = 0; i < stream->pages; i++)
            STREAM_LINE(stream->page[i] + stream->line);
        stream->line += 64;
        stream->due -= STREAM_ONE;
        if (stream->line == STREAM_PAGE)
            stream_chunk(stream);
    }
}

/* The lines NEAR bytes ahead of the 1 KB at p. */
static inline __attribute__((always_inline)) void stream_near(const void *p)
{
    UNROLL_FOR (unsigned i = 0; i < 16; i++)
        STREAM_LINE((uintptr_t)p + STREAM_NEAR + i * 64);
}

/* The start of what is read next: streams find the rest themselves. */
static inline void stream_begin(const void *next, uint64_t next_size)
{
    for (uint64_t i = 0; next && i < next_size && i < 2 * STREAM_NEAR; i += 64)
        STREAM_LINE((uintptr_t)next + i);
}

#endif
