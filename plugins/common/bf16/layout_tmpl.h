/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16/layout_tmpl.h - layouts of backends whose activations are bfloat16. Their tiles have 16 rows x 32
 * columns: line i holds columns 2i and 2i+1 of all rows.
 *
 *   Activations  rounded to bfloat16, to nearest, ties to even, once per row; K is filled up to 64 with 0.
 *                Levels that multiply pairs (avx512_bf16, amx) keep them so, the others as float32, which
 *                spares them widening each number for each panel. Level amx puts 16 rows together as tiles
 *                of 16 rows x 32 columns: stage 1 packs its rows so, stage 0 gathers them so.
 *   h            float32, row after row.
 *
 * Parameters  BACKEND       the backend's name, for messages
 *             TILE_COLUMNS  32
 * Wanted      panel_size
 */
#ifndef KT_PLUGINS_COMMON_BF16_LAYOUT_TMPL_H
#define KT_PLUGINS_COMMON_BF16_LAYOUT_TMPL_H

#ifndef BACKEND
#error "bf16/layout_tmpl.h: define BACKEND"
#endif

#include "plugins/common/gemm/layout_tmpl.h"

_Static_assert(TILE_COLUMNS == 32,
               "the backend's header defines TILE_COLUMNS as 32 before it includes anything");

/* Sizes are products of this, 16 bytes and small constants: none can overflow 64 bits. */
#define MAX_SIZE (UINT64_C(1) << 27)

static inline enum kt_status check_sizes(const struct kt_shape *shape, struct kt_error *error)
{
    if (shape->hidden_size > 0 && shape->intermediate_size > 0 && shape->hidden_size <= MAX_SIZE &&
        shape->intermediate_size <= MAX_SIZE)
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, BACKEND ": sizes %llu and %llu are outside 1..%llu",
                          (unsigned long long)shape->hidden_size,
                          (unsigned long long)shape->intermediate_size, (unsigned long long)MAX_SIZE);
}

/* Bytes of packed activations: of each, and of what stands behind them for each 32. */
struct row_form {
    uint64_t element, beside;
};

/* Bytes of a packed row: an odd number of lines of 64 bytes. With 4096 bytes, all rows would compete for one
 * set of the cache. */
static inline uint64_t size_row(uint64_t k, const struct row_form *form)
{
    uint64_t columns = round_up(k, 64);
    return round_up(columns * form->element + columns / TILE_COLUMNS * form->beside, 64) | 64;
}

/* All of a layout but its stages (lay_out_stage), k_unit, nominal_size and form. */
static inline void lay_out_bf16(const struct instance *self, struct kt_layout *layout)
{
    if (!is_linear(&layout->shape))
        layout->h_row_size = round_up(h_columns(&layout->shape) * sizeof(float), 64) | 64;
    layout->row_unit = 1;
    layout->y_dtype = self->y_dtype;
    layout->words[WORD_PREFETCH] = self->prefetch;
}

#endif
