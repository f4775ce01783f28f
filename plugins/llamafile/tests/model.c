/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin llamafile to, and how a row of activations is read. */
#include "plugins/llamafile/llamafile.h"
#include "tests/checkkernel/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Are the sums of a half group what its q make? */
static bool check_sums(const uint8_t *block, unsigned half, float scale)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + 16 * half;
    int pair[2] = {0, 0};
    int16_t stored[2];
    for (int i = 0; i < 16; i++)
        pair[i / 2 % 2] += q[i];
    memcpy(stored, block + ACT_PAIR16 + 4 * half, sizeof stored);
    return stored[0] == -pair[0] && stored[1] == -pair[1] &&
           load_float(block + ACT_SUM16 + 4 * half) == scale * (float)(pair[0] + pair[1]);
}

/* A group: |x - scale q| <= scale / 2, but for the rounding of scale, 127 / max and the product. */
static bool read_group(const uint8_t *block, unsigned g, const float *x, uint64_t n, double *out)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + GROUP * g;
    float scale = load_float(block + ACT_SCALE + 4 * g);
    int sum = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        double value = (double)scale * q[i], wanted = i < n ? (double)x[i] : 0;
        if (q[i] == -128 || fabs(value - wanted) > (double)scale * 0.50002 + 0x1p-128)
            return false;
        sum += q[i];
        if (i < n)
            out[i] = value;
    }
    return load_float(block + ACT_SUM32 + 4 * g) == scale * (float)sum && check_sums(block, 2 * g, scale) &&
           check_sums(block, 2 * g + 1, scale);
}

/* The least scale that a group may have: see shared_scale.h. */
static double find_least(const float *x, bool halves)
{
    double least = 0, all = 0;
    for (int half = 0; half < 2; half++) {
        double sum = 0;
        for (int i = 0; i < 16; i++) {
            double size = fabs((double)x[16 * half + i]);
            sum += size;
            least = fmax(least, size / 127);
        }
        least = fmax(least, halves ? sum / (SHARED_SUM16 - 8) : 0);
        all += sum;
    }
    return halves ? least : fmax(least, all / (SHARED_SUM32 - 16));
}

/* A superblock whose groups share a scale: q within half a scale, sums within what int16 take, and no factor
 * larger than the numbers want, but for the rounding of a few float32 operations. */
static bool read_superblock(const uint8_t *block, bool halves, const float *x, double *out)
{
    const float unit = load_float(block + ACT_UNIT);
    double least[8], largest = 0;
    for (int g = 0; g < 8; g++) {
        least[g] = find_least(x + GROUP * g, halves);
        largest = fmax(largest, least[g]);
    }
    if (fabs((double)unit * 16 - largest) > largest * 0x1p-20 + (unit == 0 ? 0x1p-116 : 0))
        return false;
    for (int g = 0; g < 8; g++) {
        const int8_t *q = (const int8_t *)block + ACT_Q + GROUP * g;
        const int n = block[ACT_FACTOR + g];
        const double scale = (double)unit * n;
        int sizes[2] = {0, 0};
        int16_t sums[2];
        memcpy(sums, block + ACT_HALF_SUM + 4 * g, sizeof sums);
        if (n < 1 || n > 16 || (n > 1 && (n - 1) * (double)unit > least[g] * (1 + 0x1p-20)))
            return false;
        for (int i = 0; i < GROUP; i++) {
            out[GROUP * g + i] = scale * q[i];
            sizes[i / 16] += abs(q[i]);
            sums[i / 16] = (int16_t)(sums[i / 16] - q[i]);
            if (q[i] == -128 ||
                fabs(scale * q[i] - (double)x[GROUP * g + i]) > scale * 0.50003 + (unit == 0 ? 0x1p-109 : 0))
                return false;
        }
        if (sums[0] || sums[1] || (halves && (sizes[0] > SHARED_SUM16 || sizes[1] > SHARED_SUM16)) ||
            sizes[0] + sizes[1] > SHARED_SUM32)
            return false;
    }
    return true;
}

/* The least scale that a group whose sums are bounded may have: see bounded_sums.h. */
static double find_bounded_least(const float *x)
{
    double least = 0;
    for (int i = 0; i < GROUP; i++)
        least = fmax(least, fabs((double)x[i]) / 127);
    for (int i = 0; i < GROUP; i += 2)
        least = fmax(least, fabs((double)x[i] + (double)x[i + 1]) / (BOUNDED_TWO - 1));
    for (int i = 0; i < GROUP; i += i % 4 == 2 ? 6 : 2) {
        double sum =
            fabs((double)x[i]) + fabs((double)x[i + 1]) + fabs((double)x[i + 4]) + fabs((double)x[i + 5]);
        least = fmax(least, sum / (BOUNDED_FOUR - 2));
    }
    return least;
}

/* Do the sums of |q| let int16 hold what they are multiplied with, and are the starts right? */
static bool check_bounds(const uint8_t *block, unsigned g)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + GROUP * g;
    int16_t starts[8];
    memcpy(starts, block + ACT_START + 16 * g, sizeof starts);
    for (int lane = 0; lane < 8; lane++) {
        const int8_t *four = q + 8 * (lane / 2) + 2 * (lane % 2);
        if (abs(four[0] + four[1]) > BOUNDED_TWO || abs(four[4] + four[5]) > BOUNDED_TWO ||
            abs(four[0]) + abs(four[1]) + abs(four[4]) + abs(four[5]) > BOUNDED_FOUR ||
            starts[lane] != -BOUNDED_OFFSET * (four[0] + four[1] + four[4] + four[5]))
            return false;
    }
    return true;
}

/* A group whose sums are bounded: q within half a scale, sums within their bounds, and a scale no larger than
 * the numbers want, but for the rounding of a few float32 operations. */
static bool read_bounded_group(const uint8_t *block, unsigned g, const float *x, double *out)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + GROUP * g;
    const double scale = (double)load_float(block + ACT_SCALE + 4 * g), least = find_bounded_least(x);
    if (fabs(scale - least) > least * 0x1p-20 + (scale == 0 ? 0x1p-116 : 0) || !check_bounds(block, g))
        return false;
    for (int i = 0; i < GROUP; i++) {
        out[i] = scale * q[i];
        if (q[i] == -128 || fabs(out[i] - (double)x[i]) > scale * 0.50003 + (scale == 0 ? 0x1p-117 : 0))
            return false;
    }
    return true;
}

static bool read_llamafile(const struct kt_layout *layout, enum kt_projection projection,
                           const uint8_t *packed, const float *x, enum method method, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    if (method == METHOD_ROUNDED) {
        bool tiled = stage == KT_STAGE_DOWN;
        return model_read_pairs(k, tiled, packed + (tiled ? 0 : pairs_offset(layout, stage)), x, out);
    }
    if (dtype_is_float(layout->shape.format[projection].dtype)) {
        packed += floats_offset(layout, stage);
        for (uint64_t i = 0; i < k; i++)
            out[i] = (double)load_float(packed + 4 * i);
        return memcmp(packed, x, k * sizeof *x) == 0;
    }
    if (has_shared_scales(layout, stage)) {
        for (uint64_t i = 0; i < k; i += SUPERBLOCK)
            if (!read_superblock(packed + i / SUPERBLOCK * ACT_SIZE, has_half_pairs(layout, stage), x + i,
                                 out + i))
                return false;
        return true;
    }
    if (has_bounded_sums(layout, stage)) {
        for (uint64_t i = 0; i < k; i += GROUP)
            if (!read_bounded_group(packed + i / SUPERBLOCK * ACT_SIZE, (unsigned)(i % SUPERBLOCK / GROUP),
                                    x + i, out + i))
                return false;
        return true;
    }
    for (uint64_t i = 0; i < k; i += GROUP)
        if (!read_group(packed + i / SUPERBLOCK * ACT_SIZE, (unsigned)(i % SUPERBLOCK / GROUP), x + i,
                        k - i < GROUP ? k - i : GROUP, out + i))
            return false;
    return true;
}

/* Levels share scales or bound sums, none does both. */
static unsigned find_own_rule(const struct kt_layout *layout)
{
    if (layout->words[WORD_BOUNDED] >> BOUNDED_SHIFT)
        return 2;
    return layout->words[WORD_SHARED] ? 1 : 0;
}

static bool is_compact(const struct kt_layout *layout)
{
    return layout->words[WORD_COMPACT];
}

/* Those that have a compact form beside the roomy one. */
static const uint32_t compact_dtypes[] = {KT_DTYPE_IQ1_S, KT_DTYPE_IQ1_M,   KT_DTYPE_IQ2_XXS, KT_DTYPE_IQ2_XS,
                                          KT_DTYPE_IQ2_S, KT_DTYPE_IQ3_XXS, KT_DTYPE_IQ3_S,   KT_DTYPE_TQ1_0,
                                          KT_DTYPE_Q1_0,  KT_DTYPE_NONE};

/* Level amx adds 2^8 or 2^4 to codes that are nibbles in the source, and 2^7 to others (dequantize.h). */
static double find_expanded_base(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q4_K || dtype == KT_DTYPE_Q4_1 ? 0x1p8 : 0x1p7;
}

static const struct crossover crossovers[] = {{"amx", 9}, {NULL, 0}};

const struct model llamafile_model = {
    .plugin = "llamafile",
    .dtypes = model_ggml_dtypes,
    .weight = model_keep,
    .terms = 0.5,
    .factors = true,
    .own_order = "amx",
    .crossovers = crossovers,
    .rounded = true,
    .expanded = "amx",
    .expanded_base = find_expanded_base,
    .read_row = read_llamafile,
    .own_rule = find_own_rule,
    .compact = is_compact,
    .also_dtypes = compact_dtypes,
};
