/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *kt_array_grow(void *array, size_t *capacity, size_t n, size_t element)
{
    if (n <= *capacity && array)
        return array;
    size_t wanted = *capacity < 16 ? 16 : *capacity;
    while (wanted < n && wanted <= SIZE_MAX / 2)
        wanted *= 2;
    if (wanted < n || wanted > SIZE_MAX / element)
        return NULL;
    void *grown = realloc(array, wanted * element);
    if (grown)
        *capacity = wanted;
    return grown;
}

bool kt_buffer_reserve(struct kt_buffer *buffer, size_t more)
{
    if (more > SIZE_MAX - buffer->length)
        return false;
    char *grown = kt_array_grow(buffer->data, &buffer->capacity, buffer->length + more, 1);
    if (!grown)
        return false;
    buffer->data = grown;
    return true;
}

bool kt_buffer_add(struct kt_buffer *buffer, const void *bytes, size_t length)
{
    if (!kt_buffer_reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return true;
}

bool kt_buffer_add_text(struct kt_buffer *buffer, const char *text)
{
    if (!kt_buffer_add(buffer, text, strlen(text) + 1))
        return false;
    buffer->length--;
    return true;
}

void kt_buffer_free(struct kt_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct kt_buffer){.data = NULL};
}
