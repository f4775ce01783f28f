/* SPDX-License-Identifier: Apache-2.0 */
/* points.c - the points of the i-quants' grids as weights, made by the compiler. */
#include "plugins/llamafile/multiply/points.h"

/* Digit j of a point of 8 digits (2 bits each), of 4 (4 bits each), and what is made of all. */
#define DIGIT2(point, j) ((uint64_t)((point) >> 2 * (j)&3))
#define DIGIT4(point, j) ((uint32_t)((point) >> 4 * (j)&7))
#define EIGHT(of, point)                                                                    \
    (of(DIGIT2(point, 0)) | of(DIGIT2(point, 1)) << 8 | of(DIGIT2(point, 2)) << 16 |        \
     of(DIGIT2(point, 3)) << 24 | of(DIGIT2(point, 4)) << 32 | of(DIGIT2(point, 5)) << 40 | \
     of(DIGIT2(point, 6)) << 48 | of(DIGIT2(point, 7)) << 56)
#define FOUR(of, point)                                                              \
    (of(DIGIT4(point, 0)) | of(DIGIT4(point, 1)) << 8 | of(DIGIT4(point, 2)) << 16 | \
     of(DIGIT4(point, 3)) << 24)

#define IQ1(digit) (1 + 8 * (digit))
#define IQ2(digit) (8 + 17 * (digit) + (digit) / 2)
#define IQ3_XXS(digit) (2 + 4 * (digit) + (digit) / 7)
#define IQ3_S(digit) (1 + 2 * (digit))

#define P(point) EIGHT(IQ1, point)
const uint64_t llamafile_iq1_points[2048] = {
#include "core/weights/decode/grid_iq1s.inc"
};
#undef P

#define P(point) EIGHT(IQ2, point)
const uint64_t llamafile_iq2_xxs_points[256] = {
#include "core/weights/decode/grid_iq2xxs.inc"
};

const uint64_t llamafile_iq2_xs_points[512] = {
#include "core/weights/decode/grid_iq2xs.inc"
};

const uint64_t llamafile_iq2_s_points[1024] = {
#include "core/weights/decode/grid_iq2s.inc"
};
#undef P

#define P(point) FOUR(IQ3_XXS, point)
const uint32_t llamafile_iq3_xxs_points[256] = {
#include "core/weights/decode/grid_iq3xxs.inc"
};
#undef P

#define P(point) FOUR(IQ3_S, point)
const uint32_t llamafile_iq3_s_points[512] = {
#include "core/weights/decode/grid_iq3s.inc"
};
#undef P
