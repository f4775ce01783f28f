/* SPDX-License-Identifier: Apache-2.0 */
/* int8_kml.c - products by Huawei's library, NEON for all that is not the product. */
#define SIMD neon

#include "plugins/kml_arm/int8.h"

#define VENDOR (&kml_vendor)
#include "plugins/common/vendor/gemm_tmpl.h"

static const void *find_library(const void *instance)
{
    return &((const struct kml_instance *)instance)->kml;
}

static const struct kt_ops *find_fallback(const void *instance)
{
    return ((const struct kml_instance *)instance)->own_int8;
}

const struct kt_ops OPS_NAME(kml) = MATRIX_OPS;
