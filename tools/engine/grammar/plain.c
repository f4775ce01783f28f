/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/grammar/plain.h"

#include <stddef.h>
#include <string.h>

/* Characters of a group each, but for letters and digits. */
static const char *const marks[] = {" ", "_",  "-",  ".",  "/",  ",", ":", ";",  "@",  "+",    "#",   "*",
                                    "'", "<>", "()", "[]", "{}", "=", "&", "%$", "!?", "|~^`", "\x7f"};

const uint32_t kt_plain_wide[KT_PLAIN_WIDE_SPANS][2] = {{0x80, 0x9f},      {0xa1, 0x167f},   {0x1681, 0x1fff},
                                                        {0x200b, 0x2027},  {0x202a, 0x202e}, {0x2030, 0x205e},
                                                        {0x2060, 0x2fff},  {0x3001, 0xd7ff}, {0xe000, 0xfefe},
                                                        {0xff00, 0x10ffff}};

uint32_t kt_plain_group(uint32_t code)
{
    for (size_t i = 0; i < KT_PLAIN_WIDE_SPANS && code >= kt_plain_wide[i][0]; i++)
        if (code <= kt_plain_wide[i][1])
            return KT_PLAIN_WIDE;
    if (code >= 0x80)
        return KT_PLAIN_NOT;
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
