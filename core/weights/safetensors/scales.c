/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scales.c - the number formats that an expert's weight of a safetensors file may have, and the meaning of
 * the scales beside it. For a weight [N][K], scales have the shape
 *
 *     [ceil(N / b)][ceil(K / c)]   one for each block of b x c
 *     [N] or [N][1]                one for each row
 *     [] or [1]                    one for all
 *
 * and more dimensions of 1 between or after these: modelopt writes blocks as [ceil(N / b)][1][ceil(K /
 * c)][1].
 *
 * A block is weight_block_size of quantization_config, else 128 x 128, or 1 x 32 if scales are powers of two
 * (MXFP8).
 */
#include "core/weights/safetensors/scales.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdio.h>

enum { FP8_BLOCK = 128, MX_GROUP = 32 };

static bool is_power(uint32_t dtype)
{
    return dtype == KT_DTYPE_U8 || dtype == KT_DTYPE_F8_E8M0;
}

enum kt_status kt_check_weight_format(const char *label, const struct kt_tensor_info *weight,
                                      const struct kt_tensor_info *scale, struct kt_error *error)
{
    const char *format = NULL;
    switch (weight->dtype) {
    case KT_DTYPE_F32:
    case KT_DTYPE_F16:
    case KT_DTYPE_BF16:
        if (!scale)
            return KT_OK;
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is %s and has scales, \"%s\": it is not known what they "
                       "stand for",
                       label, weight->name, kt_dtype_name(weight->dtype), scale->name);
    case KT_DTYPE_F8_E4M3:
        if (scale)
            return KT_OK;
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" is f8_e4m3 without scales; weight_scale_inv or "
                       "weight_scale is needed beside it",
                       label, weight->name);
    case KT_DTYPE_I8:
    case KT_DTYPE_U8:
        format = "8-bit integers";
        break;
    default:
        format = "no format of weights that is known here";
    }
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is %s (%s); a later backend may read it",
                   label, weight->name, kt_dtype_name(weight->dtype), format);
}

bool kt_is_matrix(const struct kt_tensor_info *info, uint64_t rows, uint64_t cols)
{
    const uint64_t wanted[] = {rows, cols};
    uint32_t next = 0, last = 0;
    if (info->n_dims < 2)
        return cols == 1 && (info->n_dims ? info->dims[0] : 1) == rows;
    if (info->n_dims == 2)
        return info->dims[0] == rows && info->dims[1] == cols;
    for (uint32_t i = 0; i < info->n_dims; i++) {
        if (info->dims[i] == 1)
            continue;
        while (next < 2 && wanted[next] == 1)
            next++;
        if (next == 2 || info->dims[i] != wanted[next++])
            return false;
        last = i;
    }
    while (next < 2 && wanted[next] == 1)
        next++;
    bool column = cols == 1 && rows != 1, row = rows == 1 && cols != 1;
    return next == 2 && !(column && last + 1 == info->n_dims) && !(row && last == 0);
}

/* One scale for each block, if the shape is that. */
static bool lay_blocks(const struct kt_tensor_info *weight, const struct kt_tensor_info *scale,
                       uint64_t block_rows, uint64_t block_cols, struct kt_scales *scales)
{
    uint64_t rows = (weight->dims[0] - 1) / block_rows + 1;
    uint64_t cols = (weight->dims[1] - 1) / block_cols + 1;
    if (!kt_is_matrix(scale, rows, cols))
        return false;
    scales->group_rows = block_rows;
    scales->group_cols = block_cols;
    scales->col_stride = kt_dtype_find(scale->dtype)->bytes;
    scales->row_stride = (int64_t)cols * scales->col_stride;
    return true;
}

/* One scale for each row or one for all, if the shape is that. */
static bool lay_rows(const struct kt_tensor_info *weight, const struct kt_tensor_info *scale,
                     struct kt_scales *scales)
{
    bool one = kt_is_matrix(scale, 1, 1);
    if (!one && !kt_is_matrix(scale, weight->dims[0], 1))
        return false;
    scales->group_rows = one ? weight->dims[0] : 1;
    scales->group_cols = weight->dims[1];
    scales->row_stride = scales->col_stride = kt_dtype_find(scale->dtype)->bytes;
    return true;
}

static bool is_small(const struct kt_tensor_info *scale)
{
    return scale->size == kt_dtype_find(scale->dtype)->bytes;
}

/* The block that a group of config.json says, or the usual one. */
static bool lay_said(const struct kt_quantization *group, const struct kt_tensor_info *weight,
                     const struct kt_tensor_info *scale, struct kt_scales *scales)
{
    bool power = is_power(scale->dtype), said = group->block_rows.key != NULL;
    return lay_blocks(weight, scale,
                      said    ? group->block_rows.value
                      : power ? 1
                              : FP8_BLOCK,
                      said    ? group->block_cols.value
                      : power ? MX_GROUP
                              : FP8_BLOCK,
                      scales);
}

/* The block of the group that fits; *another: groups of other blocks do, too. */
static bool lay_any(const struct kt_model_config *config, const struct kt_tensor_info *weight,
                    const struct kt_tensor_info *scale, struct kt_scales *scales, bool *another)
{
    bool found = config->n_groups == 0 && lay_said(&config->quantization, weight, scale, scales);
    *another = false;
    for (uint32_t g = 0; g < config->n_groups; g++) {
        struct kt_scales tried = *scales;
        if (!lay_said(&config->group[g], weight, scale, &tried))
            continue;
        *another |= found &&
                    (tried.group_rows != scales->group_rows || tried.group_cols != scales->group_cols) &&
                    !is_small(scale);
        if (!found)
            *scales = tried;
        found = true;
    }
    return found;
}

enum kt_status kt_lay_scales(const char *label, const struct kt_model_config *config,
                             const struct kt_tensor_info *weight, const struct kt_tensor_info *scale,
                             struct kt_scales *scales, struct kt_error *error)
{
    bool power = is_power(scale->dtype), said = config->quantization.block_rows.key != NULL;
    uint64_t rows = said ? config->quantization.block_rows.value : power ? 1 : FP8_BLOCK;
    uint64_t cols = said ? config->quantization.block_cols.value : power ? MX_GROUP : FP8_BLOCK;
    *scales = (struct kt_scales){.size = scale->size};
    scales->dtype = power ? KT_DTYPE_F8_E8M0 : scale->dtype;
    if (!power && scale->dtype != KT_DTYPE_F32 && scale->dtype != KT_DTYPE_F16 &&
        scale->dtype != KT_DTYPE_BF16)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is of type %s; scales must be f32, f16, bf16, f8_e8m0 or "
                       "u8",
                       label, scale->name, kt_dtype_name(scale->dtype));
    bool another, any = lay_any(config, weight, scale, scales, &another);
    if (another)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\": the blocks of several groups in config_groups fit it", label,
                       scale->name);
    /* Of a block that is said, one scale is too few if the weight has more. */
    if (any || (!(said && is_small(scale) && scale->n_dims == 2) && lay_rows(weight, scale, scales)) ||
        (power && lay_blocks(weight, scale, 1, MX_GROUP, scales)))
        return KT_OK;
    char found[192];
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" is %s; the scales of a weight of [%" PRIu64 "][%" PRIu64
                   "] must be [%" PRIu64 "][%" PRIu64 "] for blocks of %" PRIu64 " x %" PRIu64 ", [%" PRIu64
                   "] for rows, or [1]",
                   label, scale->name, kt_shape_text(scale, found, sizeof found), weight->dims[0],
                   weight->dims[1], (weight->dims[0] - 1) / rows + 1, (weight->dims[1] - 1) / cols + 1, rows,
                   cols, weight->dims[0]);
}
