/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/unicode.h"

#include <string.h>
#include <utf8proc.h>

bool jinja_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_is_printable(uint32_t c)
{
    if (c < 0x7f)
        return c >= ' ';
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool jinja_is_letter(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_decimal(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}

/* Numeric_Type=Digit. */
bool jinja_is_digit(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0xb2, 0xb3},     {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},   {0x2070, 0x2070},
        {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247c},   {0x2488, 0x2490},
        {0x24ea, 0x24ea}, {0x24f5, 0x24fd},   {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},
        {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
    };
    for (size_t i = 0; c >= 0xb2 && i < sizeof(ranges) / sizeof(*ranges); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return jinja_is_decimal(c);
}

/* The categories of numbers, and ideographs that are some. */
bool jinja_is_numeric(uint32_t c)
{
    static const uint32_t ideographs[] = {
        0x3405,  0x3483,  0x382a,  0x3b4d,  0x4e00,  0x4e03,  0x4e07,  0x4e09,  0x4e5d,  0x4e8c,  0x4e94,
        0x4e96,  0x4ebf,  0x4ec0,  0x4edf,  0x4ee8,  0x4f0d,  0x4f70,  0x5104,  0x5146,  0x5169,  0x516b,
        0x516d,  0x5341,  0x5343,  0x5344,  0x5345,  0x534c,  0x53c1,  0x53c2,  0x53c3,  0x53c4,  0x56db,
        0x58f1,  0x58f9,  0x5e7a,  0x5efe,  0x5eff,  0x5f0c,  0x5f0d,  0x5f0e,  0x5f10,  0x62fe,  0x634c,
        0x67d2,  0x6f06,  0x7396,  0x767e,  0x8086,  0x842c,  0x8cae,  0x8cb3,  0x8d30,  0x9621,  0x9646,
        0x964c,  0x9678,  0x96f6,  0xf96b,  0xf973,  0xf978,  0xf9b2,  0xf9d1,  0xf9d3,  0xf9fd,  0x20001,
        0x20064, 0x200e2, 0x20121, 0x2092a, 0x20983, 0x2098c, 0x2099c, 0x20aea, 0x20afd, 0x20b19, 0x22390,
        0x22998, 0x23b1b, 0x2626d, 0x2f890,
    };
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return true;
    for (size_t i = 0; c >= 0x3405 && i < sizeof(ideographs) / sizeof(*ideographs); i++)
        if (c == ideographs[i])
            return true;
    return false;
}

/* Other_Uppercase and Other_Lowercase, which have no letters' categories. */
bool jinja_is_upper(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216f) ||
           (c >= 0x24b6 && c <= 0x24cf) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189);
}

bool jinja_is_lower(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba ||
           (c >= 0x2b0 && c <= 0x2b8) || c == 0x2c0 || c == 0x2c1 || (c >= 0x2e0 && c <= 0x2e4) ||
           c == 0x345 || c == 0x37a || (c >= 0x1d2c && c <= 0x1d6a) || c == 0x1d78 ||
           (c >= 0x1d9b && c <= 0x1dbf) || c == 0x2071 || c == 0x207f || (c >= 0x2090 && c <= 0x209c) ||
           (c >= 0x2170 && c <= 0x217f) || (c >= 0x24d0 && c <= 0x24e9) || c == 0x2c7c || c == 0x2c7d ||
           c == 0xa69c || c == 0xa69d || c == 0xa770 || c == 0xa7f8 || c == 0xa7f9 ||
           (c >= 0xab5c && c <= 0xab5f) || c == 0x10780 || (c >= 0x10783 && c <= 0x10785) ||
           (c >= 0x10787 && c <= 0x107b0) || (c >= 0x107b2 && c <= 0x107ba);
}

bool jinja_is_cased(uint32_t c)
{
    return jinja_is_upper(c) || jinja_is_lower(c) ||
           utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LT;
}

/* The full mapping, which may have several characters: utf8proc has it for case folding only. */
static int full_fold(uint32_t c, int32_t folded[8])
{
    int boundary = 0;
    if (c < 0xdf || c == 0x130 || c == 0x1e9e)
        return 1;
    return (int)utf8proc_decompose_char((int32_t)c, folded, 8, UTF8PROC_CASEFOLD, &boundary);
}

static void add_upper(struct jinja *j, struct jinja_buffer *out, uint32_t c, bool content)
{
    int32_t folded[8];
    int n = full_fold(c, folded);
    if (n <= 1) {
        jinja_add_char(j, out, (uint32_t)utf8proc_toupper((int32_t)c), content);
        return;
    }
    for (int i = 0; i < n && i < 8; i++)
        jinja_add_char(j, out, (uint32_t)utf8proc_toupper(folded[i]), content);
}

static void add_title(struct jinja *j, struct jinja_buffer *out, uint32_t c, bool content)
{
    int32_t folded[8];
    int32_t title = c == 0xdf ? 0xdf : utf8proc_totitle((int32_t)c); /* Python has "Ss" */
    int n = full_fold(c, folded);
    if (n <= 1 || title != (int32_t)c || utf8proc_category((int32_t)c) == UTF8PROC_CATEGORY_LT) {
        jinja_add_char(j, out, (uint32_t)title, content);
        return;
    }
    bool greek_below = folded[n - 1] == 0x3b9 && n > 1 && c > 0x1f00; /* iota below stays a mark there */
    for (int i = 0; i < n && i < 8; i++)
        jinja_add_char(j, out,
                       greek_below && i == n - 1 ? 0x345
                       : i == 0 || c == 0x149    ? (uint32_t)utf8proc_toupper(folded[i])
                                                 : (uint32_t)folded[i],
                       content);
}

/* Does a letter with a case come before `at` (or after it), with nothing but what cases ignore between? */
static bool touches_cased(const struct jinja_text *text, uint64_t at, bool forward)
{
    uint64_t size;
    (void)jinja_char(text, at, &size);
    uint64_t i = forward ? at + size : at;
    for (;;) {
        if (forward ? i >= text->length : i == 0)
            return false;
        if (!forward)
            do
                i--;
            while (((unsigned char)text->bytes[i] & 0xc0) == 0x80);
        uint32_t c = jinja_char(text, i, &size);
        utf8proc_category_t category = utf8proc_category((int32_t)c);
        bool ignored = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
                       category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
                       category == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xb7 ||
                       c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0x387 || c == 0x55f ||
                       c == 0x5f4 || c == 0xfe13 || c == 0xfe52 || c == 0xfe55 || c == 0xff07 ||
                       c == 0xff0e || c == 0xff1a;
        if (!ignored)
            return jinja_is_cased(c);
        if (forward)
            i += size;
    }
}

static void add_lower(struct jinja *j, struct jinja_buffer *out, const struct jinja_text *text, uint64_t at,
                      uint32_t c)
{
    bool content = jinja_mark(text, at);
    if (c == 0x3a3) { /* sigma at the end of a word */
        jinja_charge(j, 64);
        c = touches_cased(text, at, false) && !touches_cased(text, at, true) ? 0x3c2 : 0x3c3;
        jinja_add_char(j, out, c, content);
        return;
    }
    jinja_add_char(j, out, c == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((int32_t)c), content);
    if (c == 0x130)
        jinja_add_char(j, out, 0x307, content);
}

const struct jinja_text *jinja_change_case(struct jinja *j, const struct jinja_text *text,
                                           enum jinja_case how)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    bool inside = false;
    for (uint64_t at = 0, size; at < text->length; at += size) {
        uint32_t c = jinja_char(text, at, &size);
        bool content = jinja_mark(text, at);
        bool first = how == JINJA_CAPITALIZE ? at == 0 : how == JINJA_TITLE && !inside;
        if (how == JINJA_UPPER || (how == JINJA_SWAP && jinja_is_lower(c)))
            add_upper(j, out, c, content);
        else if (first)
            add_title(j, out, c, content);
        else if (how == JINJA_SWAP && !jinja_is_upper(c))
            jinja_add_part(j, out, text, at, at + size);
        else
            add_lower(j, out, text, at, c);
        inside = how == JINJA_TITLE && jinja_is_cased(c);
    }
    return jinja_as_markup(j, jinja_buffer_text(j, out), text->markup);
}
