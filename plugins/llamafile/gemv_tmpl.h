/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemv_tmpl.h - passes of a few rows over panels of two strips: what plugins/common asks of panels of
 * codes. Parameters  PREFETCH_BYTES  bytes ahead of what is read at which lines are prefetched; 0: what the
 * core says of the machine (struct kt_caps.stream_ahead) and those of strips_tmpl.h and
 * gemm/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_LLAMAFILE_GEMV_TMPL_H
#define KT_PLUGINS_LLAMAFILE_GEMV_TMPL_H

#ifndef PREFETCH_BYTES
#error "llamafile/gemv_tmpl.h: define PREFETCH_BYTES"
#endif

#include "plugins/llamafile/strips_tmpl.h"

#define EPILOGUE_H "plugins/common/bf16/epilogue.h"

/* A strip and what multiplies it. */
struct strip {
    const struct strip_kernel *kernel;
    const uint8_t *data;
    uint64_t at; /* of the part of an activation row that the kernel reads */
};
struct half_panels {
    struct strip strip[2];
    uint64_t k, distance; /* bytes to prefetch ahead; 0: weights come from a cache */
};
#define PANEL_OWN struct half_panels

/* Rows of a few lie one after the other on all levels. */
#define FIND_ROW(act, row_size, row) ((const uint8_t *)(act) + (row) * (row_size))

#include "plugins/common/gemm/microkernel_tmpl.h"

/* Must be inlined, and find_own_panel too: what was stored as numbers and is copied as vectors misses store
 * forwarding, and waits until the panel before has been multiplied. */
INLINE struct strip find_strip(const struct kt_layout *layout, enum kt_projection projection,
                               const uint8_t *data)
{
    uint32_t dtype = layout->shape.format[projection].dtype;
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    return (struct strip){find_kernel(dtype), data, dtype_is_float(dtype) ? floats_offset(layout, stage) : 0};
}

/* Where a panel is packed to whose weights are used in place. */
static uint8_t *find_filled(const struct kt_product *job)
{
    return (uint8_t *)job->scratch + job->layout->scratch_size - filled_size(job->layout);
}

static void fill_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    if (!job->packed)
        llamafile_pack_panel(job->layout, stage, job->source, number, find_filled(job));
}
#define FILL_PANEL(job, stage, number) fill_panel(job, stage, number)

INLINE struct half_panels find_own_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    const struct kt_layout *layout = job->layout;
    const uint8_t *data =
        job->packed ? (const uint8_t *)job->packed + number * panel_size(layout, stage) : find_filled(job);
    bool down = stage == KT_STAGE_DOWN;
    return (struct half_panels){
        .strip = {find_strip(layout, down ? KT_DOWN : KT_GATE, data),
                  find_strip(layout, down ? KT_DOWN : KT_UP, data + first_strip_size(layout, stage))},
        .k = stage_k(layout, stage),
        .distance = !job->packed     ? 0
                    : PREFETCH_BYTES ? PREFETCH_BYTES
                                     : layout->words[WORD_PREFETCH],
    };
}

/* 1, 2 or 4 rows with both strips, one after the other: their lines are one stream. */
INLINE void run_strips(const struct half_panels *panel, const struct rows8 *x, unsigned rows,
                       float out[MAX_ROWS][PANEL_ROWS])
{
    for (unsigned i = 0; i < 2; i++) {
        const struct strip *strip = &panel->strip[i];
        unsigned n = rows < strip->kernel->block ? rows : strip->kernel->block;
        for (unsigned row = 0; row < rows; row += n) {
            const uint8_t *from[MAX_ROWS];
            for (unsigned r = 0; r < n; r++)
                from[r] = (const uint8_t *)x->x[row + r] + strip->at;
            strip->kernel->multiply[n / 2](strip->data, panel->k, from, panel->distance,
                                           &out[row][i * TILE_ROWS]);
        }
    }
}

#define DEFINE_STRIPS(name, rows)                                                                      \
    static void name(const struct panel8 *panel, const struct rows8 *x, struct prefetcher *prefetcher, \
                     float out[MAX_ROWS][PANEL_ROWS])                                                  \
    {                                                                                                  \
        (void)prefetcher;                                                                              \
        run_strips(&panel->own, x, rows, out);                                                         \
    }
DEFINE_STRIPS(strips_1, 1)
DEFINE_STRIPS(strips_2, 2)
DEFINE_STRIPS(strips_4, 4)

static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage)
{
    static const struct microkernel microkernels[] = {
        {4, 1, {strips_4, strips_4}},
        {2, 1, {strips_2, strips_2}},
        {1, 1, {strips_1, strips_1}},
    };
    (void)job;
    (void)stage;
    return microkernels;
}

#endif
