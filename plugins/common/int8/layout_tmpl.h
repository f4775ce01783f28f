/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/layout_tmpl.h - the functions that all levels of a backend with int8/weights.h's weights share:
 * sizes of packed objects and rows, packed weights back to float32, and shards.
 *
 * Parameters  BACKEND        the backend's name, for messages
 *             OWN, OPS_NAME  names of functions and levels: plugin/ops_tmpl.h
 *             FORM           kt_layout.form
 */
#ifndef KT_PLUGINS_COMMON_INT8_LAYOUT_TMPL_H
#define KT_PLUGINS_COMMON_INT8_LAYOUT_TMPL_H

#ifndef BACKEND
#error "int8/layout_tmpl.h: define BACKEND"
#endif
#ifndef OWN
#error "int8/layout_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "int8/layout_tmpl.h: define OPS_NAME"
#endif
#ifndef FORM
#error "int8/layout_tmpl.h: define FORM"
#endif

#include "plugins/common/int8/kept.h"
#include "plugins/common/int8/sizes_tmpl.h"
#include "plugins/common/int8/weights.h"
#include "plugins/common/plugin/ops_tmpl.h"

#include <string.h>

enum kt_status OWN(layout)(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    enum kt_status status = lay_out(instance, layout, error);
    if (status)
        return status;
    if (!is_linear(&layout->shape))
        layout->nominal_size[0] =
            (has_gate(&layout->shape, KT_STAGE_GATE_UP) ? 2 : 1) * intermediate * (hidden + sizeof(float));
    layout->nominal_size[1] = hidden * (intermediate + sizeof(float));
    layout->rounding = keeps_shape(&layout->shape) ? NULL : "int8, a scale for each row";
    memcpy(layout->form, FORM, sizeof FORM);
    return KT_OK;
}

enum kt_status OWN(weight_row)(void *instance, const struct kt_layout *layout, const void *packed,
                               const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                               float *out, struct kt_error *error)
{
    (void)instance;
    (void)source;
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t k = stage_k(layout, stage), place = 0;
    const uint8_t *from = NULL;
    float scale;
    enum kt_status status = find_row(layout, packed, projection, row, &from, &place, error);

    if (status)
        return status;
    memcpy(&scale, from + panel_size(layout, stage) - SCALES_SIZE + 4 * place, sizeof scale);
    from += place / TILE_ROWS * TILE_SIZE + place % TILE_ROWS * 4;
    for (uint64_t c = 0; c < k; c++) {
        const uint8_t *quad = from + c / TILE_COLUMNS * PAIR_SIZE + c % TILE_COLUMNS / 4 * 64;
        out[c] = scale * (float)(quad[c % 4] - 128);
    }
    return KT_OK;
}

/* Some of the tiles; scales are of whole rows. */
static void cut_panel(const struct kt_cut *job, const uint8_t *from, uint8_t *to)
{
    uint64_t tiles = panel_size(job->shard, job->stage) - SCALES_SIZE;
    memcpy(to, from + job->begin / TILE_COLUMNS * PAIR_SIZE, tiles);
    memcpy(to + tiles, from + panel_size(job->whole, job->stage) - SCALES_SIZE, SCALES_SIZE);
}

void OWN(cut)(void *instance, const struct kt_cut *job)
{
    (void)instance;
    cut_panels(job, cut_panel);
}

#endif
