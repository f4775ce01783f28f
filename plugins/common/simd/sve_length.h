/* SPDX-License-Identifier: Apache-2.0 */
/* simd/sve_length.h - the length of this process' SVE vectors, for files that are compiled for any ARM. */
#ifndef KT_PLUGINS_COMMON_SIMD_SVE_LENGTH_H
#define KT_PLUGINS_COMMON_SIMD_SVE_LENGTH_H

#include <linux/prctl.h>
#include <sys/prctl.h>

/* 0: there are none. */
static inline unsigned read_sve_bits(void)
{
    int size = prctl(PR_SVE_GET_VL);
    return size > 0 ? 8 * ((unsigned)size & PR_SVE_VL_LEN_MASK) : 0;
}

#endif
