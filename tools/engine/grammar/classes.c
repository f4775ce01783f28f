/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c - sets of characters, as ECMA-262 names them: \d and \w are ASCII's, \s is Unicode's. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/pattern.h"

#include <pthread.h>
#include <string.h>
#include <utf8proc.h>

/* Runs of characters of one category: Unicode 16 has 3403. */
#define MOST_RUNS 8192

/* For one more span, and for the one more that an inverted set may have. */
static bool make_room(struct kt_regex *r)
{
    if (r->n_spans + 2 > KT_REGEX_SPANS)
        return kt_regex_refuse(r, "too many ranges of characters");
    struct kt_span *grown = kt_array_grow(r->spans, &r->spans_capacity, r->n_spans + 2, sizeof(*grown));
    r->spans = grown ? grown : r->spans;
    return grown || kt_form_no_memory(r->reader);
}

bool kt_class_add(struct kt_regex *r, uint32_t first, uint32_t last)
{
    if (!make_room(r))
        return false;
    r->spans[r->n_spans++] = (struct kt_span){first, last};
    return true;
}

bool kt_class_invert(struct kt_regex *r, uint32_t first)
{
    if (!make_room(r))
        return false;
    size_t n = kt_spans_merge(r->spans + first, r->n_spans - first);
    r->n_spans = first + (uint32_t)kt_spans_invert(r->spans + first, n);
    return true;
}

uint32_t kt_class_node(struct kt_regex *r, uint32_t first)
{
    uint32_t n = (uint32_t)kt_spans_merge(r->spans + first, r->n_spans - first);
    r->n_spans = first + n;
    for (uint32_t i = 0; i < r->n_nodes && n > 0; i++) { /* one that is there already */
        const struct kt_node *known = &r->nodes[i];
        if (known->kind != KT_NODE_SET || known->b != n ||
            memcmp(r->spans + known->a, r->spans + first, n * sizeof(*r->spans)) != 0)
            continue;
        r->n_spans = first;
        return i;
    }
    return kt_regex_node(r, (struct kt_node){.kind = KT_NODE_SET, .a = first, .b = n});
}

bool kt_class_named(struct kt_regex *r, char name)
{
    static const struct kt_span digits[] = {{'0', '9'}};
    static const struct kt_span letters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct kt_span blanks[] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},
                                            {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                            {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                            {0xfeff, 0xfeff}};
    uint32_t first = r->n_spans;
    bool is_digit = strchr("dD", name) != NULL, is_letter = strchr("wW", name) != NULL;
    const struct kt_span *spans = is_digit ? digits : is_letter ? letters : blanks;
    for (size_t i = 0; i < (is_digit ? 1u : is_letter ? 4u : 10u); i++)
        if (!kt_class_add(r, spans[i].first, spans[i].last))
            return false;
    return !strchr("DWS", name) || kt_class_invert(r, first);
}

/* ---- properties ---- */

#define BIT(category) (UINT32_C(1) << UTF8PROC_CATEGORY_##category)
#define CASED (BIT(LU) | BIT(LL) | BIT(LT))
#define LETTERS (CASED | BIT(LM) | BIT(LO))
#define MARKS (BIT(MN) | BIT(MC) | BIT(ME))
#define NUMBERS (BIT(ND) | BIT(NL) | BIT(NO))
#define DASHES (BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO))
#define SYMBOLS (BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO))
#define SEPARATORS (BIT(ZS) | BIT(ZL) | BIT(ZP))
#define OTHERS (BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN))

static const struct {
    const char *name, *alias;
    uint32_t categories;
} properties[] = {
    {"L", "Letter", LETTERS},
    {"LC", "Cased_Letter", CASED},
    {"Lu", "Uppercase_Letter", BIT(LU)},
    {"Ll", "Lowercase_Letter", BIT(LL)},
    {"Lt", "Titlecase_Letter", BIT(LT)},
    {"Lm", "Modifier_Letter", BIT(LM)},
    {"Lo", "Other_Letter", BIT(LO)},
    {"M", "Mark", MARKS},
    {"M", "Combining_Mark", MARKS},
    {"Mn", "Nonspacing_Mark", BIT(MN)},
    {"Mc", "Spacing_Mark", BIT(MC)},
    {"Me", "Enclosing_Mark", BIT(ME)},
    {"N", "Number", NUMBERS},
    {"Nd", "Decimal_Number", BIT(ND)},
    {"Nd", "digit", BIT(ND)},
    {"Nl", "Letter_Number", BIT(NL)},
    {"No", "Other_Number", BIT(NO)},
    {"P", "Punctuation", DASHES},
    {"P", "punct", DASHES},
    {"Pc", "Connector_Punctuation", BIT(PC)},
    {"Pd", "Dash_Punctuation", BIT(PD)},
    {"Ps", "Open_Punctuation", BIT(PS)},
    {"Pe", "Close_Punctuation", BIT(PE)},
    {"Pi", "Initial_Punctuation", BIT(PI)},
    {"Pf", "Final_Punctuation", BIT(PF)},
    {"Po", "Other_Punctuation", BIT(PO)},
    {"S", "Symbol", SYMBOLS},
    {"Sm", "Math_Symbol", BIT(SM)},
    {"Sc", "Currency_Symbol", BIT(SC)},
    {"Sk", "Modifier_Symbol", BIT(SK)},
    {"So", "Other_Symbol", BIT(SO)},
    {"Z", "Separator", SEPARATORS},
    {"Zs", "Space_Separator", BIT(ZS)},
    {"Zl", "Line_Separator", BIT(ZL)},
    {"Zp", "Paragraph_Separator", BIT(ZP)},
    {"C", "Other", OTHERS},
    {"Cc", "Control", BIT(CC)},
    {"Cc", "cntrl", BIT(CC)},
    {"Cf", "Format", BIT(CF)},
    {"Cs", "Surrogate", BIT(CS)},
    {"Co", "Private_Use", BIT(CO)},
    {"Cn", "Unassigned", BIT(CN)},
    {"Any", "Any", ~UINT32_C(0)},
    {"Assigned", "Assigned", ~BIT(CN)},
};

static bool is_name(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

/* The general categories that a name stands for; 0: none. */
static uint32_t find_categories(const char *text, size_t n)
{
    static const char *const prefixes[] = {"General_Category=", "gc="};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(prefixes[i]);
        if (n < length || memcmp(prefixes[i], text, length) != 0)
            continue;
        text += length;
        n -= length;
        if (is_name("Any", text, n) || is_name("Assigned", text, n))
            return 0;
    }
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
        if (is_name(properties[i].name, text, n) || is_name(properties[i].alias, text, n))
            return properties[i].categories;
    return 0;
}

/* All of Unicode, looked at once. */
static struct run {
    uint32_t first, category;
} runs[MOST_RUNS];
static uint32_t n_runs;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_runs(void)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        uint32_t category = (uint32_t)utf8proc_category((utf8proc_int32_t)code);
        if (n_runs > 0 && runs[n_runs - 1].category == category)
            continue;
        if (n_runs < MOST_RUNS)
            runs[n_runs] = (struct run){code, category};
        n_runs++;
    }
}

static bool add_categories(struct kt_regex *r, uint32_t categories)
{
    (void)pthread_once(&once, find_runs);
    if (n_runs > MOST_RUNS)
        return kt_regex_refuse(r, "a property of a Unicode that has too many ranges");
    if (!kt_form_work(r->reader, r->place, n_runs))
        return false;
    for (uint32_t i = 0; i < n_runs; i++) {
        uint32_t first = runs[i].first;
        bool is_in = categories >> runs[i].category & 1;
        while (is_in && i + 1 < n_runs && categories >> runs[i + 1].category & 1)
            i++;
        if (is_in && !kt_class_add(r, first, i + 1 < n_runs ? runs[i + 1].first - 1 : 0x10ffff))
            return false;
    }
    return true;
}

bool kt_class_property(struct kt_regex *r, char name)
{
    const char *text = r->text + r->at, *end = *text == '{' ? strchr(text, '}') : NULL;
    size_t n = end ? (size_t)(end - text) - 1 : 0;
    bool is_ascii = end && is_name("ASCII", text + 1, n);
    uint32_t categories = end && !is_ascii ? find_categories(text + 1, n) : 0, first = r->n_spans;
    if (!categories && !is_ascii)
        return kt_regex_refuse(r, "a property that is not a general category, which is not supported,");
    r->at += n + 2;
    bool done = is_ascii ? kt_class_add(r, 0, 0x7f) : add_categories(r, categories);
    return done && (name == 'p' || kt_class_invert(r, first));
}
