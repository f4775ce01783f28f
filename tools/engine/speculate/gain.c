/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gain.c - steps are timed by their rows. An account says what drafts have won over steps without them; what
 * a draft can lose must be there before it is tried. It begins with half a step and gets a hundredth of all
 * time, so whatever a text does, drafts lose little more than that hundredth; and by the first one, whose
 * rows were not timed before, a step at most.
 */
#include "tools/engine/speculate/gain.h"

#include <stddef.h>

/* A further row of a mixture of experts takes so much of a step, before it is measured. */
#define ROW_SHARE 0.3
#define ALLOWANCE 0.01
#define FIRST_STEPS 0.5
/* What was won can be lost again, but not more than so many steps. */
#define MOST_STEPS 8
/* A step without drafts measures again what they are compared with; and what was not done for long has
 * another time by now, as contexts grow and machines get busy. */
#define PLAIN_AFTER 48
#define FORGET_AFTER 512
/* What is won must be more than the clock's noise. */
#define LEAST_GAIN 1.03
#define LEAST_CHANCE 0.1

void kt_gain_init(struct kt_gain *g, bool measures)
{
    *g = (struct kt_gain){.measures = measures};
}

/* Between rows that were measured, or as they go on. */
double kt_gain_seconds(const struct kt_gain *g, uint32_t rows)
{
    uint32_t low = 0, lower = 0, high = rows;
    if (!g->measures)
        return 1 + ROW_SHARE * rows;
    for (uint32_t i = 1; i <= rows; i++)
        if (g->seconds[i] > 0) {
            lower = low;
            low = i;
        }
    while (high <= KT_GAIN_ROWS && g->seconds[high] <= 0)
        high++;
    if (low == rows)
        return g->seconds[rows];
    if (low == 0)
        return high <= KT_GAIN_ROWS ? g->seconds[high] : 0;
    double from = g->seconds[low], slope = ROW_SHARE * from / low;
    if (high <= KT_GAIN_ROWS)
        slope = (g->seconds[high] - from) / (high - low);
    else if (lower > 0)
        slope = (from - g->seconds[lower]) / (low - lower);
    return from + (slope > 0 ? slope : 0) * (rows - low);
}

/* Of offers that have tokens left, the one whose next token is the likeliest. */
static struct kt_offer *find_best(struct kt_offer *offers, uint32_t n, const double *chances)
{
    struct kt_offer *best = NULL;
    double most = LEAST_CHANCE;
    for (uint32_t i = 0; i < n; i++)
        if (offers[i].taken < offers[i].n && chances[i] >= most) {
            best = &offers[i];
            most = chances[i];
        }
    return best;
}

double kt_gain_plan(const struct kt_gain *g, uint32_t rows, struct kt_offer *offers, uint32_t n, double extra,
                    bool replays)
{
    double chances[KT_GAIN_ROWS], expected = n, sure = 1, best = 0;
    uint32_t kept[KT_GAIN_ROWS] = {0};
    struct kt_offer *offer;
    if (n == 0 || n > KT_GAIN_ROWS || rows >= KT_GAIN_ROWS || (g->measures && !g->has_plain))
        return 0;
    double plain = kt_gain_seconds(g, rows), least = LEAST_GAIN * n / plain;
    for (uint32_t i = 0; i < n; i++) {
        chances[i] = offers[i].hope;
        offers[i].taken = 0;
    }
    bool waits = g->measures && g->n_drafted >= PLAIN_AFTER;
    for (uint32_t all = rows + 1; all <= KT_GAIN_ROWS && !waits; all++) {
        if ((offer = find_best(offers, n, chances)) == NULL)
            break;
        double *chance = &chances[offer - offers], seconds = kt_gain_seconds(g, all) + extra;
        double again =
            replays ? kt_gain_seconds(g, n + 1) - kt_gain_seconds(g, n) : 0; /* of all that may be wrong */
        if (g->measures && seconds + again - plain > g->balance)
            break;
        expected += *chance;
        sure *= offer->hope;
        *chance *= offer->hope;
        offer->taken++;
        if (replays)
            seconds += (1 - sure) * (kt_gain_seconds(g, n + (all - rows)) - kt_gain_seconds(g, n));
        if (expected / seconds > least) {
            least = best = expected / seconds;
            for (uint32_t i = 0; i < n; i++)
                kept[i] = offers[i].taken;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        offers[i].taken = kept[i];
    return best;
}

/* Returns the seconds that count: a step that took much longer than such steps do was held up by something
 * else, or they are slower from now on, which the next ones will tell. */
static double note(struct kt_gain *g, uint32_t rows, double seconds)
{
    double before = g->seconds[rows];
    if (seconds > 2 * before && before > 0)
        seconds = 2 * before;
    double share = seconds < before ? 0.5 : 0.25; /* what holds a step up only makes it longer */
    g->seconds[rows] = before > 0 ? before + share * (seconds - before) : seconds;
    for (uint32_t i = 1; i <= KT_GAIN_ROWS; i++)
        if (++g->age[i] > FORGET_AFTER)
            g->seconds[i] = 0;
    g->age[rows] = 0;
    return seconds;
}

static void bound(struct kt_gain *g, double step)
{
    if (g->balance > MOST_STEPS * step)
        g->balance = MOST_STEPS * step;
}

void kt_gain_learn(struct kt_gain *g, uint32_t n_rows, uint32_t n_plain, uint32_t n_sequences,
                   uint32_t n_tokens, double seconds, double extra)
{
    if (n_rows == 0 || n_rows > KT_GAIN_ROWS || n_sequences == 0 || !(seconds > 0))
        return;
    bool drafted = n_rows > n_sequences || n_plain > n_sequences;
    bool again = g->seconds[n_rows] > 0;
    seconds = note(g, n_rows, seconds);
    double plain = kt_gain_seconds(g, n_sequences);
    if (!drafted && again && !g->has_plain) { /* the first one finds caches that the prompt has left */
        g->has_plain = true;
        g->balance += FIRST_STEPS * plain;
    }
    g->n_drafted = n_rows > n_plain ? g->n_drafted + 1 : n_plain == n_sequences ? 0 : g->n_drafted;
    g->balance += drafted ? plain * n_tokens / n_sequences - seconds - extra : ALLOWANCE * seconds;
    bound(g, plain);
}

void kt_gain_allow(struct kt_gain *g, double seconds)
{
    g->balance += ALLOWANCE * seconds;
    if (g->has_plain)
        bound(g, kt_gain_seconds(g, 1));
}
