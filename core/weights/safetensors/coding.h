/* SPDX-License-Identifier: Apache-2.0 */
/* coding.h - weights of 4 bits in safetensors files. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_CODING_H
#define KT_CORE_WEIGHTS_SAFETENSORS_CODING_H

#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/expert_map.h"

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

#endif
