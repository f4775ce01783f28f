/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kml_stub.c - a library with the functions that the plugin kml_arm takes of Huawei's KML, in plain C. It
 * wants to be asked to use one thread only, and returns without a word where it is asked for something that
 * it does not know.
 *
 *   STUB_INT        what it takes for sizes: int, or int64_t as where it is built with USE64BITINT
 *   STUB_SHARED     one setting of threads for all that call it
 *   STUB_BARE       it has no product of int8, as older ones
 *   STUB_IDLE       its product returns without computing
 *   STUB_LIMIT      its product forgets what stands behind so many columns
 *   STUB_ROUNDS     its sums go through float32
 */
#include "tests/checkkernel/vendor_stub.h"

#include <stddef.h>

#ifndef STUB_INT
#define STUB_INT int
#endif
#ifndef STUB_LIMIT
#define STUB_LIMIT INT32_MAX
#endif

/* ---- threads ---- */

#ifdef STUB_SHARED
EXPORT void BlasSetNumThreads(int n);
void BlasSetNumThreads(int n)
{
    n_threads = n;
}
#else
EXPORT void BlasSetNumThreadsLocal(int n);
EXPORT int BlasGetNumThreadsLocal(void);
void BlasSetNumThreadsLocal(int n)
{
    n_threads = n;
}

int BlasGetNumThreadsLocal(void)
{
    return (int)n_threads;
}
#endif

/* ---- the product ---- */

#ifndef STUB_BARE
EXPORT void cblas_gemm_s8s8s32(int order, int trans_a, int trans_b, int offset, STUB_INT m, STUB_INT n,
                               STUB_INT k, float alpha, const int8_t *a, STUB_INT lda, int8_t a_offset,
                               const int8_t *b, STUB_INT ldb, int8_t b_offset, float beta, int32_t *c,
                               STUB_INT ldc, const STUB_INT *c_offset);
void cblas_gemm_s8s8s32(int order, int trans_a, int trans_b, int offset, STUB_INT m, STUB_INT n, STUB_INT k,
                        float alpha, const int8_t *a, STUB_INT lda, int8_t a_offset, const int8_t *b,
                        STUB_INT ldb, int8_t b_offset, float beta, int32_t *c, STUB_INT ldc,
                        const STUB_INT *c_offset)
{
    if (order != 101 || trans_a != 111 || trans_b != 112 || offset != 173 || alpha < 1.0f || alpha > 1.0f ||
        beta < 0.0f || beta > 0.0f || lda < k || ldb < k || ldc < n || n_threads != 1 || idle)
        return;
#ifdef STUB_IDLE
    return;
#endif
    for (STUB_INT r = 0; r < m; r++)
        for (STUB_INT i = 0; i < n; i++) {
            int64_t sum = *c_offset;
            for (STUB_INT j = 0; j < k && j < STUB_LIMIT; j++)
                sum += (a[r * lda + j] + a_offset) * (b[i * ldb + j] + b_offset);
#ifdef STUB_ROUNDS
            sum = (int64_t)(float)sum;
#endif
            c[r * ldc + i] = (int32_t)sum;
        }
}
#endif
