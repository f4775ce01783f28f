/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.c - reproducible routing that keeps weights from being found in a cache.
 *
 * Each token draws top_k different experts uniformly. A drawn number only says which tokens share an
 * expert, so each call may replace it by any expert of the copy: it takes the least recently used ones.
 * With the drawn numbers themselves, a part of the weights would be in a large cache.
 */
#include "tools/kt/bench/bench.h"

#include <math.h>
#include <stdlib.h>

#define UNSEEN UINT32_MAX

static void shuffle(struct bench_random *random, uint32_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other = bench_random_below(random, i);
        uint32_t number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

void bench_route_create(const struct kt_cli *cli, struct bench_route *route, uint32_t n_experts,
                        uint32_t top_k, uint32_t n_copies)
{
    *route = (struct bench_route){.n_experts = n_experts,
                                  .n_labels = n_experts,
                                  .top_k = top_k,
                                  .n_copies = n_copies};
    route->order = kt_cli_alloc(cli, (size_t)n_copies * n_experts, sizeof *route->order);
    route->head = kt_cli_alloc(cli, n_copies, sizeof *route->head);
    route->drawn = kt_cli_alloc(cli, n_experts, sizeof *route->drawn);
    route->physical = kt_cli_alloc(cli, n_experts, sizeof *route->physical);
    bench_random_seed(&route->random, 3);
    for (uint32_t copy = 0; copy < n_copies; copy++) {
        shuffle(&route->random, route->order + (size_t)copy * n_experts, n_experts);
        route->head[copy] = 0;
    }
    for (uint32_t i = 0; i < n_experts; i++)
        route->drawn[i] = i;
}

void bench_route_destroy(struct bench_route *route)
{
    free(route->order);
    free(route->head);
    free(route->drawn);
    free(route->physical);
    *route = (struct bench_route){0};
}

/* Positive numbers that add up to 1, as a softmax gives. */
static void draw_weights(struct bench_route *route, float *weights)
{
    float sum = 0;
    for (uint32_t k = 0; k < route->top_k; k++) {
        weights[k] = expf(bench_random_gauss(&route->random));
        sum += weights[k];
    }
    for (uint32_t k = 0; k < route->top_k; k++)
        weights[k] /= sum;
}

/* Goes to the next copy; no expert of it has a label yet. */
static uint32_t begin_call(struct bench_route *route)
{
    for (uint32_t i = 0; i < route->n_labels; i++)
        route->physical[i] = UNSEEN;
    return (uint32_t)(route->n_calls++ % route->n_copies);
}

/* The copy's expert for the label in this call. */
static int64_t give(struct bench_route *route, uint32_t which, uint32_t label, uint32_t *touched)
{
    const uint32_t *ring = route->order + (size_t)which * route->n_experts;
    if (route->physical[label] == UNSEEN)
        route->physical[label] = ring[(route->head[which] + (*touched)++) % route->n_experts];
    return (int64_t)route->physical[label];
}

void bench_route_widen(const struct kt_cli *cli, struct bench_route *route, uint32_t n_labels)
{
    free(route->physical);
    route->n_labels = n_labels;
    route->physical = kt_cli_alloc(cli, n_labels, sizeof *route->physical);
}

uint32_t bench_route_replay(struct bench_route *route, const int64_t *labels, uint64_t n, int64_t *ids,
                            uint32_t *copy)
{
    uint32_t touched = 0;
    *copy = begin_call(route);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = labels[i] < 0 ? -1 : give(route, *copy, (uint32_t)labels[i], &touched);
    route->head[*copy] = (route->head[*copy] + touched) % route->n_experts;
    return touched;
}

uint32_t bench_route_next(struct bench_route *route, uint32_t n_tokens, int64_t *ids, float *weights,
                          uint32_t *copy)
{
    uint32_t which = begin_call(route), touched = 0;
    for (uint32_t token = 0; token < n_tokens; token++) {
        for (uint32_t k = 0; k < route->top_k; k++) {
            uint32_t other = k + bench_random_below(&route->random, route->n_experts - k);
            uint32_t expert = route->drawn[other];
            route->drawn[other] = route->drawn[k];
            route->drawn[k] = expert;
            ids[(size_t)token * route->top_k + k] = give(route, which, expert, &touched);
        }
        draw_weights(route, weights + (size_t)token * route->top_k);
    }
    route->head[which] = (route->head[which] + touched) % route->n_experts;
    *copy = which;
    return touched;
}
