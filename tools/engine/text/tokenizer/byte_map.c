/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/byte_map.h"

#include "tools/engine/text/utf8.h"

#include <stdint.h>

/* Visible characters of Latin-1 stand for themselves, the other 68 bytes are U+0100 to U+0143 in order. */
static bool stands_for_itself(uint32_t code)
{
    return (code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255);
}

static int find_byte(uint32_t code)
{
    if (stands_for_itself(code))
        return (int)code;
    if (code < 256 || code >= 256 + 68)
        return -1;
    code -= 256;
    return code < 33 ? (int)code : code < 33 + 34 ? (int)(127 + code - 33) : 173;
}

bool kt_byte_map_read(const char *text, size_t length, char *out, size_t *out_length)
{
    size_t n = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t size = kt_utf8_read(text + at, length - at, &code);
        int byte = size ? find_byte(code) : -1;
        if (byte < 0)
            return false;
        out[n++] = (char)byte;
        at += size;
    }
    *out_length = n;
    return true;
}
