/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/layout_tmpl.h - the functions that all levels of a backend with int4_group/weights.h's weights
 * share: sizes of packed objects and rows, packed weights back to float32, and shards.
 *
 * Parameters  BACKEND        the backend's name, for messages
 *             OWN, OPS_NAME  names of functions and levels: plugin/ops_tmpl.h
 *             FORM4          kt_layout.form, of groups of %u
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_LAYOUT_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_LAYOUT_TMPL_H

#ifndef BACKEND
#error "int4_group/layout_tmpl.h: define BACKEND"
#endif
#ifndef OWN
#error "int4_group/layout_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "int4_group/layout_tmpl.h: define OPS_NAME"
#endif
#ifndef FORM4
#error "int4_group/layout_tmpl.h: define FORM4"
#endif

#include "plugins/common/int4_group/instance.h"
#include "plugins/common/int4_group/weights.h"
#include "plugins/common/int8/sizes_tmpl.h"
#include "plugins/common/plugin/ops_tmpl.h"

#include <stdio.h>
#include <string.h>

static void name_form(unsigned shift, char *form)
{
    (void)snprintf(form, KT_FORM_SIZE, FORM4, MIN_GROUP << shift);
}

static const char *const roundings[] = {"4 bits, a scale for each 32 columns",
                                        "4 bits, a scale for each 64 columns",
                                        "4 bits, a scale for each 128 columns"};

/* The group size is the instance's option, but stored weights keep theirs. */
static unsigned choose_shift(const struct int4_instance *self, const struct kt_layout *layout)
{
    unsigned shift = 0;
    char form[KT_FORM_SIZE];
    for (unsigned i = 0; (unsigned)MIN_GROUP << i <= MAX_GROUP; i++) {
        name_form(i, form);
        if (strcmp(form, layout->form) == 0)
            return i;
    }
    while ((unsigned)MIN_GROUP << shift < self->group_size)
        shift++;
    return shift;
}

enum kt_status OWN(layout)(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct int4_instance *self = instance;
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    unsigned shift = choose_shift(self, layout);
    uint64_t group = (uint64_t)MIN_GROUP << shift;
    layout->words[WORD_GROUP_SHIFT] = shift;
    enum kt_status status = lay_out(&self->base, layout, error);
    if (status)
        return status;
    layout->k_unit = 2 * group;
    /* codes, a byte per group, a unit per row */
    if (!is_linear(&layout->shape))
        layout->nominal_size[0] = (has_gate(&layout->shape, KT_STAGE_GATE_UP) ? 2 : 1) * intermediate *
                                  ((hidden + 1) / 2 + (hidden + group - 1) / group + sizeof(float));
    layout->nominal_size[1] =
        hidden * ((intermediate + 1) / 2 + (intermediate + group - 1) / group + sizeof(float));
    layout->rounding = roundings[shift];
    name_form(shift, layout->form);
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
    const uint8_t *panel = NULL;
    float unit;
    enum kt_status status = find_row(layout, packed, projection, row, &panel, &place, error);

    if (status)
        return status;
    memcpy(&unit, panel + panel_size(layout, stage) - SCALES_SIZE + 4 * place, sizeof unit);
    unsigned shift = group_shift(layout);
    const uint8_t *codes = panel + place / TILE_ROWS * 64 + place % TILE_ROWS * 4;
    for (uint64_t c = 0; c < k; c++) {
        unsigned group = panel[group_offset(shift, c / MIN_GROUP) + place];
        unsigned code = codes[pair_offset(shift, c / TILE_COLUMNS) + c % TILE_COLUMNS / 8 * 128 + c % 4];
        int scale = (int)(group & 15) + 1, zero = (int)(group >> 4);
        code = c % 8 < 4 ? code & 15 : code >> 4;
        out[c] = unit * (float)(scale * ((int)code - zero));
    }
    return KT_OK;
}

/* Some of the blocks; units are of whole rows. */
static void cut_panel(const struct kt_cut *job, const uint8_t *from, uint8_t *to)
{
    uint64_t blocks = panel_size(job->shard, job->stage) - SCALES_SIZE;
    memcpy(to, from + group_offset(group_shift(job->whole), job->begin / MIN_GROUP), blocks);
    memcpy(to + blocks, from + panel_size(job->whole, job->stage) - SCALES_SIZE, SCALES_SIZE);
}

void OWN(cut)(void *instance, const struct kt_cut *job)
{
    (void)instance;
    cut_panels(job, cut_panel);
}

#endif
