/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h - sums of outputs in float32, and where they go. */
#ifndef KT_CORE_FORWARD_SUM_H
#define KT_CORE_FORWARD_SUM_H

#include <stdbool.h>
#include <stdint.h>

#define KT_SUM_BLOCK 512 /* most numbers of a sum: they stay in L1 */

/* sum[i] += weight * y[i], in float32; y is KT_DTYPE_BF16, or else float32. */
void kt_sum_add(float *sum, const void *y, uint32_t y_dtype, float weight, uint64_t n);

/* sum[i] = before[i] + sum[i]; before is float32, KT_DTYPE_BF16 or KT_DTYPE_F16. */
void kt_sum_add_before(float *sum, const void *before, uint32_t dtype, uint64_t n);

/* Asks for what is added soon: other cores have written it. */
void kt_sum_fetch(const void *at, uint64_t size);

/* Rounds sums to nearest, ties to even; accumulate: adds what is there first. */
void kt_sum_store(float *sum, void *out, uint32_t dtype, bool accumulate, uint64_t n);

#endif
