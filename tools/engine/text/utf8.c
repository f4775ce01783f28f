/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/utf8.h"

#include <string.h>

/* Bytes of the character that a byte begins, and which second bytes it allows (Unicode, table 3-7); 0: none.
 */
static size_t first_byte(unsigned char byte, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (byte < 0x80)
        return 1;
    if (byte < 0xC2 || byte > 0xF4)
        return 0;
    if (byte == 0xE0)
        *low = 0xA0;
    else if (byte == 0xED)
        *high = 0x9F;
    else if (byte == 0xF0)
        *low = 0x90;
    else if (byte == 0xF4)
        *high = 0x8F;
    return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/* How many of the character's `size` bytes are there and right; at least 1. */
static size_t count_right(const unsigned char *bytes, size_t length, size_t size, unsigned char low,
                          unsigned char high)
{
    size_t n = 1;
    while (n < size && n < length && bytes[n] >= low && bytes[n] <= high) {
        low = 0x80;
        high = 0xBF;
        n++;
    }
    return n;
}

size_t kt_utf8_read(const char *text, size_t length, uint32_t *code)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char low, high;
    size_t size = first_byte(bytes[0], &low, &high);
    if (size <= 1) {
        *code = bytes[0];
        return size;
    }
    if (size > length || count_right(bytes, length, size, low, high) < size)
        return 0;
    uint32_t value = bytes[0] & (0xFFU >> (size + 1));
    for (size_t i = 1; i < size; i++)
        value = value << 6 | (bytes[i] & 0x3FU);
    *code = value;
    return size;
}

size_t kt_utf8_write(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(0xF00U >> size | code);
    return size;
}

size_t kt_utf8_valid(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (length - at >= sizeof(eight)) { /* ASCII, eight bytes at once */
            memcpy(&eight, text + at, sizeof(eight));
            if ((eight & 0x8080808080808080U) == 0) {
                at += sizeof(eight);
                continue;
            }
        }
        uint32_t code;
        size_t size = kt_utf8_read(text + at, length - at, &code);
        if (size == 0)
            return at;
        at += size;
    }
    return at;
}

size_t kt_utf8_broken(const char *text, size_t length, bool *is_cut)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char low, high;
    size_t size = first_byte(bytes[0], &low, &high);
    *is_cut = false;
    if (size <= 1)
        return 1;
    size_t n = count_right(bytes, length, size, low, high);
    *is_cut = n == length && n < size;
    return n;
}
