/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - --stats and --record of the verbs that run layers. */
#ifndef KT_TOOL_RECORD_H
#define KT_TOOL_RECORD_H

#include "tools/kt/base/cli.h"

struct kt_keeping {
    const struct kt_cli *cli;
    const char *stats_path, *record_path; /* NULL: not requested */
    uint64_t record_size;                 /* bytes of the recorder's buffer */
    struct kt_stats *stats;               /* made with the first layer */
    struct kt_recorder *recorder;
};

/* Call these before and after a layer's forwards: batches in between are recorded as layer `number`, and
 * the layer's statistics are added. Return exit codes. */
int kt_keeping_begin(struct kt_keeping *keeping, struct kt_context *context, struct kt_layer *layer,
                     uint64_t number);
int kt_keeping_end(struct kt_keeping *keeping, struct kt_layer *layer, uint64_t number);

/* Writes the requested files, and reports dropped batches. */
int kt_keeping_write(const struct kt_keeping *keeping);
void kt_keeping_free(struct kt_keeping *keeping);

#endif
