/* SPDX-License-Identifier: Apache-2.0 */
/* method.c - the names that KT-Kernel's users know, and the backend that each stands for. */
#include "core/option.h"

#include <kt/kt.h>

#include <string.h>
#include <strings.h>

static const struct {
    const char *method, *backend;
} methods[] = {
    {"AMXINT4", "amx_int4"},
    {"AMXINT8", "amx_int8"},
    {"BF16", "bf16"},
    {"LLAMAFILE", "llamafile"},
#if defined __aarch64__
    {"MOE_INT8", "kml_arm"},
#else
    {"MOE_INT8", "blis_int8"},
#endif
    {"MOE_INT4", "amx_int4"},
    /* Weights as they were published: these say what the model has, and the backend. */
    {"RAWINT4", "rawint4"},
    {"GPTQ_INT4", "rawint4"},
    {"AWQ", "rawint4"},
    {"MXFP4", "rawint4"},
    {"FP8", "avx512_fp8"},
    {"FP8_PERCHANNEL", "avx512_fp8"},
    {"MXFP8", "avx512_fp8"},
};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

const char *kt_method_name(size_t index)
{
    return index < N_METHODS ? methods[index].method : NULL;
}

const char *kt_method_backend(const char *method)
{
    for (size_t i = 0; method && i < N_METHODS; i++)
        if (strcasecmp(method, methods[i].method) == 0)
            return methods[i].backend;
    return method && kt_option_is_word(method, KT_PLUGIN_NAME_LIMIT) ? method : NULL;
}
