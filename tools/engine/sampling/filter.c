/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/sampling/filter.h"
#include "tools/engine/sampling/select.h"
#include "tools/engine/sampling/vector.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

void kt_candidates_gather(struct kt_candidates *c, const struct kt_logits *logits, float cut)
{
    cut = cut > -FLT_MAX ? cut : -FLT_MAX;
    c->n = 0;
    for (uint64_t b = 0; b < KT_LOGIT_BLOCKS(logits->n); b++) {
        uint64_t i = b * KT_LOGIT_BLOCK;
        uint64_t end = logits->n - i < KT_LOGIT_BLOCK ? logits->n : i + KT_LOGIT_BLOCK;
        if (!(logits->block_max[b] >= cut))
            continue;
        for (; i < end; i++) {
            c->ids[c->n] = (int32_t)i;
            c->logits[c->n] = logits->values[i];
            c->n += logits->values[i] >= cut;
        }
    }
    c->total = kt_logits_weights(c->logits, c->n, logits->max, 1, c->weights);
}

/* Each of the k blocks with the largest maxima has at least one token that reaches the smallest of these. */
float kt_candidates_bound(struct kt_candidates *c, const struct kt_logits *logits, uint64_t k)
{
    uint64_t n_blocks = KT_LOGIT_BLOCKS(logits->n);
    if (k > n_blocks)
        return -INFINITY;
    for (uint64_t b = 0; b < n_blocks; b++)
        c->keys[b] = kt_key_of_logit(logits->block_max[b], b);
    return logits->block_max[kt_key_index(kt_select(c->keys, n_blocks, NULL, (double)k))];
}

static void keep(struct kt_candidates *c, uint64_t from)
{
    c->ids[c->n] = c->ids[from];
    c->logits[c->n] = c->logits[from];
    c->weights[c->n] = c->weights[from];
    c->total += (double)c->weights[from];
    c->n++;
}

static void rank_by_logit(struct kt_candidates *c)
{
    for (uint64_t i = 0; i < c->n; i++)
        c->keys[i] = kt_key_of_logit(c->logits[i], i);
}

static float distance(double logit, double mean)
{
    return (float)fabs(logit - mean);
}

static void rank_by_distance(struct kt_candidates *c, double mean)
{
    for (uint64_t i = 0; i < c->n; i++)
        c->keys[i] = kt_key_of_distance(distance((double)c->logits[i], mean), i);
}

static void keep_by_logit(struct kt_candidates *c, uint64_t last)
{
    uint64_t n = c->n;
    c->n = 0;
    c->total = 0;
    for (uint64_t i = 0; i < n; i++)
        if (kt_key_of_logit(c->logits[i], i) <= last)
            keep(c, i);
}

static void keep_by_distance(struct kt_candidates *c, double mean, uint64_t last)
{
    uint64_t n = c->n;
    c->n = 0;
    c->total = 0;
    for (uint64_t i = 0; i < n; i++)
        if (kt_key_of_distance(distance((double)c->logits[i], mean), i) <= last)
            keep(c, i);
}

void kt_filter_top_k(struct kt_candidates *c, uint64_t k)
{
    if (k >= c->n)
        return;
    rank_by_logit(c);
    keep_by_logit(c, kt_select(c->keys, c->n, NULL, (double)k));
}

void kt_filter_top_p(struct kt_candidates *c, double p)
{
    rank_by_logit(c);
    keep_by_logit(c, kt_select(c->keys, c->n, c->weights, p * c->total));
}

/* Surprise is log(total) - logit and entropy log(total) - mean, so the logarithm is not needed. */
void kt_filter_typical(struct kt_candidates *c, double p, double mean)
{
    rank_by_distance(c, mean);
    keep_by_distance(c, mean, kt_select(c->keys, c->n, c->weights, p * c->total));
}

void kt_filter_min_p(struct kt_candidates *c, double p)
{
    uint64_t n = c->n;
    float most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = c->weights[i] > most ? c->weights[i] : most;
    c->n = 0;
    c->total = 0;
    for (uint64_t i = 0; i < n; i++)
        if ((double)c->weights[i] >= p * (double)most)
            keep(c, i);
}

void kt_filter_xtc(struct kt_candidates *c, double threshold)
{
    uint64_t n = c->n, n_over = 0, last = 0;
    double least = threshold * c->total;
    for (uint64_t i = 0; i < n; i++) {
        if ((double)c->weights[i] < least)
            continue;
        if (n_over == 0 || c->logits[i] <= c->logits[last])
            last = i;
        n_over++;
    }
    if (n_over < 2)
        return;
    c->n = 0;
    c->total = 0;
    for (uint64_t i = 0; i < n; i++)
        if ((double)c->weights[i] < least || i == last)
            keep(c, i);
}

/* How far below the largest logit to look first: a weight there is 3e-4. */
#define FIRST_WIDTH 8.0f

static float widen(float width)
{
    return width < 64 ? width * 2 : INFINITY;
}

void kt_gather_top_p(struct kt_candidates *c, const struct kt_logits *logits, double p, double *sums)
{
    double total = kt_logits_sums(logits->values, logits->n, logits->max, 1, logits->block_max, sums);
    for (float width = FIRST_WIDTH;; width = widen(width)) {
        kt_candidates_gather(c, logits, logits->max - width);
        if (c->total >= p * total || !(width < INFINITY))
            break;
    }
    c->total = total;
    kt_filter_top_p(c, p);
}

void kt_gather_typical(struct kt_candidates *c, const struct kt_logits *logits, double p, double *sums)
{
    double total = kt_logits_sums(logits->values, logits->n, logits->max, 1, logits->block_max, sums);
    double below = kt_logits_moment(logits->values, logits->n, logits->max) / total;
    double mean = (double)logits->max + below;
    for (float width = FIRST_WIDTH;; width = widen(width)) {
        kt_candidates_gather(c, logits, logits->max - width);
        c->total = total;
        rank_by_distance(c, mean);
        uint64_t last = kt_select(c->keys, c->n, c->weights, p * total);
        /* Tokens that were not gathered are farther from the mean than this. */
        bool is_sure = (double)distance((double)c->logits[kt_key_index(last)], mean) < (double)width + below;
        if (is_sure || !(width < INFINITY)) {
            keep_by_distance(c, mean, last);
            return;
        }
    }
}
