/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - the table of number formats, and what files call them. */
#ifndef KT_CORE_WEIGHTS_DECODE_DTYPE_H
#define KT_CORE_WEIGHTS_DECODE_DTYPE_H

#include <kt/types.h>
#include <stdbool.h>

struct kt_dtype_info {
    const char *name;
    uint32_t elements;       /* of a block; 1: a plain number */
    uint32_t bytes;          /* of a block */
    int32_t ggml;            /* number of the type in GGUF files, -1: it has none */
    const char *safetensors; /* name of the type in safetensors files, NULL: it has none */
    /* To float32: n numbers, dense, or n whole blocks, `stride` bytes from one to the next. One of them, or
     * neither: it is not decoded. */
    void (*plain)(const uint8_t *source, uint64_t n, float *out);
    void (*blocks)(const uint8_t *block, int64_t stride, uint64_t n, float *out);
};

/* NULL for a number that is not a dtype. */
const struct kt_dtype_info *kt_dtype_find(uint32_t dtype);

/* May scales have this dtype? It is one of the floating-point types. */
bool kt_dtype_scales(uint32_t dtype);

/* Are weights of this dtype integers that mean nothing without scales? */
bool kt_dtype_needs_scales(uint32_t dtype);

enum kt_dtype kt_dtype_from_ggml(uint32_t number);
enum kt_dtype kt_dtype_from_safetensors(const char *name);

/* Bits of an element of a safetensors type that has no enum kt_dtype; 0: the name is not known. */
uint32_t kt_safetensors_bits(const char *name);

/* Is it a number of enum kt_activation that experts may have? */
static inline bool kt_activation_of_experts(uint32_t activation)
{
    return activation != KT_ACTIVATION_NONE && *kt_activation_name(activation) != '?';
}

#endif
