/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/speculate.h - speculative decoding: several tokens of a text in one step. Part of libktengine
 * (pkg-config kt-kernel-engine), based on <kt/engine.h> and <kt/sampling.h>.
 *
 *     kt_speculator_create()   an empty text
 *     kt_speculator_add()      adds its prompt
 *     kt_speculator_step()     its next tokens: at least one
 *
 * A step computes the last token and the drafted tokens after it as one slice, so weights are read once for
 * several rows. The sampler then chooses at each position as it would without drafts. Drafts are accepted as
 * long as they equal the chosen tokens; the rest is discarded. A draft is the continuation at an earlier
 * position where the last 2, 3, 5 or 8 tokens occurred, which costs no computation, or a token of the model's
 * own block for that, if the model was opened with it.
 *
 * The text is the same as without drafts if the bits of logits do not depend on the number of rows in a step:
 * with core.deterministic, and at levels with one method for any number of rows. Otherwise logits differ in
 * their last bits, as between batches, and a token with nearly the same probability as another may differ.
 * KT_SPECULATE_AUTO depends on measured time, so two runs may then differ, too.
 *
 * Sessions with states (kt_model_info.has_states) cannot go back. They are forked before a draft, and rows of
 * a rejected draft are computed again with the next step. This requires a free session; without one, there
 * are no drafts.
 *
 * Thread-safety: a speculator may be used by one thread at a time, the one that uses its model.
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
    /** Uses drafts if they are faster, based on the time of steps so far. The loss by drafts is limited to
     * about one step and one percent of the total time. */
    KT_SPECULATE_AUTO = 0,
    KT_SPECULATE_OFF = 1,
    /** Looks up drafts as long as they are mostly accepted; does not depend on time. */
    KT_SPECULATE_LOOKUP = 2,
    /** Drafts one token per step with the model's own block, see kt_session_draft(). Without such a block,
     * there are no drafts. */
    KT_SPECULATE_MTP = 3
};

struct kt_speculator_params {
    size_t struct_size;
    uint32_t mode;       /**< enum kt_speculation */
    uint32_t max_drafts; /**< of a step; 0: the maximum, 15 */
};
#define KT_SPECULATOR_PARAMS_INIT KT_INIT(kt_speculator_params)

struct kt_speculator_stats {
    uint64_t steps;             /**< including those of a prompt */
    uint64_t drafted_steps;     /**< of these, with drafts */
    uint64_t drafted, accepted; /**< tokens */
};

/** Creates a text of a model. `sampler` chooses its tokens; it has its settings, but no history yet. Both
 * must outlive the speculator. */
enum kt_status kt_speculator_create(struct kt_model *model, struct kt_sampler *sampler,
                                    const struct kt_speculator_params *params,
                                    struct kt_speculator **speculator, struct kt_error *error);
/** `speculator` may be NULL. */
void kt_speculator_destroy(struct kt_speculator *speculator);

/** Appends given tokens to the text, such as a prompt, and to the sampler's history. */
enum kt_status kt_speculator_add(struct kt_speculator *speculator, const int32_t *ids, uint64_t n_ids,
                                 struct kt_error *error);

/** Receives a chosen token; its pointers are valid until the function returns. Returns a value other than 0
 * to end the text with it. */
typedef int (*kt_token_fn)(void *data, const struct kt_choice *choice);

/**
 * Computes the tokens of the text that are not in the session, and chooses up to `most` further ones, at
 * least one, passing each to on_token, in order. The session must contain a prefix of the text, and
 * afterwards contains all but its last token, or, if it has states, a prefix. The session may be replaced by
 * another one, and the old one closed: only use *session afterwards. Errors are those of kt_model_step and
 * kt_sampler_choose; tokens already passed to on_token remain in the text.
 */
enum kt_status kt_speculator_step(struct kt_speculator *speculator, struct kt_session **session,
                                  uint64_t most, kt_token_fn on_token, void *data, struct kt_error *error);
void kt_speculator_stats(const struct kt_speculator *speculator, struct kt_speculator_stats *stats);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
