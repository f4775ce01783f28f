/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/pack_tmpl.h - quantizes 16 rows of a source view to 4 bits, into a tile of each pair of codes.
 *
 * A row's unit is max|w| / 127: a smaller one would cut off the group that holds the maximum, a larger one
 * makes scales coarser, and on Gaussian and on heavier-tailed weights both cost more than they gain. A
 * group's scale is as large as its weights need, or 1 or 2 smaller, where a few weights are cut off and all
 * others are finer; the zero puts the codes' middle in the middle of the weights. Of the three, the one
 * with the least squared error is kept. Trying all scales with all zeros gains next to nothing.
 *
 * Lanes are rows, so each step is one IEEE operation per weight in the same order on every level, and
 * levels pack the same bits.
 *
 * Parameter  BACKEND  the backend's name, for messages
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_PACK_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_PACK_TMPL_H

#include "plugins/common/gemm/pack_tmpl.h"
#include "plugins/common/int4_group/weights.h"

#define CANDIDATES 3

/* Adding it rounds to an integer, in the low bits. */
#define MAGIC 12582912.0f

INLINE vf vf_whole(vf v)
{
    return vf_sub(vf_add(v, vf_set(MAGIC)), vf_set(MAGIC));
}

/* A scale and zero for a group of weights t = w / unit of VEC_ROWS rows: t ~ scale * (code - zero). */
struct coding {
    vf scale, inverse;
    vf least, most; /* MAGIC - zero and MAGIC + 15 - zero: of code - zero, as vf_nearest has it */
};

/* For weights from low to high, so that no code leaves int8: scale * (0 - zero) >= -128 and scale * (15 -
 * zero) <= 127. */
INLINE struct coding make_coding(vf scale, vf low, vf high)
{
    struct coding coding = {.scale = scale, .inverse = vf_div(vf_set(1.0f), scale)};
    vf middle = vf_mul(vf_add(low, high), vf_set(0.5f));
    vf zero = vf_whole(vf_fnma(middle, coding.inverse, vf_set(7.5f)));
    /* 0.49 below and above: integers are at least 1 / 16 apart from where this would err */
    vf first = vf_whole(vf_fnma(vf_set(127.0f), coding.inverse, vf_set(15.49f)));
    vf last = vf_whole(vf_fma(vf_set(128.0f), coding.inverse, vf_set(-0.49f)));

    zero = vf_max(zero, vf_max(first, vf_set(0.0f)));
    zero = vf_min(zero, vf_min(last, vf_set(15.0f)));
    coding.least = vf_sub(vf_set(MAGIC), zero);
    coding.most = vf_add(coding.least, vf_set(15.0f));
    return coding;
}

/* MAGIC + code - zero of the code nearest to t. */
INLINE vf vf_nearest(const struct coding *coding, vf t)
{
    vf nearest = vf_fma(t, coding->inverse, vf_set(MAGIC));
    return vf_min(vf_max(nearest, coding->least), coding->most);
}

/* The best coding of n columns of rows VEC_ROWS * part..; x is [n][16]. */
INLINE struct coding search_group(const float *x, unsigned n, vf low, vf high)
{
    vf most = vf_whole(vf_fma(vf_sub(high, low), vf_set(1.0f / 15.0f), vf_set(0.49f)));
    struct coding coding[CANDIDATES], best;
    vf error[CANDIDATES], least;
    most = vf_min(most, vf_set(16.0f));
    UNROLL_FOR (int i = 0; i < CANDIDATES; i++) {
        coding[i] = make_coding(vf_max(vf_sub(most, vf_set((float)i)), vf_set(1.0f)), low, high);
        error[i] = vf_set(0.0f);
    }
    for (unsigned c = 0; c < n; c++) {
        vf t = vf_load(x + c * TILE_ROWS);
        UNROLL_FOR (int i = 0; i < CANDIDATES; i++) {
            vf whole = vf_sub(vf_nearest(&coding[i], t), vf_set(MAGIC));
            vf off = vf_fnma(whole, coding[i].scale, t);
            error[i] = vf_fma(off, off, error[i]);
        }
    }
    best = coding[0];
    least = error[0];
    UNROLL_FOR (int i = 1; i < CANDIDATES; i++) {
        best.scale = vf_pick(error[i], least, coding[i].scale, best.scale);
        best.inverse = vf_pick(error[i], least, coding[i].inverse, best.inverse);
        best.least = vf_pick(error[i], least, coding[i].least, best.least);
        best.most = vf_pick(error[i], least, coding[i].most, best.most);
        least = vf_pick(error[i], least, error[i], least);
    }
    return best;
}

/* 8 columns to a line: the order in which a lane's eight codes stand, the highest first. */
INLINE vi encode_line(const struct coding *coding, const float *x)
{
    static const unsigned order[8] = {7, 3, 6, 2, 5, 1, 4, 0};
    vi least = vi_from_bits(coding->least), line = vi_splat32(0);
    UNROLL_FOR (unsigned i = 0; i < 8; i++) {
        vf nearest = vf_nearest(coding, vf_load(x + order[i] * TILE_ROWS));
        line = vi_or(vi_shl32(line, 4), vi_sub32(vi_from_bits(nearest), least));
    }
    return line;
}

/* n columns of 16 rows, from column `begin` on, to tile `tile` of each pair of a panel. */
static void pack_group(const struct packing *packing, uint64_t begin, unsigned n, const float *inverse,
                       uint8_t *panel, uint64_t tile)
{
    const unsigned shift = group_shift(packing->layout);
    uint8_t *group = panel + group_offset(shift, begin / MIN_GROUP) + tile * TILE_ROWS;
    _Alignas(64) float x[MAX_GROUP * TILE_ROWS], scale[TILE_ROWS], least[TILE_ROWS];

    unsigned turned = 0;
    do {
        vec_make_tile((const uint8_t *)(packing->rows + begin + turned), packing->stride * sizeof(float),
                      (uint8_t *)(x + turned * TILE_ROWS));
        turned += TILE_ROWS;
    } while (turned < n);
    UNROLL_FOR (unsigned r = 0; r < TILE_ROWS; r += VEC_ROWS) {
        vf low = vf_set(0.0f), high = vf_set(0.0f), unit = vf_load(inverse + r);
        for (unsigned c = 0; c < n; c++) {
            vf t = vf_mul(vf_load(x + c * TILE_ROWS + r), unit);
            vf_store(x + c * TILE_ROWS + r, t);
            low = vf_min(low, t);
            high = vf_max(high, t);
        }
        struct coding coding = search_group(x + r, n, low, high);
        for (unsigned c = 0; c < n; c += 8) {
            uint64_t column = begin + c;
            vi_store(panel + pair_offset(shift, column / TILE_COLUMNS) + column % TILE_COLUMNS * 16 +
                         tile * 64 + 4 * r,
                     encode_line(&coding, x + c * TILE_ROWS + r));
        }
        vf_store(scale + r, coding.scale);
        vf_store(least + r, coding.least);
    }
    for (unsigned r = 0; r < TILE_ROWS; r++)
        group[r] = (uint8_t)(((unsigned)scale[r] - 1) | (unsigned)(MAGIC - least[r]) << 4);
}

static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    uint64_t size = (uint64_t)MIN_GROUP << group_shift(packing->layout);
    _Alignas(64) float inverse[TILE_ROWS];

    for (uint64_t i = 0; i < TILE_ROWS; i++) {
        float *row = packing->rows + i * packing->stride;
        struct q8_scale scale = {0.0f, 0.0f};
        if (begin + i < view->rows) {
            enum kt_status status = read_row(packing, view, begin + i, row, error);
            if (status)
                return status;
            scale = scale_row(packing, row);
        }
        if (!(scale.inverse > 0.0f)) /* also a row of NaN: its scale says so */
            memset(row, 0, packing->width * sizeof *row);
        inverse[i] = scale.inverse;
        memcpy(target->scales + 4 * i, &scale.scale, sizeof scale.scale);
    }
    uint64_t c = 0;
    for (; c < packing->width; c += size) {
        uint64_t left = packing->width - c;
        pack_group(packing, c, (unsigned)(left < size ? left : size), inverse, target->panel, target->tile);
    }
    if (c / size % 2) /* a block has two */
        memset(target->panel + group_offset(group_shift(packing->layout), c / MIN_GROUP) +
                   target->tile * TILE_ROWS,
               0, TILE_ROWS);
    return KT_OK;
}

#endif
