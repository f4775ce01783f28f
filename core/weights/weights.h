/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - what layers ask of checkpoints besides the public functions. */
#ifndef KT_CORE_WEIGHTS_H
#define KT_CORE_WEIGHTS_H

#include <kt/kt.h>

/* kt_checkpoint_experts for a use that ends: the views live until kt_checkpoint_unuse, and so does what
 * had to be decoded for them. */
enum kt_status kt_checkpoint_use(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                                 uint32_t n_experts, struct kt_error *error);
void kt_checkpoint_unuse(struct kt_checkpoint *checkpoint, uint64_t layer);

/* A checkpoint is shared by count: kt_checkpoint_close gives one back. */
void kt_checkpoint_retain(struct kt_checkpoint *checkpoint);

/* "0-3,5": the layers that hold experts; "..." at the end where there is no room for all. */
void kt_checkpoint_list_layers(const struct kt_checkpoint *checkpoint, char *text, size_t size);

#endif
