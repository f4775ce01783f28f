/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - source views to half panels, and half panels back to rows of float32. */
#include "plugins/common/simd/numbers.h"
#include "plugins/common/simd/attributes.h"
#include "plugins/llamafile/pack/codes.h"
#include "plugins/llamafile/pack/compact.h"

#include "plugins/common/bf16/layout_tmpl.h"

/* Where a superblock lies in a half panel. */
struct place {
    uint64_t scales, head, codes; /* offsets */
    unsigned groups;
};

static uint64_t find_scales(const struct llamafile_format *format, uint64_t s)
{
    return s * (scales_size(format, 8) + groups_size(format, 8)) + heads_size(format->head_bytes, s);
}

static struct place find_superblock(const struct llamafile_format *format, uint64_t k, uint64_t s)
{
    uint64_t left = (k - s * SUPERBLOCK) / GROUP, head = format->head_bytes * TILE_ROWS;
    uint64_t shared = head ? s % (64 / head) : 0; /* superblocks back to that with the line */
    struct place place;
    place.groups = left < 8 ? (unsigned)left : 8;
    place.scales = find_scales(format, s);
    place.head = find_scales(format, s - shared) + scales_size(format, 8) + shared * head;
    place.codes = place.scales + scales_size(format, place.groups) + heads_size(format->head_bytes, s + 1) -
                  heads_size(format->head_bytes, s);
    return place;
}

/* How many codes' bits share a byte of a plane of that width, and that many codes apart by 4. */
INLINE unsigned count_shared(unsigned width)
{
    return 8 / width;
}

/* The planes of a code, low bits first: {4, 2} for 6 bits. */
INLINE unsigned list_planes(unsigned bits, unsigned width[2])
{
    width[0] = bits == 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
    width[1] = bits - width[0];
    return width[1] ? 2 : 1;
}

/* A group's 32 codes of 3 bits as 8 words of 4: two in each chunk, and a third of the last two. */
static void store_triples(const uint8_t *code, uint8_t *lane)
{
    uint32_t word[8], mask = UINT32_C(0x03030303);
    memcpy(word, code, sizeof word);
    uint32_t last = word[6] | word[7] << 3;
    for (unsigned i = 0; i < 3; i++, lane += 64) {
        uint32_t chunk = word[2 * i] | word[2 * i + 1] << 3 | (last >> 2 * i & mask) << 6;
        memcpy(lane, &chunk, sizeof chunk);
    }
}

static void load_triples(const uint8_t *lane, uint8_t *code)
{
    uint32_t word[8] = {0}, mask = UINT32_C(0x07070707), last = 0;
    for (unsigned i = 0; i < 3; i++, lane += 64) {
        uint32_t chunk = load_u32(lane);
        word[2 * i] = chunk & mask;
        word[2 * i + 1] = chunk >> 3 & mask;
        last |= (chunk >> 6 & UINT32_C(0x03030303)) << 2 * i;
    }
    word[6] = last & mask;
    word[7] = last >> 3 & mask;
    memcpy(code, word, sizeof word);
}

/* A group's 32 codes as 8 words of 4, spread over the planes; `lane` is the row's first 4 bytes. */
INLINE void store_group(unsigned bits, const uint8_t *code, uint8_t *lane)
{
    unsigned width[2], n = list_planes(bits, width);
    uint32_t word[8];
    memcpy(word, code, sizeof word);
    UNROLL_FOR (unsigned p = 0; p < n; p++) {
        uint32_t mask = UINT32_C(0x01010101) * ((1u << width[p]) - 1);
        unsigned shared = count_shared(width[p]);
        UNROLL_FOR (unsigned i = 0; i < 8; i += shared, lane += 64) {
            uint32_t chunk = 0;
            UNROLL_FOR (unsigned t = 0; t < shared; t++) {
                chunk |= (word[i + t] & mask) << (t * width[p]);
                word[i + t] = (word[i + t] & ~mask) >> width[p] % 8;
            }
            memcpy(lane, &chunk, sizeof chunk);
        }
    }
}

static void load_group(unsigned bits, const uint8_t *lane, uint8_t *code)
{
    unsigned width[2], n = list_planes(bits, width), shift = 0;
    uint32_t word[8] = {0};
    for (unsigned p = 0; p < n; p++) {
        uint32_t mask = UINT32_C(0x01010101) * ((1u << width[p]) - 1);
        unsigned shared = count_shared(width[p]);
        for (unsigned i = 0; i < 8; i += shared, lane += 64)
            for (unsigned t = 0; t < shared; t++)
                word[i + t] |= (load_u32(lane) >> (t * width[p]) & mask) << shift;
        shift += width[p];
    }
    memcpy(code, word, sizeof word);
}

/* n groups of codes whose bits compilers know: then shifts are constants, and nothing is left of the loops.
 */
INLINE void store_groups(unsigned bits, unsigned n, const uint8_t *code, uint8_t *lane)
{
    for (unsigned g = 0; g < n; g++)
        store_group(bits, code + GROUP * g, lane + (size_t)64 * bits * g);
}

static void store_codes(const struct llamafile_format *format, const struct place *place,
                        const struct llamafile_codes *codes, unsigned row, uint8_t *half_panel)
{
    uint8_t *lane = half_panel + place->codes + 4 * row;
    const uint8_t *code = codes->code;
    if (format_has_triples(format->dtype, format->bits)) {
        for (unsigned g = 0; g < place->groups; g++)
            store_triples(code + GROUP * g, lane + group_size(format) * g);
        return;
    }
    switch (format->bits) {
    case 2:
        store_groups(2, place->groups, code, lane);
        break;
    case 3:
        store_groups(3, place->groups, code, lane);
        break;
    case 4:
        store_groups(4, place->groups, code, lane);
        break;
    case 5:
        store_groups(5, place->groups, code, lane);
        break;
    case 6:
        store_groups(6, place->groups, code, lane);
        break;
    default:
        store_groups(8, place->groups, code, lane);
    }
}

static void load_codes(const struct llamafile_format *format, const struct place *place,
                       const uint8_t *half_panel, unsigned row, struct llamafile_codes *codes)
{
    const uint8_t *group = half_panel + place->codes + 4 * row;
    bool triples = format_has_triples(format->dtype, format->bits);
    for (unsigned g = 0; g < place->groups; g++, group += group_size(format)) {
        if (triples)
            load_triples(group, codes->code + GROUP * g);
        else
            load_group(format->bits, group, codes->code + GROUP * g);
    }
}

/* Scales of n bytes between a row's own list and the half panel's interleaved one. */
static void store_scales(uint8_t *to, const uint8_t *from, unsigned n, unsigned unit, unsigned row)
{
    for (unsigned i = 0; i < n && unit == 1; i++)
        to[TILE_ROWS * i + row] = from[i];
    for (unsigned i = 0; i < n && unit == 2; i += 2)
        memcpy(to + TILE_ROWS * i + 2 * row, from + i, 2);
}

static void load_scales(uint8_t *to, const uint8_t *from, unsigned n, unsigned unit, unsigned row)
{
    for (unsigned i = 0; i < n; i += unit)
        memcpy(to + i, from + TILE_ROWS * i + unit * row, unit);
}

static unsigned count_scale_bytes(const struct llamafile_format *format, unsigned groups)
{
    return format->scale_bytes * (format->block == SUPERBLOCK ? 1 : groups);
}

static struct llamafile_compact_place find_compact(const struct place *place, unsigned row,
                                                   const uint8_t *half_panel)
{
    uint8_t *at = (uint8_t *)(uintptr_t)half_panel;
    return (struct llamafile_compact_place){at + place->scales, at + place->head, at + place->codes,
                                            place->groups, row};
}

static void pack_compact(const struct llamafile_format *format, const uint8_t *from, int64_t stride,
                         uint64_t k, unsigned row, uint8_t *half_panel)
{
    struct llamafile_compact compact;
    for (uint64_t s = 0; s < round_up(k, SUPERBLOCK) / SUPERBLOCK; s++) {
        struct place place = find_superblock(format, k, s);
        struct llamafile_compact_place to = find_compact(&place, row, half_panel);
        for (unsigned b = 0; b < place.groups * GROUP / format->block; b++, from += stride)
            llamafile_compact_read(format->dtype, from, b, &compact);
        llamafile_compact_store(format, &compact, &to);
    }
}

/* A row of the source, from its first byte to the last: so memory is read in the order that it likes, and
 * what is written apart, a half panel, stays in a cache. */
static void pack_row(const struct llamafile_format *format, const uint8_t *from, int64_t stride, uint64_t k,
                     unsigned row, uint8_t *half_panel)
{
    struct llamafile_codes codes;
    for (uint64_t s = 0; s < round_up(k, SUPERBLOCK) / SUPERBLOCK; s++) {
        struct place place = find_superblock(format, k, s);
        unsigned blocks = format->block == SUPERBLOCK ? 1 : place.groups * GROUP / format->block;
        for (unsigned b = 0; b < blocks; b++, from += stride)
            llamafile_codes_read(format, from, b, &codes);
        store_codes(format, &place, &codes, row, half_panel);
        store_scales(half_panel + place.scales, codes.scale, count_scale_bytes(format, place.groups),
                     format->scale_unit, row);
        store_scales(half_panel + place.head, codes.head, format->head_bytes, 2, row);
    }
}

static void pack_quants(const struct llamafile_format *format, const struct kt_view *view, uint64_t row_begin,
                        unsigned rows, uint8_t *half_panel)
{
    memset(half_panel, 0, llamafile_half_panel_size(format, view->cols));
    for (unsigned row = 0; row < rows; row++) {
        const uint8_t *from = (const uint8_t *)view->data + (int64_t)(row_begin + row) * view->row_stride;
        (format->compact ? pack_compact : pack_row)(format, from, view->block_stride, view->cols, row,
                                                    half_panel);
    }
}

/* Where element (row, column) of a float half panel lies. */
static uint64_t find_float(const struct llamafile_format *format, unsigned row, uint64_t column)
{
    if (format->dtype == KT_DTYPE_BF16)
        return (column / 2 * TILE_ROWS + row) * 4 + column % 2 * 2;
    return (column * TILE_ROWS + row) * format->block_bytes;
}

/* Columns [begin, end) of a row, begin even. Sizes that compilers know make a copy a load and a
 * store. */
static void pack_float_row(const struct llamafile_format *format, const uint8_t *from, int64_t stride,
                           unsigned row, uint64_t begin, uint64_t end, uint8_t *half_panel)
{
    from += (int64_t)begin * stride;
    half_panel += find_float(format, row, begin);
    if (format->dtype == KT_DTYPE_F32) {
        for (uint64_t c = begin; c < end; c++, from += stride, half_panel += 4 * TILE_ROWS)
            memcpy(half_panel, from, 4);
    } else if (format->dtype == KT_DTYPE_F16) {
        for (uint64_t c = begin; c < end; c++, from += stride, half_panel += 2 * TILE_ROWS)
            memcpy(half_panel, from, 2);
    } else {
        for (uint64_t c = begin; c + 1 < end; c += 2, from += 2 * stride, half_panel += 4 * TILE_ROWS) {
            memcpy(half_panel, from, 2);
            memcpy(half_panel + 2, from + stride, 2);
        }
        if (end % 2)
            memcpy(half_panel, from, 2);
    }
}

static void pack_floats(const struct llamafile_format *format, const struct kt_view *view, uint64_t row_begin,
                        unsigned rows, uint8_t *half_panel)
{
    uint64_t k = view->cols;
    memset(half_panel, 0, llamafile_half_panel_size(format, k));
    for (uint64_t c = 0; c < k; c += SUPERBLOCK) /* what 16 rows write of these stays in the cache */
        for (unsigned row = 0; row < rows; row++)
            pack_float_row(format,
                           (const uint8_t *)view->data + (int64_t)(row_begin + row) * view->row_stride,
                           view->block_stride, row, c, k - c < SUPERBLOCK ? k : c + SUPERBLOCK, half_panel);
}

/* Half panel `index` of a matrix; behind the last row there are zeros. */
static void pack_half_panel(const struct kt_layout *layout, const struct kt_view *view, uint64_t index,
                            const struct llamafile_packer *packer, uint8_t *half_panel)
{
    const struct llamafile_format *format = layout_format(layout, view->dtype);
    uint64_t begin = index * TILE_ROWS, left = begin < view->rows ? view->rows - begin : 0;
    unsigned rows = left < TILE_ROWS ? (unsigned)left : TILE_ROWS;
    if (packer->pack_lines && packer->pack_lines(format, view, begin, rows, packer->streams, half_panel))
        return;
    if (format_is_float(format))
        pack_floats(format, view, begin, rows, half_panel);
    else
        pack_quants(format, view, begin, rows, half_panel);
}

/* The scale beside a matrix, 1 if it has none. */
static float read_factor(const struct kt_view *view)
{
    const uint8_t *from = view->scales.data;
    float factor = 1;
    if (!from)
        return factor;
    if (view->scales.dtype == KT_DTYPE_F32)
        memcpy(&factor, from, sizeof factor);
    else
        factor = view->scales.dtype == KT_DTYPE_F16 ? half_to_float(load_u16(from))
                                                    : bf16_to_float(load_u16(from));
    return factor;
}

/* Has the view a scale where the layout has one, and is that a number? Others are not read. */
static enum kt_status check_factor(const struct kt_host *host, const struct kt_view *view,
                                   const struct kt_format *format, struct kt_error *error)
{
    const struct kt_scales *scales = &view->scales;
    const char *name = view->name ? view->name : "a weight view";
    uint32_t dtype = scales->data ? scales->dtype : (uint32_t)KT_DTYPE_NONE;
    float factor;
    if (dtype != format->scale_dtype || view->zeros.data)
        return kt_plugin_fail(error, KT_E_INVALID, BACKEND ": %s has scales in %s, the layer is for %s", name,
                              host->dtype_name(dtype), host->dtype_name(format->scale_dtype));
    factor = read_factor(view);
    if (!(factor - factor == 0))
        return kt_plugin_fail(error, KT_E_FORMAT, BACKEND ": the scale of %s is not a finite number", name);
    return KT_OK;
}

/* Views must be what the layout was made for. */
static enum kt_status check_job(const struct kt_host *host, const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_view *views[3] = {&job->source->gate, &job->source->up, &job->source->down};
    const struct kt_shape *shape = &job->layout->shape;
    int last = (int)tile_projection(shape, job->stage, 1);
    enum kt_status status = check_source(job, error);
    for (int p = (int)tile_projection(shape, job->stage, 0); p <= last && status == KT_OK; p++) {
        uint32_t dtype = job->layout->shape.format[p].dtype;
        if (views[p]->dtype != dtype)
            status = kt_plugin_fail(error, KT_E_INVALID, BACKEND ": %s is %s, the layer is for %s",
                                    views[p]->name ? views[p]->name : "a weight view",
                                    host->dtype_name(views[p]->dtype), host->dtype_name(dtype));
        else
            status = check_factor(host, views[p], &job->layout->shape.format[p], error);
    }
    return status;
}

void llamafile_pack_panel(const struct kt_layout *layout, enum kt_stage stage, const struct kt_expert *source,
                          uint64_t number, const struct llamafile_packer *packer, uint8_t *panel)
{
    const struct kt_view *views[2];
    bool both = has_gate(&layout->shape, stage);
    for (int half = 0; half < 2; half++)
        views[half] = find_view(source, tile_projection(&layout->shape, stage, half));
    pack_half_panel(layout, views[0], both ? number : 2 * number, packer, panel);
    pack_half_panel(layout, views[1], both ? number : 2 * number + 1, packer,
                    panel + first_half_size(layout, stage));
    if (has_factors(layout, stage)) {
        float line[16] = {read_factor(views[0]), read_factor(views[1])};
        memcpy(panel + halves_size(layout, stage), line, sizeof line);
    }
}

enum kt_status llamafile_pack(void *instance, const struct kt_pack *job, llamafile_lines_fn pack_lines,
                              struct kt_error *error)
{
    const struct llamafile_packer packer = {pack_lines, true};
    uint64_t size = panel_size(job->layout, job->stage);
    enum kt_status status = check_job(((const struct instance *)instance)->host, job, error);
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++)
        llamafile_pack_panel(job->layout, job->stage, job->source, p, &packer,
                             (uint8_t *)job->packed + p * size);
    return status;
}

static void unpack_floats(const struct llamafile_format *format, const uint8_t *half_panel, unsigned row,
                          uint64_t k, float *out)
{
    for (uint64_t c = 0; c < k; c++) {
        const uint8_t *from = half_panel + find_float(format, row, c);
        if (format->dtype == KT_DTYPE_F32)
            memcpy(out + c, from, 4);
        else
            out[c] =
                format->dtype == KT_DTYPE_F16 ? half_to_float(load_u16(from)) : bf16_to_float(load_u16(from));
    }
}

static void unpack_superblock(const struct llamafile_format *format, const struct place *at,
                              const uint8_t *half_panel, unsigned row, struct llamafile_codes *codes)
{
    if (format->compact) {
        struct llamafile_compact compact;
        struct llamafile_compact_place from = find_compact(at, row, half_panel);
        memset(&compact, 0, sizeof compact);
        llamafile_compact_load(format, &from, &compact);
        llamafile_compact_expand(format->dtype, &compact, codes);
        llamafile_compact_load_codes(format, &from, codes);
        return;
    }
    load_codes(format, at, half_panel, row, codes);
    load_scales(codes->scale, half_panel + at->scales, count_scale_bytes(format, at->groups),
                format->scale_unit, row);
    load_scales(codes->head, half_panel + at->head, format->head_bytes, 2, row);
}

static void unpack_quants(const struct llamafile_format *format, const uint8_t *half_panel, unsigned row,
                          uint64_t k, float *out)
{
    const struct llamafile_format *roomy = llamafile_format_find(format->dtype, false);
    struct llamafile_codes codes;
    memset(&codes, 0, sizeof codes);
    for (uint64_t s = 0; s < round_up(k, SUPERBLOCK) / SUPERBLOCK; s++) {
        struct place at = find_superblock(format, k, s);
        unpack_superblock(format, &at, half_panel, row, &codes);
        llamafile_codes_dequantize(roomy, &codes, at.groups, out + s * SUPERBLOCK);
    }
}

/* A row of a projection that is used in place. */
static enum kt_status read_source(const struct instance *self, const struct kt_expert *source,
                                  enum kt_projection projection, uint64_t row, float *out,
                                  struct kt_error *error)
{
    const struct kt_view *view = projection == KT_GATE ? &source->gate
                                 : projection == KT_UP ? &source->up
                                                       : &source->down;
    return self->host->dequantize(self->host, view, row, 0, view->cols, out, error);
}

enum kt_status llamafile_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                    const struct kt_expert *source, enum kt_projection projection,
                                    uint64_t row, float *out, struct kt_error *error)
{
    const struct llamafile_format *format = layout_format(layout, layout->shape.format[projection].dtype);
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t k = stage_k(layout, stage), place = 0;
    const uint8_t *half_panel = NULL;
    float factor = 1;
    enum kt_status status = find_row(layout, packed, projection, row, &half_panel, &place, error);
    if (status == KT_OK && !packed)
        return read_source(instance, source, projection, row, out, error);
    if (status)
        return status;
    if (has_factors(layout, stage))
        memcpy(&factor, half_panel + halves_size(layout, stage) + place / TILE_ROWS * sizeof factor,
               sizeof factor);
    if (place >= TILE_ROWS)
        half_panel += first_half_size(layout, stage);
    unsigned lane = (unsigned)(place % TILE_ROWS);
    if (format_is_float(format))
        unpack_floats(format, half_panel, lane, k, out);
    else
        unpack_quants(format, half_panel, lane, k, out);
    for (uint64_t c = 0; c < k && has_factors(layout, stage); c++)
        out[c] *= factor;
    return KT_OK;
}
