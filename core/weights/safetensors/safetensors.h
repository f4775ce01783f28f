/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - reading the files of a safetensors checkpoint. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_SAFETENSORS_H
#define KT_CORE_WEIGHTS_SAFETENSORS_SAFETENSORS_H

#include "core/weights/table/checkpoint.h"

/* Adds the tensors of a file. After the last file, kt_safetensors_index sorts them and checks that they leave
 * no gap. */
enum kt_status kt_safetensors_read(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_error *error);
enum kt_status kt_safetensors_index(struct kt_checkpoint *checkpoint, struct kt_error *error);

extern const struct kt_checkpoint_format kt_format_safetensors;

#endif
