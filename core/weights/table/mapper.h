/* SPDX-License-Identifier: Apache-2.0 */
/* mapper.h - a way to lay experts out in the tensors of safetensors files. */
#ifndef KT_CORE_WEIGHTS_TABLE_MAPPER_H
#define KT_CORE_WEIGHTS_TABLE_MAPPER_H

#include "core/weights/table/checkpoint.h"

#include <stdbool.h>

/* matches() looks at names and metadata only; map() fills checkpoint->moe, n_moe and expert_size, or says
 * what is wrong. */
struct kt_mapper {
    const char *whose; /* the author of the layout, for messages */
    bool (*matches)(const struct kt_checkpoint *checkpoint);
    enum kt_status (*map)(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                          struct kt_error *error);
    kt_experts_fn experts;
    /* Frees what experts() allocated for a layer: its views are no longer valid. NULL: nothing to free. */
    void (*release)(struct kt_moe *moe);
};

#endif
