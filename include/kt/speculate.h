/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/speculate.h - several tokens of a text in one step. A part of libktengine (pkg-config kt-kernel-engine)
 * on <kt/engine.h> and <kt/sampling.h>.
 *
 *     kt_speculator_create()   a text, empty
 *     kt_speculator_add()      its prompt
 *     kt_speculator_step()     its next tokens: at least one
 *
 * A step computes the last token and what is drafted behind it as one slice, as weights are read once for
 * several rows. The sampler then chooses at each position as it would without drafts: drafts count as long as
 * they are what was chosen, the rest is dropped. Drafts are how the text went on where its last 2, 3, 5 or 8
 * tokens stood before, for which nothing is computed, or a token of the model's own block for that, if the
 * model was opened with it.
 *
 * The text is the one without drafts wherever the bits of logits do not depend on how many rows a step has:
 * with core.deterministic, and at levels that multiply any number of rows in one way. Elsewhere logits differ
 * in their last bits, as they do between batches, and so may a token that was nearly as likely as another.
 * KT_SPECULATE_AUTO decides by the clock, so two runs may then differ, too.
 *
 * Sessions with states (kt_model_info.has_states) cannot go back, so before a draft they are forked, and rows
 * of one that was wrong are computed again with the next step. That takes a free session; where there is
 * none, nothing is drafted.
 *
 * Thread-safety: a speculator is used by one thread at a time, the one that its model is used by.
 */
#ifndef KT_SPECULATE_H
#define KT_SPECULATE_H

#include <kt/engine.h>
#include <kt/sampling.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_speculator;

enum kt_speculation {
    /** What is faster by the time that steps took so far. What drafts can lose is bounded: about a step, and
     * a hundredth of all time. */
    KT_SPECULATE_AUTO = 0,
    KT_SPECULATE_OFF = 1,
    /** Looks up drafts, as long as that seems to come true; no clock decides. */
    KT_SPECULATE_LOOKUP = 2,
    /** A draft of one token for each step, by the model's own block, see kt_session_draft(). Where the model
     * has none, nothing is drafted. */
    KT_SPECULATE_MTP = 3
};

struct kt_speculator_params {
    size_t struct_size;
    uint32_t mode;       /**< enum kt_speculation */
    uint32_t max_drafts; /**< of a step; 0: as many as there may be, 15 */
};
#define KT_SPECULATOR_PARAMS_INIT KT_INIT(kt_speculator_params)

struct kt_speculator_stats {
    uint64_t steps;             /**< those of a prompt among them */
    uint64_t drafted_steps;     /**< of these, with drafts */
    uint64_t drafted, accepted; /**< tokens */
};

/** A text of a model, whose tokens `sampler` chooses, which has its settings and no history yet. Both must
 * live longer. */
enum kt_status kt_speculator_create(struct kt_model *model, struct kt_sampler *sampler,
                                    const struct kt_speculator_params *params,
                                    struct kt_speculator **speculator, struct kt_error *error);
/** `speculator` may be NULL. */
void kt_speculator_destroy(struct kt_speculator *speculator);

/** The next tokens of the text which nobody chooses, such as a prompt; the sampler's history gets them, too.
 */
enum kt_status kt_speculator_add(struct kt_speculator *speculator, const int32_t *ids, uint64_t n_ids,
                                 struct kt_error *error);

/** A token that was chosen; what it points to lives until the function returns. Not 0: the text ends with it.
 */
typedef int (*kt_token_fn)(void *data, const struct kt_choice *choice);

/**
 * Computes those tokens of the text that the session has not, and chooses up to `most` further ones, at least
 * one: on_token gets each of them, in order. The session must have a beginning of the text, and then has all
 * but its last token, or, if it has states, a beginning. It may be another session than before, and the old
 * one is closed: so *session is all that may be kept of it. Errors are those of kt_model_step and
 * kt_sampler_choose; the text keeps the tokens that on_token got.
 */
enum kt_status kt_speculator_step(struct kt_speculator *speculator, struct kt_session **session,
                                  uint64_t most, kt_token_fn on_token, void *data, struct kt_error *error);
void kt_speculator_stats(const struct kt_speculator *speculator, struct kt_speculator_stats *stats);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
