/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.h - the packed weights that KT-Kernel's own converter writes.
 *
 * Every expert is cut into NUMA parts: gate and up by rows, down by columns. A part of a projection is
 * two pieces, its packed weights and its float32 scales, one a row. Pieces lie
 *     in safetensors files   blk.L.ffn_gate_exps.E.numa.N.weight (I8, one dimension) and .scale (F32)
 *     in files of their own  _layer_L/_numa_N/INT8_gate_E_BYTESByte_quant_.kt and _scale_.kt
 * and are numbered ((expert * n_parts + part) * 3 + projection) * 2 + role in a layer.
 *
 * They do not name the packing, so it is checked as far as possible: sizes must agree, and the largest code
 * of each row must be 127 (7 for 4 bits), as quantizing makes it.
 *
 * Weights are decoded to int8 rows when experts are requested, and joined over the NUMA parts.
 */
#ifndef KT_CORE_WEIGHTS_KTKERNEL_PIECES_H
#define KT_CORE_WEIGHTS_KTKERNEL_PIECES_H

#include "core/weights/table/checkpoint.h"

#include <stddef.h>

enum kt_packing {
    KT_PACKING_UNKNOWN = 0,  /* in a safetensors file: sizes will tell */
    KT_PACKING_INT8 = 1,     /* tiles of 32 rows x 64 columns */
    KT_PACKING_INT4 = 2,     /* tiles of 32 rows x 128 columns, two weights a byte */
    KT_PACKING_MOE_INT8 = 3, /* plain rows */
    KT_PACKING_MOE_INT4 = 4, /* not known */
    KT_N_PACKINGS = 5
};

enum { KT_PIECE_WEIGHT = 0, KT_PIECE_SCALE = 1, KT_LARGEST_PARTS = 64 };

struct kt_piece {
    uint32_t layer, expert, part;
    uint8_t projection, role; /* enum kt_projection, KT_PIECE_ */
    uint8_t packing;          /* enum kt_packing */
    uint64_t size;
    struct kt_tensor *tensor; /* NULL: a file of its own */
};

struct kt_pieces {
    struct kt_piece *piece;
    size_t n, capacity;
};

/* moe->map of such a layer. */
struct kt_packed {
    enum kt_packing packing;
    bool guessed; /* INT8 and MOE_INT8 have the same sizes: the first decoded rows will tell */
    uint32_t layer, n_experts, n_parts;
    uint64_t size[3][2];       /* of a piece */
    struct kt_tensor **tensor; /* by number of the piece; NULL: files */
    void **decoded;            /* by expert; NULL: not yet */
    void *slots[];
};

/* "gate", "INT8" */
extern const char *const kt_projection_names[3];

extern const char *const kt_packing_names[KT_N_PACKINGS];

/* The end of a file name, by KT_PIECE_. */
extern const char *const kt_piece_suffixes[2];

enum kt_status kt_pieces_add(struct kt_checkpoint *checkpoint, struct kt_pieces *pieces,
                             const struct kt_piece *piece, struct kt_error *error);

/* Reads a decimal number of at most `largest`, without leading zeros, and moves *text behind it. */
bool kt_take_number(const char **text, uint64_t largest, uint64_t *number);

/* Moves *text behind `word`, if it begins with that. */
bool kt_take_word(const char **text, const char *word);

/* The tensor and its file, or the file of the piece, for messages. */
void kt_piece_label(const struct kt_checkpoint *checkpoint, const struct kt_piece *piece, char *text,
                    size_t size);

/* Opens the file of a piece; KT_E_FORMAT if its size is not the one in its name. */
enum kt_status kt_piece_open(const struct kt_checkpoint *checkpoint, const struct kt_piece *piece,
                             struct kt_file *file, struct kt_error *error);

/* Piece `number` of the layer. */
struct kt_piece kt_packed_piece(const struct kt_packed *packed, uint64_t number);

#endif
