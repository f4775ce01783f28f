/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/geometry_tmpl.h - panels of weights of 8 bits or less with scales of groups, for backends that
 * multiply bfloat16: how they lie.
 *
 * A panel is
 *   scales   group after group, of the 32 rows in the order of the 2 tiles, in the source's form; where all
 *            rows of a tile have the same scale, one float32 for each tile
 *   zeros    if there are any: group after group, a byte for each of the 32 rows
 *   codes    [columns][2 tiles][64 bytes], 4 bytes of each row, read as it lies. The backend says what is
 *            where in the 4 bytes; a line of 64 bytes stands for some lines of a tile of bfloat16
 *            (bf16/layout_tmpl.h)
 * each filled up to 64 bytes. A group has a multiple of GROUP_COLUMNS columns, or all of K. K and rows are
 * filled up with codes of 0 and scales of 0.
 *
 * Parameters  TILE_COLUMNS  32
 *             CODES_SIZE    bytes of the codes of a tile: whole lines, and each stands for the same number
 *                           of the tile's 16 lines of bfloat16
 *             PANEL_FLAGS   bytes of the backend's own at the end of a panel's scales; default 0
 *             GROUP_COLUMNS(dtype)   TILE_COLUMNS (default) or, where products know groups that end inside
 *                 a tile, CODE_COLUMNS
 */
#ifndef KT_PLUGINS_COMMON_CODED_GEOMETRY_TMPL_H
#define KT_PLUGINS_COMMON_CODED_GEOMETRY_TMPL_H

#ifndef CODES_SIZE
#error "coded/geometry_tmpl.h: define CODES_SIZE"
#endif
#ifndef PANEL_FLAGS
#define PANEL_FLAGS 0
#endif
#ifndef GROUP_COLUMNS
#define GROUP_COLUMNS(dtype) TILE_COLUMNS
#endif

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/simd/numbers.h"

_Static_assert(TILE_COLUMNS == 32,
               "the backend's header defines TILE_COLUMNS as 32 before it includes anything");
_Static_assert(CODES_SIZE % 64 == 0, "a tile's codes are whole lines of 64 bytes");
_Static_assert(
    CODES_SIZE / 64 != 0 && TILE_COLUMNS / 2 % (CODES_SIZE / 64) == 0,
    "16 lines of bfloat16 do not divide evenly among the lines of a tile's codes: CODES_SIZE may be 64, 128, "
    "256, 512 or 1024, that is 1, 2, 4, 8 or 16 bits a weight");

#define CODE_VECTORS (CODES_SIZE / 64)             /* lines of codes of a tile */
#define CODE_COLUMNS (TILE_COLUMNS / CODE_VECTORS) /* that a line has */

/* How the scale of a row is stored. */
enum scale_form { SCALE_ONE, SCALE_F32, SCALE_F16, SCALE_BF16, SCALE_E8M0 };

/* How a stage's panels are made up. */
struct coded {
    enum scale_form form;
    bool has_zeros;
    bool subtile;                     /* a step of a group is a line of codes; else it is a tile */
    uint64_t tiles;                   /* of 32 columns */
    uint64_t groups, group_steps;     /* steps in a group; the last may have fewer */
    uint64_t scales_step;             /* bytes from group to group */
    uint64_t scales_size, zeros_size; /* bytes of a panel's parts */
};

static inline uint64_t scale_bytes(enum scale_form form)
{
    switch (form) {
    case SCALE_E8M0:
        return 1;
    case SCALE_F16:
    case SCALE_BF16:
        return 2;
    default:
        return 4;
    }
}

/* The form that a format's scales take: one for all rows of a tile if groups of rows allow it. */
static inline enum scale_form find_form(const struct kt_format *format, uint64_t rows)
{
    if (format->group_rows >= rows || format->group_rows % TILE_ROWS == 0)
        return SCALE_ONE;
    switch (format->scale_dtype) {
    case KT_DTYPE_F8_E8M0:
        return SCALE_E8M0;
    case KT_DTYPE_F16:
        return SCALE_F16;
    case KT_DTYPE_BF16:
        return SCALE_BF16;
    default:
        return SCALE_F32;
    }
}

static inline struct coded find_coded(const struct kt_layout *layout, enum kt_stage stage)
{
    bool down = stage == KT_STAGE_DOWN;
    const struct kt_shape *shape = &layout->shape;
    const struct kt_format *format = &shape->format[down ? KT_DOWN : KT_UP];
    uint64_t k = stage_k(layout, stage), group = format->group_cols < k ? format->group_cols : k;
    bool subtile = group < k && group % TILE_COLUMNS != 0;
    uint64_t step = subtile ? CODE_COLUMNS : TILE_COLUMNS;
    struct coded coded = {
        .form = find_form(format, down ? shape->hidden_size : shape->intermediate_size),
        .has_zeros = format->zero_dtype != KT_DTYPE_NONE,
        .subtile = subtile,
        .tiles = stage_tiles(layout, stage),
        /* What fills up the last tile may be groups. */
        .groups = ((subtile ? round_up(k, TILE_COLUMNS) : k) + group - 1) / group,
        .group_steps = round_up(group, step) / step,
    };
    uint64_t values = coded.form == SCALE_ONE ? 2 : PANEL_ROWS;
    coded.scales_step = values * scale_bytes(coded.form);
    coded.scales_size = round_up(coded.groups * coded.scales_step + PANEL_FLAGS, 64);
    coded.zeros_size = coded.has_zeros ? round_up(coded.groups * PANEL_ROWS, 64) : 0;
    return coded;
}

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    struct coded coded = find_coded(layout, stage);
    return coded.scales_size + coded.zeros_size + coded.tiles * 2 * CODES_SIZE;
}

/* Where a panel's parts are. */
struct coded_panel {
    struct coded coded;
    const uint8_t *scales, *zeros, *codes;
    uint64_t distance; /* bytes to prefetch ahead of codes */
};

/* The group that column c is in. */
static inline uint64_t find_group(const struct coded *coded, uint64_t c)
{
    return c / (coded->subtile ? CODE_COLUMNS : TILE_COLUMNS) / coded->group_steps;
}

/* Scale of row `place` of 32 in the group whose scales stand at `scales`, in plain C. */
static inline float read_scale(enum scale_form form, const uint8_t *scales, uint64_t place)
{
    switch (form) {
    case SCALE_ONE:
        return load_f32(scales + place / TILE_ROWS * 4);
    case SCALE_F16:
        return half_to_float(load_u16(scales + 2 * place));
    case SCALE_BF16:
        return bf16_to_float(load_u16(scales + 2 * place));
    case SCALE_E8M0:
        return e8m0_to_float(scales[place]);
    default:
        return load_f32(scales + 4 * place);
    }
}

#endif
