/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/grammar/plain.h"

#include <stddef.h>
#include <string.h>

/* Characters of a group each, but for letters and digits. */
static const char *const marks[] = {" ", "_",  "-",  ".",  "/",  ",", ":", ";",  "@",  "+",    "#",   "*",
                                    "'", "<>", "()", "[]", "{}", "=", "&", "%$", "!?", "|~^`", "\x7f"};

uint32_t kt_plain_group(uint32_t code)
{
    if (code >= 0x80)
        return code == 0x2028 || code == 0x2029 ? KT_PLAIN_NOT : KT_PLAIN_WIDE;
    if (code < ' ' || code == '"' || code == '\\')
        return KT_PLAIN_NOT;
    if (code >= '0' && code <= '9')
        return code == '0' ? 1 : 2;
    if (code >= 'a' && code <= 'z')
        return code <= 'f' ? 4 : 8;
    if (code >= 'A' && code <= 'Z')
        return code <= 'F' ? 16 : 32;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strchr(marks[i], (int)code))
            return UINT32_C(64) << i;
    return KT_PLAIN_NOT;
}
