/* SPDX-License-Identifier: Apache-2.0 */
/* formats.h - the formats of checkpoints. */
#ifndef KT_CORE_WEIGHTS_FORMATS_H
#define KT_CORE_WEIGHTS_FORMATS_H

#include "core/weights/table/checkpoint.h"

/* Opens the file and reads it, whatever its format. */
enum kt_status kt_checkpoint_read(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error);

#endif
