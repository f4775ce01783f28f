/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broken.c - a plugin with one fault. -DNAME=NAME on the compiler's command line is what it is
 * called, one more -D is the fault: a value for one of the macros below, or a SYMBOL_ of another
 * kind. None of its functions is ever reached but probe and open.
 */
#include <kt/plugin.h>

#ifndef ABI_MAJOR
#define ABI_MAJOR KT_PLUGIN_ABI_MAJOR
#endif
#ifndef ABI_MINOR
#define ABI_MINOR KT_PLUGIN_ABI_MINOR
#endif
#ifndef STRUCT_SIZE
#define STRUCT_SIZE sizeof(struct kt_plugin)
#endif
#ifndef OWN_NAME
#define OWN_NAME NAME
#endif
#ifndef LEVELS
#define LEVELS levels
#endif
#ifndef SECOND_LEVEL
#define SECOND_LEVEL &second
#endif
#ifndef LEVEL_SIZE
#define LEVEL_SIZE sizeof(struct kt_level)
#endif
#ifndef LEVEL_CPU
#define LEVEL_CPU 0
#endif
#ifndef OPS
#define OPS &ops
#endif
#ifndef OPS_SIZE
#define OPS_SIZE sizeof(struct kt_ops)
#endif
#ifndef DOWN
#define DOWN product
#endif
#ifndef LEAVE
#define LEAVE hook
#endif
#ifndef OPTION_KEY
#define OPTION_KEY rows
#endif
#ifndef OPTION_DEFAULT
#define OPTION_DEFAULT 4
#endif
#ifndef OPTION_COUNT
#define OPTION_COUNT 2
#endif
#ifndef OPTION_HELP
#define OPTION_HELP "columns"
#endif
#ifndef PROBE_STATUS
#define PROBE_STATUS KT_OK
#endif
#ifndef OPEN_STATUS
#define OPEN_STATUS KT_OK
#endif

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define DEFINE(name) KT_PLUGIN_DEFINE(name)

#if defined CONSTRUCTOR
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void)
{
    CONSTRUCTOR;
}
#endif

#if defined SYMBOL_FUNCTION

__attribute__((visibility("default"))) int GLUE(kt_plugin_, NAME)(void);
int GLUE(kt_plugin_, NAME)(void)
{
    return 1;
}

#elif defined SYMBOL_TINY

/* clang's sanitizer would make room behind it and count that into the symbol. */
#if defined __clang__
__attribute__((no_sanitize("address")))
#endif
__attribute__((visibility("default"))) extern const uint64_t GLUE(kt_plugin_, NAME);
const uint64_t GLUE(kt_plugin_, NAME) = KT_PLUGIN_ABI_MAJOR;

#else

#if defined SYMBOL_UNRESOLVED
void kt_nobody_has_this(void);
#endif

static enum kt_status layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    (void)instance;
    (void)layout;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "broken");
}

static void act_pack(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    (void)job;
#if defined SYMBOL_UNRESOLVED
    kt_nobody_has_this();
#endif
}

static void product(void *instance, const struct kt_product *job)
{
    (void)instance;
    (void)job;
}

static enum kt_status weight_row(void *instance, const struct kt_layout *packed_layout, const void *packed,
                                 const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                 float *out, struct kt_error *error)
{
    (void)instance;
    (void)packed_layout;
    (void)packed;
    (void)source;
    (void)projection;
    (void)row;
    (void)out;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "broken");
}

static void hook(void *instance)
{
    (void)instance;
}

static const struct kt_ops ops = {
    .struct_size = OPS_SIZE,
    .layout = layout,
    .act_pack = act_pack,
    .gate_up = product,
    .down = DOWN,
    .weight_row = weight_row,
    .thread_enter = hook,
    .thread_leave = LEAVE,
};

static const struct kt_level first = {.struct_size = LEVEL_SIZE,
                                      .name = "first",
                                      .cpu = LEVEL_CPU,
                                      .instruction = "none",
                                      .ops = OPS};
static const struct kt_level second = {.struct_size = sizeof second,
                                       .name = "second",
                                       .cpu = LEVEL_CPU,
                                       .instruction = "none",
                                       .ops = &ops};
static const struct kt_level *const levels[] = {&first, SECOND_LEVEL};
/* What a fault leaves unused is used here, so that the compiler has nothing to say. */
static __attribute__((used)) const void *const unused[] = {&ops, &second, levels};

static const struct kt_option options[] = {
    {TEXT(OPTION_KEY), KT_OPTION_INT, TEXT(OPTION_DEFAULT), NULL, 1, 64, "rows"},
    {"cols", KT_OPTION_BOOL, "no", NULL, 0, 0, OPTION_HELP},
};

static enum kt_status probe(const struct kt_host *host, const struct kt_caps *caps, struct kt_error *error)
{
    (void)host;
    (void)caps;
    return PROBE_STATUS == KT_OK ? KT_OK
                                 : kt_plugin_fail(error, PROBE_STATUS, "there is no vendor library here");
}

/* Where it fails, it says not a word about why. */
static enum kt_status open_broken(const struct kt_host *host, const struct kt_caps *caps,
                                  const struct kt_option_value *values, void **instance,
                                  struct kt_error *error)
{
    (void)host;
    (void)caps;
    (void)values;
    (void)instance;
    (void)error;
    return OPEN_STATUS;
}

DEFINE(NAME) = {
    .abi_major = ABI_MAJOR,
    .abi_minor = ABI_MINOR,
    .struct_size = STRUCT_SIZE,
    .name = TEXT(OWN_NAME),
    .version = "1.0",
    .description = "broken, for tests",
    .formats = "none",
    .levels = LEVELS,
    .n_levels = sizeof levels / sizeof levels[0],
    .options = options,
    .n_options = OPTION_COUNT,
    .probe = probe,
    .open = open_broken,
};

#endif
