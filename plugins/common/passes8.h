/* SPDX-License-Identifier: Apache-2.0 */
/* passes8.h - the passes that a level's figures ask for (see pass8.h), made of the function MULTIPLY. */
#ifndef KT_PLUGINS_PASSES8_H
#define KT_PLUGINS_PASSES8_H

DEFINE_PASS(pass8_1_near, MULTIPLY, 1, true)
DEFINE_PASS(pass8_2_near, MULTIPLY, 2, true)
DEFINE_PASS(pass8_1, MULTIPLY, 1, false)
DEFINE_PASS(pass8_2, MULTIPLY, 2, false)
#if ROWS_WIDE
DEFINE_PASS(pass8_4_near, MULTIPLY, 4, true)
DEFINE_PASS(pass8_8_near, MULTIPLY, 8, true)
DEFINE_PASS(pass8_4, MULTIPLY, 4, false)
DEFINE_PASS(pass8_8, MULTIPLY, 8, false)
#endif
#if ROWS_TILE
DEFINE_TILE_PASS(pass8_tile, MULTIPLY, ROWS_TILE)
#endif

static const struct pass passes8[] = {
#if ROWS_WIDE
    { 8, 1, { pass8_8, pass8_8_near } },
    { 4, 1, { pass8_4, pass8_4_near } },
#endif
#if ROWS_TILE
    { ROWS_TILE, 2, { pass8_tile, NULL } },
#endif
    { 2, 1, { pass8_2, pass8_2_near } },
    { 1, 1, { pass8_1, pass8_1_near } },
};

#endif
