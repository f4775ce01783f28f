/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - UTF-8 without control characters. */
#include "core/base/text.h"

#include <stdint.h>
#include <string.h>

/* The length of the UTF-8 character at `text`, 0 if it is none. */
static size_t measure(const unsigned char *text, size_t size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 1)
        return first < 0x20 || first == 0x7f ? 0 : 1;
    if (length == 0 || first > 0xf4 || length > size)
        return 0;
    uint32_t code = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    /* U+0080..U+009F are control characters, too: terminals obey them. */
    return code < least[length] || code > 0x10ffff || surrogate || code < 0xa0 ? 0 : length;
}

bool kt_name_valid(const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = measure((const unsigned char *)text + at, size - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

void kt_text_mend(char *text)
{
    size_t size = strlen(text);
    for (size_t at = 0, length; at < size; at += length) {
        length = measure((const unsigned char *)text + at, size - at);
        if (length == 0) {
            text[at] = text[at] == '\t' || text[at] == '\n' || text[at] == '\r' ? ' ' : '?';
            length = 1;
        }
    }
}
