/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aocl_stub.c - a library with the functions that the plugin blis_int8 takes of AMD's AOCL, in plain C. Its
 * reordered matrix can be read by nothing else. Like the real one it returns without a word where it is
 * asked for something that it does not know, and it is asked to use one thread only.
 *
 *   STUB_DLP        it is AOCL-DLP: other functions for threads
 *   STUB_VERSION    what it says of its version
 *   STUB_MUTE       it has no function for that
 *   STUB_BARE       AOCL-BLAS without its addon, as most are built
 *   STUB_SIZE       what it says of every matrix's size
 *   STUB_IDLE       its product returns without computing
 *   STUB_LIMIT      its product forgets what stands behind so many columns
 */
#include "tests/checkkernel/vendor_stub.h"

#include <stddef.h>
#include <string.h>

#ifndef STUB_VERSION
#define STUB_VERSION "AOCL-BLAS 5.2.2 Build 20260101"
#endif
#ifndef STUB_LIMIT
#define STUB_LIMIT INT64_MAX
#endif

/* ---- threads ---- */

#ifdef STUB_DLP
EXPORT void dlp_thread_set_num_threads(int64_t n);
void dlp_thread_set_num_threads(int64_t n)
{
    n_threads = n > 0 ? n : 4;
}
#else
EXPORT void bli_thread_set_num_threads(int64_t n);
EXPORT int64_t bli_thread_get_num_threads(void);
void bli_thread_set_num_threads(int64_t n)
{
    n_threads = n > 0 ? n : 1;
}

int64_t bli_thread_get_num_threads(void)
{
    return n_threads;
}
#endif

#if !defined STUB_DLP && !defined STUB_MUTE
EXPORT const char *bli_info_get_version_str(void);
const char *bli_info_get_version_str(void)
{
    return STUB_VERSION;
}
#endif

#ifndef STUB_BARE

/* ---- a matrix: columns four by four, the last first, every byte turned; then 128 times each sum ---- */

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint64_t find(int64_t k, int64_t k_all, int64_t n, int64_t n_all)
{
    return (uint64_t)((k_all / 4 - 1 - k / 4) * 4 * n_all + n * 4 + k % 4);
}

EXPORT uint64_t aocl_get_reorder_buf_size_s8s8s32os32(char order, char trans, char matrix, int64_t k,
                                                      int64_t n);
uint64_t aocl_get_reorder_buf_size_s8s8s32os32(char order, char trans, char matrix, int64_t k, int64_t n)
{
    (void)trans;
    if (order != 'r' || matrix != 'B' || k <= 0 || n <= 0)
        return 0;
#ifdef STUB_SIZE
    return STUB_SIZE;
#else
    return (uint64_t)(round_up(k, 4) * round_up(n, 16) + round_up(n, 16) * 4);
#endif
}

EXPORT void aocl_reorder_s8s8s32os32(char order, char trans, char matrix, const int8_t *from, int8_t *to,
                                     int64_t k, int64_t n, int64_t ld);
void aocl_reorder_s8s8s32os32(char order, char trans, char matrix, const int8_t *from, int8_t *to, int64_t k,
                              int64_t n, int64_t ld)
{
    int64_t k_all = round_up(k, 4), n_all = round_up(n, 16);
    if (order != 'r' || trans != 't' || matrix != 'B' || ld < k || n_threads != 1)
        return;
    memset(to, 0x5a, (size_t)(k_all * n_all));
    for (int64_t c = 0; c < n; c++) {
        int32_t sum = 0;
        for (int64_t i = 0; i < k; i++) {
            to[find(i, k_all, c, n_all)] = (int8_t)(from[c * ld + i] ^ 0x5a);
            sum += from[c * ld + i];
        }
        sum *= 128;
        memcpy(to + k_all * n_all + 4 * c, &sum, sizeof sum);
    }
}

/* A row of a product, K columns of it, four at a time as they lie in b. */
static void multiply_row(int64_t k, int64_t k_all, int64_t n, int64_t n_all, const int8_t *a, const int8_t *b,
                         int32_t *c)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t taken_off;
        memcpy(&taken_off, b + k_all * n_all + 4 * i, sizeof taken_off);
        c[i] = (int32_t)(0 - (uint32_t)taken_off);
    }
    for (int64_t j = 0; j < k; j += 4) {
        const int8_t *quad = b + find(j, k_all, 0, n_all);
        int x[4] = {0};
        for (int64_t l = 0; l < 4 && j + l < k; l++)
            x[l] = a[j + l] + 128;
        for (int64_t i = 0; i < n; i++, quad += 4) {
            int sum = x[0] * (int8_t)(quad[0] ^ 0x5a) + x[1] * (int8_t)(quad[1] ^ 0x5a) +
                      x[2] * (int8_t)(quad[2] ^ 0x5a) + x[3] * (int8_t)(quad[3] ^ 0x5a);
            c[i] = (int32_t)((uint32_t)c[i] + (uint32_t)sum);
        }
    }
}

EXPORT void aocl_gemm_s8s8s32os32(char order, char trans_a, char trans_b, int64_t m, int64_t n, int64_t k,
                                  int32_t alpha, const int8_t *a, int64_t lda, char form_a, const int8_t *b,
                                  int64_t ldb, char form_b, int32_t beta, int32_t *c, int64_t ldc,
                                  void *post);
void aocl_gemm_s8s8s32os32(char order, char trans_a, char trans_b, int64_t m, int64_t n, int64_t k,
                           int32_t alpha, const int8_t *a, int64_t lda, char form_a, const int8_t *b,
                           int64_t ldb, char form_b, int32_t beta, int32_t *c, int64_t ldc, void *post)
{
    int64_t k_all = round_up(k, 4), n_all = round_up(n, 16);
    if (order != 'r' || trans_a != 'n' || trans_b != 't' || form_a != 'n' || form_b != 'r' || alpha != 1 ||
        beta != 0 || lda < k || ldb < k || ldc < n || post || n_threads != 1 || idle)
        return;
#ifdef STUB_IDLE
    return;
#endif
    for (int64_t r = 0; r < m; r++)
        multiply_row(k < STUB_LIMIT ? k : STUB_LIMIT, k_all, n, n_all, a + r * lda, b, c + r * ldc);
}

#endif
