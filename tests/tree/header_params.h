/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header_params.h - parameters of the templates of plugins, for templates.sh: those of a backend that does
 * not exist. WITHOUT_NAME: NAME is left out. ROOM_...: the template's room in plugins/common; ROOM_own: it is
 * in a backend's folder, whose header says what the first part says here. PARAM_NAME: only then NAME is set,
 * or not 0.
 */
#if defined ROOM_bf16 || defined ROOM_coded
#define TILE_COLUMNS 32
#endif

#ifndef ROOM_own
#ifndef WITHOUT_BACKEND
#define BACKEND "none"
#endif
#ifndef WITHOUT_FORM
#define FORM "none-1"
#endif
#ifndef WITHOUT_FORM4
#define FORM4 "none-g%u-1"
#endif
#ifndef WITHOUT_TAKES
#define TAKES "nothing"
#endif
#ifndef WITHOUT_OWN
#define OWN(function) none_##function
#endif
#ifndef WITHOUT_OPS_NAME
#define OPS_NAME(level) none_ops_##level
#endif
#ifndef WITHOUT_ROW_SUMS
#ifdef ROOM_int8
#define ROW_SUMS 0
#else
#define ROW_SUMS 1
#endif
#endif
#ifndef WITHOUT_SOURCE_BLOCK
#define SOURCE_BLOCK 4
#endif
#if !defined WITHOUT_CODES_SIZE && defined ROOM_coded
#define CODES_SIZE 256
#endif
#ifndef WITHOUT_NO_ZERO
#define NO_ZERO(encoding) ((void)(encoding), 0.0f)
#endif
#ifndef WITHOUT_OFFSETS
#define OFFSETS(encoding) ((encoding) != 0)
#endif
#ifndef WITHOUT_CODE_ZERO
#define CODE_ZERO(encoding) ((void)(encoding), 0.0f)
#endif
struct none_panel {
    int number;
};
#if !defined WITHOUT_PANEL_OWN && defined PARAM_PANEL_OWN
#define PANEL_OWN struct none_panel
#endif
extern const struct vendor none_vendor;
#ifndef WITHOUT_VENDOR
#define VENDOR (&none_vendor)
#endif
#ifndef WITHOUT_DECODER_H
#define DECODER_H "tests/tree/header_decoder.h"
#endif
#ifndef WITHOUT_EPILOGUE_H
#if defined ROOM_bf16 || defined ROOM_coded
#define EPILOGUE_H "plugins/common/bf16/epilogue.h"
#else
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#endif
#if !defined WITHOUT_ACC && defined PARAM_ACC
#define ACC float
#endif
#if !defined WITHOUT_MULTIPLY && defined ROOM_gemm
#define MULTIPLY(...) ((void)0)
#endif
#endif

#ifndef WITHOUT_TILED
#ifdef PARAM_TILED
#define TILED 1
#else
#define TILED 0
#endif
#endif
#ifndef WITHOUT_MR_PANEL
#define MR_PANEL 8
#endif
#ifndef WITHOUT_MR_TILE
#define MR_TILE 4
#endif
#ifndef WITHOUT_STREAMED_MAX_ROWS
#define STREAMED_MAX_ROWS 2
#endif
#ifndef WITHOUT_PREFETCH_BYTES
#define PREFETCH_BYTES 0
#endif
#ifndef WITHOUT_TUNING
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 2, .dequant_min_rows = 8
#endif
#ifndef WITHOUT_GEMV_MAX_ROWS
#define GEMV_MAX_ROWS 4
#endif
#ifndef WITHOUT_VECTOR_MAX_ROWS
#define VECTOR_MAX_ROWS 4
#endif
#ifndef WITHOUT_DEQUANT_MIN_ROWS
#define DEQUANT_MIN_ROWS 0
#endif
#ifndef WITHOUT_BLOCK_QUANTS
#define BLOCK_QUANTS 4
#endif
#ifndef WITHOUT_BLOCK_FLOATS
#define BLOCK_FLOATS 4
#endif
#ifndef WITHOUT_DEQUANTIZES
#define DEQUANTIZES 0
#endif
#ifndef WITHOUT_MOST_ROWS
#define MOST_ROWS 4
#endif
#ifndef WITHOUT_MOST_PAIR_ROWS
#define MOST_PAIR_ROWS 4
#endif
#ifndef WITHOUT_MOST_QUERIES
#define MOST_QUERIES 16
#endif
#ifndef WITHOUT_MOST_PAIR_QUERIES
#define MOST_PAIR_QUERIES 64
#endif
#ifndef WITHOUT_MOST_LATENT_QUERIES
#define MOST_LATENT_QUERIES 64
#endif
#ifndef WITHOUT_TILES_H
#define TILES_H "plugins/attention/tiles_bf16.h"
#endif
