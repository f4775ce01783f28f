/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coding.c - how weights of 4 bits are arranged in safetensors files. All but AWQ's are shown in place: a
 * block of 8 weights along K is 4 successive bytes, or a word of GPTQ. G is the number of groups of columns,
 * K / group_size.
 *
 *                 weight                                scales          zeros
 *     PACKED      .weight_packed I32 [N][K/8], U8 [N][K/2]    .weight_scale [N][G]  none
 *     GPTQ        .qweight I32 [K/8][N]                 .scales [G][N]  .qzeros I32 [G][N/8], all alike
 *     AWQ         .qweight I32 [K][N/8]                 .scales [G][N]  .qzeros I32 [G][N/8]
 *     MX          .weight I8 or U8 [N][K/2], F4 [N][K]  .scale F8_E8M0 or U8 [N][K/32]
 *     BLOCKS      _blocks U8 [E][N][K/32][16]           _scales U8 [E][N][K/32]
 */
#include "core/weights/safetensors/coding.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/model/family.h"
#include "core/weights/safetensors/scales.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { WORD = 8, MX_GROUP = 32, BITS = 4 };

const char *kt_coding_name(enum kt_coding coding)
{
    static const char *const names[KT_N_CODINGS] = {
        "?",           "plain numbers", "int4 of compressed-tensors", "int4 of GPTQ",
        "int4 of AWQ", "MXFP4",         "MXFP4 of gpt-oss",
    };
    return names[coding < KT_N_CODINGS ? coding : 0];
}

static bool is_power(uint32_t dtype)
{
    return dtype == KT_DTYPE_U8 || dtype == KT_DTYPE_F8_E8M0;
}

static bool is_float(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16;
}

/* ---- which one it is ------------------------------------------------------------------------- */

/* GPTQ and AWQ have the same names of tensors; the columns of the scales, one for each row, tell which it is.
 */
static enum kt_coding tell_words(const struct kt_tensor_info *weight, const struct kt_tensor_info *scale)
{
    if (weight->n_dims != 2 || scale->n_dims != 2)
        return KT_CODING_GPTQ;
    return weight->dims[1] != scale->dims[1] && scale->dims[1] % WORD == 0 &&
                   weight->dims[1] == scale->dims[1] / WORD
               ? KT_CODING_AWQ
               : KT_CODING_GPTQ;
}

static enum kt_coding tell(enum kt_coding named, const struct kt_tensor_info *weight,
                           const struct kt_tensor_info *scale)
{
    if (named == KT_CODING_GPTQ && scale)
        return tell_words(weight, scale);
    if (named == KT_CODING_PLAIN && scale && is_power(scale->dtype) &&
        (weight->dtype == KT_DTYPE_I8 || weight->dtype == KT_DTYPE_U8 || weight->dtype == KT_DTYPE_F4_E2M1))
        return KT_CODING_MX;
    return named;
}

/* Refuses other fused tensors of 4 bits than gpt-oss' blocks, and other fused tensors with scales but those
 * of one projection. */
static enum kt_status check_fused(const struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                                  enum kt_coding coding, const struct kt_tensor *weight,
                                  const struct kt_tensor *scale, struct kt_error *error)
{
    const bool fused = map->stride == 0, stacked = kt_map_is_stacked(map);
    if (fused ? (coding == KT_CODING_BLOCKS && !stacked) || (coding == KT_CODING_PLAIN && (!scale || stacked))
              : coding != KT_CODING_BLOCKS)
        return KT_OK;
    const char *format = weight->info.dtype == KT_DTYPE_F8_E4M3 ? "FP8" : kt_coding_name(coding);
    if (fused && coding == KT_CODING_PLAIN)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" has an unsupported format, %s with scales "
                       "in fused tensors",
                       kt_tensor_label(checkpoint, scale), scale->info.name, format);
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" has an unsupported format, %s in %s",
                   kt_tensor_label(checkpoint, weight), weight->info.name, format,
                   fused ? "fused tensors" : "tensors of an expert's own");
}

static enum kt_status check_dtypes(const struct kt_checkpoint *checkpoint, enum kt_coding coding,
                                   const struct kt_tensor *weight, const struct kt_tensor *scale,
                                   struct kt_error *error)
{
    bool words = coding == KT_CODING_GPTQ || coding == KT_CODING_AWQ;
    uint32_t dtype = weight->info.dtype;
    bool right = words                        ? dtype == KT_DTYPE_I32
                 : coding == KT_CODING_PACKED ? dtype == KT_DTYPE_I32 || dtype == KT_DTYPE_U8
                 : coding == KT_CODING_BLOCKS ? dtype == KT_DTYPE_U8
                                              : true;
    if (!right)
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\" is of type %s; %s needs %s",
                       kt_tensor_label(checkpoint, weight), weight->info.name, kt_dtype_name(dtype),
                       kt_coding_name(coding),
                       words                        ? "i32"
                       : coding == KT_CODING_PACKED ? "i32 or u8"
                                                    : "u8");
    bool power = coding == KT_CODING_MX || coding == KT_CODING_BLOCKS;
    if (power ? is_power(scale->info.dtype) : is_float(scale->info.dtype))
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %s; scales of %s must be %s",
                   kt_tensor_label(checkpoint, scale), scale->info.name, kt_dtype_name(scale->info.dtype),
                   kt_coding_name(coding), power ? "u8 or f8_e8m0" : "f32, f16 or bf16");
}

/* The tensors beside a weight must be those of its format, and complete. */
static enum kt_status check_roles(const struct kt_checkpoint *checkpoint, enum kt_coding coding,
                                  struct kt_tensor *const *tensors, struct kt_error *error)
{
    static const unsigned allowed[KT_N_CODINGS] = {
        [KT_CODING_PACKED] = 1u << KT_ROLE_SHAPE | 1u << KT_ROLE_ORDER,
        [KT_CODING_GPTQ] = 1u << KT_ROLE_ZERO | 1u << KT_ROLE_ORDER,
        [KT_CODING_AWQ] = 1u << KT_ROLE_ZERO,
    };
    const struct kt_tensor *weight = tensors[KT_ROLE_WEIGHT];
    for (int role = KT_ROLE_ZERO; role < KT_N_ROLES; role++)
        if (tensors[role] && !(allowed[coding] >> role & 1))
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\" does not belong to tensor \"%s\", which is %s",
                           kt_tensor_label(checkpoint, tensors[role]), tensors[role]->info.name,
                           weight->info.name, kt_coding_name(coding));
    const char *missing = coding == KT_CODING_PLAIN                           ? NULL
                          : !tensors[KT_ROLE_SCALE]                           ? "scales"
                          : coding == KT_CODING_AWQ && !tensors[KT_ROLE_ZERO] ? "zeros (qzeros)"
                                                                              : NULL;
    if (!missing)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\" is %s without %s",
                   kt_tensor_label(checkpoint, weight), weight->info.name, kt_coding_name(coding), missing);
}

/* ---- what config.json says of it ------------------------------------------------------------- */

static enum kt_status refuse_config(const struct kt_model_config *config, const char *key, const char *value,
                                    enum kt_coding coding, const struct kt_tensor *weight,
                                    struct kt_error *error)
{
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: key \"%s\" is %s: such weights are not supported; tensor \"%s\" is %s", config->label,
                   key, value, weight->info.name, kt_coding_name(coding));
}

/* Is it a known method that contradicts the tensors? */
static bool is_other_method(const char *method, enum kt_coding coding)
{
    static const struct {
        const char *method;
        unsigned codings;
    } methods[] = {
        {"compressed-tensors", 1u << KT_CODING_PACKED},
        {"gptq", 1u << KT_CODING_GPTQ},
        {"awq", 1u << KT_CODING_AWQ},
        {"mxfp4", 1u << KT_CODING_MX | 1u << KT_CODING_BLOCKS},
        /* DeepSeek-V4: FP8, except for the experts. */
        {"fp8", 1u << KT_CODING_MX},
        {"mxfp8", 1u << KT_CODING_MX},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(method, methods[i].method) == 0)
            return !(methods[i].codings >> coding & 1);
    return false;
}

static enum kt_status check_packing(const struct kt_model_config *config, enum kt_coding coding,
                                    const struct kt_tensor *weight, struct kt_error *error)
{
    const char *said = config->quantization.packing;
    bool known = !*said;
    if (coding == KT_CODING_GPTQ)
        known |= strcmp(said, "gptq") == 0 || strcmp(said, "gptq_v2") == 0;
    else if (coding == KT_CODING_AWQ)
        known |= strcasecmp(said, "gemm") == 0;
    else
        known = true;
    const char *key = coding == KT_CODING_GPTQ ? "checkpoint_format" : "version";
    return known ? KT_OK : refuse_config(config, key, said, coding, weight, error);
}

/* Are weights as one group of config.json has them, int4 that can be read? */
static enum kt_status check_integers(const struct kt_model_config *config, const struct kt_quantization *said,
                                     enum kt_coding coding, const struct kt_tensor *weight,
                                     struct kt_error *error)
{
    if (said->bits.key && said->bits.value != BITS)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: key \"%s\" is %" PRIu64 ": packed weights of 4 bits can be read here; "
                       "tensor \"%s\" is such a one",
                       config->label, said->bits.key, said->bits.value, weight->info.name);
    if (said->real)
        return refuse_config(config, said->real, "float", coding, weight, error);
    if (said->asymmetric && coding != KT_CODING_AWQ)
        return refuse_config(config, said->asymmetric,
                             strcmp(said->asymmetric, "zero_point") == 0 ? "true" : "false", coding, weight,
                             error);
    if (said->reordered)
        return refuse_config(config, said->reordered, "true", coding, weight, error);
    return KT_OK;
}

static enum kt_status check_config(const struct kt_model_config *config, enum kt_coding coding,
                                   const struct kt_tensor *weight, struct kt_error *error)
{
    const struct kt_quantization *said = &config->quantization;
    bool integers = coding == KT_CODING_PACKED || coding == KT_CODING_GPTQ || coding == KT_CODING_AWQ;
    enum kt_status status = KT_E_UNSUPPORTED;
    if (is_other_method(said->method, coding))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"quant_method\" is %s, but tensor \"%s\" is %s",
                       config->label, said->method, weight->info.name, kt_coding_name(coding));
    if (!integers)
        return KT_OK;
    if (config->n_groups == 0)
        status = check_integers(config, said, coding, weight, error);
    for (uint32_t g = 0; g < config->n_groups && status != KT_OK; g++)
        status = check_integers(config, &config->group[g], coding, weight, error);
    return status == KT_OK ? check_packing(config, coding, weight, error) : status;
}

/* The types of all tensors must be known. */
static enum kt_status check_types(const struct kt_checkpoint *checkpoint, struct kt_tensor *const *tensors,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (int role = 0; role < KT_N_ROLES && status == KT_OK; role++)
        if (tensors[role])
            status = kt_tensor_check_type(checkpoint, tensors[role], error);
    return status;
}

/* GPTQ and AWQ may leave experts unquantized, but do not make FP8. */
static enum kt_status check_plain(const struct kt_checkpoint *checkpoint,
                                  const struct kt_model_config *config, const struct kt_tensor *weight,
                                  struct kt_error *error)
{
    if (weight->info.dtype == KT_DTYPE_F4_E2M1)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is f4_e2m1; beside it, scales of type u8 or f8_e8m0 are needed",
                       kt_tensor_label(checkpoint, weight), weight->info.name);
    const char *method = config->quantization.method;
    if (weight->info.dtype != KT_DTYPE_F8_E4M3 || (strcmp(method, "gptq") != 0 && strcmp(method, "awq") != 0))
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT, "%s: key \"quant_method\" is %s, but tensor \"%s\" is %s",
                   config->label, method, weight->info.name, kt_dtype_name(weight->info.dtype));
}

enum kt_status kt_coding_resolve(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 struct kt_expert_map *map, int projection, struct kt_error *error)
{
    struct kt_matrix *matrix = &map->matrix[projection];
    struct kt_tensor *const *tensors = map->tensor[projection];
    const struct kt_tensor *weight = tensors[KT_ROLE_WEIGHT], *scale = tensors[KT_ROLE_SCALE];
    matrix->coding = tell(matrix->coding, &weight->info, scale ? &scale->info : NULL);
    map->zero = strcmp(config->quantization.packing, "gptq_v2") == 0 ? 8 : 7;
    enum kt_status status = check_types(checkpoint, tensors, error);
    if (status == KT_OK)
        status = check_fused(checkpoint, map, matrix->coding, weight, scale, error);
    if (status == KT_OK)
        status = matrix->coding == KT_CODING_PLAIN ? check_plain(checkpoint, config, weight, error)
                                                   : check_config(config, matrix->coding, weight, error);
    if (status == KT_OK)
        status = check_roles(checkpoint, matrix->coding, tensors, error);
    if (status == KT_OK && matrix->coding != KT_CODING_PLAIN)
        status = check_dtypes(checkpoint, matrix->coding, weight, scale, error);
    return status;
}

/* ---- where it lies --------------------------------------------------------------------------- */

void kt_coding_shape(enum kt_coding coding, const struct kt_tensor_info *weight, uint64_t shape[2])
{
    const uint64_t *dims = weight->dims;
    uint64_t word = weight->dtype == KT_DTYPE_I32 ? WORD : weight->dtype == KT_DTYPE_F4_E2M1 ? 1 : 2;
    switch (coding) {
    case KT_CODING_GPTQ:
        shape[0] = dims[1];
        shape[1] = dims[0] * WORD;
        break;
    case KT_CODING_AWQ:
        shape[0] = dims[1] * WORD;
        shape[1] = dims[0];
        break;
    case KT_CODING_BLOCKS:
        shape[0] = dims[1];
        shape[1] = dims[2] * MX_GROUP;
        break;
    case KT_CODING_PLAIN:
        shape[0] = dims[0];
        shape[1] = dims[1];
        break;
    default:
        shape[0] = dims[0];
        shape[1] = dims[1] * word;
    }
}

void kt_coding_lay(struct kt_matrix *matrix, const struct kt_tensor_info *weight)
{
    uint64_t shape[2];
    bool four = matrix->coding == KT_CODING_MX || matrix->coding == KT_CODING_BLOCKS;
    kt_coding_shape(matrix->coding, weight, shape);
    matrix->dtype = four ? KT_DTYPE_F4_E2M1 : KT_DTYPE_INT4;
    matrix->rows = shape[0];
    matrix->cols = shape[1];
    matrix->bias_step = 1;
    int64_t block = kt_dtype_find(matrix->dtype)->bytes;
    bool turned = matrix->coding == KT_CODING_GPTQ;
    matrix->row_stride = turned ? block : (int64_t)(shape[1] / WORD) * block;
    matrix->block_stride = turned ? (int64_t)shape[0] * block : block;
}

/* ---- scales and zeros ------------------------------------------------------------------------ */

static enum kt_status refuse_scale(const struct kt_checkpoint *checkpoint, const struct kt_matrix *matrix,
                                   const struct kt_tensor *scale, uint64_t lines, uint64_t columns,
                                   const char *each, struct kt_error *error)
{
    char found[192];
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" is %s; beside a weight of %" PRIu64 " x %" PRIu64
                   " (%s) it must be [%" PRIu64 "][%" PRIu64 "], %s",
                   kt_tensor_label(checkpoint, scale), scale->info.name,
                   kt_shape_text(&scale->info, found, sizeof found), matrix->rows, matrix->cols,
                   kt_coding_name(matrix->coding), lines, columns, each);
}

/* Does a group of config.json say that one scale stands for `group` of the matrix's columns? */
static enum kt_status check_group(const struct kt_checkpoint *checkpoint,
                                  const struct kt_model_config *config,
                                  const struct kt_quantization *quantization, const struct kt_matrix *matrix,
                                  const struct kt_tensor *scale, uint64_t group, struct kt_error *error)
{
    const struct kt_json_count *said = &quantization->group;
    uint64_t wanted = said->value ? said->value : matrix->cols;
    char found[192];
    if (!said->key || wanted == group)
        return KT_OK;
    if (matrix->cols % wanted != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"%s\" is %" PRIu64 ", of which the %" PRIu64
                       " columns of tensor \"%s\" are not a multiple",
                       config->label, said->key, wanted, matrix->cols, scale->info.name);
    return kt_fail(error, KT_E_FORMAT,
                   "%s: key \"%s\" makes groups of %" PRIu64 " columns, but tensor \"%s\" in %s is %s: "
                   "groups of %" PRIu64,
                   config->label, said->key, wanted, scale->info.name, kt_tensor_label(checkpoint, scale),
                   kt_shape_text(&scale->info, found, sizeof found), group);
}

/* *group: columns of a group. Checks that config.json, one of several groups there, agrees. */
static enum kt_status find_group(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 const struct kt_matrix *matrix, const struct kt_tensor *scale,
                                 uint64_t groups, uint64_t *group, struct kt_error *error)
{
    enum kt_status status = KT_E_FORMAT;
    char found[192];
    if (groups == 0 || matrix->cols % groups != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" is %s, %" PRIu64 " groups of the weight's %" PRIu64
                       " columns; they must be alike",
                       kt_tensor_label(checkpoint, scale), scale->info.name,
                       kt_shape_text(&scale->info, found, sizeof found), groups, matrix->cols);
    *group = matrix->cols / groups;
    if (config->n_groups == 0)
        return check_group(checkpoint, config, &config->quantization, matrix, scale, *group, error);
    for (uint32_t g = 0; g < config->n_groups && status != KT_OK; g++)
        if (check_integers(config, &config->group[g], matrix->coding, scale, NULL) == KT_OK)
            status = check_group(checkpoint, config, &config->group[g], matrix, scale, *group, error);
    return status;
}

/* Scales [rows][groups], or `turned` [groups][rows]. */
static enum kt_status lay_groups(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 struct kt_matrix *matrix, const struct kt_tensor *scale, bool turned,
                                 struct kt_error *error)
{
    const struct kt_tensor_info *info = &scale->info;
    uint64_t group = 1, lines = matrix->rows, n = info->size / kt_dtype_find(info->dtype)->bytes;
    uint64_t groups = lines ? n / lines : 0;
    if (!(turned ? kt_is_matrix(info, groups, lines) : kt_is_matrix(info, lines, groups)))
        return turned ? refuse_scale(checkpoint, matrix, scale, info->dims[0] ? info->dims[0] : 1,
                                     matrix->rows, "one a group and row", error)
                      : refuse_scale(checkpoint, matrix, scale, matrix->rows,
                                     info->n_dims == 2 ? info->dims[1] : 1, "one a row and group", error);
    enum kt_status status = find_group(checkpoint, config, matrix, scale, groups, &group, error);
    if (status != KT_OK)
        return status;
    uint64_t bytes = kt_dtype_find(info->dtype)->bytes;
    matrix->scales = (struct kt_scales){.dtype = info->dtype,
                                        .size = info->size,
                                        .group_rows = 1,
                                        .group_cols = group,
                                        .row_stride = (int64_t)((turned ? 1 : groups) * bytes),
                                        .col_stride = (int64_t)((turned ? lines : 1) * bytes)};
    matrix->scale_bytes = info->size;
    return KT_OK;
}

/* The zeros of AWQ are decoded with the weights; those of GPTQ are checked by coding_check.c. */
static enum kt_status check_zeros(const struct kt_checkpoint *checkpoint, struct kt_matrix *matrix,
                                  const struct kt_tensor *zero, struct kt_error *error)
{
    uint64_t groups = matrix->cols / matrix->scales.group_cols, words = (matrix->rows + 7) / WORD;
    if (zero->info.n_dims != 2 || zero->info.dims[0] != groups || zero->info.dims[1] != words)
        return refuse_scale(checkpoint, matrix, zero, groups, words, "eight zeros a word", error);
    if (zero->info.dtype != KT_DTYPE_I32)
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\" is of type %s; zeros must be i32",
                       kt_tensor_label(checkpoint, zero), zero->info.name, kt_dtype_name(zero->info.dtype));
    if (matrix->coding != KT_CODING_AWQ)
        return KT_OK;
    matrix->zeros = (struct kt_scales){.dtype = KT_DTYPE_U8,
                                       .size = groups * matrix->rows,
                                       .group_rows = 1,
                                       .group_cols = matrix->scales.group_cols,
                                       .row_stride = 1,
                                       .col_stride = (int64_t)matrix->rows};
    return KT_OK;
}

/* Powers of two, one for each 32 columns of a row. */
static enum kt_status lay_powers(const struct kt_checkpoint *checkpoint, struct kt_matrix *matrix,
                                 const struct kt_tensor *scale, struct kt_error *error)
{
    uint64_t groups = matrix->cols / MX_GROUP;
    const struct kt_tensor_info *info = &scale->info;
    if (matrix->cols % MX_GROUP != 0 || !kt_is_matrix(info, matrix->rows, groups))
        return refuse_scale(checkpoint, matrix, scale, matrix->rows, groups + (matrix->cols % MX_GROUP != 0),
                            "one for 32 columns of a row", error);
    matrix->scales = (struct kt_scales){.dtype = KT_DTYPE_F8_E8M0,
                                        .size = info->size,
                                        .group_rows = 1,
                                        .group_cols = MX_GROUP,
                                        .row_stride = (int64_t)groups,
                                        .col_stride = 1};
    matrix->scale_bytes = info->size;
    return KT_OK;
}

enum kt_status kt_coding_scales(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_expert_map *map, int projection, struct kt_error *error)
{
    struct kt_matrix *matrix = &map->matrix[projection];
    const struct kt_tensor *scale = map->tensor[projection][KT_ROLE_SCALE];
    const struct kt_tensor *zero = map->tensor[projection][KT_ROLE_ZERO];
    if (matrix->coding == KT_CODING_MX)
        return lay_powers(checkpoint, matrix, scale, error);
    enum kt_status status =
        lay_groups(checkpoint, config, matrix, scale, matrix->coding != KT_CODING_PACKED, error);
    return status == KT_OK && zero ? check_zeros(checkpoint, matrix, zero, error) : status;
}
