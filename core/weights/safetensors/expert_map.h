/* SPDX-License-Identifier: Apache-2.0 */
/* expert_map.h - the tensors of each expert in a safetensors checkpoint, and how its matrices lie in them. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERT_MAP_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERT_MAP_H

#include "core/weights/model/family.h"
#include "core/weights/table/checkpoint.h"

/* Where a projection of each expert is in its tensor. */
struct kt_matrix {
    enum kt_coding coding;
    uint32_t dtype;
    uint64_t rows, cols;
    uint64_t begin; /* offset of expert 0's first weight */
    uint64_t step;  /* bytes from expert to expert in a fused tensor */
    uint64_t size;  /* bytes from an expert's first to its last weight */
    int64_t row_stride, block_stride;
    struct kt_scales scales;          /* without data; dtype NONE: there are none */
    uint64_t scale_begin, scale_step; /* offset of expert 0's scales, bytes from expert to expert */
    uint64_t scale_bytes;             /* of an expert */
    struct kt_scales zeros;           /* like scales; of AWQ only */
    uint64_t bias_begin, bias_step,
        bias_next; /* index of row 0, steps from row to row and expert to expert */
};

/* The tensors of a layer (struct kt_moe.map). */
struct kt_expert_map {
    struct kt_matrix matrix[3];
    int first;       /* enum kt_projection: KT_UP where experts have no gate */
    uint64_t stride; /* 3: an expert has tensors of its own; 0: a fused tensor holds all of them */
    bool below;      /* with the rows of one expert below another's, as in one matrix */
    void **decoded;  /* by expert: decoded weights, or NULL */
    uint32_t zero;   /* all zeros of GPTQ must be this: 7, in version 2 8 */
    struct kt_tensor *tensor[][KT_N_ROLES]; /* projection p of expert e: [e * stride + p] */
};

/* Has each projection of all experts a tensor of its own, with a dimension for experts? */
static inline bool kt_map_is_stacked(const struct kt_expert_map *map)
{
    return map->stride == 0 && !map->below && map->first == KT_GATE &&
           map->tensor[KT_GATE][KT_ROLE_WEIGHT] != map->tensor[KT_UP][KT_ROLE_WEIGHT];
}

/* The tensor of an expert's projection, or NULL. */
static inline struct kt_tensor *kt_map_tensor(const struct kt_expert_map *map, uint64_t expert,
                                              int projection, enum kt_role role)
{
    return map->tensor[expert * map->stride + (uint64_t)projection][role];
}

#endif
