/* SPDX-License-Identifier: Apache-2.0 */
/* test_stop.c - stop strings in texts that are cut at any byte, beside a search of the whole text. */
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include <check.h>
#include <kt/sampling.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

struct one {
    const char *text;
    const char *stops[4];
};

static const struct one cases[] = {{"", {"a"}},
                                   {"abc", {NULL}},
                                   {"abc", {"abc"}},
                                   {"xabcy", {"abc"}},
                                   {"ababac tail", {"abac"}},
                                   {"aaaaab", {"aaab", "aab"}},
                                   {"abcd", {"bcd", "abc", "c"}}, /* c and abc end first; abc is longer */
                                   {"abcd", {"bcde", "cd"}},
                                   {"abxabcabxabcd", {"abcabxabcd", "bca!"}},
                                   {"one\n\nUser: two", {"\nUser:", "</s>"}},
                                   {"é€😀 done", {"€😀"}},
                                   {"é€😀 done", {"€€", "é€€"}},
                                   {"😀😁😀😁", {"😁😀😁"}},
                                   {"tail of a stop ab", {"abc"}},
                                   {"caf\xc3", {"é"}},        /* ends within a character */
                                   {"\xff\xe2\x82z€", {"€"}}, /* no UTF-8 */
                                   {"<|im_e<|im_end|>", {"<|im_end|>"}}};
#define N_CASES (int)(sizeof(cases) / sizeof(cases[0]))

static int count_stops(const struct one *one)
{
    int n = 0;
    while (n < 4 && one->stops[n])
        n++;
    return n;
}

static struct kt_stop *make(const struct one *one, uint32_t flags)
{
    struct kt_stop_text texts[4];
    struct kt_stop *stop;
    int n = count_stops(one);
    for (int i = 0; i < n; i++)
        texts[i] = (struct kt_stop_text){one->stops[i], strlen(one->stops[i])};
    ck_assert_int_eq(kt_stop_create(texts, (uint64_t)n, flags, &stop, NULL), KT_OK);
    return stop;
}

/* What must come of it: how long the text is, and which stop string ends it. */
static size_t search(const struct one *one, bool keeps, int64_t *found)
{
    size_t length = strlen(one->text);
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (int i = 0; i < count_stops(one); i++) {
            size_t size = strlen(one->stops[i]);
            if (size > longest && size <= end && memcmp(one->text + end - size, one->stops[i], size) == 0) {
                longest = size;
                *found = i;
            }
        }
        if (longest > 0)
            return keeps ? end : end - longest;
    }
    *found = -1;
    return length;
}

/* How much of the first `length` bytes, in which no stop string is, may be shown. */
static size_t count_safe(const struct one *one, size_t length)
{
    size_t held = 0, whole = length;
    for (int i = 0; i < count_stops(one); i++)
        for (size_t size = 1; size < strlen(one->stops[i]) && size <= length; size++)
            if (size > held && memcmp(one->text + length - size, one->stops[i], size) == 0)
                held = size;
    for (size_t back = 1; back <= 3 && back <= length;
         back++) { /* a first byte that wants more than there is */
        unsigned char byte = (unsigned char)one->text[length - back];
        if (byte >= 0xC0 && byte < 0xF8 && back < (byte >= 0xF0 ? 4u : byte >= 0xE0 ? 3u : 2u))
            whole = length - back;
        if (byte < 0x80 || byte >= 0xC0)
            break;
    }
    return length - held < whole ? length - held : whole;
}

/* Hands the text over in pieces that end at these bytes, the last one at its end. */
static void run(struct kt_stop *stop, const struct one *one, bool keeps, const size_t *ends, int n_ends)
{
    char shown[4 * MOST];
    size_t n_shown = 0, from = 0;
    int64_t expected, found = -1;
    const char *text;
    uint64_t length;
    size_t total = search(one, keeps, &expected);
    for (int i = 0; i < n_ends && found < 0; i++) {
        char *piece = malloc(ends[i] - from + 1); /* not a byte more may be read */
        memcpy(piece, one->text + from, ends[i] - from);
        piece = realloc(piece, ends[i] - from > 0 ? ends[i] - from : 1);
        ck_assert_int_eq(kt_stop_add(stop, piece, ends[i] - from, &text, &length, &found, NULL), KT_OK);
        free(piece);
        memcpy(shown + n_shown, text, length);
        n_shown += length;
        from = ends[i];
        if (found < 0)
            ck_assert_uint_eq(n_shown, count_safe(one, from));
    }
    ck_assert_int_eq(found, expected);
    if (found >= 0)
        ck_assert_int_eq(kt_stop_add(stop, "x", 1, &text, &length, &found, NULL), KT_E_STATE);
    ck_assert_int_eq(kt_stop_end(stop, &text, &length, NULL), KT_OK);
    if (expected >= 0)
        ck_assert_uint_eq(length, 0);
    memcpy(shown + n_shown, text, length);
    ck_assert_uint_eq(n_shown + length, total);
    ck_assert_mem_eq(shown, one->text, total);
}

START_TEST(test_cuts)
{
    const struct one *one = cases + _i;
    size_t length = strlen(one->text), every[MOST];
    for (size_t i = 0; i < length; i++)
        every[i] = i + 1;
    for (int keeps = 0; keeps < 2; keeps++) {
        struct kt_stop *stop = make(one, keeps ? KT_STOP_KEEP : 0);
        run(stop, one, keeps, every, (int)length);
        for (size_t a = 0; a <= length; a++)
            for (size_t b = a; b <= length; b++)
                run(stop, one, keeps, (const size_t[]){a, b, length}, 3);
        kt_stop_destroy(stop);
    }
}
END_TEST

/* Texts and stop strings of two letters have every overlap there is. */
START_TEST(test_random)
{
    uint64_t state = 5;
    for (int round = 0; round < 4000; round++) {
        char bytes[4][MOST];
        struct one one = {bytes[0], {bytes[1], bytes[2], bytes[3]}};
        size_t every[MOST];
        for (int i = 0; i < 4; i++) {
            size_t length = 1;
            for (;; length++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                bytes[i][length - 1] = "ab"[state >> 40 & 1];
                if (length >= (i ? 7u : 40u) || (i && (state >> 50) % 4 == 0))
                    break;
            }
            bytes[i][length] = '\0';
        }
        for (size_t i = 0; i < strlen(one.text); i++)
            every[i] = i + 1;
        struct kt_stop *stop = make(&one, 0);
        run(stop, &one, false, every, (int)strlen(one.text));
        kt_stop_destroy(stop);
    }
}
END_TEST

/* A text of one letter and stop strings of it: every byte moves along the links. */
START_TEST(test_long)
{
    enum { STOP = 2000, TEXT = 1 << 20 };
    char *a = malloc(TEXT);
    struct kt_stop *stop;
    const char *text;
    uint64_t length, total = 0;
    int64_t found;
    memset(a, 'a', TEXT);
    a[STOP - 1] = 'b';
    ck_assert_int_eq(kt_stop_create(&(struct kt_stop_text){a, STOP}, 1, 0, &stop, NULL), KT_OK);
    a[STOP - 1] = 'a';
    ck_assert_int_eq(kt_stop_add(stop, a, TEXT, &text, &length, &found, NULL), KT_OK);
    ck_assert_int_eq(found, -1);
    total += length;
    ck_assert_uint_eq(length, TEXT - (STOP - 1));
    ck_assert_int_eq(kt_stop_add(stop, "b", 1, &text, &length, &found, NULL), KT_OK);
    ck_assert_int_eq(found, 0);
    ck_assert_uint_eq(total + length, TEXT - (STOP - 1));
    kt_stop_destroy(stop);
    free(a);
}
END_TEST

START_TEST(test_wrong)
{
    struct kt_stop *stop;
    struct kt_error error;
    const char *text;
    uint64_t length;
    int64_t found;
    struct kt_stop_text texts[2] = {{"ok", 2}, {"", 0}};
    ck_assert_int_eq(kt_stop_create(texts, 2, 0, &stop, &error), KT_E_INVALID);
    ck_assert_str_eq(error.message, "stop string 1 is empty");
    texts[1] = (struct kt_stop_text){"\xc3", 1};
    ck_assert_int_eq(kt_stop_create(texts, 2, 0, &stop, &error), KT_E_INVALID);
    ck_assert_str_eq(error.message, "stop string 1 is not UTF-8");
    ck_assert_int_eq(kt_stop_create(texts, 1, 2, &stop, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stop_create(NULL, 1, 0, &stop, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stop_create(texts, 1, 0, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stop_add(NULL, "", 0, &text, &length, &found, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stop_end(NULL, &text, &length, &error), KT_E_INVALID);
    kt_stop_destroy(NULL);
}
END_TEST

START_TEST(test_faults)
{
    for (unsigned long n = 1;; n++) {
        struct kt_stop *stop = NULL;
        struct kt_error error = {KT_OK, ""};
        const char *text;
        uint64_t length;
        int64_t found;
        faults_arm(n);
        enum kt_status status = kt_stop_create(&(struct kt_stop_text){"ab", 2}, 1, 0, &stop, &error);
        if (status == KT_OK)
            status = kt_stop_add(stop, "xa", 2, &text, &length, &found, &error);
        kt_stop_destroy(stop);
        bool hit = faults_hit();
        faults_arm(0);
        ck_assert_int_eq(status, hit ? KT_E_NOMEM : KT_OK);
        ck_assert_int_eq(error.status, status);
        if (!hit) {
            ck_assert_uint_gt(n, 3);
            break;
        }
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("stop");
    tcase_add_loop_test(tcase, test_cuts, 0, N_CASES);
    tcase_add_test(tcase, test_random);
    tcase_add_test(tcase, test_long);
    tcase_add_test(tcase, test_wrong);
    tcase_add_test(tcase, test_faults);
    tcase_set_timeout(tcase, 120);
    return run_tests("stop", tcase);
}
