/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/sampling.h - choosing tokens (logits in, an id out) and finding stop strings. Part of libktengine
 * (pkg-config kt-kernel-engine); it requires no model of libktengine and can be used alone.
 *
 *     kt_sampling_defaults()   the settings that a checkpoint recommends
 *     kt_sampler_create()      a sampler of one sequence
 *     kt_sampler_accept()      adds tokens to the history, for penalties and DRY
 *     kt_sampler_choose()      logits of the next position -> an id
 *     kt_stop_add()            text as it is generated -> text without beginnings of stop strings
 *
 * The random number of a choice only depends on seed and position: not on the batch, the order of calls or
 * the thread. The same logits, history, settings, seed and position give the same id on any CPU.
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
 * This is the order of llama.cpp. A filter uses the probabilities of the tokens left by earlier steps.
 * Temperature is last, so it does not affect how many tokens a filter keeps, and a high one does not bring
 * unlikely tokens back. Hugging Face and vLLM divide by it first; at temperature 1 there is no difference.
 * Every filter keeps at least one token. Of tokens with equal logits, the one with the lower id is considered
 * more likely.
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

/** The comments explain the meaning of 0: with KT_SAMPLING_PARAMS_INIT, the most likely token is chosen. */
struct kt_sampling_params {
    size_t struct_size;
    uint64_t seed;
    double temperature; /**< 0: the most likely token after steps 1 to 4; filters then have no effect */
    uint32_t top_k;     /**< the k most likely tokens; 0: all */
    uint32_t n_top;     /**< number of most likely tokens returned with each choice; at most KT_MAX_TOP */
    double top_p; /**< smallest set of most likely tokens with this total probability, 0 .. 1; 0 and 1: all */
    double
        min_p; /**< tokens with at least min_p times the probability of the most likely one, 0 .. 1; 0: all */
    double typical_p;   /**< smallest set of tokens whose information content is closest to the entropy, with
                           this   total probability, 0 .. 1 (locally typical sampling); 0 and 1: all */
    double top_n_sigma; /**< logits within this many standard deviations (of all logits that are not -inf) of
                           the highest; 0: all */
    double xtc_probability; /**< how often XTC is applied, 0 .. 1: of the tokens with at least xtc_threshold,
                               all except the least likely are removed. 0: never */
    double xtc_threshold;   /**< 0 .. 1, above 0.5 it never finds two; 0: 0.1 */
    /** Divides the logit of a token in the history if the logit is above 0, else multiplies it. Prompt and
     * generated tokens count, as in Hugging Face and vLLM. 0 and 1: off. */
    double repetition_penalty;
    /** Subtracted from the logit of a generated token, once, or (frequency) once per occurrence. The prompt
     * does not count, as in OpenAI's API and vLLM. May be negative. */
    double presence_penalty;
    double frequency_penalty;
    uint64_t penalty_last_n; /**< penalties consider this many last tokens of the history; 0: all */
    /** DRY: subtracts dry_multiplier * dry_base ^ (n - dry_allowed_length) from the logit of a token that
     * would continue a repetition of the n last tokens, if n is at least dry_allowed_length. Prompt and
     * generated tokens count. 0: off. */
    double dry_multiplier;
    double dry_base;             /**< at least 1; 0: 1.75 */
    uint32_t dry_allowed_length; /**< 0: 2 */
    uint32_t logprobs;           /**< not 0: a choice has its logprob; it also has it with n_top */
    uint64_t dry_last_n;         /**< DRY considers this many last tokens of the history; 0: all */
    /** Tokens at which repetitions end, and which are not penalized: kt_sampling_breakers(). */
    const int32_t *dry_breakers;
    uint64_t n_dry_breakers;
    const struct kt_logit_bias *logit_bias; /**< biases of a duplicate id are added */
    uint64_t n_logit_bias;
};
#define KT_SAMPLING_PARAMS_INIT KT_INIT(kt_sampling_params)
#define KT_MAX_TOP 128

/**
 * Sets the fields for which the checkpoint recommends values; others do not change. They are read from the
 * keys general.sampling.* of a GGUF file (temp, top_k, top_p, min_p, xtc_probability, xtc_threshold,
 * penalty_last_n, penalty_repeat, and sequence, which lists the enabled filters), or from
 * generation_config.json of a folder (do_sample, temperature, top_k, top_p, min_p, typical_p,
 * repetition_penalty). If sampling is recommended without a temperature, it is 1; do_sample false means 0.
 * KT_E_FORMAT: a key has an invalid value; KT_E_UNSUPPORTED: a recommendation is not supported, such as
 * mirostat, beams, or another order of the filters.
 */
enum kt_status kt_sampling_defaults(struct kt_checkpoint *checkpoint, struct kt_sampling_params *params,
                                    struct kt_error *error);

/** Breakers for DRY: ids of the tokens whose text contains one of these strings, ascending. llama.cpp uses
 * "\n",
 * ":", "\"" and "*". *ids is allocated: free it with kt_ids_free() of <kt/text.h>. */
enum kt_status kt_sampling_breakers(const struct kt_tokenizer *tokenizer, const char *const *texts,
                                    uint64_t n_texts, int32_t **ids, uint64_t *n_ids, struct kt_error *error);

/* ---- choosing --------------------------------------------------------------------------------- */

/**
 * Creates a sampler for logits of ids 0 .. vocabulary - 1. A model may have more logits than its tokenizer
 * has tokens (kt_tokenizer_info.n_tokens); with the smaller number as vocabulary, the logits after it are
 * never read. `params` is copied with its arrays. KT_E_INVALID: a field is out of range; KT_E_RANGE: an id is
 * invalid. Memory is at most about 24 bytes per token of the vocabulary, and 4 to 80 per token of the history
 * if penalties or DRY are on.
 */
enum kt_status kt_sampler_create(uint64_t vocabulary, const struct kt_sampling_params *params,
                                 struct kt_sampler **sampler, struct kt_error *error);
/** `sampler` may be NULL. */
void kt_sampler_destroy(struct kt_sampler *sampler);

/** The origin of a token in the history. */
enum kt_token_origin { KT_ORIGIN_PROMPT = 0, KT_ORIGIN_GENERATED = 1 };

/** Appends tokens to the history; chosen tokens are not appended automatically. KT_E_RANGE: an id is invalid,
 * and nothing is appended; after KT_E_NOMEM the history is empty. Not required if neither penalties nor DRY
 * are on. */
enum kt_status kt_sampler_accept(struct kt_sampler *sampler, const int32_t *ids, uint64_t n_ids,
                                 uint32_t origin, struct kt_error *error);
/** Clears the history, for another sequence or to go back in this one. */
void kt_sampler_reset(struct kt_sampler *sampler);

struct kt_logprob {
    int32_t id;
    float logprob; /**< natural logarithm of the probability */
};

/** Logprobs are those of the model: of the original logits, before steps 1 to 11. */
struct kt_choice {
    int32_t id;
    uint32_t n_left; /**< tokens left by the filters, the vocabulary if none is on; 1 at temperature 0 */
    float logprob;   /**< of id; NaN if not requested by the settings */
    uint32_t n_top;
    const struct kt_logprob *top; /**< the most likely tokens, most likely first; valid until the next call */
};

/**
 * Chooses the token at `position` of its sequence, the number of tokens before it. Logits are only read, and
 * nothing is allocated.
 *
 * `allowed`: a bit per token, bit id % 64 of allowed[id / 64], 1 if it is allowed; NULL: all are. A call with
 * a mask uses another random number than one without. So if masks are expensive, a caller may first choose
 * without one, and only if the token is not allowed choose again with one: the result is distributed as with
 * a mask from the start (exactly so without filters).
 *
 * KT_E_BACKEND: logits are NaN or +inf, or all are -inf: their computation failed, and the sequence cannot be
 * continued. KT_E_RANGE: the mask and logit_bias leave no token.
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
    KT_STOP_KEEP = 1 /**< include the stop string in the text */
};

/**
 * Finds stop strings in a text that arrives in pieces, also across pieces, in time linear in its length. The
 * text stops at the first byte at which a stop string is complete; if several are, the longest one counts.
 * The result does not depend on how the text is divided, even within characters. Without stop strings, all
 * text is passed on. KT_E_INVALID: a stop string is empty or not UTF-8.
 */
enum kt_status kt_stop_create(const struct kt_stop_text *texts, uint64_t n_texts, uint32_t flags,
                              struct kt_stop **stop, struct kt_error *error);
/** `stop` may be NULL. */
void kt_stop_destroy(struct kt_stop *stop);

/**
 * Adds the next piece. *text is the text that can be shown now; only the longest suffix that may begin a stop
 * string, or an incomplete character, is held back. *found: the stop string that ends the text, as an index
 * of kt_stop_create's array; -1: none. If one is found, *text is the remaining text before it, and further
 * pieces fail with KT_E_STATE. *text is valid until the next call. After KT_E_NOMEM the matcher can only be
 * destroyed.
 */
enum kt_status kt_stop_add(struct kt_stop *stop, const char *piece, uint64_t length, const char **text,
                           uint64_t *text_length, int64_t *found, struct kt_error *error);
/** Ends the text and returns text held back; nothing if a stop string was found. The matcher can then be
 * reused for another text. */
enum kt_status kt_stop_end(struct kt_stop *stop, const char **text, uint64_t *text_length,
                           struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
