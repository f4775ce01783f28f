/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - prefetches of the next lines of a half panel. */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_PREFETCH_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_PREFETCH_H

#include "plugins/common/gemm/prefetch.h"
#include "plugins/common/simd/simd.h"

/* Prefetches n lines, `distance` behind `from`, and where the level says so, near ones; 0: none. */
INLINE void bring(const uint8_t *from, uint64_t distance, unsigned n)
{
    if (!distance)
        return;
    UNROLL_FOR (unsigned line = 0; line < n; line++)
        PREFETCH_AHEAD(PREFETCH, from + 64 * line, distance);
}

#endif
