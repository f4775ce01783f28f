/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/added.h"

#include "tools/engine/base/fail.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_LENGTH 4096

enum kt_status kt_added_add(struct kt_added *added, const struct kt_added_token *token,
                            struct kt_error *error)
{
    if (token->length == 0 || token->length > MAX_LENGTH)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "an added token, %d, of %zu bytes; 1 to %d are possible", (int)token->id,
                              token->length, MAX_LENGTH);
    struct kt_added_token *grown =
        kt_array_grow(added->tokens, &added->capacity, added->n + 1, sizeof(*grown));
    char *text = grown ? malloc(token->length) : NULL;
    if (grown)
        added->tokens = grown;
    if (!text)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for added tokens");
    memcpy(text, token->text, token->length);
    grown[added->n] = *token;
    grown[added->n++].text = text;
    return KT_OK;
}

static int compare(const void *first, const void *second)
{
    const struct kt_added_token *a = first, *b = second;
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order == 0)
        order = (a->length > b->length) - (a->length < b->length);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

const struct kt_added_token *kt_added_sort(struct kt_added *added)
{
    size_t n = 0, twice = SIZE_MAX;
    if (added->n > 1)
        qsort(added->tokens, added->n, sizeof(*added->tokens), compare);
    for (size_t i = 0; i < added->n; i++) {
        const struct kt_added_token *token = &added->tokens[i], *last = n ? &added->tokens[n - 1] : NULL;
        if (last && last->length == token->length && memcmp(last->text, token->text, token->length) == 0) {
            if (last->id != token->id)
                twice = n - 1;
            free(token->text);
            continue;
        }
        added->begins[(unsigned char)token->text[0]] = true;
        added->tokens[n++] = *token;
    }
    added->n = n;
    return twice == SIZE_MAX ? NULL : &added->tokens[twice];
}

void kt_added_free(struct kt_added *added)
{
    for (size_t i = 0; i < added->n; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    *added = (struct kt_added){.n = 0};
}

/* ---- what stands around a token ---- */

/* \w of Rust's regular expressions; utf8proc does not know which symbols are alphabetic. */
static bool is_word(uint32_t code)
{
    if (code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
        (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
        (code >= 0x1F170 && code <= 0x1F189))
        return true;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

/* The character that ends at byte `at`, > 0. */
static size_t read_back(struct kt_marked text, size_t at, uint32_t *code)
{
    size_t size = 1;
    while (size < at && size < 4 && ((unsigned char)text.text[at - size] & 0xC0) == 0x80)
        size++;
    return kt_utf8_read(text.text + at - size, size, code);
}

static bool is_within_word(struct kt_marked text, const struct kt_added_match *match)
{
    uint32_t code;
    if (match->begin > 0 && read_back(text, match->begin, &code) > 0 && is_word(code))
        return true;
    return match->end < text.length &&
           kt_utf8_read(text.text + match->end, text.length - match->end, &code) > 0 && is_word(code);
}

/* The end of the white space at a byte. Tokens within white space may each take all that follows: the end
 * that was found last is not looked for again. */
static size_t skip_space(struct kt_marked text, size_t at, struct kt_added_search *search)
{
    uint32_t code;
    size_t size, end = at;
    if (at >= search->space_begin && at <= search->space_end)
        return search->space_end;
    while (end < text.length && (size = kt_utf8_read(text.text + end, text.length - end, &code)) > 0 &&
           kt_norm_is_space(code))
        end += size;
    search->space_begin = at;
    search->space_end = end;
    return end;
}

/* False: another token has taken all of it. */
static bool take_space(struct kt_marked text, struct kt_added_search *search, struct kt_added_match *match)
{
    uint32_t code;
    size_t size;
    search->at = match->end;
    if (match->token->lstrip && match->begin < search->taken)
        match->begin = search->taken;
    while (match->token->lstrip && match->begin > search->taken &&
           (size = read_back(text, match->begin, &code)) > 0 && kt_norm_is_space(code))
        match->begin -= size;
    if (match->token->rstrip)
        match->end = skip_space(text, match->end, search);
    if (match->begin >= match->end)
        return false;
    search->taken = match->end;
    return true;
}

/* ---- finding ---- */

/* Does token text[begin .. end - 1] stand in one kind of text? */
static bool is_of_one_part(struct kt_marked text, size_t begin, size_t end)
{
    return !text.marks || memchr(text.marks + begin, 1, end - begin) == NULL;
}

/* The longest token that begins at byte `at`: the range of tokens that begin with the bytes seen so far gets
 * narrower byte by byte. */
static const struct kt_added_token *find_here(const struct kt_added *added, struct kt_marked text,
                                              bool is_content, size_t at)
{
    const struct kt_added_token *found = NULL;
    size_t low = 0, high = added->n;
    for (size_t i = 0; low < high && at + i < text.length; i++) {
        unsigned char byte = (unsigned char)text.text[at + i];
        size_t left = low, right = high;
        while (left < right) { /* the first whose byte i is not below */
            size_t middle = left + (right - left) / 2;
            if ((unsigned char)added->tokens[middle].text[i] < byte)
                left = middle + 1;
            else
                right = middle;
        }
        low = left;
        for (right = high; left < right;) { /* the first whose byte i is above */
            size_t middle = left + (right - left) / 2;
            if ((unsigned char)added->tokens[middle].text[i] <= byte)
                left = middle + 1;
            else
                right = middle;
        }
        high = left;
        if (low < high && added->tokens[low].length == i + 1) {
            const struct kt_added_token *token = &added->tokens[low++];
            if (!token->is_control || (!is_content && is_of_one_part(text, at, at + i + 1)))
                found = token;
        }
    }
    return found;
}

bool kt_added_find(const struct kt_added *added, struct kt_marked text, bool is_content,
                   struct kt_added_search *search, struct kt_added_match *match)
{
    for (size_t i = search->at; added->n > 0 && i < text.length; i++) {
        if (!added->begins[(unsigned char)text.text[i]])
            continue;
        const struct kt_added_token *token = find_here(added, text, is_content, i);
        if (!token)
            continue;
        *match = (struct kt_added_match){token, i, i + token->length};
        if (token->single_word && is_within_word(text, match)) {
            i += token->length - 1;
            continue;
        }
        if (take_space(text, search, match))
            return true;
        i = search->at - 1;
    }
    return false;
}
