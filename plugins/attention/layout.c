/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - which shapes the plugin takes. */
#include "plugins/attention/attention.h"

#include <string.h>

static const char *form_of(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32    ? "f32"
           : dtype == KT_DTYPE_BF16 ? "bf16"
           : dtype == KT_DTYPE_Q8_0 ? "q8_0"
                                    : NULL;
}

static enum kt_status check_size(const char *what, uint32_t size, struct kt_error *error)
{
    if (size >= 1 && size <= 1024)
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s have %u numbers; 1 to 1024 are possible", what, size);
}

enum kt_status attention_check(struct kt_attention_layout *layout, struct kt_error *error)
{
    const struct kt_attention_shape *shape = &layout->shape;
    if (!form_of(shape->key.dtype) || !form_of(shape->value.dtype))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              "the cache keeps %s as dtype %u; f32, bf16 and q8_0 are possible",
                              form_of(shape->key.dtype) ? "values" : "keys",
                              form_of(shape->key.dtype) ? shape->value.dtype : shape->key.dtype);
    enum kt_status status = check_size("keys", shape->key_size, error);
    if (status == KT_OK)
        status = check_size("values", shape->value_size, error);
    if (status != KT_OK)
        return status;
    layout->partial_stride = PARTIAL_OUTPUT + round_up(shape->value_size, LINE) * sizeof(float);
    return KT_OK;
}
