/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel_decode.h - packed pieces as int8 rows. */
#ifndef KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_DECODE_H
#define KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_DECODE_H

#include "core/weights/table/checkpoint.h"

/* kt_mapper.experts and kt_mapper.release of both mappers. */
enum kt_status kt_packed_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                                 struct kt_expert *experts, uint32_t n_experts, struct kt_error *error);

void kt_packed_release(struct kt_moe *moe);

#endif
