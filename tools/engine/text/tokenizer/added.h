/* SPDX-License-Identifier: Apache-2.0 */
/* added.h - tokens that are found in text as they stand, before it is cut into words. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_ADDED_H
#define KT_ENGINE_TEXT_TOKENIZER_ADDED_H

#include "tools/engine/text/tokenizer/normalize.h"

#include <stdint.h>

struct kt_added_token {
    char *text; /**< owned */
    size_t length;
    int32_t id;
    bool is_control;     /**< never found in content */
    bool lstrip, rstrip; /**< takes white space before, behind it */
    bool single_word;    /**< not within a word */
};

/** A set of such tokens; all zero is an empty one. */
struct kt_added {
    struct kt_added_token *tokens; /**< in order of their texts once kt_added_sort was called */
    size_t n, capacity;
    bool begins[256]; /**< the bytes that begin one */
};

/** Adds a token, its text copied; at most 4096 bytes, not 0. */
enum kt_status kt_added_add(struct kt_added *added, const struct kt_added_token *token,
                            struct kt_error *error);
/** Of two with one text, the one with the lower id stays: it is returned, NULL if there are none. */
const struct kt_added_token *kt_added_sort(struct kt_added *added);
void kt_added_free(struct kt_added *added);

/** A token in a text: its bytes, with the white space that it takes. */
struct kt_added_match {
    const struct kt_added_token *token;
    size_t begin, end;
};

/** How far a text was searched. */
struct kt_added_search {
    size_t at;                     /**< behind the last token's text */
    size_t taken;                  /**< behind the white space that it took */
    size_t space_begin, space_end; /**< white space that was seen */
};

/**
 * The first token from byte search->at on, the longest one there. Where text is content (by marks, or all of
 * it if is_content), control tokens are passed over; one that is part content is none. A token with lstrip
 * takes nothing that the last one took; another may be white space that it took: then match->begin is before
 * the last match's end, and what comes next begins behind it again. So it is in Hugging Face's tokenizers.
 */
bool kt_added_find(const struct kt_added *added, struct kt_marked text, bool is_content,
                   struct kt_added_search *search, struct kt_added_match *match);

#endif
