/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin blis_int8 to. */
#include "tests/checkkernel/check.h"

const struct model blis_int8_model = {
    .plugin = "blis_int8",
    .dtypes = model_float_dtypes,
    .read_row = model_read_int8,
    .code_row = model_code_int8,
};
