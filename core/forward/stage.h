/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - what a backend says of a stage that was just called. */
#ifndef KT_CORE_FORWARD_STAGE_H
#define KT_CORE_FORWARD_STAGE_H

#include "core/layer/layer.h"
#include "core/machine/outcome.h"

/* A stage has nothing to say yet. */
static inline void kt_stage_start(struct kt_error *error)
{
    error->status = KT_OK;
    error->message[0] = '\0';
}

/* Reports the error of the stage that was just called, if there is one. `of`: " of expert 5", or "". */
void kt_stage_check(const struct kt_layer *layer, struct kt_outcome *outcome, const char *stage,
                    const char *of, struct kt_error *error);

#endif
