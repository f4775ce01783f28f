/* SPDX-License-Identifier: Apache-2.0 */
/* simd/points.h - the numbers of points, for scalar_points.h and those of the other sets. */
#ifndef KT_PLUGINS_COMMON_SIMD_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_POINTS_H

#include "plugins/common/simd/attributes.h"

#include <stdint.h>

/* Of 16 rows' points: in words, or in bytes where that is NULL. */
struct numbers {
    const uint16_t *words;
    const uint8_t *bytes;
};

INLINE unsigned number_of(struct numbers numbers, int row)
{
    return numbers.words ? numbers.words[row] : numbers.bytes[row];
}

#endif
