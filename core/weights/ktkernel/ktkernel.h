/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel.h - the layers of a checkpoint that KT-Kernel's own converter wrote. */
#ifndef KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_H
#define KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_H

#include "core/weights/ktkernel/pieces.h"
#include "core/weights/model/model_config.h"
#include "core/weights/table/mapper.h"

extern const struct kt_mapper kt_mapper_ktkernel;

/* Makes checkpoint->moe of all pieces, which it sorts. */
enum kt_status kt_pieces_map(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                             struct kt_pieces *pieces, struct kt_error *error);

#endif
