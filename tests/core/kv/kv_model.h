/* SPDX-License-Identifier: Apache-2.0 */
/* kv_model.h - caches for tests, and where numbers lie in them by the words of <kt/kv.h>, written once more.
 */
#ifndef KT_TESTS_CORE_KV_KV_MODEL_H
#define KT_TESTS_CORE_KV_KV_MODEL_H

#include "tests/support/layer_fixture.h"

#include <stdbool.h>
#include <string.h>

/* Layers with fields of all kinds, forms and layouts, odd widths, and strides below and above a page; the
 * last two layers keep nothing, or states. */
struct kt_kv_params kv_mixed(bool states);

/* A context of two threads, on the machine's nodes or on so many that do not exist. */
struct kt_context *kv_context(int nodes);

/* The numbers of a row, from a tag; tag 0: zeros. They have all magnitudes that a form can hold. */
void kv_row(uint64_t tag, uint32_t layer, uint32_t field, uint32_t head, uint32_t width, float *row);

/* Writes rows row .. row + n_rows - 1 of all heads of a field, each by its tag. */
enum kt_status kv_write(struct kt_kv_sequence *sequence, const struct kt_kv_params *params, uint32_t layer,
                        uint32_t field, uint64_t row, uint64_t n_rows, const uint64_t *tags,
                        struct kt_error *error);

/* Compares all rows of a sequence with tags[token], of rows of several tokens that of the last one: as the
 * pages have them, as kt_kv_sequence_read gives them, and that all other bytes of its pages are zero. Tokens
 * from n_tokens on have no rows. Gives "" or what is wrong. */
const char *kv_check(const struct kt_kv *kv, const struct kt_kv_sequence *sequence,
                     const struct kt_kv_params *params, const uint64_t *tags, uint64_t n_tokens);

/* Compares counts of pages with the tables of these sequences; NULL: not open. */
const char *kv_check_counts(const struct kt_kv *kv, struct kt_kv_sequence *const *sequences, size_t n);

/* A function of this file that found nothing wrong gives "". */
#define ck_text(text)                              \
    do {                                           \
        const char *ck_found = (text);             \
        ck_assert_msg(!*ck_found, "%s", ck_found); \
    } while (0)

#endif
