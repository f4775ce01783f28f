/* SPDX-License-Identifier: Apache-2.0 */
/* expert_map.h - which tensors of a safetensors checkpoint are which expert, and how they lie. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERT_MAP_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERT_MAP_H

#include "core/weights/model/family.h"
#include "core/weights/table/checkpoint.h"

/* How a projection of each expert lies in its tensor. */
struct kt_matrix {
    enum kt_coding coding;
    uint32_t dtype;
    uint64_t rows, cols;
    uint64_t begin; /* of expert 0's first weight, in bytes */
    uint64_t step;  /* bytes from expert to expert in a fused tensor */
    uint64_t size;  /* bytes from an expert's first to its last weight */
    int64_t row_stride, block_stride;
    struct kt_scales scales;                   /* its data is not set; dtype NONE: there are none */
    uint64_t scale_begin, scale_step;          /* bytes to expert 0's first one, from expert to expert */
    uint64_t scale_bytes;                      /* of an expert */
    struct kt_scales zeros;                    /* like scales; of AWQ only */
    uint64_t bias_begin, bias_step, bias_next; /* numbers to row 0, row to row, expert to expert */
};

/* The tensors of a layer (struct kt_moe.map). */
struct kt_expert_map {
    struct kt_matrix matrix[3];
    uint64_t stride; /* 3: an expert has tensors of its own; 0: a fused tensor holds all of them */
    void **decoded;  /* by expert: what had to be decoded of it, or NULL */
    uint32_t zero;   /* the one that GPTQ's zeros must all be: 7, of version 2 8 */
    struct kt_tensor *tensor[][KT_N_ROLES]; /* of projection p of expert e at [e * stride + p] */
};

/* The tensor of an expert's projection, or NULL. */
static inline struct kt_tensor *kt_map_tensor(const struct kt_expert_map *map, uint64_t expert,
                                              int projection, enum kt_role role)
{
    return map->tensor[expert * map->stride + (uint64_t)projection][role];
}

#endif
