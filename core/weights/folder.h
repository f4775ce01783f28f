/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a checkpoint of all files of a folder. */
#ifndef KT_CORE_WEIGHTS_FOLDER_H
#define KT_CORE_WEIGHTS_FOLDER_H

#include "core/weights/table/checkpoint.h"

#include <stdbool.h>

/* Opens a folder if `path` is one, or is its config.json, its index, or a file that its index lists.
 * Otherwise *whole is false, and the caller opens the single file at `path`. */
enum kt_status kt_folder_open(struct kt_checkpoint *checkpoint, const char *path, bool *whole,
                              struct kt_error *error);

#endif
