/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize.h - weights of any view as float32. */
#ifndef KT_CORE_WEIGHTS_DECODE_DEQUANTIZE_H
#define KT_CORE_WEIGHTS_DECODE_DEQUANTIZE_H

#include "core/weights/decode/dtype.h"

#include <kt/kt.h>
#include <stdbool.h>

/* n weights of a row from column col on, as float32 (struct kt_host.dequantize). */
enum kt_status kt_view_dequantize(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                  float *out, struct kt_error *error);

/* Can kt_view_dequantize read weights of this dtype? */
bool kt_dtype_decodes(uint32_t dtype);

/* One number of a plain dtype that kt_dtype_decodes. */
float kt_dtype_number(uint32_t dtype, const uint8_t *number);

#endif
