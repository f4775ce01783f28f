/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs rows of 8-bit codes into tiles. */
#ifndef KT_PLUGINS_AVX512_FP8_PACK_H
#define KT_PLUGINS_AVX512_FP8_PACK_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#define SOURCE_BLOCK 1
#include "plugins/common/coded/pack_tmpl.h"

#ifdef __SSSE3__
#include <tmmintrin.h>
#endif

/* Columns 0 and 1 of 4 rows, then 2 and 3 of them (find_code). A code of NaN plus one has bit 7 without its
 * sign. */
static unsigned order_codes(uint8_t *lines)
{
#ifdef __SSSE3__
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i found = _mm_setzero_si128();
    for (unsigned at = 0; at < TILE_SIZE; at += 16) {
        __m128i v = _mm_loadu_si128((const void *)(lines + at));
        _mm_storeu_si128((void *)(lines + at), _mm_shuffle_epi8(v, order));
        v = _mm_add_epi8(_mm_and_si128(v, _mm_set1_epi8(0x7f)), _mm_set1_epi8(1));
        found = _mm_or_si128(found, v);
    }
    return _mm_movemask_epi8(found) != 0;
#else
    unsigned found = 0;
    for (unsigned at = 0; at < TILE_SIZE; at += 64) {
        uint8_t line[64];
        memcpy(line, lines + at, sizeof line);
        for (unsigned i = 0; i < 64; i++) {
            lines[at + find_code(i / 4, i % 4)] = line[i];
            found |= (line[i] & 0x7fu) == 0x7f;
        }
    }
    return found;
#endif
}

#endif
