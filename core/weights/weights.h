/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - what layers ask of checkpoints besides the public functions. */
#ifndef KT_CORE_WEIGHTS_H
#define KT_CORE_WEIGHTS_H

#include <kt/kt.h>

/* Like kt_checkpoint_experts, but views and decoded weights live only until kt_checkpoint_unuse. */
enum kt_status kt_checkpoint_use(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                                 uint32_t n_experts, struct kt_error *error);
void kt_checkpoint_unuse(struct kt_checkpoint *checkpoint, uint64_t layer);

/* Adds a user; kt_checkpoint_close removes one. */
void kt_checkpoint_retain(struct kt_checkpoint *checkpoint);

/* Frees what kt_checkpoint_weight and kt_checkpoint_file handed out. */
void kt_weights_free(struct kt_checkpoint *checkpoint);
void kt_folder_files_free(struct kt_checkpoint *checkpoint);

/* Writes the layers with experts as "0-3,5"; it ends with "..." if there is no room for all. */
void kt_checkpoint_list_layers(const struct kt_checkpoint *checkpoint, char *text, size_t size);

#endif
