/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 F, BW, VL and DQ, with VNNI. */
#define SIMD avx512
#define VEC_VNNI 1

#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define ROWS_SHARE_SCALE
#define BLOCK_FLOATS 4
#define DEQUANTIZES 0

/* As on level avx512_vbmi. */
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx512_vnni);

const struct half_panel_kernel *llamafile_avx512_vnni_kernel(uint32_t dtype, bool compact)
{
    return find_kernel(dtype, compact);
}

const struct shared_scale_kernel *llamafile_avx512_vnni_shared_scale(uint32_t dtype)
{
    return find_shared_scale_kernel(dtype);
}

both_fn llamafile_avx512_vnni_both(uint32_t dtype, bool shared)
{
    return find_both(dtype, shared);
}
