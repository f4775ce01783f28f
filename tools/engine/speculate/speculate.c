/* SPDX-License-Identifier: Apache-2.0 */
/* speculate.c - one text: what is drafted, computed, chosen and kept in each step. */
#include "tools/engine/base/fail.h"
#include "tools/engine/speculate/drafter.h"
#include "tools/engine/speculate/gain.h"

#include <inttypes.h>
#include <kt/speculate.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of a draft that was wrong, and the token that came instead. */
#define MOST_ROWS (KT_MOST_DRAFTS + 2)

struct kt_speculator {
    struct kt_model *model;
    struct kt_sampler *sampler;
    struct kt_speculator_params params;
    uint64_t vocabulary, max_tokens;
    uint64_t n_given; /* tokens up to the last one that was not chosen */
    bool has_states, has_mtp;
    bool repeats_mtp;   /* the last step's draft was its, too */
    double mtp_seconds; /* of such a draft; 0: not known */
    struct kt_drafter drafter;
    struct kt_gain gain;
    struct kt_speculator_stats stats;
    float *logits; /* [n_logits][vocabulary] */
    uint32_t n_logits;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- a life ---- */

static enum kt_status take_params(struct kt_speculator *s, const struct kt_speculator_params *given,
                                  struct kt_error *error)
{
    struct kt_speculator_params *p = &s->params;
    if (given && given->struct_size < sizeof(given->struct_size))
        return kt_engine_fail(error, KT_E_INVALID, "kt_speculator_create: params->struct_size is %zu",
                              given->struct_size);
    if (given)
        memcpy(p, given, given->struct_size < sizeof(*p) ? given->struct_size : sizeof(*p));
    if (p->mode > KT_SPECULATE_MTP || p->max_drafts > KT_MOST_DRAFTS)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_speculator_create: mode %" PRIu32
                              " is not an enum kt_speculation, or %" PRIu32 " drafts are more than %d",
                              p->mode, p->max_drafts, KT_MOST_DRAFTS);
    p->max_drafts = p->max_drafts ? p->max_drafts : KT_MOST_DRAFTS;
    kt_gain_init(&s->gain, p->mode == KT_SPECULATE_AUTO);
    return KT_OK;
}

enum kt_status kt_speculator_create(struct kt_model *model, struct kt_sampler *sampler,
                                    const struct kt_speculator_params *params,
                                    struct kt_speculator **speculator, struct kt_error *error)
{
    if (!model || !sampler || !speculator)
        return kt_engine_fail(error, KT_E_INVALID, "kt_speculator_create: NULL");
    struct kt_speculator *s = calloc(1, sizeof(*s));
    if (!s)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a speculator");
    enum kt_status status = take_params(s, params, error);
    if (status != KT_OK) {
        free(s);
        return status;
    }
    struct kt_model_info info;
    kt_model_info(model, &info);
    s->model = model;
    s->sampler = sampler;
    s->vocabulary = info.vocabulary;
    s->max_tokens = info.max_tokens;
    s->has_states = info.has_states != 0;
    s->has_mtp =
        info.has_mtp != 0 && (s->params.mode == KT_SPECULATE_AUTO || s->params.mode == KT_SPECULATE_MTP);
    kt_drafter_init(&s->drafter);
    *speculator = s;
    return KT_OK;
}

void kt_speculator_destroy(struct kt_speculator *s)
{
    if (!s)
        return;
    kt_drafter_free(&s->drafter);
    free(s->logits);
    free(s);
}

static enum kt_status fail_memory(const struct kt_speculator *s, struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_NOMEM, "no memory for a text of %zu tokens", s->drafter.text.n_ids);
}

enum kt_status kt_speculator_add(struct kt_speculator *s, const int32_t *ids, uint64_t n_ids,
                                 struct kt_error *error)
{
    if (!s || (!ids && n_ids > 0))
        return kt_engine_fail(error, KT_E_INVALID, "kt_speculator_add: NULL");
    enum kt_status status = kt_sampler_accept(s->sampler, ids, n_ids, KT_ORIGIN_PROMPT, error);
    if (status == KT_OK && !kt_drafter_add(&s->drafter, ids, n_ids))
        status = fail_memory(s, error);
    s->n_given = s->drafter.text.n_ids;
    return status;
}

void kt_speculator_stats(const struct kt_speculator *s, struct kt_speculator_stats *stats)
{
    *stats = s->stats;
}

/* ---- a step ---- */

/* What a step works with. */
struct step {
    struct kt_session **session, *kept; /* kept: as it was, of a session that cannot go back */
    uint64_t n_text;                    /* tokens that were there before it */
    uint32_t n_rows, n_drafts, n_chosen;
    bool is_prompt; /* its time says nothing about an answer */
    double extra;   /* seconds that drafts took */
    kt_token_fn on_token;
    void *data;
};

/* Room for logits of n rows. */
static bool make_room(struct kt_speculator *s, uint32_t n)
{
    if (n <= s->n_logits)
        return true;
    float *logits = malloc(n * s->vocabulary * sizeof(*logits));
    if (!logits)
        return false;
    free(s->logits);
    s->logits = logits;
    s->n_logits = n;
    return true;
}

/* The most likely token by the model's own block; -1: it has none to say. */
static int32_t draft_by_model(struct kt_speculator *s, struct step *step)
{
    double start = now();
    int32_t best = 0;
    if (!make_room(s, 1) ||
        kt_session_draft(*step->session, s->drafter.text.ids[step->n_text - 1], s->logits, NULL) != KT_OK)
        return -1;
    for (uint64_t i = 1; i < s->vocabulary; i++)
        if (s->logits[i] > s->logits[best])
            best = (int32_t)i;
    step->extra = now() - start;
    return best;
}

/* Tokens that are looked up, as many as pay. Returns how many tokens a second are expected; 0: none. */
static double offer_lookup(struct kt_speculator *s, const struct step *step, uint32_t most, uint32_t *taken)
{
    struct kt_offer offer = {.n = 0};
    *taken = 0;
    if (s->params.mode == KT_SPECULATE_MTP || !kt_drafter_look(&s->drafter))
        return 0;
    offer.n = s->drafter.n_draft < most ? s->drafter.n_draft : most;
    offer.hope = kt_drafter_hope(&s->drafter, s->drafter.source);
    double rate = kt_gain_plan(&s->gain, step->n_rows, &offer, 1, 0, s->has_states);
    *taken = offer.taken;
    return rate;
}

/* The same of a token of the model's own block, which is not known yet. It follows the session's last token
 * but one. Before it was timed it is thought to take a tenth of a step. */
static double offer_mtp(const struct kt_speculator *s, const struct step *step)
{
    struct kt_offer offer = {.hope = kt_drafter_hope(&s->drafter, KT_SOURCE_MTP), .n = 1};
    double extra = s->mtp_seconds > 0 ? s->mtp_seconds : 0.1 * kt_gain_seconds(&s->gain, 1);
    if (!s->has_mtp || step->n_rows != 1)
        return 0;
    return s->params.mode == KT_SPECULATE_MTP
               ? 1
               : kt_gain_plan(&s->gain, step->n_rows, &offer, 1, extra, s->has_states);
}

/* The step's drafts are the drafter's first ones. */
static void plan_drafts(struct kt_speculator *s, struct step *step, uint64_t wanted)
{
    uint64_t room = s->max_tokens > step->n_text ? s->max_tokens - step->n_text : 0;
    uint32_t most = s->params.max_drafts, taken;
    most = most < wanted - 1 ? most : (uint32_t)(wanted - 1);
    most = most < room ? most : (uint32_t)room;
    bool repeats = s->repeats_mtp;
    s->repeats_mtp = false;
    if (s->params.mode == KT_SPECULATE_OFF || step->is_prompt || most == 0)
        return;
    double looked_up = offer_lookup(s, step, most, &taken);
    int32_t id = offer_mtp(s, step) > looked_up ? draft_by_model(s, step) : -1;
    if (id >= 0) {
        if (repeats) /* the first one takes in what came before */
            s->mtp_seconds = s->mtp_seconds > 0 ? (3 * s->mtp_seconds + step->extra) / 4 : step->extra;
        s->repeats_mtp = true;
        kt_drafter_set(&s->drafter, id);
        taken = 1;
    }
    if (taken > 0 && s->has_states &&
        kt_session_fork(*step->session, kt_session_tokens(*step->session), &step->kept, NULL) != KT_OK)
        taken = 0;
    step->n_drafts = taken;
}

static enum kt_status compute(struct kt_speculator *s, const struct step *step, struct kt_error *error)
{
    int32_t both[MOST_ROWS + KT_MOST_DRAFTS];
    const int32_t *ids = s->drafter.text.ids + (step->n_text - step->n_rows);
    if (!make_room(s, 1 + step->n_drafts))
        return fail_memory(s, error);
    if (step->n_drafts > 0) {
        memcpy(both, ids, step->n_rows * sizeof(*ids));
        memcpy(both + step->n_rows, s->drafter.draft, step->n_drafts * sizeof(*ids));
        ids = both;
    }
    const struct kt_step one = {*step->session, ids, step->n_rows + step->n_drafts, 1 + step->n_drafts,
                                s->logits};
    return kt_model_step(s->model, &one, 1, error);
}

/* Chooses at each position as long as what follows it was drafted right. */
static enum kt_status choose(struct kt_speculator *s, struct step *step, int32_t *chosen, bool *ends,
                             struct kt_error *error)
{
    enum kt_status status = KT_OK;
    bool right = true;
    for (uint32_t i = 0; i <= step->n_drafts && right && !*ends && status == KT_OK; i++) {
        struct kt_choice choice;
        status = kt_sampler_choose(s->sampler, s->logits + i * s->vocabulary, step->n_text + i, NULL, &choice,
                                   error);
        if (status != KT_OK)
            break;
        chosen[step->n_chosen++] = choice.id;
        *ends = step->on_token(step->data, &choice) != 0;
        right = i < step->n_drafts && choice.id == s->drafter.draft[i];
        status = kt_sampler_accept(s->sampler, &chosen[i], 1, KT_ORIGIN_GENERATED, error);
    }
    return status;
}

/* Drops what was drafted and not chosen. */
static enum kt_status go_back(struct step *step, struct kt_error *error)
{
    uint64_t right = step->n_text + (step->n_chosen > 0 ? step->n_chosen - 1 : 0);
    enum kt_status status = KT_OK;
    if (kt_session_tokens(*step->session) > right && !step->kept) {
        status = kt_session_truncate(*step->session, right, error);
    } else if (kt_session_tokens(*step->session) != right && step->kept) {
        struct kt_session *wrong = *step->session;
        *step->session = step->kept;
        step->kept = wrong;
    }
    kt_session_close(step->kept);
    return status;
}

static void learn(struct kt_speculator *s, const struct step *step, double seconds)
{
    s->stats.steps++;
    s->stats.drafted_steps += step->n_drafts > 0;
    s->stats.drafted += step->n_drafts;
    s->stats.accepted += step->n_chosen - 1;
    if (step->is_prompt)
        kt_gain_allow(&s->gain, seconds);
    else
        kt_gain_learn(&s->gain, step->n_rows + step->n_drafts, step->n_rows, 1, step->n_chosen,
                      seconds - step->extra, step->extra);
}

static enum kt_status check(const struct kt_speculator *s, struct kt_session *const *session, uint64_t most,
                            kt_token_fn on_token, struct kt_error *error)
{
    if (!s || !session || !*session || most == 0 || !on_token)
        return kt_engine_fail(error, KT_E_INVALID, "kt_speculator_step: NULL, or no tokens are wanted");
    uint64_t n_session = kt_session_tokens(*session), n = s->drafter.text.n_ids;
    if (n_session >= n)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_speculator_step: the session has %" PRIu64
                              " tokens, so it is not a prefix of a text of %" PRIu64 " tokens",
                              n_session, n);
    return KT_OK;
}

enum kt_status kt_speculator_step(struct kt_speculator *s, struct kt_session **session, uint64_t most,
                                  kt_token_fn on_token, void *data, struct kt_error *error)
{
    int32_t chosen[KT_MOST_DRAFTS + 1];
    bool ends = false;
    enum kt_status status = check(s, session, most, on_token, error);
    if (status != KT_OK)
        return status;
    double start = now();
    struct step step = {.session = session,
                        .n_text = s->drafter.text.n_ids,
                        .on_token = on_token,
                        .data = data};
    step.n_rows = (uint32_t)(step.n_text - kt_session_tokens(*session));
    step.is_prompt = kt_session_tokens(*session) < s->n_given || step.n_rows > MOST_ROWS;
    plan_drafts(s, &step, most);
    status = compute(s, &step, error);
    if (status == KT_E_NOMEM && step.n_drafts > 0) { /* a token alone may fit */
        kt_session_close(step.kept);
        step.kept = NULL;
        step.n_drafts = 0;
        status = compute(s, &step, error);
    }
    double seconds = now() - start;
    if (status == KT_OK)
        status = choose(s, &step, chosen, &ends, error);
    start = now();
    enum kt_status after = go_back(&step, status == KT_OK ? error : NULL);
    status = status == KT_OK ? after : status;
    if (status == KT_OK)
        learn(s, &step, seconds + (now() - start));
    if (!kt_drafter_add(&s->drafter, chosen, step.n_chosen) && status == KT_OK)
        status = fail_memory(s, error);
    return status;
}
