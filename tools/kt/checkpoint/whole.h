/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whole.h - what kt explain and kt inspect say of a checkpoint as a whole model: libktengine knows, which is
 * opened where it is installed, so that kt does not depend on it.
 */
#ifndef KT_TOOL_WHOLE_H
#define KT_TOOL_WHOLE_H

#include "tools/kt/base/table.h"

/* Without libktengine nothing is added. No weights are read. */

/* The family, and why it is not a whole model that can be run. Without a context, which a configuration that
 * is wrong does not give, nothing is added either. experts: NULL, or where they come from instead. */
void kt_whole_family(const struct kt_cli *cli, struct kt_output *output, struct kt_checkpoint *checkpoint,
                     struct kt_checkpoint *experts);
/* Besides, the memory that the model takes by the context's backends, and how much of it a token reads. */
void kt_whole_sizes(struct kt_output *output, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    struct kt_checkpoint *experts);
/* Of a config.json without weights: its family, the memory that it needs and that is free, and why it would
 * not run. Returns an exit code: without libktengine nothing is known. */
int kt_whole_config(const struct kt_cli *cli, struct kt_output *output, const char *json, uint64_t size);

#endif
