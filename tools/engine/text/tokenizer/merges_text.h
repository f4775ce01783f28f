/* SPDX-License-Identifier: Apache-2.0 */
/* merges_text.h - the merges of a tokenizer.json, read from its text. As a tree of JSON values they are half
 * of what loading takes, and of its memory. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_MERGES_TEXT_H
#define KT_ENGINE_TEXT_TOKENIZER_MERGES_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/** The array model.merges with its brackets, within the text of a file; NULL: the tree has it. */
struct kt_merges_text {
    const char *text;
    size_t length;
};

/** Parses all but the merges, which stand once and plainly in most files: false if they do not, if the text
 * is not JSON or if memory ended, which place->text tells. The text stays in use. */
bool kt_merges_text_cut(const char *text, size_t length, json_t **root, struct kt_merges_text *merges,
                        json_error_t *place);

/** At least how many merges there are if all are written alike, and not many more. */
size_t kt_merges_count(const struct kt_merges_text *merges);

/** One merge: "a b" or ["a", "b"], without their escapes. */
struct kt_merge_sides {
    const char *left, *right;
    size_t left_length, right_length;
};

/** Splits "a b" at its first space behind the first byte; false: there is none. */
bool kt_merge_sides_split(const char *text, size_t length, struct kt_merge_sides *sides);

/** Reads on; all zero but `at` and `end` is its start. */
struct kt_merges_reader {
    const char *at, *end;
    bool is_begun;
};

enum kt_merges_read {
    KT_MERGES_PAIR,
    KT_MERGES_END,
    KT_MERGES_UNUSUAL, /**< what only the tree can tell: another kind of value, a rare escape, no JSON */
};

/** The next merge; its texts are in `room`, of `size` bytes, until the next call. */
enum kt_merges_read kt_merges_read(struct kt_merges_reader *reader, char *room, size_t size,
                                   struct kt_merge_sides *sides);

#endif
