/* SPDX-License-Identifier: Apache-2.0 */
/* formats.h - reads a file of any format. */
#ifndef KT_CORE_WEIGHTS_FORMATS_H
#define KT_CORE_WEIGHTS_FORMATS_H

#include "core/weights/table/checkpoint.h"

/* Opens the file as the first one of the checkpoint and reads it by its format. */
enum kt_status kt_checkpoint_read(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error);

#endif
