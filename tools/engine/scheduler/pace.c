/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - tokens of prompts in a step. */
#include "tools/engine/scheduler/pace.h"

/* Steps with prompts after which one without them measures the answers again: contexts grow, and the machine
 * may have become slower. */
#define MIXED_STEPS 16

/* Of the first prompt, when nothing was measured yet. */
#define FIRST_SLICE 128

void kt_pace_init(struct kt_pace *pace, uint32_t least, uint32_t most, double slice_bound, double step_bound)
{
    *pace = (struct kt_pace){.least = least < most ? least : most,
                             .most = most,
                             .slice_bound = slice_bound,
                             .step_bound = step_bound,
                             .alone = most < FIRST_SLICE ? most : FIRST_SLICE};
    pace->mixed = pace->least;
}

/* So many others that the time that was measured says nothing. */
static bool differs(uint32_t a, uint32_t b)
{
    return (a > b ? a - b : b - a) > (a + b) / 8;
}

uint32_t kt_pace_tokens(const struct kt_pace *pace, uint32_t n_answers)
{
    if (n_answers == 0)
        return (uint32_t)pace->alone;
    if (pace->answers <= 0 || pace->n_mixed >= MIXED_STEPS || differs(n_answers, pace->n_answers))
        return 0;
    return (uint32_t)pace->mixed;
}

/* What n_tokens should have been, by `seconds` that they took of `bound`: at most half as much again, or half
 * as many, as their time does not grow evenly. A slice that was smaller than allowed, since the prompt was
 * short, says only when it was too long. */
static double adjust(const struct kt_pace *pace, double now, uint32_t n_tokens, double seconds, double bound)
{
    double ratio = seconds > 0 ? bound / seconds : 2;
    ratio = ratio > 1.5 ? 1.5 : ratio < 0.5 ? 0.5 : ratio;
    double wanted = (n_tokens == (uint32_t)now ? now : n_tokens) * ratio; /* so that 1 becomes 1.5, and 2 */
    if (wanted < now && ratio > 1)
        return now;
    return wanted > pace->most ? pace->most : wanted < pace->least ? pace->least : wanted;
}

/* One step that was held up counts for little; a machine that has become slower is followed soon. */
static double smooth(double before, double seconds)
{
    double likely = seconds > 2 * before ? 2 * before : seconds;
    return (before + likely) / 2;
}

void kt_pace_learn(struct kt_pace *pace, uint32_t n_answers, uint32_t n_tokens, double seconds)
{
    if (n_tokens == 0) {
        bool afresh = pace->answers <= 0 || differs(n_answers, pace->n_answers);
        pace->answers = afresh ? seconds : smooth(pace->answers, seconds);
        pace->n_answers = n_answers;
        pace->n_mixed = 0;
    } else if (n_answers == 0) {
        pace->alone = adjust(pace, pace->alone, n_tokens, seconds, pace->step_bound);
    } else {
        double bound =
            pace->slice_bound > 0 && pace->slice_bound < pace->answers ? pace->slice_bound : pace->answers;
        pace->n_mixed++;
        pace->mixed = adjust(pace, pace->mixed, n_tokens, seconds - pace->answers, KT_PACE_AIM * bound);
    }
}
