/* SPDX-License-Identifier: Apache-2.0 */
/* rows_route.h - the choice of experts. <kt/rows.h> has the rules. */
#ifndef KT_PLUGINS_ATTENTION_ROWS_ROUTE_H
#define KT_PLUGINS_ATTENTION_ROWS_ROUTE_H

#include "plugins/attention/rows_block.h"
#include "plugins/common/gemm/glu.h"

#include <math.h>

#define ROUTE_EXPERTS 4096
#define ROUTE_TOP 128

/* A row on its way. */
struct routing {
    float z[ROUTE_EXPERTS + VEC_ROWS]; /* logits, and -infinity behind them */
    float p[ROUTE_EXPERTS + VEC_ROWS];
    float corrected[ROUTE_EXPERTS + VEC_ROWS];
    bool dropped[ROUTE_EXPERTS]; /* groups */
    const float *choice;         /* what experts are chosen by */
    float total;                 /* of p, where p is a softmax that is not normalized later */
    bool has_nan;
};

/* The best so far, best first; equal ones in the order in which they came. */
struct top {
    float value[ROUTE_TOP];
    uint32_t number[ROUTE_TOP];
    uint32_t n, wanted;
};

static inline void take(struct top *top, float value, uint32_t number)
{
    if (top->n == top->wanted && !(value > top->value[top->n - 1]))
        return;
    uint32_t at = top->n < top->wanted ? top->n++ : top->n - 1;
    for (; at > 0 && value > top->value[at - 1]; at--) {
        top->value[at] = top->value[at - 1];
        top->number[at] = top->number[at - 1];
    }
    top->value[at] = value;
    top->number[at] = number;
}

/* Up to a whole vector there are numbers behind z. */
static inline bool find_nan(const float *z, uint32_t n)
{
    uint32_t numbers = ~0U; /* lanes that had nothing else */
    for (uint32_t e = 0; e < n; e += VEC_ROWS) {
        vf v = vf_load(z + e);
        numbers &= vf_at_least(v, v);
    }
    return (~numbers & ((1U << VEC_ROWS) - 1)) != 0;
}

/* p = exp(z - max z); their sum. */
static inline float soften(const float *z, uint32_t n, float *p)
{
    vf most = vf_set(-INFINITY), sum = vf_set(0.0f);
    float lane[VEC_ROWS], max = -INFINITY;
    for (uint32_t e = 0; e < n; e += VEC_ROWS)
        most = vf_max(vf_load(z + e), most); /* the second one if the first is NaN */
    vf_store(lane, most);
    for (unsigned i = 0; i < VEC_ROWS; i++)
        max = lane[i] > max ? lane[i] : max;
    for (uint32_t e = 0; e < n; e += VEC_ROWS) {
        vf v = vf_exp(vf_sub(vf_load(z + e), vf_set(max)));
        vf_store(p + e, v);
        sum = vf_add(sum, v);
    }
    return vf_fold(sum);
}

static inline void find_scores(const struct kt_rows_route *job, uint32_t row, struct routing *routing)
{
    const uint32_t n = job->n_experts;
    const uint8_t *logits = (const uint8_t *)job->logits + (int64_t)row * job->logits_stride;
    memcpy(routing->z, logits, n * sizeof(float));
    for (unsigned i = 0; i < VEC_ROWS; i++)
        routing->z[n + i] = -INFINITY;
    routing->has_nan = find_nan(routing->z, n);
    bool plain = job->routing == KT_ROUTING_LOGITS || job->routing == KT_ROUTING_MIXER;
    bool soft = job->routing != KT_ROUTING_SIGMOID && !plain;
    bool by_logits = plain || (soft && !job->correction && job->n_groups == 1);
    if (!soft && job->routing != KT_ROUTING_MIXER)
        for (uint32_t e = 0; e < n; e += VEC_ROWS) {
            vf down = vf_exp(vf_sub(vf_set(0.0f), vf_load(routing->z + e)));
            vf_store(routing->p + e, vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), down)));
        }
    else if (job->routing == KT_ROUTING_SOFTMAX || (soft && !by_logits))
        routing->total = soften(routing->z, n, routing->p);
    if (soft && !by_logits)
        for (uint32_t e = 0; e < n; e += VEC_ROWS)
            vf_store(routing->p + e, vf_div(vf_load(routing->p + e), vf_set(routing->total)));
    if (soft && !by_logits)
        routing->total = 1.0f;
    routing->choice = by_logits ? routing->z : routing->p;
    if (job->correction) {
        uint32_t e = 0;
        for (; e + VEC_ROWS <= n; e += VEC_ROWS)
            vf_store(routing->corrected + e,
                     vf_add(vf_load(routing->choice + e), vf_load(job->correction + e)));
        for (; e < n; e++)
            routing->corrected[e] = routing->choice[e] + job->correction[e];
        routing->choice = routing->corrected;
    }
}

/* Which groups give no experts. */
static inline void drop_groups(const struct kt_rows_route *job, struct routing *routing)
{
    const uint32_t size = job->n_experts / job->n_groups;
    float score[ROUTE_EXPERTS];
    for (uint32_t g = 0; g < job->n_groups; g++) {
        struct top two = {.wanted = job->group_score == KT_GROUP_BEST || size == 1 ? 1 : 2};
        for (uint32_t e = g * size; e < (g + 1) * size; e++)
            if (routing->choice[e] == routing->choice[e])
                take(&two, routing->choice[e], e);
        score[g] = two.n < two.wanted ? -INFINITY : two.n == 1 ? two.value[0] : two.value[0] + two.value[1];
        routing->dropped[g] = true;
    }
    for (uint32_t i = 0; i < job->top_groups; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t g = 0; g < job->n_groups; g++)
            if (routing->dropped[g] && (best == UINT32_MAX || score[g] > score[best]))
                best = g;
        routing->dropped[best] = false;
    }
}

#define MAXIMA \
    (VEC_ROWS < 16 ? 16 / VEC_ROWS : 1) /* vectors of them: as many as most models choose, or more */

/* The largest number that is sure to have top_k choices at or above it: MAXIMA are of different experts, and
 * few others are above the top_k-th of them. */
static inline float find_least(const struct kt_rows_route *job, const struct routing *routing)
{
    const uint32_t size = job->n_experts / job->n_groups;
    float lane[MAXIMA * VEC_ROWS], least = -INFINITY;
    vf most[MAXIMA];
    for (unsigned v = 0; v < MAXIMA; v++)
        most[v] = vf_set(-INFINITY);
    for (uint32_t g = 0; g < job->n_groups; g++)
        for (uint32_t e = g * size; e + VEC_ROWS <= (g + 1) * size && !routing->dropped[g]; e += VEC_ROWS) {
            vf *one = &most[e / VEC_ROWS % MAXIMA];
            *one = vf_max(vf_load(routing->choice + e), *one); /* the second one if the first is NaN */
        }
    for (unsigned v = 0; v < MAXIMA; v++)
        vf_store(lane + v * VEC_ROWS, most[v]);
    for (unsigned i = 0; i < MAXIMA * VEC_ROWS; i++) {
        unsigned n = 0;
        for (unsigned v = 0; v < MAXIMA; v++)
            n += (unsigned)__builtin_popcount(vf_at_least(most[v], vf_set(lane[i])));
        least = n >= job->top_k && lane[i] > least ? lane[i] : least;
    }
    return least;
}

static inline void choose(const struct kt_rows_route *job, const struct routing *routing, struct top *top)
{
    const uint32_t size = job->n_experts / job->n_groups;
    const vf least = vf_set(find_least(job, routing));
    top->n = 0;
    top->wanted = job->top_k;
    for (uint32_t g = 0; g < job->n_groups; g++)
        for (uint32_t e = g * size; e < (g + 1) * size && !routing->dropped[g]; e += VEC_ROWS) {
            uint32_t left = (g + 1) * size - e, lanes = vf_at_least(vf_load(routing->choice + e), least);
            for (lanes &= left < VEC_ROWS ? (1U << left) - 1 : ~0U; lanes; lanes &= lanes - 1) {
                uint32_t number = e + (uint32_t)__builtin_ctz(lanes);
                take(top, routing->choice[number], number);
            }
        }
    /* NaN is less than any number, and there may be too few others. */
    for (uint32_t e = 0; e < job->n_experts && top->n < top->wanted; e++)
        if (!routing->dropped[e / size] && routing->choice[e] != routing->choice[e])
            top->number[top->n++] = e;
}

/* The weight of choice i among the experts that are near it, those chosen before not among them. */
static inline float mix(const struct kt_rows_route *job, struct routing *routing, const struct top *top,
                        uint32_t i)
{
    float m = routing->z[top->number[i]];
    uint32_t n = 0;
    if (i > 0)
        routing->z[top->number[i - 1]] = -INFINITY;
    for (uint32_t e = 0; e < job->n_experts; e++) {
        float z = routing->z[e], size = fabsf(z) > m ? fabsf(z) : m;
        if (z > -INFINITY && m - z <= job->near * size)
            routing->corrected[n++] = z;
    }
    for (unsigned v = 0; v < VEC_ROWS; v++)
        routing->corrected[n + v] = -INFINITY;
    return 1.0f / soften(routing->corrected, n, routing->corrected);
}

static inline void weigh(const struct kt_rows_route *job, struct routing *routing, const struct top *top,
                         float *weights)
{
    float sum = 0.0f, z[ROUTE_TOP + VEC_ROWS], p[ROUTE_TOP + VEC_ROWS];
    for (uint32_t i = 0; i < top->n; i++)
        if (job->routing == KT_ROUTING_TOP)
            z[i] = routing->z[top->number[i]];
        else if (job->routing == KT_ROUTING_MIXER)
            p[i] = mix(job, routing, top, i);
        else
            p[i] = routing->p[top->number[i]];
    if (job->routing == KT_ROUTING_TOP) {
        for (unsigned i = 0; i < VEC_ROWS; i++)
            z[top->n + i] = -INFINITY;
        (void)soften(z, top->n, p);
    }
    for (uint32_t i = 0; i < top->n; i++)
        sum += p[i];
    bool normalize = job->normalize || job->routing == KT_ROUTING_TOP;
    float divisor = !normalize ? 1.0f : job->routing == KT_ROUTING_SIGMOID ? sum + 1e-20f : sum;
    if (!normalize && job->routing == KT_ROUTING_SOFTMAX)
        divisor = routing->total;
    for (uint32_t i = 0; i < top->n; i++)
        weights[i] = routing->has_nan ? NAN : p[i] / divisor * job->scale;
}

static void rows_route(void *instance, const struct kt_rows_route *job)
{
    (void)instance;
    struct routing routing;
    struct top top;
    memset(routing.dropped, 0, job->n_groups * sizeof *routing.dropped);
    for (uint32_t r = 0; r < job->n_rows; r++) {
        find_scores(job, r, &routing);
        if (job->top_groups < job->n_groups)
            drop_groups(job, &routing);
        choose(job, &routing, &top);
        weigh(job, &routing, &top, job->weights + (uint64_t)r * job->top_k);
        for (uint32_t i = 0; i < top.n; i++)
            job->ids[(uint64_t)r * job->top_k + i] = top.number[i];
    }
}

#endif
