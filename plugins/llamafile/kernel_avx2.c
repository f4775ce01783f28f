/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define SIMD avx2

#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define ROWS_BOUNDED
#define BLOCK_FLOATS 2 /* two rows with sums for even and odd columns take 8 of 16 registers */
#define DEQUANTIZES 0

/* From L2, a row takes less time than memory does, so memory is the limit with one row. With four,
 * vpmaddubsw and vpmaddwd share two ports, and the activations' broadcasts take half of the loads. A
 * distance from 512 to 1536 bytes is best, see README. */
#define PREFETCH_BYTES 1536

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx2);

const struct half_panel_kernel *llamafile_avx2_kernel(uint32_t dtype, bool compact)
{
    return find_kernel(dtype, compact);
}

bool llamafile_avx2_lines(const struct llamafile_format *format, const struct kt_view *view, uint64_t begin,
                          unsigned n, bool streams, uint8_t *half_panel)
{
    return pack_lines(format, view, begin, n, streams, half_panel);
}
