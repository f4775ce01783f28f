/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_placement.c - chooses the experts that a GPU computes, and changes the choice by counts of a prompt. */
#include "core/base/error.h"

#include <inttypes.h>
#include <kt/kt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An expert to be placed. */
struct candidate {
    uint64_t count;
    uint64_t index; /* layer * n_experts + expert */
};

/* Most used first; with equal counts, lower layers first. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* splitmix64, Steele, Lea and Flood 2014: the same placement on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Uniform below n: numbers that a modulus would make more likely are drawn again. */
static uint64_t draw(uint64_t *state, uint64_t n)
{
    uint64_t uneven = -n % n, random;
    do
        random = next_random(state);
    while (random < uneven);
    return random % n;
}

static void place_uniform(const struct kt_place_params *params, uint8_t *masks)
{
    uint64_t each = params->n_on_gpu / params->n_layers, rest = params->n_on_gpu % params->n_layers;
    for (uint64_t l = 0; l < params->n_layers; l++)
        memset(masks + l * params->n_experts, 1, each + (l < rest));
}

/* Fisher-Yates shuffle of as many as are needed. */
static void place_random(const struct kt_place_params *params, uint64_t n, struct candidate *order,
                         uint8_t *masks)
{
    uint64_t state = params->seed;
    for (uint64_t i = 0; i < params->n_on_gpu; i++) {
        uint64_t pick = i + draw(&state, n - i);
        struct candidate drawn = order[pick];
        order[pick] = order[i];
        masks[drawn.index] = 1;
    }
}

static enum kt_status check_params(const struct kt_place_params *params, uint64_t *n, struct kt_error *error)
{
    if (!params || params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_place: params is NULL or its struct_size is too small; use "
                       "KT_PLACE_PARAMS_INIT");
    if (params->n_layers == 0 || params->n_experts == 0)
        return kt_fail(error, KT_E_INVALID, "kt_place: %" PRIu32 " layers of %" PRIu32 " experts",
                       params->n_layers, params->n_experts);
    *n = (uint64_t)params->n_layers * params->n_experts;
    if (params->n_on_gpu > *n)
        return kt_fail(error, KT_E_RANGE,
                       "kt_place: %" PRIu64 " experts for the GPU, but %" PRIu32 " layers of %" PRIu32
                       " have %" PRIu64,
                       params->n_on_gpu, params->n_layers, params->n_experts, *n);
    if ((unsigned)params->placement > KT_PLACE_RANDOM)
        return kt_fail(error, KT_E_INVALID, "kt_place: no placement has the number %d",
                       (int)params->placement);
    if (params->placement == KT_PLACE_FREQUENCY && !params->counts)
        return kt_fail(error, KT_E_INVALID,
                       "kt_place: KT_PLACE_FREQUENCY needs counts, such as those of kt_layer_usage");
    return KT_OK;
}

enum kt_status kt_place(const struct kt_place_params *params, uint8_t *masks, struct kt_error *error)
{
    uint64_t n = 0;
    enum kt_status status = check_params(params, &n, error);
    if (status == KT_OK && !masks)
        status = kt_fail(error, KT_E_INVALID, "kt_place: masks is NULL");
    if (status != KT_OK)
        return status;
    bool ordered = params->placement == KT_PLACE_FREQUENCY || params->placement == KT_PLACE_RANDOM;
    struct candidate *order = ordered ? calloc((size_t)n, sizeof *order) : NULL;
    if (ordered && !order)
        return kt_fail(error, KT_E_NOMEM, "kt_place: no memory for %" PRIu64 " experts", n);
    for (uint64_t i = 0; ordered && i < n; i++)
        order[i] = (struct candidate){params->counts ? params->counts[i] : 0, i};
    memset(masks, 0, (size_t)n);
    switch (params->placement) {
    case KT_PLACE_UNIFORM:
        place_uniform(params, masks);
        break;
    case KT_PLACE_FRONT:
        memset(masks, 1, (size_t)params->n_on_gpu);
        break;
    case KT_PLACE_FREQUENCY:
        qsort(order, (size_t)n, sizeof *order, compare_candidates);
        for (uint64_t i = 0; i < params->n_on_gpu; i++)
            masks[order[i].index] = 1;
        break;
    case KT_PLACE_RANDOM:
        place_random(params, n, order, masks);
        break;
    }
    free(order);
    return KT_OK;
}

/* Finds the least used expert on the GPU and the most used one elsewhere; false: there is none of either
 * kind. */
static bool find_swap(const uint64_t *counts, const uint8_t *mask, uint32_t n_experts,
                      struct kt_place_move *move)
{
    bool leaves = false, comes = false;
    for (uint32_t e = 0; e < n_experts; e++) {
        if (mask[e] && (!leaves || counts[e] < counts[move->leaves])) {
            move->leaves = e;
            leaves = true;
        }
        if (!mask[e] && (!comes || counts[e] > counts[move->comes])) {
            move->comes = e;
            comes = true;
        }
    }
    return leaves && comes;
}

enum kt_status kt_place_update(const uint64_t *counts, uint32_t n_layers, uint32_t n_experts, uint8_t *masks,
                               uint32_t max_moves, struct kt_place_move *moves, uint32_t *n_moves,
                               struct kt_error *error)
{
    if (!counts || !masks || !n_moves || (max_moves > 0 && !moves) || n_layers == 0 || n_experts == 0)
        return kt_fail(error, KT_E_INVALID,
                       "kt_place_update: counts, masks, moves and n_moves are needed, and a layer and an "
                       "expert");
    uint32_t done = 0;
    while (done < max_moves) {
        struct kt_place_move best = {0};
        uint64_t gain = 0;
        for (uint32_t l = 0; l < n_layers; l++) {
            struct kt_place_move move = {.layer = l};
            const uint64_t *count = counts + (uint64_t)l * n_experts;
            if (!find_swap(count, masks + (uint64_t)l * n_experts, n_experts, &move) ||
                count[move.comes] <= count[move.leaves])
                continue;
            if (count[move.comes] - count[move.leaves] > gain) {
                gain = count[move.comes] - count[move.leaves];
                best = move;
            }
        }
        if (gain == 0)
            break;
        uint8_t *mask = masks + (uint64_t)best.layer * n_experts;
        mask[best.leaves] = 0;
        mask[best.comes] = 1;
        moves[done++] = best;
    }
    *n_moves = done;
    return KT_OK;
}
