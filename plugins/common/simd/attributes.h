/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/attributes.h - how vector code is compiled: inlined, with loops of constant length unrolled. Where
 * VEC_PLAIN is defined, as by simd/scalar.h, that is left to the compiler.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_ATTRIBUTES_H
#define KT_PLUGINS_COMMON_SIMD_ATTRIBUTES_H

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VEC_OUT_OF_LINE
#endif
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define VEC_OUT_OF_LINE
#endif

/* Sanitized or emulated vectors would take minutes to compile if inlined and unrolled. */
#ifdef VEC_OUT_OF_LINE
#define INLINE static __attribute__((noinline, unused))
#define UNROLL_FOR for
#elif defined VEC_PLAIN
#define INLINE static inline
#define UNROLL_FOR for
#elif defined __clang__
#define INLINE static inline __attribute__((always_inline))
#define UNROLL_FOR _Pragma("clang loop unroll(full)") for
#else
#define INLINE static inline __attribute__((always_inline))
#define UNROLL_FOR _Pragma("GCC unroll 16") for
#endif

/* A function by itself, so that its callers' variables take no registers from it. */
#define NOINLINE __attribute__((noinline))

#endif
