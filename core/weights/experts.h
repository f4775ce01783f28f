/* SPDX-License-Identifier: Apache-2.0 */
/* experts.h - the experts of safetensors checkpoints whose tensors a family of models names. */
#ifndef KT_CORE_EXPERTS_H
#define KT_CORE_EXPERTS_H

#include "core/weights/checkpoint.h"
#include "core/weights/family.h"
#include "core/weights/model_config.h"

extern const struct kt_mapper kt_mapper_families;

/* How a projection of each expert lies in its tensor. */
struct kt_matrix {
    uint32_t dtype;
    uint64_t rows, cols;
    uint64_t begin; /* of expert 0's first weight, in bytes */
    uint64_t step;  /* bytes from expert to expert in a fused tensor */
    uint64_t size;  /* bytes from an expert's first to its last weight */
    int64_t row_stride, block_stride;
    struct kt_scales scales;                   /* its data is not set; dtype NONE: there are none */
    uint64_t bias_begin, bias_step, bias_next; /* numbers to row 0, row to row, expert to expert */
};

/* The tensors of a layer (struct kt_moe.map). */
struct kt_expert_map {
    struct kt_matrix matrix[3];
    uint64_t stride; /* 3: an expert has tensors of its own; 0: a fused tensor holds all of them */
    struct kt_tensor *tensor[][KT_N_ROLES]; /* of projection p of expert e at [e * stride + p] */
};

/* Fills map->matrix from the shapes of expert 0's tensors, and the sizes, dtypes and biases of
 * `info`. */
enum kt_status kt_lay_experts(const struct kt_checkpoint *checkpoint,
                              const struct kt_model_config *config, struct kt_expert_map *map,
                              struct kt_moe_info *info, struct kt_error *error);

/* Hands out the views of such a layer. */
enum kt_status kt_map_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                              struct kt_expert *experts, uint32_t n_experts,
                              struct kt_error *error);

/* Can weights of this type, with these scales or none (NULL), be read? KT_E_UNSUPPORTED names their
 * format. */
enum kt_status kt_check_weight_format(const char *label, const struct kt_tensor_info *weight,
                                      const struct kt_tensor_info *scale, struct kt_error *error);

/* How the scales of a matrix lie; all but their data. */
enum kt_status kt_lay_scales(const char *label, const struct kt_model_config *config,
                             const struct kt_tensor_info *weight,
                             const struct kt_tensor_info *scale, struct kt_scales *scales,
                             struct kt_error *error);

/* "[2][32][64]", slowest dimension first, into text, which it returns. */
char *kt_shape_text(const struct kt_tensor_info *info, char *text, size_t size);

#endif
