/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/sampling.h - which token comes next: logits in, an id out. And where a text ends: stop strings. A part
 * of libktengine (pkg-config kt-kernel-engine) that needs no model of it and may be used alone.
 *
 *     kt_sampling_defaults()   the settings that a checkpoint advises
 *     kt_sampler_create()      a sampler of one sequence
 *     kt_sampler_accept()      its tokens as they come, for what looks back: penalties and DRY
 *     kt_sampler_choose()      logits of the next position -> an id
 *     kt_stop_add()            text as it is generated -> text that no stop string can begin in
 *
 * Seed and position decide the random number of a choice, and nothing else: not the batch, not the order of
 * calls, not the thread. The same logits, history, settings, seed and position give the same id on any CPU.
 *
 * Order of the steps; those that are off cost nothing:
 *     1 allowed          kt_sampler_choose's mask: all other tokens are out
 *     2 logit_bias       added to logits
 *     3 penalties        repetition, then frequency and presence
 *     4 dry
 *     5 top_n_sigma
 *     6 top_k
 *     7 typical_p
 *     8 top_p
 *     9 min_p
 *    10 xtc
 *    11 temperature      divides the logits that are left; one of them is drawn
 * That is llama.cpp's order. A filter takes probabilities of the tokens that the steps before it left.
 * Temperature is last, so how many tokens a filter leaves does not depend on it, and a high one brings no
 * unlikely tokens back. Hugging Face and vLLM divide by it first; at temperature 1 there is no difference.
 * Every filter leaves at least one token. Tokens of equal logits: the lower id is taken to be the likelier
 * one.
 *
 * Thread-safety: objects are used by one thread at a time; different ones by any threads at once.
 */
#ifndef KT_SAMPLING_H
#define KT_SAMPLING_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_checkpoint;
struct kt_tokenizer;
struct kt_sampler;
struct kt_stop;

/* ---- settings --------------------------------------------------------------------------------- */

struct kt_logit_bias {
    int32_t id;
    float bias; /**< added to the logit; -INFINITY: never this token */
};

/** What 0 means stands at each field: KT_SAMPLING_PARAMS_INIT is the likeliest token each time. */
struct kt_sampling_params {
    size_t struct_size;
    uint64_t seed;
    double temperature; /**< 0: the likeliest token after steps 1 to 4; the filters then change nothing */
    uint32_t top_k;     /**< the k likeliest tokens; 0: all */
    uint32_t n_top;     /**< so many of the likeliest tokens come with each choice; at most KT_MAX_TOP */
    double top_p; /**< the fewest likeliest tokens whose probabilities add up to it, 0 .. 1; 0 and 1: all */
    double min_p; /**< tokens of at least min_p times the likeliest one's probability, 0 .. 1; 0: all */
    double typical_p; /**< the fewest tokens whose surprise is nearest the entropy and whose probabilities add
                         up to it, 0 .. 1 (locally typical sampling); 0 and 1: all */
    double top_n_sigma; /**< logits within so many standard deviations (of all logits that are not -inf) of
                           the highest; 0: all */
    double xtc_probability; /**< how often XTC is done, 0 .. 1: of the tokens of xtc_threshold and more, all
                               but the least likely are taken out. 0: never */
    double xtc_threshold;   /**< 0 .. 1, above 0.5 it never finds two; 0: 0.1 */
    /** The logit of a token that the history has is divided by it if it is above 0, else multiplied. Prompt
     * and generated tokens count, as in Hugging Face's and vLLM's. 0 and 1: off. */
    double repetition_penalty;
    /** Taken off the logit of a token that was generated, once, or (frequency) as often as it was. The prompt
     * does not count, as in OpenAI's and vLLM's. May be below 0. */
    double presence_penalty;
    double frequency_penalty;
    uint64_t penalty_last_n; /**< penalties look back so many tokens of the history; 0: all of it */
    /** DRY: a token that would go on with a repetition of the n last tokens loses dry_multiplier * dry_base
     * ^ (n - dry_allowed_length) where n is at least dry_allowed_length. Prompt and generated tokens count.
     * 0: off. */
    double dry_multiplier;
    double dry_base;             /**< at least 1; 0: 1.75 */
    uint32_t dry_allowed_length; /**< 0: 2 */
    uint32_t logprobs;           /**< not 0: a choice comes with its logprob; so it does with n_top */
    uint64_t dry_last_n;         /**< DRY looks back so many tokens of the history; 0: all of it */
    /** Tokens at which repetitions end, and which are not penalised: kt_sampling_breakers(). */
    const int32_t *dry_breakers;
    uint64_t n_dry_breakers;
    const struct kt_logit_bias *logit_bias; /**< an id that stands here twice gets both */
    uint64_t n_logit_bias;
};
#define KT_SAMPLING_PARAMS_INIT KT_INIT(kt_sampling_params)
#define KT_MAX_TOP 128

/**
 * Sets those fields that the checkpoint's own advice names and leaves the others as they are: keys
 * general.sampling.* of a GGUF file (temp, top_k, top_p, min_p, xtc_probability, xtc_threshold,
 * penalty_last_n, penalty_repeat, and sequence, whose filters are those that are on), generation_config.json
 * of a folder (do_sample, temperature, top_k, top_p, min_p, typical_p, repetition_penalty). Advice to sample
 * that names no temperature means 1; do_sample false means 0. Without advice nothing is set. KT_E_FORMAT
 * names a key with a value that it cannot have; KT_E_UNSUPPORTED advice that is not computed, such as
 * mirostat, beams, or another order of the filters.
 */
enum kt_status kt_sampling_defaults(struct kt_checkpoint *checkpoint, struct kt_sampling_params *params,
                                    struct kt_error *error);

/** Breakers for DRY: ids of the tokens in whose text one of these texts stands, ascending. llama.cpp's are
 * "\n", ":", "\"" and "*". *ids is allocated: free it by kt_ids_free() of <kt/text.h>. */
enum kt_status kt_sampling_breakers(const struct kt_tokenizer *tokenizer, const char *const *texts,
                                    uint64_t n_texts, int32_t **ids, uint64_t *n_ids, struct kt_error *error);

/* ---- choosing --------------------------------------------------------------------------------- */

/**
 * A sampler for logits of ids 0 .. vocabulary - 1. A model may have more logits than its tokenizer has tokens
 * (kt_tokenizer_info.n_tokens); with the smaller number as vocabulary, those behind are never read.
 * `params` is copied with its arrays. KT_E_INVALID names a field outside its range; KT_E_RANGE an id that is
 * none. It takes at most some 24 bytes for each token of the vocabulary, and 4 to 80 for each of the history
 * where penalties or DRY are on.
 */
enum kt_status kt_sampler_create(uint64_t vocabulary, const struct kt_sampling_params *params,
                                 struct kt_sampler **sampler, struct kt_error *error);
/** `sampler` may be NULL. */
void kt_sampler_destroy(struct kt_sampler *sampler);

/** Where a token of the history is from. */
enum kt_token_origin { KT_ORIGIN_PROMPT = 0, KT_ORIGIN_GENERATED = 1 };

/** The next tokens of the history; the chosen ones do not become a part of it by themselves. KT_E_RANGE names
 * an id that is none, and nothing is added then; after KT_E_NOMEM the history is empty. May be left out where
 * neither penalties nor DRY are on. */
enum kt_status kt_sampler_accept(struct kt_sampler *sampler, const int32_t *ids, uint64_t n_ids,
                                 uint32_t origin, struct kt_error *error);
/** Forgets the history, for another sequence or to go back in this one. */
void kt_sampler_reset(struct kt_sampler *sampler);

struct kt_logprob {
    int32_t id;
    float logprob; /**< natural logarithm of the probability */
};

/** Logprobs are those of the model: of the logits as they came, before steps 1 to 11. */
struct kt_choice {
    int32_t id;
    uint32_t n_left; /**< tokens that the filters left, the vocabulary if none is on; 1 at temperature 0 */
    float logprob;   /**< of id; NaN where the settings do not ask for it */
    uint32_t n_top;
    const struct kt_logprob *top; /**< the likeliest tokens, that first; live until the sampler's next call */
};

/**
 * The token at `position` of its sequence: how many tokens stand before it. Logits are only read, and nothing
 * is allocated.
 *
 * `allowed`: a bit for each token, bit id % 64 of allowed[id / 64], 1 if it may come; NULL: all may. A call
 * with it draws another random number than one without. So a caller to whom masks are dear may choose
 * without, and only if that token may not come, choose again with one: what comes is distributed as if
 * the mask had been there (exactly so without filters).
 *
 * KT_E_BACKEND: logits are NaN or +inf, or all are -inf: what computed them is broken, and the sequence
 * cannot go on. KT_E_RANGE: the mask and logit_bias leave no token.
 */
enum kt_status kt_sampler_choose(struct kt_sampler *sampler, const float *logits, uint64_t position,
                                 const uint64_t *allowed, struct kt_choice *choice, struct kt_error *error);

/**
 * The random number of a choice, 0 <= u < 1: the upper 53 bits of the first two words, first word first, of
 * Philox4x32-10 with the key (low and high word of the seed) and the counter (low and high word of
 * the position, stream, 0). Stream 0 draws the token, 1 the token of a call with a mask, 2 decides XTC.
 */
double kt_sampling_random(uint64_t seed, uint64_t position, uint32_t stream);

/* ---- stop strings ----------------------------------------------------------------------------- */

/** A stop string: UTF-8, not empty. */
struct kt_stop_text {
    const char *text;
    uint64_t length;
};

/** Bits of kt_stop_create. */
enum kt_stop_flag {
    KT_STOP_KEEP = 1 /**< the stop string itself is a part of the text */
};

/**
 * Finds stop strings in a text that comes in pieces, over their borders, in a time that depends on its length
 * only. The text stops at the first byte at which any stop string is complete; of several that are complete
 * there, the longest. The result is the same however the text is cut, also within characters.
 * No stop strings: all text goes through. KT_E_INVALID: one is empty or no UTF-8.
 */
enum kt_status kt_stop_create(const struct kt_stop_text *texts, uint64_t n_texts, uint32_t flags,
                              struct kt_stop **stop, struct kt_error *error);
/** `stop` may be NULL. */
void kt_stop_destroy(struct kt_stop *stop);

/**
 * Takes the next piece. *text is what can be shown now: held back is only the longest end of the text that a
 * stop string begins with, and of a character that is not yet whole. *found: which stop string ends the text,
 * its place in kt_stop_create's array; -1: none. *text is then what stands before it and was not yet shown,
 * and further pieces give KT_E_STATE. *text lives until the next call. After KT_E_NOMEM the matcher can only
 * be destroyed.
 */
enum kt_status kt_stop_add(struct kt_stop *stop, const char *piece, uint64_t length, const char **text,
                           uint64_t *text_length, int64_t *found, struct kt_error *error);
/** The text is over: what was held back; nothing if a stop string was found. The matcher may then begin
 * again, with another text. */
enum kt_status kt_stop_end(struct kt_stop *stop, const char **text, uint64_t *text_length,
                           struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
