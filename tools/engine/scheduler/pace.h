/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - how many tokens of prompts a step takes, so that it is no longer than its clients bear: measured,
 * as it depends on the model, on contexts and on who else runs.
 */
#ifndef KT_ENGINE_SCHEDULER_PACE_H
#define KT_ENGINE_SCHEDULER_PACE_H

#include <stdbool.h>
#include <stdint.h>

/** Of their bound, what slices beside answers aim at: steps vary, and most of them should stay within it. */
#define KT_PACE_AIM 0.85

struct kt_pace {
    uint32_t least, most; /**< tokens */
    double slice_bound;   /**< seconds beside answers; 0: their own */
    double step_bound;    /**< seconds alone */
    double answers;       /**< seconds of a step without prompts, smoothed; 0: not measured yet */
    uint32_t n_answers;   /**< how many were answered in it */
    uint32_t n_mixed;     /**< steps since then */
    double mixed, alone;  /**< tokens now */
};

void kt_pace_init(struct kt_pace *pace, uint32_t least, uint32_t most, double slice_bound, double step_bound);
/** Tokens of prompts for a step in which n_answers requests are answered; 0: none this time, so that the
 * answers' own time is measured. */
uint32_t kt_pace_tokens(const struct kt_pace *pace, uint32_t n_answers);
/** How long a step took. */
void kt_pace_learn(struct kt_pace *pace, uint32_t n_answers, uint32_t n_tokens, double seconds);

#endif
