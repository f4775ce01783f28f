/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - products of the vector levels: strips as they lie, whatever the rows. Include strips.h first. */
#ifndef KT_PLUGINS_LLAMAFILE_STAGES_H
#define KT_PLUGINS_LLAMAFILE_STAGES_H

#include "plugins/llamafile/passes.h"

static struct way choose_way(const struct kt_product *job, enum kt_stage stage)
{
    return (struct way){list_few(job, stage), true, false};
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    (void)way;
    fill_panel(job, stage, number);
    return (struct panel8){.coded = find_panel(job, stage, number)};
}

#include "plugins/common/gemm/driver_tmpl.h"

#define LEVEL_OPS(name)                          \
    const struct kt_ops llamafile_ops_##name = { \
        .struct_size = sizeof(struct kt_ops),    \
        .layout = llamafile_layout,              \
        .pack = llamafile_pack,                  \
        .act_pack = pack_activations,            \
        .gate_up = multiply_gate_up,             \
        .down = multiply_down,                   \
        .weight_row = llamafile_weight_row,      \
    }

#endif
