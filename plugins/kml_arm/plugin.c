/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin kml_arm: weights of 8 or 4 bits on ARM. */
#include "plugins/kml_arm/kml_arm.h"

#include "plugins/common/plugin/levels.h"
#include "plugins/common/simd/sve_length.h"

#include <string.h>

/* ---- a level's functions: those for the layer's bits, which lie in kt_layout.state ---- */

static const struct kt_ops *find_ops(const struct kt_layout *layout)
{
    return layout->state;
}

/* Weights of a store say by their form's name what they are. */
static enum kt_status lay_out(const struct kt_ops *int8, const struct kt_ops *int4, void *instance,
                              struct kt_layout *layout, struct kt_error *error)
{
    const struct kml_instance *self = instance;
    const char *form = layout->form;
    bool is_int4 = form[0] ? strncmp(form, "amx_int4-", strlen("amx_int4-")) == 0 : self->bits == 4;
    const struct kt_ops *ops = is_int4 ? int4 : int8;
    enum kt_status status = ops->layout(instance, layout, error);
    if (status == KT_OK)
        layout->state = (void *)(uintptr_t)ops;
    return status;
}

static enum kt_status pack(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    return find_ops(job->layout)->pack(instance, job, error);
}

static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    find_ops(job->layout)->act_pack(instance, job);
}

static void multiply_gate_up(void *instance, const struct kt_product *job)
{
    find_ops(job->layout)->gate_up(instance, job);
}

static void multiply_down(void *instance, const struct kt_product *job)
{
    find_ops(job->layout)->down(instance, job);
}

static enum kt_status read_weights(void *instance, const struct kt_layout *layout, const void *packed,
                                   const struct kt_expert *source, enum kt_projection projection,
                                   uint64_t row, float *out, struct kt_error *error)
{
    return find_ops(layout)->weight_row(instance, layout, packed, source, projection, row, out, error);
}

static void cut(void *instance, const struct kt_cut *job)
{
    find_ops(job->shard)->cut(instance, job);
}

#define OPS_NAME(level) ops_##level
#define DEFINE_OPS(level)                                                                                   \
    extern const struct kt_ops kml_arm_int8_##level, kml_arm_int4_##level;                                  \
    static enum kt_status lay_out_##level(void *instance, struct kt_layout *layout, struct kt_error *error) \
    {                                                                                                       \
        return lay_out(&kml_arm_int8_##level, &kml_arm_int4_##level, instance, layout, error);              \
    }                                                                                                       \
    static const struct kt_ops ops_##level = {                                                              \
        .struct_size = sizeof(struct kt_ops),                                                               \
        .layout = lay_out_##level,                                                                          \
        .pack = pack,                                                                                       \
        .act_pack = pack_rows,                                                                              \
        .gate_up = multiply_gate_up,                                                                        \
        .down = multiply_down,                                                                              \
        .weight_row = read_weights,                                                                         \
        .cut = cut,                                                                                         \
    }

DEFINE_OPS(scalar);
DEFINE_OPS(neon);
#ifdef LEVEL_DOTPROD
DEFINE_OPS(dotprod);
#endif
#ifdef LEVEL_I8MM
DEFINE_OPS(i8mm);
#endif

/* ---- level sve: the functions for this process' vector length ---- */

#ifdef LEVEL_SVE
extern const struct kt_ops kml_arm_int8_sve256, kml_arm_int4_sve256, kml_arm_int8_sve512, kml_arm_int4_sve512;

static enum kt_status lay_out_sve(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    if (read_sve_bits() == 512)
        return lay_out(&kml_arm_int8_sve512, &kml_arm_int4_sve512, instance, layout, error);
    return lay_out(&kml_arm_int8_sve256, &kml_arm_int4_sve256, instance, layout, error);
}

static enum kt_status check_sve(void *instance, struct kt_error *error)
{
    unsigned bits = read_sve_bits();
    (void)instance;
    if (bits == 256 || bits == 512)
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                          "vectors have %u bits; it is for 256 and 512, in place of "
                          "NEON's 128",
                          bits);
}

static const struct kt_ops ops_sve = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_sve,
    .pack = pack,
    .act_pack = pack_rows,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = read_weights,
    .cut = cut,
};
#endif

/* ---- level kml: the library's int8; the best of our own for 4 bits and for weights of a store ---- */

extern const struct kt_ops kml_arm_int8_kml;

static enum kt_status lay_out_kml(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct kml_instance *self = instance;
    return lay_out(&kml_arm_int8_kml, self->own_int4, instance, layout, error);
}

/* Rows of both lie side by side. */
static void gather(void *instance, const struct kt_gather *job)
{
    kml_arm_int8_kml.gather(instance, job);
}

static void enter_thread(void *instance)
{
    kml_arm_int8_kml.thread_enter(instance);
}

static void leave_thread(void *instance)
{
    kml_arm_int8_kml.thread_leave(instance);
}

static const struct kt_ops ops_kml = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_kml,
    .pack = pack,
    .act_pack = pack_rows,
    .gather = gather,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = read_weights,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
    .cut = cut,
};

/* Not before the level is to be taken: a library that nobody uses is not even opened. */
static enum kt_status check_kml(void *instance, struct kt_error *error)
{
    struct kml_instance *self = instance;
    return kml_open(self->int4.base.host, self->library, &self->kml, error);
}

static const struct kt_level *const levels[] = {
#ifdef LEVEL_KML
    LEVEL(kml, NEEDS_DOTPROD, "sdot", .check = check_kml),
#endif
#ifdef LEVEL_I8MM
    LEVEL(i8mm, NEEDS_I8MM, "usmmla"),
#endif
#ifdef LEVEL_SVE
    LEVEL(sve, KT_CPU_NEON | KT_CPU_SVE, "svdot", .check = check_sve),
#endif
#ifdef LEVEL_DOTPROD
    LEVEL(dotprod, NEEDS_DOTPROD, "sdot"),
#endif
#ifdef LEVEL_NEON
    LEVEL(neon, KT_CPU_NEON, "smull"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

static void find_fallback(uint64_t cpu, struct kml_instance *self)
{
    self->own_int8 = &kml_arm_int8_neon;
    self->own_int4 = &kml_arm_int4_neon;
#ifdef LEVEL_DOTPROD
    if (cpu & KT_CPU_DOTPROD) {
        self->own_int8 = &kml_arm_int8_dotprod;
        self->own_int4 = &kml_arm_int4_dotprod;
    }
#endif
#ifdef LEVEL_I8MM
    if ((cpu & NEEDS_I8MM) == NEEDS_I8MM) {
        self->own_int8 = &kml_arm_int8_i8mm;
        self->own_int4 = &kml_arm_int4_i8mm;
    }
#endif
}

/* ---- options and instances ---- */

enum { OPTION_WEIGHTS, OPTION_GROUP_SIZE, OPTION_LIBRARY, OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_WEIGHTS] =
        {
            .key = "weights",
            .type = KT_OPTION_ENUM,
            .default_text = "int8",
            .choices = "int8|int4",
            .help = "what weights become: int8 with a scale per row, or 4 bits with a scale per group",
        },
    [OPTION_GROUP_SIZE] = OPTION_GROUP4_SIZE,
    [OPTION_LIBRARY] =
        {
            .key = "library",
            .type = KT_OPTION_STRING,
            .default_text = LIBRARY_NONE,
            .help =
                "Huawei's KML for level kml: none, auto, an absolute path or a name for the dynamic linker",
        },
    [OPTION_Y] = OPTION_ROW_Y,
};

static void read_options(struct kml_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    self->int4.group_size = UINT32_C(32) << values[OPTION_GROUP_SIZE].number;
    self->bits = values[OPTION_WEIGHTS].number ? 4 : 8;
    self->library = values[OPTION_LIBRARY].text;
    find_fallback(caps->cpu, self);
}

#define INSTANCE struct kml_instance
#include "plugins/common/plugin/options_tmpl.h"

KT_PLUGIN_DEFINE(kml_arm) = {
    KT_PLUGIN_HEADER(kml_arm),
    .description = "int8 weights with a scale per row, or 4-bit ones with group scales, quantized from any "
                   "source, on ARM, by its own kernels or Huawei's KML; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    PLUGIN_PARTS,
};
