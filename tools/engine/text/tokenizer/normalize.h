/* SPDX-License-Identifier: Apache-2.0 */
/* normalize.h - what is done to text before it is cut into words. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_NORMALIZE_H
#define KT_ENGINE_TEXT_TOKENIZER_NORMALIZE_H

#include "tools/engine/base/buffer.h"
#include "tools/engine/text/tokenizer/regex.h"

#include <stdint.h>

enum kt_norm_kind {
    KT_NORM_NFC,
    KT_NORM_NFD,
    KT_NORM_NFKC,
    KT_NORM_NFKD,
    KT_NORM_PREPEND, /**< `text` before what is not empty */
    KT_NORM_REPLACE, /**< `text` for each match of `regex`, or each `what` */
    KT_NORM_STRIP    /**< white space at the ends */
};

struct kt_norm_step {
    enum kt_norm_kind kind;
    bool unless_there; /**< KT_NORM_PREPEND: not where it is the first already */
    bool first_only;   /**< KT_NORM_PREPEND: at the very start of the text only */
    bool left, right;  /**< KT_NORM_STRIP */
    struct kt_buffer what, text;
    struct kt_regex regex; /**< without code: `what` is looked for */
};

#define KT_NORM_STEPS 16

struct kt_normalizer {
    struct kt_norm_step steps[KT_NORM_STEPS];
    size_t n;
};

/** Text and, byte by byte, whether it is content; no marks (NULL): all of one kind. */
struct kt_marked {
    const char *text;
    const char *marks;
    size_t length;
};

/** What one thread works in. */
struct kt_norm_room {
    struct kt_buffer text[2], marks[2];
};

/** Adds a step, all zero but for its kind. KT_E_UNSUPPORTED: there are too many. */
enum kt_status kt_normalizer_add(struct kt_normalizer *normalizer, enum kt_norm_kind kind,
                                 struct kt_norm_step **step, struct kt_error *error);
void kt_normalizer_free(struct kt_normalizer *normalizer);
void kt_norm_room_free(struct kt_norm_room *room);

/** White space as Unicode has it. */
bool kt_norm_is_space(uint32_t code);

/** Where a text stands. Bytes that are not characters cut what lies between two added tokens, but neither is
 * anything put before what follows them nor is white space at them dropped. */
struct kt_norm_place {
    bool is_first;     /**< it begins the whole text; unset where its first characters are dropped */
    bool begins, ends; /**< no such byte is right before it, behind it */
};

/** Normalizes text, UTF-8. `out` points to the input or into the room, until the next call. */
enum kt_status kt_normalize(const struct kt_normalizer *normalizer, struct kt_norm_room *room,
                            struct kt_regex_room *regexes, struct kt_norm_place *place, struct kt_marked in,
                            struct kt_marked *out, struct kt_error *error);

#endif
