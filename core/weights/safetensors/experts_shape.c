/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts_shape.c - how the matrices of a layer lie in their tensors. I is the intermediate size, H the
 * hidden size, E the number of experts:
 *
 *     one expert a tensor    gate and up [I][H], down [H][I]; with 4 bits: coding.c
 *     fused                  gate_up_proj [E][2 I][H], down_proj [E][H][I]
 *     fused, transposed      gate_up_proj [E][H][2 I], down_proj [E][I][H]
 *     fused, one projection a tensor
 *                            gate_proj and up_proj [E][I][H], down_proj [E][H][I]; scales [E][..][..]
 *     fused, one below another  gate, up and down [E I][H], down transposed
 *     fused, MXFP4           gate_up_proj_blocks [E][2 I][H/32][16], down_proj_blocks [E][H][I/32][16],
 *                            _scales without the last dimension
 *
 * Rows of gate come before those of up; in gpt-oss they alternate. Transposed tensors are not copied: rows of
 * their views are one number apart. If H = 2 I, the shape of gate_up_proj does not tell whether it is
 * transposed; that of down_proj always does.
 */
#include "core/weights/safetensors/experts_shape.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/limits.h"
#include "core/weights/model/family.h"
#include "core/weights/safetensors/coding.h"
#include "core/weights/safetensors/scales.h"
#include "core/weights/table/matrix.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <string.h>

enum { MX_GROUP = 32, MX_BYTES = 16 };

static const struct kt_tensor *weight_of(const struct kt_expert_map *map, int projection)
{
    return map->tensor[projection][KT_ROLE_WEIGHT];
}

static bool has_shape(const struct kt_tensor_info *info, uint32_t n_dims, const uint64_t *dims)
{
    bool same = info->n_dims == n_dims;
    for (uint32_t i = 0; same && i < n_dims; i++)
        same = info->dims[i] == dims[i];
    return same;
}

/* Sets shape and strides of a matrix. Its rows, or columns if `turned`, are dense runs of `width` numbers. */
static void lay(struct kt_matrix *matrix, const struct kt_tensor_info *info, uint64_t rows, uint64_t cols,
                uint64_t width, bool turned)
{
    uint32_t bytes = kt_dtype_find(info->dtype)->bytes;
    int64_t run = (int64_t)(width * bytes);
    matrix->dtype = info->dtype;
    matrix->rows = rows;
    matrix->cols = cols;
    matrix->row_stride = turned ? (int64_t)bytes : run;
    matrix->block_stride = turned ? run : (int64_t)bytes;
    matrix->bias_step = 1;
}

/* Bytes from the first to the last weight of an expert. */
static void measure(struct kt_matrix *matrix)
{
    const struct kt_dtype_info *dtype = kt_dtype_find(matrix->dtype);
    matrix->size = (matrix->rows - 1) * (uint64_t)matrix->row_stride +
                   (matrix->cols / dtype->elements - 1) * (uint64_t)matrix->block_stride + dtype->bytes;
}

static enum kt_status refuse_shape(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                   const char *needed, struct kt_error *error)
{
    char found[192];
    return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\" is %s, slowest dimension first; it must be %s",
                   kt_tensor_label(checkpoint, tensor), tensor->info.name,
                   kt_shape_text(&tensor->info, found, sizeof found), needed);
}

static enum kt_status refuse_pair(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                  const struct kt_tensor *like, struct kt_error *error)
{
    char found[192], fitting[192];
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" is %s, slowest dimension first; that does not fit tensor "
                   "\"%s\", which is %s",
                   kt_tensor_label(checkpoint, tensor), tensor->info.name,
                   kt_shape_text(&tensor->info, found, sizeof found), like->info.name,
                   kt_shape_text(&like->info, fitting, sizeof fitting));
}

static enum kt_status lay_own(const struct kt_checkpoint *checkpoint, struct kt_expert_map *map,
                              struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *first = weight_of(map, map->first);
    uint64_t shape[3][2];
    if (first->info.n_dims != 2 || first->info.size == 0)
        return refuse_shape(checkpoint, first, "a matrix of intermediate size by hidden size", error);
    for (int p = map->first; p <= KT_DOWN; p++) {
        const struct kt_tensor_info *weight = &weight_of(map, p)->info;
        struct kt_matrix *matrix = &map->matrix[p];
        kt_coding_shape(matrix->coding, weight, shape[p]);
        uint64_t rows = shape[map->first][p == KT_DOWN], cols = shape[map->first][p != KT_DOWN];
        if (weight->n_dims != 2 || shape[p][0] != rows || shape[p][1] != cols)
            return refuse_pair(checkpoint, weight_of(map, p), first, error);
        if (matrix->coding == KT_CODING_PLAIN) {
            lay(matrix, weight, rows, cols, cols, false);
            continue;
        }
        kt_coding_lay(matrix, weight);
        if (cols % kt_dtype_find(matrix->dtype)->elements != 0)
            return refuse_shape(checkpoint, weight_of(map, p), "of a multiple of 8 columns", error);
    }
    info->intermediate_size = shape[map->first][0];
    info->hidden_size = shape[map->first][1];
    return KT_OK;
}

/* Finds gate and up in the fused tensor. */
static void cut_fused(struct kt_expert_map *map, const struct kt_tensor_info *info,
                      const struct kt_moe_info *moe, bool turned, bool alternate)
{
    uint64_t rows = moe->intermediate_size, cols = moe->hidden_size;
    uint64_t width = turned ? 2 * rows : cols;
    for (int p = KT_GATE; p <= KT_UP; p++) {
        struct kt_matrix *matrix = &map->matrix[p];
        lay(matrix, info, rows, cols, width, turned);
        uint64_t first = p == KT_GATE ? 0 : alternate ? 1 : rows;
        matrix->begin = first * (uint64_t)matrix->row_stride;
        matrix->step = info->size / info->dims[0];
        matrix->bias_begin = first;
        matrix->bias_next = 2 * rows;
        if (alternate) {
            matrix->row_stride *= 2;
            matrix->bias_step = 2;
        }
    }
}

/* Sets the scales of a matrix whose row r is row first + r * step of the fused tensor. */
static void lay_block_scales(struct kt_matrix *matrix, uint64_t first, uint64_t step, uint64_t all_rows)
{
    uint64_t groups = matrix->cols / MX_GROUP;
    matrix->begin = first * (uint64_t)matrix->row_stride;
    matrix->step = all_rows * (uint64_t)matrix->row_stride;
    matrix->row_stride *= (int64_t)step;
    matrix->scales = (struct kt_scales){.dtype = KT_DTYPE_F8_E8M0,
                                        .size = (matrix->rows - 1) * step * groups + groups,
                                        .group_rows = 1,
                                        .group_cols = MX_GROUP,
                                        .row_stride = (int64_t)(step * groups),
                                        .col_stride = 1};
    matrix->scale_begin = first * groups;
    matrix->scale_step = all_rows * groups;
    matrix->scale_bytes = matrix->rows * groups;
    matrix->bias_begin = first;
    matrix->bias_step = step;
    matrix->bias_next = all_rows;
}

static enum kt_status lay_blocks(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 struct kt_expert_map *map, struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *both = weight_of(map, KT_GATE), *down = weight_of(map, KT_DOWN);
    const uint64_t *dims = both->info.dims;
    bool alternate = strncmp(config->model_type, "gpt_oss", 7) == 0;
    if (both->info.n_dims != 4 || both->info.size == 0 || dims[1] % 2 != 0 || dims[3] != MX_BYTES)
        return refuse_shape(checkpoint, both, "[experts][2 x intermediate size][hidden size / 32][16]",
                            error);
    uint64_t rows = dims[1] / 2, cols = dims[2] * MX_GROUP;
    uint64_t other[] = {dims[0], cols, rows / MX_GROUP, MX_BYTES};
    if (rows % MX_GROUP != 0 || !has_shape(&down->info, 4, other))
        return refuse_pair(checkpoint, down, both, error);
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        const struct kt_tensor *weight = weight_of(map, p);
        const struct kt_tensor *scale = map->tensor[p][KT_ROLE_SCALE];
        struct kt_matrix *matrix = &map->matrix[p];
        if (!has_shape(&scale->info, 3, weight->info.dims))
            return refuse_pair(checkpoint, scale, weight, error);
        kt_coding_lay(matrix, &weight->info);
        matrix->rows = p == KT_DOWN ? cols : rows;
        lay_block_scales(matrix,
                         p != KT_UP  ? 0
                         : alternate ? 1
                                     : rows,
                         p != KT_DOWN && alternate ? 2 : 1, weight->info.dims[1]);
    }
    info->intermediate_size = rows;
    info->hidden_size = cols;
    return KT_OK;
}

static enum kt_status lay_below(const struct kt_checkpoint *checkpoint, struct kt_expert_map *map,
                                struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *gate = weight_of(map, KT_GATE);
    if (gate->info.n_dims != 2 || gate->info.size == 0)
        return refuse_shape(checkpoint, gate, "[experts x intermediate size][hidden size]", error);
    info->intermediate_size = gate->info.dims[0] / info->n_experts;
    info->hidden_size = gate->info.dims[1];
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        const struct kt_tensor *weight = weight_of(map, p);
        struct kt_matrix *matrix = &map->matrix[p];
        if (!has_shape(&weight->info, 2, gate->info.dims))
            return refuse_pair(checkpoint, weight, gate, error);
        lay(matrix, &weight->info, p == KT_DOWN ? info->hidden_size : info->intermediate_size,
            p == KT_DOWN ? info->intermediate_size : info->hidden_size, info->hidden_size, p == KT_DOWN);
        matrix->step = weight->info.size / info->n_experts;
        matrix->bias_next = matrix->rows;
    }
    return KT_OK;
}

static enum kt_status lay_fused(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_expert_map *map, struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *both = weight_of(map, KT_GATE), *down = weight_of(map, KT_DOWN);
    const uint64_t *dims = both->info.dims;
    bool alternate = strncmp(config->model_type, "gpt_oss", 7) == 0;
    if (both->info.n_dims != 3 || both->info.size == 0)
        return refuse_shape(checkpoint, both,
                            "[experts][2 x intermediate size][hidden size], or with the last two "
                            "exchanged",
                            error);
    uint64_t plain[] = {dims[0], dims[2], dims[1] / 2}, turned[] = {dims[0], dims[2] / 2, dims[1]};
    bool is_plain = dims[1] % 2 == 0 && has_shape(&down->info, 3, plain);
    bool is_turned = dims[2] % 2 == 0 && has_shape(&down->info, 3, turned);
    if (!is_plain && !is_turned)
        return refuse_pair(checkpoint, down, both, error);
    info->intermediate_size = is_turned ? dims[2] / 2 : dims[1] / 2;
    info->hidden_size = is_turned ? dims[1] : dims[2];
    cut_fused(map, &both->info, info, is_turned, alternate);
    struct kt_matrix *matrix = &map->matrix[KT_DOWN];
    lay(matrix, &down->info, info->hidden_size, info->intermediate_size, down->info.dims[2], is_turned);
    matrix->step = down->info.size / down->info.dims[0];
    matrix->bias_next = info->hidden_size;
    return KT_OK;
}

static enum kt_status lay_stacked(const struct kt_checkpoint *checkpoint, struct kt_expert_map *map,
                                  struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *first = weight_of(map, KT_GATE);
    const uint64_t *dims = first->info.dims;
    if (first->info.n_dims != 3 || first->info.size == 0)
        return refuse_shape(checkpoint, first, "[experts][intermediate size][hidden size]", error);
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        const struct kt_tensor_info *weight = &weight_of(map, p)->info;
        const uint64_t shape[] = {dims[0], dims[p == KT_DOWN ? 2 : 1], dims[p == KT_DOWN ? 1 : 2]};
        struct kt_matrix *matrix = &map->matrix[p];
        if (!has_shape(weight, 3, shape))
            return refuse_pair(checkpoint, weight_of(map, p), first, error);
        lay(matrix, weight, shape[1], shape[2], shape[2], false);
        matrix->step = weight->size / shape[0];
        matrix->bias_next = shape[1];
    }
    info->intermediate_size = dims[1];
    info->hidden_size = dims[2];
    return KT_OK;
}

/* Biases must be floats, one for each row; a fused tensor has those of all experts. */
static enum kt_status check_bias(const struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                                 const struct kt_moe_info *info, int projection, struct kt_error *error)
{
    const struct kt_tensor *bias = map->tensor[projection][KT_ROLE_BIAS];
    const struct kt_matrix *matrix = &map->matrix[projection];
    bool fused = map->stride == 0;
    if (!bias)
        return KT_OK;
    uint64_t dims[] = {fused ? info->n_experts : matrix->rows, matrix->bias_next};
    if (!has_shape(&bias->info, fused ? 2 : 1, dims))
        return refuse_pair(checkpoint, bias, weight_of(map, projection), error);
    if (bias->info.dtype != KT_DTYPE_F32 && bias->info.dtype != KT_DTYPE_F16 &&
        bias->info.dtype != KT_DTYPE_BF16)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %s; f32, f16 or bf16 is needed",
                       kt_tensor_label(checkpoint, bias), bias->info.name, kt_dtype_name(bias->info.dtype));
    return KT_OK;
}

/* The part of a tensor that one expert has. */
static struct kt_tensor_info part_of(const struct kt_tensor_info *all)
{
    struct kt_tensor_info one = *all;
    one.n_dims--;
    memmove(one.dims, one.dims + 1, one.n_dims * sizeof one.dims[0]);
    one.size /= all->dims[0];
    return one;
}

static enum kt_status lay_stacked_scales(const struct kt_checkpoint *checkpoint,
                                         const struct kt_model_config *config, const struct kt_tensor *weight,
                                         const struct kt_tensor *scale, struct kt_matrix *matrix,
                                         struct kt_error *error)
{
    if (scale->info.n_dims == 0 || scale->info.dims[0] != weight->info.dims[0] || scale->info.size == 0)
        return refuse_pair(checkpoint, scale, weight, error);
    const struct kt_tensor_info one = part_of(&weight->info), its = part_of(&scale->info);
    matrix->scale_bytes = matrix->scale_step = its.size;
    return kt_lay_scales(kt_tensor_label(checkpoint, scale), config, &one, &its, &matrix->scales, error);
}

/* Sets the scales of a projection whose weights lie. */
static enum kt_status lay_projection_scales(const struct kt_checkpoint *checkpoint,
                                            const struct kt_model_config *config, struct kt_expert_map *map,
                                            int projection, struct kt_error *error)
{
    const struct kt_tensor *scale = map->tensor[projection][KT_ROLE_SCALE];
    struct kt_matrix *matrix = &map->matrix[projection];
    if (matrix->coding == KT_CODING_BLOCKS || (matrix->coding == KT_CODING_PLAIN && !scale))
        return KT_OK;
    if (matrix->coding != KT_CODING_PLAIN)
        return kt_coding_scales(checkpoint, config, map, projection, error);
    if (kt_map_is_stacked(map))
        return lay_stacked_scales(checkpoint, config, weight_of(map, projection), scale, matrix, error);
    matrix->scale_bytes = scale->info.size;
    return kt_lay_scales(kt_tensor_label(checkpoint, scale), config, &weight_of(map, projection)->info,
                         &scale->info, &matrix->scales, error);
}

static enum kt_status lay_projection(const struct kt_checkpoint *checkpoint,
                                     const struct kt_model_config *config, struct kt_expert_map *map,
                                     struct kt_moe_info *info, int projection, struct kt_error *error)
{
    struct kt_matrix *matrix = &map->matrix[projection];
    enum kt_status status = lay_projection_scales(checkpoint, config, map, projection, error);
    if (status == KT_OK)
        status = check_bias(checkpoint, map, info, projection, error);
    if (status != KT_OK)
        return status;
    measure(matrix);
    info->dtype[projection] = matrix->dtype;
    info->has_bias |= map->tensor[projection][KT_ROLE_BIAS] ? 1u << projection : 0;
    /* Counts the half of a fused tensor, not all of it. */
    const struct kt_dtype_info *dtype = kt_dtype_find(matrix->dtype);
    const struct kt_tensor *zero = map->tensor[projection][KT_ROLE_ZERO];
    uint64_t blocks = matrix->rows * (matrix->cols / dtype->elements);
    info->size +=
        info->n_experts * (blocks * dtype->bytes + matrix->scale_bytes + (zero ? zero->info.size : 0));
    return KT_OK;
}

/* Called before shapes are checked, whose meaning depends on the format. */
static enum kt_status check_formats(const struct kt_checkpoint *checkpoint,
                                    const struct kt_model_config *config, struct kt_expert_map *map,
                                    struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++) {
        const struct kt_tensor *weight = weight_of(map, p);
        const struct kt_tensor *scale = map->tensor[p][KT_ROLE_SCALE];
        status = kt_coding_resolve(checkpoint, config, map, p, error);
        if (status == KT_OK && map->matrix[p].coding == KT_CODING_PLAIN)
            status = kt_check_weight_format(kt_tensor_label(checkpoint, weight), &weight->info,
                                            scale ? &scale->info : NULL, error);
    }
    return status;
}

enum kt_status kt_lay_experts(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                              struct kt_expert_map *map, struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_tensor *gate = weight_of(map, map->first);
    enum kt_status status = check_formats(checkpoint, config, map, error);
    bool blocks = map->matrix[map->first].coding == KT_CODING_BLOCKS;
    if (status == KT_OK && blocks != (map->matrix[KT_DOWN].coding == KT_CODING_BLOCKS))
        status = refuse_pair(checkpoint, weight_of(map, KT_DOWN), gate, error);
    if (status == KT_OK && map->first != KT_GATE && !map->stride)
        status = kt_fail(error, KT_E_UNSUPPORTED,
                         "%s: tensor \"%s\" has all experts, which is not supported without a gate",
                         kt_tensor_label(checkpoint, gate), gate->info.name);
    if (status == KT_OK)
        status = map->stride              ? lay_own(checkpoint, map, info, error)
                 : map->below             ? lay_below(checkpoint, map, info, error)
                 : blocks                 ? lay_blocks(checkpoint, config, map, info, error)
                 : kt_map_is_stacked(map) ? lay_stacked(checkpoint, map, info, error)
                                          : lay_fused(checkpoint, config, map, info, error);
    if (status != KT_OK)
        return status;
    if (info->hidden_size > KT_LARGEST_SIZE || info->intermediate_size > KT_LARGEST_SIZE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\": intermediate size %" PRIu64 ", hidden size %" PRIu64
                       "; at most %d can be handled",
                       kt_tensor_label(checkpoint, gate), gate->info.name, info->intermediate_size,
                       info->hidden_size, KT_LARGEST_SIZE);
    for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++)
        status = lay_projection(checkpoint, config, map, info, p, error);
    /* Only gpt-oss has fused biases; it has another order of rows and another activation. */
    if (status == KT_OK && map->stride == 0 && info->has_bias && !*config->model_type)
        status = kt_fail(error, KT_E_UNSUPPORTED,
                         "%s: tensor \"%s\" has biases, and no config.json says by its model_type "
                         "whether gate and up rows alternate, as in gpt-oss",
                         kt_tensor_label(checkpoint, gate), gate->info.name);
    return status;
}

enum kt_status kt_lay_single(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                             struct kt_expert_map *map, int projection, struct kt_error *error)
{
    const struct kt_tensor *weight = weight_of(map, projection);
    struct kt_matrix *matrix = &map->matrix[projection];
    uint64_t rows, cols;
    enum kt_status status = kt_coding_resolve(checkpoint, config, map, projection, error);
    if (status != KT_OK)
        return status;
    bool scaled = matrix->coding != KT_CODING_PLAIN || map->tensor[projection][KT_ROLE_SCALE];
    if (weight->info.size == 0 || !kt_dtype_find(weight->info.dtype))
        return refuse_shape(checkpoint, weight, "a weight that is not empty", error);
    if (scaled && weight->info.n_dims != 2)
        return refuse_shape(checkpoint, weight, "a matrix: it has scales", error);
    kt_matrix_shape(&weight->info, &rows, &cols);
    if (matrix->coding == KT_CODING_PLAIN)
        lay(matrix, &weight->info, rows, cols, cols, false);
    else
        kt_coding_lay(matrix, &weight->info);
    if (matrix->cols % kt_dtype_find(matrix->dtype)->elements != 0)
        return refuse_shape(checkpoint, weight, "of a multiple of 8 columns", error);
    status = lay_projection_scales(checkpoint, config, map, projection, error);
    if (status == KT_OK)
        measure(matrix);
    return status;
}
