/* SPDX-License-Identifier: Apache-2.0 */
/* gain.h - how many drafted tokens a step should take: what it costs is measured, what comes of it hoped for.
 */
#ifndef KT_ENGINE_SPECULATE_GAIN_H
#define KT_ENGINE_SPECULATE_GAIN_H

#include <stdbool.h>
#include <stdint.h>

/** Rows of a step with drafts, at most. */
#define KT_GAIN_ROWS 24

struct kt_gain {
    bool measures;                    /**< else drafts alone decide, and no clock */
    double seconds[KT_GAIN_ROWS + 1]; /**< of a step of so many rows; 0: not measured */
    uint32_t age[KT_GAIN_ROWS + 1];   /**< steps since */
    double balance;                   /**< seconds that drafts have won, and those that they may lose */
    uint32_t n_drafted;               /**< steps with drafts since one without */
    bool has_plain;
};

/** What a sequence could take besides its next token. */
struct kt_offer {
    double hope;       /**< the chance of each drafted token, if those before it came */
    uint32_t n, taken; /**< tokens; taken: set by kt_gain_plan */
};

void kt_gain_init(struct kt_gain *gain, bool measures);
/**
 * Sets `taken` of all offers, one for each sequence, for a step that has `rows` rows without them. `extra`:
 * seconds that the drafts themselves take; `replays`: rows of a draft that was wrong are computed again.
 * Returns how many tokens a second are expected, 0 if nothing is taken.
 */
double kt_gain_plan(const struct kt_gain *gain, uint32_t rows, struct kt_offer *offers, uint32_t n_offers,
                    double extra, bool replays);
/** A step of n_sequences, of which n_rows - n_plain rows were drafts, gave n_tokens in all; `extra`: seconds
 * that it took to make the drafts. */
void kt_gain_learn(struct kt_gain *gain, uint32_t n_rows, uint32_t n_plain, uint32_t n_sequences,
                   uint32_t n_tokens, double seconds, double extra);
/** Seconds of a step of so many rows; 0: not known. */
double kt_gain_seconds(const struct kt_gain *gain, uint32_t rows);
/** Time that went into something else, such as prompts: it may be lost in part. */
void kt_gain_allow(struct kt_gain *gain, double seconds);

#endif
