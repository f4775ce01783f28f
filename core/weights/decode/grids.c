/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grids.c - the codebooks of IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S.
 *
 * These numbers are part of the file format and cannot be computed. They are the tables iq2xxs_grid,
 * iq2xs_grid, iq2s_grid, iq1s_grid, iq3xxs_grid and iq3s_grid of ggml (https://github.com/ggml-org/ggml,
 * src/ggml-common.h), which is under the MIT license, Copyright (c) 2023-2026 The ggml authors. Here the
 * points are packed: grids.h says how. They are in files of their own, since llamafile makes weights of them.
 * tests/core/weights/test_grids.c knows what they have in common.
 */
#include "core/weights/decode/grids.h"

#define P(point) point

const uint16_t kt_iq2xxs_grid[256] = {
#include "core/weights/decode/grid_iq2xxs.inc"
};

const uint16_t kt_iq2xs_grid[512] = {
#include "core/weights/decode/grid_iq2xs.inc"
};

const uint16_t kt_iq2s_grid[1024] = {
#include "core/weights/decode/grid_iq2s.inc"
};

const uint16_t kt_iq1s_grid[2048] = {
#include "core/weights/decode/grid_iq1s.inc"
};

const uint16_t kt_iq3xxs_grid[256] = {
#include "core/weights/decode/grid_iq3xxs.inc"
};

const uint16_t kt_iq3s_grid[512] = {
#include "core/weights/decode/grid_iq3s.inc"
};
