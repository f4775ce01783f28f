/* SPDX-License-Identifier: Apache-2.0 */
/* model_int8.c - what plugins/common/int8/weights.h says of weights: a row has one scale. */
#include "tests/checkkernel/int8_case.h"

void model_weights(struct expert *expert, const struct kt_layout *layout, void *const packed[2])
{
    (void)layout;
    (void)packed;
    for (int p = 0; p < 3; p++) {
        struct matrix *matrix = &expert->matrix[p];
        for (uint64_t r = 0; r < matrix->rows; r++)
            matrix->scale[r] =
                model_quantize(matrix->value + r * matrix->cols, matrix->cols, matrix->q + r * matrix->cols);
    }
}
