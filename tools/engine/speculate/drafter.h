/* SPDX-License-Identifier: Apache-2.0 */
/* drafter.h - what could come next in one text, and how often that was right. */
#ifndef KT_ENGINE_SPECULATE_DRAFTER_H
#define KT_ENGINE_SPECULATE_DRAFTER_H

#include "tools/engine/speculate/lookup.h"

#define KT_MOST_DRAFTS 15

/** Where drafts are from: a length of what was looked up, or the model's own block. */
enum { KT_SOURCE_MTP = KT_LOOKUP_GRAMS, KT_SOURCES };

struct kt_drafter {
    struct kt_lookup text;
    double hits[KT_SOURCES], tries[KT_SOURCES]; /**< of single tokens, the older the less */
    int32_t draft[KT_MOST_DRAFTS];
    uint32_t n_draft, source;
};

void kt_drafter_init(struct kt_drafter *drafter);
void kt_drafter_free(struct kt_drafter *drafter);
/** The next tokens. What was drafted is compared with them, whether or not a step took it: that costs
 * nothing. False: no memory. */
bool kt_drafter_add(struct kt_drafter *drafter, const int32_t *ids, size_t n_ids);
/** Looks up a draft; false: there is none. */
bool kt_drafter_look(struct kt_drafter *drafter);
/** The draft is this token of the model's own block. */
void kt_drafter_set(struct kt_drafter *drafter, int32_t id);
/** The chance of a token from there. */
double kt_drafter_hope(const struct kt_drafter *drafter, uint32_t source);

#endif
