/* SPDX-License-Identifier: Apache-2.0 */
#include "core/weights/decode/dtype.h"

#include "core/weights/decode/decode.h"

#include <kt/kt.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Numbers and block sizes of GGUF's types are facts of the format (ggml.h and ggml-common.h). */
static const struct kt_dtype_info table[] = {
    [KT_DTYPE_F32] = {"f32", 1, 4, 0, "F32", .plain = kt_decode_f32},
    [KT_DTYPE_F16] = {"f16", 1, 2, 1, "F16", .plain = kt_decode_f16},
    [KT_DTYPE_BF16] = {"bf16", 1, 2, 30, "BF16", .plain = kt_decode_bf16},
    [KT_DTYPE_F64] = {"f64", 1, 8, 28, "F64", .plain = kt_decode_f64},
    [KT_DTYPE_I8] = {"i8", 1, 1, 24, "I8", .plain = kt_decode_i8},
    [KT_DTYPE_I16] = {"i16", 1, 2, 25, "I16", NULL, NULL},
    [KT_DTYPE_I32] = {"i32", 1, 4, 26, "I32", NULL, NULL},
    [KT_DTYPE_I64] = {"i64", 1, 8, 27, "I64", NULL, NULL},
    [KT_DTYPE_U8] = {"u8", 1, 1, -1, "U8", NULL, NULL},
    [KT_DTYPE_U16] = {"u16", 1, 2, -1, "U16", NULL, NULL},
    [KT_DTYPE_U32] = {"u32", 1, 4, -1, "U32", NULL, NULL},
    [KT_DTYPE_U64] = {"u64", 1, 8, -1, "U64", NULL, NULL},
    [KT_DTYPE_BOOL] = {"bool", 1, 1, -1, "BOOL", NULL, NULL},
    [KT_DTYPE_F8_E4M3] = {"f8_e4m3", 1, 1, -1, "F8_E4M3", .plain = kt_decode_e4m3},
    [KT_DTYPE_F8_E5M2] = {"f8_e5m2", 1, 1, -1, "F8_E5M2", .plain = kt_decode_e5m2},
    [KT_DTYPE_F8_E8M0] = {"f8_e8m0", 1, 1, -1, "F8_E8M0", .plain = kt_decode_e8m0},
    [KT_DTYPE_INT4] = {"int4", 8, 4, -1, NULL, .blocks = kt_decode_int4},
    [KT_DTYPE_F4_E2M1] = {"f4_e2m1", 8, 4, -1, "F4", .blocks = kt_decode_e2m1},
    [KT_DTYPE_Q4_0] = {"q4_0", 32, 18, 2, NULL, .blocks = kt_decode_q4_0},
    [KT_DTYPE_Q4_1] = {"q4_1", 32, 20, 3, NULL, .blocks = kt_decode_q4_1},
    [KT_DTYPE_Q5_0] = {"q5_0", 32, 22, 6, NULL, .blocks = kt_decode_q5_0},
    [KT_DTYPE_Q5_1] = {"q5_1", 32, 24, 7, NULL, .blocks = kt_decode_q5_1},
    [KT_DTYPE_Q8_0] = {"q8_0", 32, 34, 8, NULL, .blocks = kt_decode_q8_0},
    [KT_DTYPE_Q2_K] = {"q2_k", 256, 84, 10, NULL, .blocks = kt_decode_q2_k},
    [KT_DTYPE_Q3_K] = {"q3_k", 256, 110, 11, NULL, .blocks = kt_decode_q3_k},
    [KT_DTYPE_Q4_K] = {"q4_k", 256, 144, 12, NULL, .blocks = kt_decode_q4_k},
    [KT_DTYPE_Q5_K] = {"q5_k", 256, 176, 13, NULL, .blocks = kt_decode_q5_k},
    [KT_DTYPE_Q6_K] = {"q6_k", 256, 210, 14, NULL, .blocks = kt_decode_q6_k},
    [KT_DTYPE_IQ4_NL] = {"iq4_nl", 32, 18, 20, NULL, .blocks = kt_decode_iq4_nl},
    [KT_DTYPE_IQ4_XS] = {"iq4_xs", 256, 136, 23, NULL, .blocks = kt_decode_iq4_xs},
    [KT_DTYPE_MXFP4] = {"mxfp4", 32, 17, 39, NULL, .blocks = kt_decode_mxfp4},
    [KT_DTYPE_Q8_1] = {"q8_1", 32, 36, 9, NULL, NULL, NULL},
    [KT_DTYPE_Q8_K] = {"q8_k", 256, 292, 15, NULL, NULL, NULL},
    [KT_DTYPE_IQ1_S] = {"iq1_s", 256, 50, 19, NULL, .blocks = kt_decode_iq1_s},
    [KT_DTYPE_IQ1_M] = {"iq1_m", 256, 56, 29, NULL, .blocks = kt_decode_iq1_m},
    [KT_DTYPE_IQ2_XXS] = {"iq2_xxs", 256, 66, 16, NULL, .blocks = kt_decode_iq2_xxs},
    [KT_DTYPE_IQ2_XS] = {"iq2_xs", 256, 74, 17, NULL, .blocks = kt_decode_iq2_xs},
    [KT_DTYPE_IQ2_S] = {"iq2_s", 256, 82, 22, NULL, .blocks = kt_decode_iq2_s},
    [KT_DTYPE_IQ3_XXS] = {"iq3_xxs", 256, 98, 18, NULL, .blocks = kt_decode_iq3_xxs},
    [KT_DTYPE_IQ3_S] = {"iq3_s", 256, 110, 21, NULL, .blocks = kt_decode_iq3_s},
    [KT_DTYPE_TQ1_0] = {"tq1_0", 256, 54, 34, NULL, .blocks = kt_decode_tq1_0},
    [KT_DTYPE_TQ2_0] = {"tq2_0", 256, 66, 35, NULL, .blocks = kt_decode_tq2_0},
    [KT_DTYPE_NVFP4] = {"nvfp4", 64, 36, 40, NULL, .blocks = kt_decode_nvfp4},
    [KT_DTYPE_Q1_0] = {"q1_0", 128, 18, 41, NULL, .blocks = kt_decode_q1_0},
    [KT_DTYPE_Q2_0] = {"q2_0", 64, 18, 42, NULL, .blocks = kt_decode_q2_0},
};

enum { TABLE_SIZE = sizeof table / sizeof table[0] };

const struct kt_dtype_info *kt_dtype_find(uint32_t dtype)
{
    return dtype < TABLE_SIZE && table[dtype].name ? &table[dtype] : NULL;
}

enum kt_dtype kt_dtype_from_ggml(uint32_t number)
{
    for (unsigned i = 0; i < TABLE_SIZE; i++)
        if (table[i].name && table[i].ggml >= 0 && (uint32_t)table[i].ggml == number)
            return (enum kt_dtype)i;
    return KT_DTYPE_NONE;
}

enum kt_dtype kt_dtype_from_safetensors(const char *name)
{
    for (unsigned i = 0; i < TABLE_SIZE; i++)
        if (table[i].safetensors && strcmp(table[i].safetensors, name) == 0)
            return (enum kt_dtype)i;
    return KT_DTYPE_NONE;
}

uint32_t kt_safetensors_bits(const char *name)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {{"F6_E2M3", 6}, {"F6_E3M2", 6}, {"C64", 64}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].bits;
    return 0;
}

const char *kt_dtype_name(uint32_t dtype)
{
    const struct kt_dtype_info *info = kt_dtype_find(dtype);
    return info ? info->name : "?";
}

enum kt_dtype kt_dtype_parse(const char *name)
{
    for (unsigned i = 0; name && i < TABLE_SIZE; i++)
        if (table[i].name && strcasecmp(table[i].name, name) == 0)
            return (enum kt_dtype)i;
    return KT_DTYPE_NONE;
}

void kt_dtype_block(uint32_t dtype, uint32_t *elements, uint32_t *bytes)
{
    const struct kt_dtype_info *info = kt_dtype_find(dtype);
    if (elements)
        *elements = info ? info->elements : 0;
    if (bytes)
        *bytes = info ? info->bytes : 0;
}

bool kt_dtype_scales(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_F32:
    case KT_DTYPE_F16:
    case KT_DTYPE_BF16:
    case KT_DTYPE_F64:
    case KT_DTYPE_F8_E4M3:
    case KT_DTYPE_F8_E5M2:
    case KT_DTYPE_F8_E8M0:
        return true;
    default:
        return false;
    }
}

bool kt_dtype_needs_scales(uint32_t dtype)
{
    return dtype == KT_DTYPE_I8 || dtype == KT_DTYPE_INT4;
}
