/* SPDX-License-Identifier: Apache-2.0 */
/* coding.h - weights of 4 bits in safetensors files. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_CODING_H
#define KT_CORE_WEIGHTS_SAFETENSORS_CODING_H

#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/expert_map.h"

/* "int4 of GPTQ", for messages. */
const char *kt_coding_name(enum kt_coding coding);

/* Sets the coding of a projection, which its name gives only in part, by the tensors of expert 0 and their
 * shapes. Refuses tensors and a config.json that contradict it. */
enum kt_status kt_coding_resolve(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 struct kt_expert_map *map, int projection, struct kt_error *error);

/* Rows and columns of the weight of one expert. */
void kt_coding_shape(enum kt_coding coding, const struct kt_tensor_info *weight, uint64_t shape[2]);

/* Sets shape and strides of the matrix; AWQ's as they are after decoding. */
void kt_coding_lay(struct kt_matrix *matrix, const struct kt_tensor_info *weight);

/* Sets its scales and zeros. */
enum kt_status kt_coding_scales(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_expert_map *map, int projection, struct kt_error *error);

#endif
