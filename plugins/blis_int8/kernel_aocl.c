/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_aocl.c - products by AMD's library, AVX-512 for all that is not the product. */
#define SIMD avx512
#define VEC_VNNI 1

#include "plugins/blis_int8/blis_int8.h"

#define VENDOR (&aocl_vendor)
#include "plugins/common/vendor/gemm_tmpl.h"

static const void *find_library(const void *instance)
{
    return &((const struct blis_instance *)instance)->aocl;
}

static const struct kt_ops *find_fallback(const void *instance)
{
    (void)instance;
    return &OPS_NAME(avx512_vnni);
}

const struct kt_ops OPS_NAME(aocl) = MATRIX_OPS;
