/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a checkpoint of all files of a folder. */
#ifndef KT_CORE_WEIGHTS_FOLDER_H
#define KT_CORE_WEIGHTS_FOLDER_H

#include "core/weights/table/checkpoint.h"

#include <stdbool.h>

/* Opens the folder that `path` names, or stands for as its config.json, its index, or a file that
 * the index lists. *whole is false where it does not: the file at `path` is then to be opened
 * alone. */
enum kt_status kt_folder_open(struct kt_checkpoint *checkpoint, const char *path, bool *whole,
                              struct kt_error *error);

#endif
