/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin kml_arm to: weights are what their form says. */
#include "tests/checkkernel/check.h"

#include <string.h>

static void code_row(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale)
{
    bool is_int4 = strncmp(check->layout.form, "amx_int4-", strlen("amx_int4-")) == 0;
    (is_int4 ? model_code_int4 : model_code_int8)(check, projection, row, source, codes, scale);
}

const struct model kml_arm_model = {
    .plugin = "kml_arm",
    .dtypes = model_float_dtypes,
    .read_row = model_read_int8,
    .code_row = code_row,
};
