/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/instance.h - what the table of levels of a backend is made of, and its instances. Include the
 * backend's header first: its OPS_NAME(level) is the name of a level's struct kt_ops.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_INSTANCE_H
#define KT_PLUGINS_COMMON_PLUGIN_INSTANCE_H

#define NEEDS_AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define NEEDS_AVX512 (NEEDS_AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)
#define NEEDS_I8MM (KT_CPU_NEON | KT_CPU_DOTPROD | KT_CPU_I8MM)

/* A level's struct kt_level; more fields of it may follow. */
#define DEFINE_LEVEL(level, needs, bound, ...)                                            \
    static const struct kt_level level_##level = {.struct_size = sizeof(struct kt_level), \
                                                  .name = #level,                         \
                                                  .cpu = (needs),                         \
                                                  .instruction = (bound),                 \
                                                  .ops = &OPS_NAME(level),                \
                                                  __VA_ARGS__}

/* The option that all of these have, and what it says. */
#define OPTION_ROW_Y                                                                                  \
    {                                                                                                 \
        .key = "y", .type = KT_OPTION_ENUM, .default_text = "f32", .choices = "f32|bf16",             \
        .help = "form of an expert's output before the weighted sum; bf16 halves its memory traffic", \
    }

/* The option of backends with int4_group/weights.h's weights: its number is the group's shift. */
#define OPTION_GROUP4_SIZE                                                                         \
    {                                                                                              \
        .key = "group_size", .type = KT_OPTION_ENUM, .default_text = "32", .choices = "32|64|128", \
        .help = "weights of a row that share a scale; larger ones save 1/8 and 3/16 bit a weight", \
    }

/* What all instances have, but for what a backend's own options say; `y` is the value of OPTION_ROW_Y. */
static inline struct instance8 make_instance8(const struct kt_host *host, const struct kt_caps *caps,
                                              const struct kt_option_value *y)
{
    return (struct instance8){
        .host = host,
        .y_dtype = y->number ? KT_DTYPE_BF16 : KT_DTYPE_F32,
        .l2_size = caps->l2_size ? caps->l2_size : UINT64_C(1) << 20,
        .ahead = caps->stream_ahead ? caps->stream_ahead : 1024,
    };
}

static inline enum kt_status open_instance8(const struct kt_host *host, const struct kt_caps *caps,
                                            const struct kt_option_value *y, struct instance8 **instance,
                                            struct kt_error *error)
{
    struct instance8 *self = host->allocate(host, sizeof *self);
    if (!self)
        return kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no memory for an instance");
    *self = make_instance8(host, caps, y);
    *instance = self;
    return KT_OK;
}

static inline void close_instance(void *instance)
{
    struct instance8 *self = instance;
    self->host->release(self->host, self, sizeof *self);
}

#endif
