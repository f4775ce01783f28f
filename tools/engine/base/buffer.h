/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - bytes, and arrays, that grow. */
#ifndef KT_ENGINE_BASE_BUFFER_H
#define KT_ENGINE_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes; all zero is an empty one. */
struct kt_buffer {
    char *data;
    size_t length, capacity;
};

/** Room for `more` bytes behind the length, which stays. False: no memory, and the buffer is as it was. */
bool kt_buffer_reserve(struct kt_buffer *buffer, size_t more);
bool kt_buffer_add(struct kt_buffer *buffer, const void *bytes, size_t length);
/** Bytes with a zero behind them, which the length does not count. */
bool kt_buffer_add_text(struct kt_buffer *buffer, const char *text);
void kt_buffer_free(struct kt_buffer *buffer);

/** Makes room for n elements in an array whose capacity is *capacity; at least doubles it. NULL: no memory,
 * and the array is as it was. */
void *kt_array_grow(void *array, size_t *capacity, size_t n, size_t element);

#endif
