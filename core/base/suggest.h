/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.h - the known word that a wrong one was perhaps meant to be. */
#ifndef KT_CORE_BASE_SUGGEST_H
#define KT_CORE_BASE_SUGGEST_H

#include <stddef.h>

/* The candidate nearest to `word`, or NULL: one that begins with it, or whose edit distance is at most 3 and
 * half the candidate's length. */
const char *kt_nearest(const char *word, const char *const *candidates, size_t n);

/* ", did you mean avx2?" of the words in a text, with spaces, commas or | between them; "" if none is near.
 * Returns `hint`. */
enum { KT_HINT_SIZE = 128 };
const char *kt_hint(const char *word, const char *words, char *hint, size_t size);

#endif
