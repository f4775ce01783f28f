/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor/vendor.h - what a level (vendor/gemm_tmpl.h) asks of a vendor's library that multiplies int8.
 * `library` is the backend's own struct of the functions that it found.
 */
#ifndef KT_PLUGINS_COMMON_VENDOR_VENDOR_H
#define KT_PLUGINS_COMMON_VENDOR_VENDOR_H

#include <kt/plugin.h>
#include <stdbool.h>
#include <string.h>

/* Values of the option `library`: all names that are known, or none. */
#define LIBRARY_AUTO "auto"
#define LIBRARY_NONE "none"

struct vendor {
    const char *name; /* for messages */
    /* Bytes that it wants for n rows of k weights, and these rows in its own order. */
    uint64_t (*size)(const void *library, uint64_t k, uint64_t n);
    void (*reorder)(const void *library, const int8_t *rows, uint64_t k, uint64_t n, int8_t *to);
    /* c[m][n] = a[m][k] b, with b reordered and rows of a lda bytes apart. */
    void (*multiply)(const void *library, uint64_t m, uint64_t n, uint64_t k, const int8_t *a, uint64_t lda,
                     const int8_t *b, int32_t *c);
    /* The calling thread's setting, so that the library does not cut products once more. leave restores
     * what enter returned. */
    int64_t (*enter)(const void *library);
    void (*leave)(const void *library, int64_t before);
};

/* False: the library returned without computing, which it reports in no other way. No sum of codes within
 * +-127 is INT32_MIN. */
static inline bool vendor_multiply(const struct vendor *vendor, const void *library, uint64_t m, uint64_t n,
                                   uint64_t k, const int8_t *a, uint64_t lda, const int8_t *b, int32_t *c)
{
    c[0] = c[m * n - 1] = INT32_MIN;
    vendor->multiply(library, m, n, k, a, lda, b, c);
    return c[0] != INT32_MIN && c[m * n - 1] != INT32_MIN;
}

#endif
