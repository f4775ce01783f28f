/* SPDX-License-Identifier: Apache-2.0 */
/* encode.h - float32 to the 16-bit formats (decode.h has the way back): round to nearest even, NaN stays
 * NaN. */
#ifndef KT_CORE_WEIGHTS_DECODE_ENCODE_H
#define KT_CORE_WEIGHTS_DECODE_ENCODE_H

#include "core/weights/decode/decode.h"

/* Without a branch, so that loops of it become vectors. */
static inline uint16_t kt_to_bf16(float value)
{
    uint32_t bits = kt_float_bits(value), nan = kt_mask_below(0x7f800000, bits & 0x7fffffff);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((rounded & ~nan) | ((bits >> 16 | 0x40) & nan));
}

static inline uint16_t kt_to_f16(float value)
{
    uint32_t bits = kt_float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* subnormal: the sum with 1/2 is rounded to 2^-24 */
        return (uint16_t)(sign | (kt_float_bits(kt_bits_float(magnitude) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

#endif
