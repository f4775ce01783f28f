/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes: of half panels, of packed objects, of activation rows. */
#include "plugins/llamafile/formats.h"
#include "plugins/llamafile/llamafile.h"

#include "plugins/common/bf16/layout_tmpl.h"

#define MAKE_FORMAT(functions, ...) {__VA_ARGS__},
static const struct llamafile_format formats[] = {EACH_ROW(MAKE_FORMAT)};

const struct llamafile_format *llamafile_format_find(uint32_t dtype, bool compact)
{
    const struct llamafile_format *found = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype && (!found || compact))
            found = &formats[i];
    return found;
}

uint64_t llamafile_half_panel_size(const struct llamafile_format *format, uint64_t k)
{
    uint64_t full = k / SUPERBLOCK, rest = k % SUPERBLOCK / GROUP;
    if (format_is_float(format)) /* BF16 in pairs of columns; chunks stay aligned */
        return round_up(k, 2) * TILE_ROWS * format->block_bytes;
    uint64_t size =
        heads_size(format->head_bytes, full) + full * (scales_size(format, 8) + groups_size(format, 8));
    if (rest)
        size += scales_size(format, rest) + groups_size(format, rest);
    return size;
}

/* Is there nothing beside the matrix, or one scale for all of it, its factor? */
static bool takes_scales(const struct kt_format *given, uint64_t rows, uint64_t k)
{
    if (given->zero_dtype != KT_DTYPE_NONE)
        return false;
    switch (given->scale_dtype) {
    case KT_DTYPE_NONE:
        return true;
    case KT_DTYPE_F32:
    case KT_DTYPE_F16:
    case KT_DTYPE_BF16:
        return given->group_rows >= rows && given->group_cols >= k;
    default:
        return false;
    }
}

/* The format of a projection with K columns, or NULL and an error. */
static const struct llamafile_format *check_format(const struct kt_host *host, const struct kt_layout *layout,
                                                   enum kt_projection projection, uint64_t rows, uint64_t k,
                                                   struct kt_error *error)
{
    const struct kt_format *given = &layout->shape.format[projection];
    const struct llamafile_format *format = layout_format(layout, given->dtype);
    if (!format || !takes_scales(given, rows, k)) {
        (void)kt_plugin_fail(
            error, KT_E_UNSUPPORTED,
            "llamafile: the %s is %s%s, which is not supported; supported are f32, f16, bf16 and GGUF's "
            "blocks of quantized weights",
            name_projection(&layout->shape, (int)projection), host->dtype_name(given->dtype),
            format ? " with scales of groups beside the matrix" : "");
        return NULL;
    }
    if (k % format->block != 0) {
        (void)kt_plugin_fail(error, KT_E_UNSUPPORTED,
                             "llamafile: the %s has %llu columns, which is not a multiple "
                             "of its format's block of %u",
                             name_projection(&layout->shape, (int)projection), (unsigned long long)k,
                             format->block);
        return NULL;
    }
    return format;
}

/* Bytes of a row of activations. In stage 1 bfloat16 takes the place of the other parts. */
static uint64_t size_parts(const struct kt_layout *layout, enum kt_stage stage, bool pairs)
{
    uint64_t others = pairs_offset(layout, stage), columns = round_up(stage_k(layout, stage), 64);
    uint64_t size = pairs ? columns * sizeof(uint16_t) : 0;
    if (stage == KT_STAGE_GATE_UP)
        size += others;
    /* An odd number of lines: with 4096 bytes, all rows' lines would compete for one set of the cache. */
    return (size > others ? size : others) | 64;
}

/* Half panels of a projection. */
static enum kt_status lay_out_projection(const struct kt_host *host, struct kt_layout *layout,
                                         enum kt_projection projection, struct kt_error *error)
{
    static const int words[3] = {WORD_HALF_GATE, WORD_HALF_UP, WORD_HALF_DOWN};
    const struct kt_shape *shape = &layout->shape;
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? shape->hidden_size : shape->intermediate_size;
    uint64_t k = down ? shape->intermediate_size : shape->hidden_size;
    const struct llamafile_format *format = check_format(host, layout, projection, rows, k, error);
    if (!format)
        return KT_E_UNSUPPORTED;
    layout->words[words[projection]] = llamafile_half_panel_size(format, k);
    layout->nominal_size[down] += rows * (k / format->block * format->block_bytes);
    if (shape->format[projection].scale_dtype != KT_DTYPE_NONE)
        layout->nominal_size[down] += shape->format[projection].scale_dtype == KT_DTYPE_F32 ? 4 : 2;
    if (down)
        layout->k_unit =
            round_up(format->block, is_linear(shape) ? TILE_ROWS : panel_step(shape, KT_STAGE_GATE_UP));
    return KT_OK;
}

static enum kt_status lay_out_half_panels(const struct llamafile_instance *self, struct kt_layout *layout,
                                          bool pairs, struct kt_error *error)
{
    const struct kt_shape *shape = &layout->shape;
    enum kt_status status = check_sizes(shape, error);
    layout->words[WORD_COMPACT] =
        self->repack == REPACK_COMPACT || (self->repack == REPACK_AUTO && layout->compact);
    for (int p = first_projection(shape); p <= KT_DOWN && status == KT_OK; p++)
        status = lay_out_projection(self->base.host, layout, (enum kt_projection)p, error);
    if (status)
        return status;
    lay_out_bf16(&self->base, layout);
    for (int stage = first_stage(shape); stage <= KT_STAGE_DOWN; stage++)
        lay_out_stage(&self->base, layout, (enum kt_stage)stage,
                      size_parts(layout, (enum kt_stage)stage, pairs));
    if (self->repack == REPACK_NO) {
        layout->keeps_source = 1;
        layout->weight_size[0] = layout->weight_size[1] = 0;
        layout->scratch_size = filled_size(layout);
    }
    return KT_OK;
}

enum kt_status llamafile_layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    return lay_out_half_panels(instance, layout, false, error);
}

enum kt_status llamafile_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    return lay_out_half_panels(instance, layout, true, error);
}
