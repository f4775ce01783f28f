/* SPDX-License-Identifier: Apache-2.0 */
/* moe_gguf.h - the layers with experts of a GGUF model. */
#ifndef KT_CORE_WEIGHTS_GGUF_MOE_GGUF_H
#define KT_CORE_WEIGHTS_GGUF_MOE_GGUF_H

#include "core/weights/gguf/gguf_header.h"

/* Finds the layers with experts and checks them against the metadata. */
enum kt_status kt_gguf_find_moe(const struct kt_gguf *gguf, struct kt_error *error);

enum kt_status kt_gguf_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                               struct kt_expert *experts, uint32_t n_experts, struct kt_error *error);

#endif
