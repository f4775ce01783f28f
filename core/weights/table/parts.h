/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - the files of a checkpoint. */
#ifndef KT_CORE_WEIGHTS_TABLE_PARTS_H
#define KT_CORE_WEIGHTS_TABLE_PARTS_H

#include "core/weights/table/checkpoint.h"

/* Opens one more file of the checkpoint. checkpoint->part may move. */
enum kt_status kt_checkpoint_add(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error);

/* Closes all files again. */
void kt_checkpoint_drop_files(struct kt_checkpoint *checkpoint);

/* The value of `key` in the __metadata__ of safetensors file `part`, or NULL. */
const char *kt_checkpoint_metadata(const struct kt_checkpoint *checkpoint, uint32_t part, const char *key);

#endif
