/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - reading the files of a safetensors checkpoint. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_SAFETENSORS_H
#define KT_CORE_WEIGHTS_SAFETENSORS_SAFETENSORS_H

#include "core/weights/table/checkpoint.h"

/* Adds the tensors of a file; kt_safetensors_index, called once after the last file, checks how
 * they lie. */
enum kt_status kt_safetensors_read(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_error *error);
enum kt_status kt_safetensors_index(struct kt_checkpoint *checkpoint, struct kt_error *error);

/* Opens the folder that `path` names, or stands for as its config.json, its index, or a file that
 * the index lists. *whole is false where it does not: the file at `path` is then to be opened
 * alone. */
enum kt_status kt_folder_open(struct kt_checkpoint *checkpoint, const char *path, bool *whole,
                              struct kt_error *error);

/* Finds the layers with experts among the tensors: the first mapper that matches makes them. */
enum kt_status kt_safetensors_map(struct kt_checkpoint *checkpoint, struct kt_error *error);

#endif
