/* SPDX-License-Identifier: Apache-2.0 */
/* method.c - the names that KT-Kernel's users know, and the backend that each stands for. */
#include "core/base/option.h"

#include <kt/kt.h>

#include <string.h>
#include <strings.h>

/*
 * A list by hand: the names are another program's, some mean another backend on another CPU, and they must
 * work where no plugin is installed. A backend's own name is a method as well, so a new backend needs no row.
 * `setting` overrides the configuration, for a backend that serves several methods.
 */
static const struct method {
    const char *name, *backend, *setting;
} methods[] = {
    {"AMXINT4", "amx_int4", NULL},
    {"AMXINT8", "amx_int8", NULL},
    {"BF16", "bf16", NULL},
    {"LLAMAFILE", "llamafile", NULL},
#if defined __aarch64__
    {"MOE_INT8", "kml_arm", "plugin.kml_arm.weights=int8"},
    {"MOE_INT4", "kml_arm", "plugin.kml_arm.weights=int4"},
#else
    {"MOE_INT8", "blis_int8", NULL},
    {"MOE_INT4", "amx_int4", NULL},
#endif
    /* Published weights: the name of their format stands for the backend that takes it. */
    {"RAWINT4", "rawint4", NULL},
    {"GPTQ_INT4", "rawint4", NULL},
    {"AWQ", "rawint4", NULL},
    {"MXFP4", "rawint4", NULL},
    {"FP8", "avx512_fp8", NULL},
    {"FP8_PERCHANNEL", "avx512_fp8", NULL},
    {"MXFP8", "avx512_fp8", NULL},
};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

static const struct method *find(const char *name)
{
    for (size_t i = 0; name && i < N_METHODS; i++)
        if (strcasecmp(name, methods[i].name) == 0)
            return &methods[i];
    return NULL;
}

const char *kt_method_name(size_t index)
{
    return index < N_METHODS ? methods[index].name : NULL;
}

const char *kt_method_backend(const char *name)
{
    const struct method *method = find(name);
    if (method)
        return method->backend;
    return name && kt_option_is_word(name, KT_PLUGIN_NAME_LIMIT) ? name : NULL;
}

const char *kt_method_setting(const char *name)
{
    const struct method *method = find(name);
    return method ? method->setting : NULL;
}
