/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - the reads of struct bench_isa, for a file that defines VECTOR_BYTES before it includes
 * this. Ways: 1, 2, 4 and 8 streams, each without prefetch and with prefetcht1 512 and 1024 bytes ahead.
 * Only the hardware prefetcher of the second-level cache reaches the bandwidth of memory, and prefetches
 * into L2 start it; without it a core is limited by its fill buffers.
 */
#include "tools/kt/bench/isa.h"

typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* Prefetches and adds two lines of one stream. */
static inline __attribute__((always_inline)) vector read_lines(const unsigned char *data, unsigned ahead,
                                                               vector sum)
{
#pragma GCC unroll 16
    for (unsigned at = 0; at < 128; at += VECTOR_BYTES) {
        if (ahead != 0 && at % 64 == 0)
            __builtin_prefetch(data + at + ahead, 0, 2);
        sum += *(const vector *)(data + at);
    }
    return sum;
}

static inline __attribute__((always_inline)) uint64_t read_streams(const unsigned char *data, size_t stride,
                                                                   size_t size, unsigned streams,
                                                                   unsigned ahead)
{
    vector sum[8] = {{0}};
    for (size_t at = 0; at < size; at += 128) {
        const unsigned char *line = data + at;
        sum[0] = read_lines(line, ahead, sum[0]);
        if (streams >= 2)
            sum[1] = read_lines(line + stride, ahead, sum[1]);
        if (streams >= 4) {
            sum[2] = read_lines(line + 2 * stride, ahead, sum[2]);
            sum[3] = read_lines(line + 3 * stride, ahead, sum[3]);
        }
        if (streams >= 8) {
            sum[4] = read_lines(line + 4 * stride, ahead, sum[4]);
            sum[5] = read_lines(line + 5 * stride, ahead, sum[5]);
            sum[6] = read_lines(line + 6 * stride, ahead, sum[6]);
            sum[7] = read_lines(line + 7 * stride, ahead, sum[7]);
        }
    }
    vector all = (sum[0] + sum[1] + sum[2] + sum[3]) + (sum[4] + sum[5] + sum[6] + sum[7]);
    uint64_t total = 0;
    for (size_t i = 0; i < VECTOR_BYTES / 8; i++)
        total += all[i];
    return total;
}

#define READ(streams, ahead)                                                                        \
    static uint64_t read_##streams##_##ahead(const unsigned char *data, size_t stride, size_t size) \
    {                                                                                               \
        return read_streams(data, stride, size, streams, ahead);                                    \
    }
#define READS(streams) READ(streams, 0) READ(streams, 512) READ(streams, 1024)
READS(1)
READS(2)
READS(4)
READS(8)

#define ROW(streams, ahead)                      \
    {                                            \
        streams, ahead, read_##streams##_##ahead \
    }
#define ROWS(streams) ROW(streams, 0), ROW(streams, 512), ROW(streams, 1024)
static const struct bench_read reads[] = {ROWS(1), ROWS(2), ROWS(4), ROWS(8)};
