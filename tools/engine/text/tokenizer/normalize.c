/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/text/tokenizer/normalize.h"

#include "tools/engine/base/fail.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum kt_status kt_normalizer_add(struct kt_normalizer *normalizer, enum kt_norm_kind kind,
                                 struct kt_norm_step **step, struct kt_error *error)
{
    if (normalizer->n == KT_NORM_STEPS)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "more than %d steps of normalization", KT_NORM_STEPS);
    *step = &normalizer->steps[normalizer->n++];
    **step = (struct kt_norm_step){.kind = kind};
    return KT_OK;
}

void kt_normalizer_free(struct kt_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->n; i++) {
        kt_buffer_free(&normalizer->steps[i].what);
        kt_buffer_free(&normalizer->steps[i].text);
        kt_regex_free(&normalizer->steps[i].regex);
    }
    normalizer->n = 0;
}

void kt_norm_room_free(struct kt_norm_room *room)
{
    for (int i = 0; i < 2; i++) {
        kt_buffer_free(&room->text[i]);
        kt_buffer_free(&room->marks[i]);
    }
}

/* Where a step writes. */
struct writer {
    struct kt_buffer *text, *marks; /* marks NULL: none */
    size_t most;                    /* bytes that the text may have */
};

static bool write_bytes(const struct writer *writer, const char *bytes, size_t length, char mark)
{
    if (!kt_buffer_add(writer->text, bytes, length))
        return false;
    if (!writer->marks)
        return true;
    if (!kt_buffer_reserve(writer->marks, length))
        return false;
    memset(writer->marks->data + writer->marks->length, mark, length);
    writer->marks->length += length;
    return true;
}

static bool copy_bytes(const struct writer *writer, const struct kt_marked *in, size_t begin, size_t end)
{
    return kt_buffer_add(writer->text, in->text + begin, end - begin) &&
           (!writer->marks || kt_buffer_add(writer->marks, in->marks + begin, end - begin));
}

/* ---- Unicode's forms ---- */

/* Does nothing before this character change it, or change with it? Marks follow what they stand on; vowels
 * and final consonants of Hangul follow the consonant before. */
static bool begins_anew(uint32_t code)
{
    if (code < 0x300 || code == 0x11A7)
        return true;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC &&
           category != UTF8PROC_CATEGORY_ME && (code < 0x1100 || code > 0x11FF) &&
           (code < 0xD7B0 || code > 0xD7FF);
}

/* Is the character, with nothing that follows it, the same in this form? */
static bool is_plain(uint32_t code, enum kt_norm_kind kind)
{
    if (code < 0x80 || (code >= 0x4E00 && code < 0xA000)) /* CJK's unified ideographs */
        return true;
    if (code >= 0xAC00 && code < 0xD7A4) /* Hangul's syllables, which are computed */
        return kind == KT_NORM_NFC || kind == KT_NORM_NFKC;
    return utf8proc_get_property((utf8proc_int32_t)code)->decomp_seqindex == UINT16_MAX;
}

static utf8proc_option_t form_options(enum kt_norm_kind kind)
{
    int options = UTF8PROC_STABLE;
    options |= kind == KT_NORM_NFC || kind == KT_NORM_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= kind == KT_NORM_NFKC || kind == KT_NORM_NFKD ? UTF8PROC_COMPAT : 0;
    return (utf8proc_option_t)options;
}

/* Marks behind a letter stand in the order of their classes. Of hostile text there may be a million, which
 * utf8proc_decompose sorts in quadratic time: so they are counted, class by class. */
static void sort_run(utf8proc_int32_t *codes, utf8proc_int32_t *sorted, size_t n)
{
    size_t first[257] = {0};
    for (size_t i = 0; i < n; i++)
        first[utf8proc_get_property(codes[i])->combining_class % 256 + 1]++;
    for (size_t i = 1; i < 257; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < n; i++)
        sorted[first[utf8proc_get_property(codes[i])->combining_class % 256]++] = codes[i];
    memcpy(codes, sorted, n * sizeof(*codes));
}

static void sort_marks(utf8proc_int32_t *codes, utf8proc_int32_t *room, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && utf8proc_get_property(codes[end])->combining_class != 0)
            end++;
        if (end - i > 1)
            sort_run(codes + i, room, end - i);
        i = end > i ? end : i + 1;
    }
}

/* Decomposes text into codes[0 .. room - 1]; returns their number, or a negative one. */
static utf8proc_ssize_t decompose(const char *text, size_t length, utf8proc_int32_t *codes, size_t room,
                                  utf8proc_option_t options)
{
    int boundary = 0;
    size_t n = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        at += kt_utf8_read(text + at, length - at, &code);
        utf8proc_ssize_t more = utf8proc_decompose_char((utf8proc_int32_t)code, codes + n,
                                                        (utf8proc_ssize_t)(room - n), options, &boundary);
        if (more < 0 || (size_t)more > room - n)
            return -1;
        n += (size_t)more;
    }
    return (utf8proc_ssize_t)n;
}

/* Characters that may change each other. */
static bool write_form(const struct writer *writer, const struct kt_marked *in, size_t begin, size_t end,
                       enum kt_norm_kind kind)
{
    utf8proc_int32_t few[128], *codes = few;
    utf8proc_option_t options = form_options(kind);
    /* Without room it only counts. */
    utf8proc_ssize_t n = utf8proc_decompose((const utf8proc_uint8_t *)in->text + begin,
                                            (utf8proc_ssize_t)(end - begin), NULL, 0, options);
    size_t room = n > 0 ? (size_t)n : 0;
    if (2 * room > sizeof(few) / sizeof(few[0]) && !(codes = malloc(2 * room * sizeof(*codes))))
        return false;
    n = decompose(in->text + begin, end - begin, codes, room, options);
    if (n > 0) {
        sort_marks(codes, codes + room, (size_t)n);
        n = utf8proc_normalize_utf32(codes, n, options);
    }
    char mark = 0;
    for (size_t i = begin; in->marks && i < end; i++)
        mark |= in->marks[i];
    bool taken = n >= 0;
    for (utf8proc_ssize_t i = 0; taken && i < n; i++) {
        char bytes[4];
        taken = write_bytes(writer, bytes, kt_utf8_write((uint32_t)codes[i], bytes), mark);
    }
    if (codes != few)
        free(codes);
    return taken;
}

/* Bytes from `at` on that are the same in this form, whatever follows. */
static size_t count_plain(const struct kt_marked *in, size_t at, enum kt_norm_kind kind)
{
    size_t done = at, previous = at; /* what is before `previous` stays; the character there is plain */
    while (done < in->length) {
        uint32_t code;
        size_t size = kt_utf8_read(in->text + done, in->length - done, &code);
        if (!begins_anew(code))
            return previous - at;
        previous = done;
        if (!is_plain(code, kind))
            return done - at;
        done += size;
    }
    return done - at;
}

/* The end of the characters that may change with the one at `at`. */
static size_t find_end(const struct kt_marked *in, size_t at)
{
    uint32_t code;
    at += kt_utf8_read(in->text + at, in->length - at, &code);
    while (at < in->length) {
        size_t size = kt_utf8_read(in->text + at, in->length - at, &code);
        if (begins_anew(code))
            break;
        at += size;
    }
    return at;
}

static bool run_form(const struct writer *writer, const struct kt_marked *in, enum kt_norm_kind kind)
{
    for (size_t at = 0; at < in->length;) {
        size_t plain = count_plain(in, at, kind);
        if (!copy_bytes(writer, in, at, at + plain))
            return false;
        at += plain;
        if (at == in->length)
            break;
        size_t end = find_end(in, at);
        if (!write_form(writer, in, at, end, kind))
            return false;
        at = end;
    }
    return true;
}

/* ---- other steps ---- */

/* Does replacing in[0 .. end - 1] by the step's text leave the first of its characters where it is? */
static bool keeps_first(const struct kt_norm_step *step, const struct kt_marked *in, size_t end)
{
    uint32_t code;
    return end == 0 || (step->text.length > 0 && kt_utf8_read(in->text, in->length, &code) == end);
}

static enum kt_status run_replace(const struct kt_norm_step *step, const struct writer *writer,
                                  struct kt_regex_room *regexes, struct kt_norm_place *place,
                                  const struct kt_marked *in, struct kt_error *error)
{
    size_t done = 0, at = 0;
    bool found_any = false;
    while (at < in->length || (at == in->length && at > 0 && step->regex.code)) {
        size_t begin = in->length, end = in->length;
        if (step->regex.code) {
            bool found;
            enum kt_status status =
                kt_regex_find(&step->regex, regexes, in->text, in->length, at, &found, &begin, &end, error);
            if (status != KT_OK)
                return status;
            if (!found)
                break;
        } else {
            const char *found_at = memmem(in->text + at, in->length - at, step->what.data, step->what.length);
            if (!found_at)
                break;
            begin = (size_t)(found_at - in->text);
            end = begin + step->what.length;
        }
        /* An empty match is replaced, too, unless it is right behind another match. */
        at = end;
        if (end == begin)
            for (at++; at < in->length && ((unsigned char)in->text[at] & 0xC0) == 0x80;)
                at++;
        if (end == begin && begin == done && found_any)
            continue;
        found_any = true;
        place->is_first &= begin > 0 || keeps_first(step, in, end);
        if (!copy_bytes(writer, in, done, begin) ||
            !write_bytes(writer, step->text.data, step->text.length,
                         in->marks && memchr(in->marks + begin, 1, end - begin) != NULL))
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for %zu bytes of text", in->length);
        done = end;
        if (writer->text->length > writer->most)
            break;
    }
    if (!copy_bytes(writer, in, done, in->length))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for %zu bytes of text", in->length);
    return KT_OK;
}

bool kt_norm_is_space(uint32_t code)
{
    if (code < 0x85)
        return (code >= 9 && code <= 13) || code == ' ';
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static bool run_strip(const struct kt_norm_step *step, const struct writer *writer,
                      struct kt_norm_place *place, const struct kt_marked *in)
{
    size_t begin = in->length, end = 0;
    for (size_t at = 0; at < in->length;) {
        uint32_t code;
        size_t size = kt_utf8_read(in->text + at, in->length - at, &code);
        if (!kt_norm_is_space(code)) {
            begin = begin < at ? begin : at;
            end = at + size;
        }
        at += size;
    }
    begin = step->left && place->begins ? begin : 0;
    end = step->right && place->ends ? end : in->length;
    place->is_first &= begin == 0;
    return begin >= end || copy_bytes(writer, in, begin, end);
}

static bool run_prepend(const struct kt_norm_step *step, const struct writer *writer,
                        struct kt_norm_place place, const struct kt_marked *in)
{
    const struct kt_buffer *text = &step->text;
    bool is_there = in->length >= text->length && memcmp(in->text, text->data, text->length) == 0;
    bool is_wanted = place.begins && (in->length > 0 || !place.ends) && !(step->unless_there && is_there) &&
                     !(step->first_only && !place.is_first);
    if (is_wanted &&
        !write_bytes(writer, text->data, text->length, in->marks && in->length > 0 ? in->marks[0] : 0))
        return false;
    return copy_bytes(writer, in, 0, in->length);
}

static enum kt_status run_step(const struct kt_norm_step *step, const struct writer *writer,
                               struct kt_regex_room *regexes, struct kt_norm_place *place,
                               const struct kt_marked *in, struct kt_error *error)
{
    bool taken;
    if (step->kind == KT_NORM_REPLACE)
        return run_replace(step, writer, regexes, place, in, error);
    if (step->kind == KT_NORM_PREPEND)
        taken = run_prepend(step, writer, *place, in);
    else if (step->kind == KT_NORM_STRIP)
        taken = run_strip(step, writer, place, in);
    else
        taken = run_form(writer, in, step->kind);
    return taken ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for %zu bytes of text", in->length);
}

/* Forms make at most 11 times as many bytes, and spaces become three. */
#define MOST_GROWTH 100

/* Most texts are in their form already: then nothing is copied. */
static bool changes_nothing(const struct kt_norm_step *step, const struct kt_marked *in)
{
    return step->kind <= KT_NORM_NFKD && count_plain(in, 0, step->kind) == in->length;
}

enum kt_status kt_normalize(const struct kt_normalizer *normalizer, struct kt_norm_room *room,
                            struct kt_regex_room *regexes, struct kt_norm_place *place, struct kt_marked in,
                            struct kt_marked *out, struct kt_error *error)
{
    size_t side = 0, most = MOST_GROWTH * in.length + 4096;
    for (size_t i = 0; i < normalizer->n; i++) {
        if (changes_nothing(&normalizer->steps[i], &in))
            continue;
        struct writer writer = {&room->text[side], in.marks ? &room->marks[side] : NULL, most};
        room->text[side].length = room->marks[side].length = 0;
        if (!kt_buffer_reserve(&room->text[side], 1) || !kt_buffer_reserve(&room->marks[side], 1))
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for %zu bytes of text", in.length);
        enum kt_status status = run_step(&normalizer->steps[i], &writer, regexes, place, &in, error);
        if (status != KT_OK)
            return status;
        if (writer.text->length > most)
            return kt_engine_fail(error, KT_E_RANGE, "normalizing makes more than %zu bytes of a text", most);
        in = (struct kt_marked){writer.text->data, in.marks ? writer.marks->data : NULL, writer.text->length};
        side ^= 1;
    }
    *out = in;
    return KT_OK;
}
