/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - sizes in bytes: arithmetic that does not overflow unseen, rounding, sizes of numbers. */
#ifndef KT_CORE_BASE_SIZE_H
#define KT_CORE_BASE_SIZE_H

#include <kt/types.h>
#include <stdbool.h>

/* *product = a * b; false if that overflows. */
static inline bool kt_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* *sum = a + b; false if that overflows. */
static inline bool kt_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* Rounded up to a whole number of cache lines. */
static inline uint64_t kt_align64(uint64_t size)
{
    return (size + 63) & ~UINT64_C(63);
}

/* Bytes of a number of an input or output of a forward; 0: they cannot have this type. */
static inline uint32_t kt_element_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : dtype == KT_DTYPE_BF16 || dtype == KT_DTYPE_F16 ? 2 : 0;
}

/* May numbers of `size` bytes, a power of two, begin there? */
static inline bool kt_is_aligned(const void *data, uint32_t size)
{
    return ((uintptr_t)data & (size - 1)) == 0;
}

#endif
