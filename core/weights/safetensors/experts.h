/* SPDX-License-Identifier: Apache-2.0 */
/* experts.h - the experts of safetensors checkpoints whose tensors a family of models names. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_H

#include "core/weights/table/checkpoint.h"
#include "core/weights/model/family.h"
#include "core/weights/model/model_config.h"

extern const struct kt_mapper kt_mapper_families;

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

/* Fills map->matrix from the shapes of expert 0's tensors, and the sizes, dtypes and biases of
 * `info`. */
enum kt_status kt_lay_experts(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                              struct kt_expert_map *map, struct kt_moe_info *info, struct kt_error *error);

/* Hands out the views of such a layer, once the scales are known to be numbers. */
enum kt_status kt_map_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe, struct kt_expert *experts,
                              uint32_t n_experts, struct kt_error *error);
void kt_map_release(struct kt_moe *moe);

static inline const char *label_of(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor)
{
    return checkpoint->part[tensor->part].file.label;
}

/* The tensor of an expert's projection, or NULL. */
static inline struct kt_tensor *kt_map_tensor(const struct kt_expert_map *map, uint64_t expert,
                                              int projection, enum kt_role role)
{
    return map->tensor[expert * map->stride + (uint64_t)projection][role];
}

/* ---- coding.c: weights of 4 bits ------------------------------------------------------------- */

/* "int4 of GPTQ", for messages. */
const char *kt_coding_name(enum kt_coding coding);

/* Says by the tensors of expert 0 and their shapes how a projection's numbers lie, which its name said
 * only in part, and refuses what does not go with that, in the tensors or in config.json. */
enum kt_status kt_coding_resolve(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 struct kt_expert_map *map, int projection, struct kt_error *error);

/* Rows and columns of the weight of one expert. */
void kt_coding_shape(enum kt_coding coding, const struct kt_tensor_info *weight, uint64_t shape[2]);

/* Lays the matrix, of the shape above; AWQ's as it is once it is decoded. */
void kt_coding_lay(struct kt_matrix *matrix, const struct kt_tensor_info *weight);

/* Lays its scales, and the zeros that it has. */
enum kt_status kt_coding_scales(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_expert_map *map, int projection, struct kt_error *error);

/* ---- coding_check.c, scales_check.c, awq.c: what is read when experts are asked for ---------------- */

/* Do the small tensors beside an int4 weight say what can be read: zeros of symmetric weights, columns
 * in order, the shape? */
enum kt_status kt_coding_check(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                               uint32_t expert, int projection, struct kt_error *error);

/* Decodes the AWQ projections of an expert into `map`, unless they are. */
enum kt_status kt_awq_decode(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                             uint32_t expert, struct kt_error *error);
/* Lets the view show a projection that was. */
void kt_awq_show(const struct kt_expert_map *map, uint32_t expert, int projection, struct kt_view *view);

/* Can weights of this type, with these scales or none (NULL), be read? KT_E_UNSUPPORTED names their
 * format. */
enum kt_status kt_check_weight_format(const char *label, const struct kt_tensor_info *weight,
                                      const struct kt_tensor_info *scale, struct kt_error *error);

/* How the scales of a matrix lie; all but their data. */
enum kt_status kt_lay_scales(const char *label, const struct kt_model_config *config,
                             const struct kt_tensor_info *weight, const struct kt_tensor_info *scale,
                             struct kt_scales *scales, struct kt_error *error);

/* "[2][32][64]", slowest dimension first, into text, which it returns. */
char *kt_shape_text(const struct kt_tensor_info *info, char *text, size_t size);

#endif
