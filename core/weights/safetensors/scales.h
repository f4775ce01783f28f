/* SPDX-License-Identifier: Apache-2.0 */
/* scales.h - scales of plain weights, and which weights may have them. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_SCALES_H
#define KT_CORE_WEIGHTS_SAFETENSORS_SCALES_H

#include "core/weights/model/model_config.h"

#include <stdbool.h>

/* Can weights of this type with these scales (NULL: none) be read? KT_E_UNSUPPORTED names their format. */
enum kt_status kt_check_weight_format(const char *label, const struct kt_tensor_info *weight,
                                      const struct kt_tensor_info *scale, struct kt_error *error);

/* Is the tensor rows x cols, but for dimensions of 1 that do not change what it says? A vector that follows a
 * 1 is no column. */
bool kt_is_matrix(const struct kt_tensor_info *info, uint64_t rows, uint64_t cols);

/* Sets type, groups and strides of the scales of a matrix; not their data. */
enum kt_status kt_lay_scales(const char *label, const struct kt_model_config *config,
                             const struct kt_tensor_info *weight, const struct kt_tensor_info *scale,
                             struct kt_scales *scales, struct kt_error *error);

#endif
