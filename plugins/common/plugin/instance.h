/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/instance.h - what every instance has, and the option y. A backend with options of its own embeds a
 * struct instance as the first part of its own struct: the shared code sees that part only.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_INSTANCE_H
#define KT_PLUGINS_COMMON_PLUGIN_INSTANCE_H

#include <kt/plugin.h>
#include <string.h>

struct instance {
    const struct kt_host *host;
    uint64_t l2_size;
    uint64_t prefetch; /* struct kt_caps.stream_ahead */
    uint32_t y_dtype;
};

/* The option that all backends have. */
#define OPTION_ROW_Y                                                                                  \
    {                                                                                                 \
        .key = "y", .type = KT_OPTION_ENUM, .default_text = "f32", .choices = "f32|bf16",             \
        .help = "form of an expert's output before the weighted sum; bf16 halves its memory traffic", \
    }

/* An instance of `size` bytes: a struct instance, then the backend's own part, which is 0. `y` is the value
 * of OPTION_ROW_Y. */
static inline enum kt_status new_instance(const char *backend, uint64_t size, const struct kt_host *host,
                                          const struct kt_caps *caps, const struct kt_option_value *y,
                                          void **instance, struct kt_error *error)
{
    struct instance *self = host->allocate(host, size);
    if (!self)
        return kt_plugin_fail(error, KT_E_NOMEM, "%s: no memory for an instance", backend);
    memset(self, 0, size);
    *self = (struct instance){
        .host = host,
        .y_dtype = y->number ? KT_DTYPE_BF16 : KT_DTYPE_F32,
        .l2_size = caps->l2_size ? caps->l2_size : UINT64_C(1) << 20,
        .prefetch = caps->stream_ahead ? caps->stream_ahead : 1024,
    };
    *instance = self;
    return KT_OK;
}

static inline void free_instance(void *instance, uint64_t size)
{
    const struct kt_host *host = ((const struct instance *)instance)->host;
    host->release(host, instance, size);
}

#endif
