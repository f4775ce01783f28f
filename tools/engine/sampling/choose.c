/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - the steps from logits to a token. */
#include "tools/engine/base/fail.h"
#include "tools/engine/sampling/sampler.h"
#include "tools/engine/sampling/select.h"
#include "tools/engine/sampling/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Streams of random numbers, as <kt/sampling.h> has them. */
enum { STREAM_DRAW = 0, STREAM_MASKED = 1, STREAM_XTC = 2 };

static enum kt_status explain_broken(const float *logits, uint64_t n, uint64_t position,
                                     struct kt_error *error)
{
    uint64_t n_nan = 0, n_inf = 0, first = n;
    for (uint64_t i = 0; i < n; i++) {
        n_nan += isnan(logits[i]) ? 1 : 0;
        n_inf += logits[i] == INFINITY ? 1 : 0;
        if (first == n && !(logits[i] < INFINITY))
            first = i;
    }
    if (first == n)
        return kt_engine_fail(
            error, KT_E_BACKEND,
            "the logits at position %llu are all -inf: their computation failed, and the sequence cannot be "
            "continued",
            (unsigned long long)position);
    return kt_engine_fail(error, KT_E_BACKEND,
                          "of %llu logits at position %llu %llu are NaN and %llu are +inf, the first that of "
                          "token %llu: their computation failed, and the sequence cannot be continued",
                          (unsigned long long)n, (unsigned long long)position, (unsigned long long)n_nan,
                          (unsigned long long)n_inf, (unsigned long long)first);
}

/* ---- the model's own distribution ------------------------------------------------------------- */

/* The params.n_top likeliest tokens, into s->top. */
static uint32_t list_top(struct kt_sampler *s, const struct kt_logits *raw, double log_total)
{
    struct kt_candidates *c = &s->candidates;
    uint64_t n = s->params.n_top < raw->n ? s->params.n_top : raw->n;
    uint64_t keys[KT_MAX_TOP];
    if (n == 0)
        return 0;
    kt_candidates_gather(c, raw, kt_candidates_bound(c, raw, n));
    kt_filter_top_k(c, n);
    for (uint64_t i = 0; i < c->n; i++) {
        uint64_t at = i, key = kt_key_of_logit(c->logits[i], i);
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
    for (uint64_t i = 0; i < c->n; i++) {
        uint32_t from = kt_key_index(keys[i]);
        s->top[i].id = c->ids[from];
        s->top[i].logprob = (float)((double)c->logits[from] - (double)raw->max - log_total);
    }
    return (uint32_t)c->n;
}

/* ---- steps 1 to 4 ----------------------------------------------------------------------------- */

static void forbid(float *logits, uint64_t n, const uint64_t *allowed, uint8_t *changed)
{
    _Static_assert(KT_LOGIT_BLOCK == 64, "a word of the mask is a block");
    for (uint64_t b = 0; b < KT_LOGIT_BLOCKS(n); b++) {
        uint64_t i = b * KT_LOGIT_BLOCK;
        uint64_t end = n - i < KT_LOGIT_BLOCK ? n : i + KT_LOGIT_BLOCK;
        if (allowed[b] == UINT64_MAX)
            continue;
        for (; i < end; i++)
            if (!(allowed[b] >> i % 64 & 1))
                logits[i] = -INFINITY;
        changed[b] = 1;
    }
}

/* The logits after mask, bias, penalties and DRY; the maxima of blocks are brought up to date. */
static void adjust(struct kt_sampler *s, struct kt_logits *logits, const uint64_t *allowed)
{
    uint64_t n_blocks = KT_LOGIT_BLOCKS(logits->n);
    memcpy(s->adjusted, logits->values, (size_t)logits->n * sizeof(*s->adjusted));
    memset(s->changed, 0, (size_t)n_blocks);
    if (allowed)
        forbid(s->adjusted, logits->n, allowed, s->changed);
    for (uint64_t i = 0; i < s->params.n_logit_bias; i++) {
        uint64_t id = (uint64_t)s->bias[i].id;
        s->adjusted[id] = kt_logit_of((double)s->adjusted[id] + (double)s->bias[i].bias);
        s->changed[id / KT_LOGIT_BLOCK] = 1;
    }
    if (s->history.has_penalties)
        kt_history_penalize(&s->history, &s->params, s->adjusted, s->changed);
    if (s->history.has_dry)
        kt_history_dry(&s->history, &s->params, s->adjusted, s->changed);
    logits->values = s->adjusted;
    logits->max = -INFINITY;
    for (uint64_t b = 0; b < n_blocks; b++) {
        if (s->changed[b])
            s->block_max[b] = kt_logits_block_max(s->adjusted, logits->n, b);
        logits->max = s->block_max[b] > logits->max ? s->block_max[b] : logits->max;
    }
}

/* ---- steps 5 to 11 ---------------------------------------------------------------------------- */

static int32_t find_likeliest(const struct kt_logits *logits)
{
    uint64_t block = 0, id;
    while (logits->block_max[block] < logits->max)
        block++;
    for (id = block * KT_LOGIT_BLOCK; logits->values[id] < logits->max; id++)
        ;
    return (int32_t)id;
}

/* 1 / temperature, bounded so that 0 times it is 0. */
static float scale_of(double temperature)
{
    return (float)(temperature > 1e-30 ? 1 / temperature : 1e30);
}

/* The index at which the weights add up to more than target; if rounding forbids, the last one with any. */
static uint64_t walk(const float *weights, uint64_t n, double target)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (weights[i] > 0) {
            last = i;
            target -= (double)weights[i];
            if (target < 0)
                break;
        }
    }
    return last;
}

/* Draws of the whole vocabulary, without a copy of it. */
static int32_t draw_of_all(struct kt_sampler *s, const struct kt_logits *logits, double random)
{
    float scale = scale_of(s->params.temperature), weights[KT_LOGIT_BLOCK];
    double target =
        random * kt_logits_sums(logits->values, logits->n, logits->max, scale, logits->block_max, s->sums);
    uint64_t block = 0;
    for (uint64_t b = 0; b < KT_LOGIT_BLOCKS(logits->n); b++) {
        if (s->sums[b] > 0) {
            block = b;
            if (target < s->sums[b])
                break;
            target -= s->sums[b];
        }
    }
    uint64_t first = block * KT_LOGIT_BLOCK;
    uint64_t n = logits->n - first < KT_LOGIT_BLOCK ? logits->n - first : KT_LOGIT_BLOCK;
    kt_logits_weights(logits->values + first, n, logits->max, scale, weights);
    return (int32_t)(first + walk(weights, n, target));
}

static int32_t draw(struct kt_candidates *c, double temperature, double random)
{
    float max = -INFINITY;
    for (uint64_t i = 0; i < c->n; i++)
        max = c->logits[i] > max ? c->logits[i] : max;
    double total = kt_logits_weights(c->logits, c->n, max, scale_of(temperature), c->weights);
    return c->ids[walk(c->weights, c->n, random * total)];
}

static double mean_of(const struct kt_candidates *c)
{
    double sum = 0;
    for (uint64_t i = 0; i < c->n; i++)
        sum += c->weights[i] > 0 ? (double)c->weights[i] * (double)c->logits[i] : 0;
    return sum / c->total;
}

/* Gathers what the first of the filters leaves, and those tokens that the second ones may need. False: none
 * of them is on. */
static bool gather(struct kt_sampler *s, const struct kt_logits *logits, bool does_xtc)
{
    const struct kt_sampling_params *p = &s->params;
    struct kt_candidates *c = &s->candidates;
    bool does_sigma = p->top_n_sigma > 0, does_top_k = p->top_k < logits->n;
    if (does_sigma || does_top_k) {
        float cut = does_top_k ? kt_candidates_bound(c, logits, p->top_k) : -INFINITY;
        double sigma = does_sigma
                           ? p->top_n_sigma * kt_logits_deviation(logits->values, logits->n, logits->max)
                           : INFINITY;
        double least = (double)logits->max - sigma;
        kt_candidates_gather(c, logits, does_sigma && (double)cut < least ? (float)least : cut);
        kt_filter_top_k(c, p->top_k);
        if (p->typical_p < 1)
            kt_filter_typical(c, p->typical_p, mean_of(c));
        if (p->top_p < 1)
            kt_filter_top_p(c, p->top_p);
    } else if (p->typical_p < 1) {
        kt_gather_typical(c, logits, p->typical_p, s->sums);
        if (p->top_p < 1)
            kt_filter_top_p(c, p->top_p);
    } else if (p->top_p < 1) {
        kt_gather_top_p(c, logits, p->top_p, s->sums);
    } else if (p->min_p > 0) {
        /* A little more than the filter leaves, which decides by weights. */
        kt_candidates_gather(c, logits, (float)((double)logits->max + log(p->min_p) - 0.01));
    } else if (does_xtc) {
        kt_candidates_gather(c, logits, -INFINITY);
    } else {
        return false;
    }
    return true;
}

static int32_t sample(struct kt_sampler *s, const struct kt_logits *logits, uint64_t position,
                      uint32_t stream, uint32_t *n_left)
{
    const struct kt_sampling_params *p = &s->params;
    double random = kt_sampling_random(p->seed, position, stream);
    bool does_xtc =
        p->xtc_probability > 0 && kt_sampling_random(p->seed, position, STREAM_XTC) < p->xtc_probability;
    *n_left = (uint32_t)logits->n;
    if (!gather(s, logits, does_xtc))
        return draw_of_all(s, logits, random);
    if (p->min_p > 0)
        kt_filter_min_p(&s->candidates, p->min_p);
    if (does_xtc)
        kt_filter_xtc(&s->candidates, p->xtc_threshold);
    *n_left = (uint32_t)s->candidates.n;
    return draw(&s->candidates, p->temperature, random);
}

enum kt_status kt_sampler_score(struct kt_sampler *s, const float *logits, uint64_t position, int32_t id,
                                struct kt_choice *found, struct kt_error *error)
{
    struct kt_logits known = {.values = logits, .n = s->vocabulary, .block_max = s->block_max};
    *found = (struct kt_choice){.id = id, .logprob = -INFINITY, .n_left = 1, .top = s->top};
    if (!kt_logits_scan(logits, known.n, s->block_max, &known.max) || known.max == -INFINITY)
        return explain_broken(logits, known.n, position, error);
    double log_total = log(kt_logits_sums(logits, known.n, known.max, 1, s->block_max, s->sums));
    found->n_top = list_top(s, &known, log_total);
    if ((uint64_t)id < known.n)
        found->logprob = (float)((double)logits[id] - (double)known.max - log_total);
    return KT_OK;
}

enum kt_status kt_sampler_choose(struct kt_sampler *sampler, const float *logits, uint64_t position,
                                 const uint64_t *allowed, struct kt_choice *choice, struct kt_error *error)
{
    if (!sampler || !logits || !choice)
        return kt_engine_fail(error, KT_E_INVALID, "kt_sampler_choose: %s is NULL",
                              !sampler  ? "sampler"
                              : !logits ? "logits"
                                        : "choice");
    struct kt_sampler *s = sampler;
    struct kt_logits known = {.values = logits, .n = s->vocabulary, .block_max = s->block_max};
    if (!kt_logits_scan(logits, known.n, s->block_max, &known.max) || known.max == -INFINITY)
        return explain_broken(logits, known.n, position, error);
    struct kt_choice made = {.logprob = NAN, .n_left = 1, .top = s->top};
    bool has_logprob = s->params.logprobs || s->params.n_top > 0;
    double log_total = 0, max = (double)known.max;
    if (has_logprob) {
        log_total = log(kt_logits_sums(logits, known.n, known.max, 1, s->block_max, s->sums));
        made.n_top = list_top(s, &known, log_total);
    }
    if (allowed || kt_sampler_adjusts(s))
        adjust(s, &known, allowed);
    if (known.max == -INFINITY)
        return kt_engine_fail(
            error, KT_E_RANGE,
            "no token is left at position %llu: %s forbid all that the model gives a chance",
            (unsigned long long)position,
            !allowed                     ? "logit_bias"
            : s->params.n_logit_bias > 0 ? "the mask and logit_bias"
                                         : "the mask");
    if (s->params.temperature > 0)
        made.id = sample(s, &known, position, allowed ? STREAM_MASKED : STREAM_DRAW, &made.n_left);
    else
        made.id = find_likeliest(&known);
    if (has_logprob)
        made.logprob = (float)((double)logits[made.id] - max - log_total);
    *choice = made;
    return KT_OK;
}
