/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grids.h - the codebooks of GGUF's i-quants: an index in a block selects a point, which is 4 or 8 weights.
 *
 * Points of IQ1 and IQ2 are 8 digits of 2 bits, those of IQ3 4 digits of 4 bits, the lowest digit first.
 * A digit is 0, 1 or 2 (IQ3: 0 to 7) and stands for
 *
 *     IQ1               -1, 0, 1
 *     IQ2_XXS, XS, S    8, 25, 43
 *     IQ3_XXS           4, 12, 20, 28, 36, 44, 52, 62
 *     IQ3_S             1, 3, 5, 7, 9, 11, 13, 15
 *
 * Each table has as many points as its index has values, so no index in a file can leave it.
 */
#ifndef KT_CORE_WEIGHTS_DECODE_GRIDS_H
#define KT_CORE_WEIGHTS_DECODE_GRIDS_H

#include <stdint.h>

extern const uint16_t kt_iq2xxs_grid[256];
extern const uint16_t kt_iq2xs_grid[512];
extern const uint16_t kt_iq2s_grid[1024];
extern const uint16_t kt_iq1s_grid[2048]; /* of IQ1_M, too */
extern const uint16_t kt_iq3xxs_grid[256];
extern const uint16_t kt_iq3s_grid[512];

#endif
