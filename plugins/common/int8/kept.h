/* SPDX-License-Identifier: Apache-2.0 */
/* int8/kept.h - sources that are int8 with scales of whole rows already: they are copied, not rounded again.
 */
#ifndef KT_PLUGINS_COMMON_INT8_KEPT_H
#define KT_PLUGINS_COMMON_INT8_KEPT_H

#include "plugins/common/gemm/geometry.h"

/* k: columns of the matrix, of which a group holds a whole row. */
static inline bool is_kept(uint32_t dtype, uint32_t scale_dtype, uint32_t zero_dtype, uint64_t group_cols,
                           uint64_t k)
{
    bool number = scale_dtype == KT_DTYPE_F32 || scale_dtype == KT_DTYPE_F16 || scale_dtype == KT_DTYPE_BF16;
    return dtype == KT_DTYPE_I8 && number && zero_dtype == KT_DTYPE_NONE && group_cols >= k;
}

static inline bool keeps_shape(const struct kt_shape *shape)
{
    bool kept = true;
    for (int p = first_projection(shape); p <= KT_DOWN; p++) {
        const struct kt_format *format = &shape->format[p];
        kept &= is_kept(format->dtype, format->scale_dtype, format->zero_dtype, format->group_cols,
                        p == KT_DOWN ? shape->intermediate_size : shape->hidden_size);
    }
    return kept;
}

#endif
