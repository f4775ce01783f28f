/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor/selftest.h - multiplies known numbers with a vendor's library and compares each bit. What a
 * library says of itself, and which functions it has, proves nothing: one that does not support the CPU may
 * return without a word, and one whose sums go through float32 is right up to 2^24 only.
 */
#ifndef KT_PLUGINS_COMMON_VENDOR_SELFTEST_H
#define KT_PLUGINS_COMMON_VENDOR_SELFTEST_H

#include "plugins/common/vendor/vendor.h"

/* K is longer than one block of a library, M and 1 select its methods for several rows and for one, LD is a
 * row's distance as activations have it. */
enum { SELFTEST_K = 4160, SELFTEST_N = 128, SELFTEST_M = 7, SELFTEST_LD = SELFTEST_K + 64 };

/* Within +-127, as all that is multiplied here; every other row is far above 0, so that sums exceed 2^24. */
static void fill_selftest(int8_t *numbers, uint64_t rows, uint64_t ld, uint32_t state)
{
    for (uint64_t i = 0; i < rows * ld; i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        int number = (int)(state >> 24) % 255 - 127;
        numbers[i] = (int8_t)(i / ld % 2 ? number : 64 + (number < 0 ? -number : number) / 2);
    }
}

static bool is_product(const int8_t *a, const int8_t *b, const int32_t *c, uint64_t m)
{
    for (uint64_t r = 0; r < m; r++)
        for (uint64_t i = 0; i < SELFTEST_N; i++) {
            int32_t sum = 0;
            for (uint64_t k = 0; k < SELFTEST_K; k++)
                sum += a[r * SELFTEST_LD + k] * b[i * SELFTEST_K + k];
            if (c[r * SELFTEST_N + i] != sum)
                return false;
        }
    return true;
}

static bool computes(const struct vendor *vendor, const void *library, int8_t *a, int8_t *b,
                     int8_t *reordered, int32_t *c)
{
    static const uint64_t rows[] = {1, SELFTEST_M};
    bool right = true;
    fill_selftest(a, SELFTEST_M, SELFTEST_LD, 1);
    fill_selftest(b, SELFTEST_N, SELFTEST_K, 2);
    int64_t before = vendor->enter(library);
    vendor->reorder(library, b, SELFTEST_K, SELFTEST_N, reordered);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && right; i++) {
        memset(c, 0x55, SELFTEST_M * SELFTEST_N * sizeof *c);
        right =
            vendor_multiply(vendor, library, rows[i], SELFTEST_N, SELFTEST_K, a, SELFTEST_LD, reordered, c) &&
            is_product(a, b, c, rows[i]);
    }
    vendor->leave(library, before);
    return right;
}

/* `name` is the library's file. */
static enum kt_status selftest_product(const struct kt_host *host, const char *name,
                                       const struct vendor *vendor, const void *library,
                                       struct kt_error *error)
{
    const uint64_t size_a = SELFTEST_M * SELFTEST_LD, size_b = SELFTEST_N * SELFTEST_K;
    const uint64_t size_c = SELFTEST_M * SELFTEST_N * sizeof(int32_t);
    uint64_t size = vendor->size(library, SELFTEST_K, SELFTEST_N);
    if (size < size_b || size > 2 * size_b)
        return kt_plugin_fail(
            error, KT_E_UNSUPPORTED,
            "%s requests %llu bytes for a matrix of %llu bytes; it does not support this CPU", name,
            (unsigned long long)size, (unsigned long long)size_b);
    uint64_t whole = size_c + size_a + size_b + size + 3 * 64;
    uint8_t *memory = host->allocate(host, whole);
    if (!memory)
        return kt_plugin_fail(error, KT_E_NOMEM, "no %llu bytes to try %s", (unsigned long long)whole, name);
    int8_t *a = (int8_t *)memory + (size_c + 63) / 64 * 64, *b = a + (size_a + 63) / 64 * 64;
    bool right = computes(vendor, library, a, b, b + (size_b + 63) / 64 * 64, (int32_t *)(void *)memory);
    host->release(host, memory, whole);
    return right ? KT_OK
                 : kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s failed its self-test: a product was incorrect",
                                  name);
}

#endif
