/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.h - the list of the tensors of a checkpoint, and their data. */
#ifndef KT_CORE_WEIGHTS_TABLE_TENSORS_H
#define KT_CORE_WEIGHTS_TABLE_TENSORS_H

#include "core/weights/table/checkpoint.h"

#include <stddef.h>

/* Appends a tensor of file `part`. Its name (malloc) then belongs to the list, also on failure. */
enum kt_status kt_tensors_add(struct kt_tensors *tensors, uint32_t part, const struct kt_tensor_info *info,
                              struct kt_error *error);

/* The same for a tensor whose type, of that name, is not known here. */
enum kt_status kt_tensors_add_unknown(struct kt_tensors *tensors, uint32_t part,
                                      const struct kt_tensor_info *info, const char *type,
                                      struct kt_error *error);

/* The name of the tensor's type, also of one that is not known here. */
const char *kt_tensor_type(const struct kt_tensor *tensor);

/* Fails if the type of the tensor, which is needed, is not known. */
enum kt_status kt_tensor_check_type(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                    struct kt_error *error);

/* Sorts the tensors by file and offset; refuses duplicate names and tensors that overlap. A stray of a name
 * that another file has in its place is not a duplicate, but a copy. */
enum kt_status kt_tensors_index(struct kt_checkpoint *checkpoint, struct kt_error *error);

/* Drops the copies from the indexed list, and returns how many there were. */
uint64_t kt_tensors_drop_copies(struct kt_tensors *tensors);

/* The tensor of that name, or NULL. */
struct kt_tensor *kt_tensors_find(const struct kt_tensors *tensors, const char *name);

void kt_tensors_free(struct kt_tensors *tensors);

/* The tensor's bytes, aligned for its numbers, until the checkpoint is closed. */
enum kt_status kt_tensor_data(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor, const void **data,
                              struct kt_error *error);

/* The label of the file with the tensor, for messages. */
static inline const char *kt_tensor_label(const struct kt_checkpoint *checkpoint,
                                          const struct kt_tensor *tensor)
{
    return checkpoint->part[tensor->part].file.label;
}

/* "[2][32][64]", slowest dimension first, into text, which it returns. */
char *kt_shape_text(const struct kt_tensor_info *info, char *text, size_t size);

#endif
