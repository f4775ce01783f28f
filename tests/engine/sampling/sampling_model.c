/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/sampling/sampling_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE 1e-5

/* What the sort looks at. */
static const double *sort_by;

static int compare(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    if (sort_by[i] != sort_by[j])
        return sort_by[i] > sort_by[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

/* Tokens that are in, largest value first, then lowest id. */
static int sort(struct sampling_model *m, const double *values, int *order)
{
    int n = 0;
    for (int i = 0; i < m->n; i++)
        if (m->is_in[i])
            order[n++] = i;
    sort_by = values;
    qsort(order, (size_t)n, sizeof(*order), compare);
    return n;
}

static void cut(struct sampling_model *m, const double *values, const int *order, int n, int n_kept)
{
    if (n_kept < n) {
        double gap = values[order[n_kept - 1]] - values[order[n_kept]];
        if (gap > 0 && gap < CLOSE)
            m->is_close = true;
    }
    for (int i = n_kept; i < n; i++)
        m->is_in[order[i]] = false;
}

static void softmax(struct sampling_model *m, double temperature)
{
    double max = -INFINITY, total = 0;
    for (int i = 0; i < m->n; i++)
        if (m->is_in[i] && m->logits[i] > max)
            max = m->logits[i];
    for (int i = 0; i < m->n; i++) {
        m->p[i] = m->is_in[i] ? exp((m->logits[i] - max) / temperature) : 0;
        total += m->p[i];
    }
    for (int i = 0; i < m->n; i++)
        m->p[i] /= total;
}

/* The fewest first of `order` whose probabilities add up to p. */
static int count_mass(struct sampling_model *m, const int *order, int n, double p)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += m->p[order[i]];
        if (fabs(sum - p) < CLOSE)
            m->is_close = true;
        if (sum >= p)
            return i + 1;
    }
    return n;
}

/* ---- what looks back -------------------------------------------------------------------------- */

static int first_of(int n, uint64_t last_n)
{
    return last_n > 0 && last_n < (uint64_t)n ? n - (int)last_n : 0;
}

static void penalize(struct sampling_model *m)
{
    const struct kt_sampling_params *p = m->params;
    for (int id = 0; id < m->n; id++) {
        int all = 0, generated = 0;
        for (int i = first_of(m->n_ids, p->penalty_last_n); i < m->n_ids; i++) {
            all += m->ids[i] == id;
            generated += m->ids[i] == id && m->is_generated[i];
        }
        if (all > 0 && p->repetition_penalty > 0) {
            if (m->logits[id] > 0)
                m->logits[id] /= p->repetition_penalty;
            else
                m->logits[id] *= p->repetition_penalty;
        }
        m->logits[id] -= p->frequency_penalty * generated;
        if (generated > 0)
            m->logits[id] -= p->presence_penalty;
    }
}

static bool breaks(const struct sampling_model *m, int32_t id)
{
    for (uint64_t i = 0; i < m->params->n_dry_breakers; i++)
        if (m->params->dry_breakers[i] == id)
            return true;
    return false;
}

static void dry(struct sampling_model *m)
{
    const struct kt_sampling_params *p = m->params;
    int longest[MODEL_MOST] = {0}, n = m->n_ids, first = first_of(n, p->dry_last_n);
    int allowed = p->dry_allowed_length > 0 ? (int)p->dry_allowed_length : 2;
    for (int next = first + 1; next < n; next++) {
        int match = 0;
        while (next - 1 - match >= first && m->ids[next - 1 - match] == m->ids[n - 1 - match] &&
               !breaks(m, m->ids[n - 1 - match]))
            match++;
        if (match > longest[m->ids[next]])
            longest[m->ids[next]] = match;
    }
    for (int id = 0; id < m->n; id++)
        if (longest[id] >= allowed && !breaks(m, id))
            m->logits[id] -= fmin(1e30, p->dry_multiplier *
                                            pow(p->dry_base > 0 ? p->dry_base : 1.75, longest[id] - allowed));
}

/* ---- filters ---------------------------------------------------------------------------------- */

static void top_n_sigma(struct sampling_model *m)
{
    double sum = 0, squares = 0, max = -INFINITY;
    int n = 0;
    for (int i = 0; i < m->n; i++) {
        if (!m->is_in[i])
            continue;
        sum += m->logits[i];
        max = fmax(max, m->logits[i]);
        n++;
    }
    for (int i = 0; i < m->n; i++)
        if (m->is_in[i])
            squares += pow(m->logits[i] - sum / n, 2);
    double least = max - m->params->top_n_sigma * sqrt(squares / n);
    for (int i = 0; i < m->n; i++) {
        if (!m->is_in[i])
            continue;
        if (m->logits[i] != max && fabs(m->logits[i] - least) < CLOSE * 10)
            m->is_close = true;
        if (m->logits[i] < least)
            m->is_in[i] = false;
    }
}

static void typical(struct sampling_model *m)
{
    static double nearness[MODEL_MOST];
    int order[MODEL_MOST];
    double entropy = 0;
    softmax(m, 1);
    for (int i = 0; i < m->n; i++)
        if (m->p[i] > 0)
            entropy -= m->p[i] * log(m->p[i]);
    for (int i = 0; i < m->n; i++)
        nearness[i] = m->p[i] > 0 ? -fabs(-log(m->p[i]) - entropy) : -INFINITY;
    int n = sort(m, nearness, order);
    cut(m, nearness, order, n, count_mass(m, order, n, m->params->typical_p));
}

static void min_p(struct sampling_model *m)
{
    double most = 0;
    softmax(m, 1);
    for (int i = 0; i < m->n; i++)
        most = fmax(most, m->p[i]);
    for (int i = 0; i < m->n; i++) {
        double ratio = m->p[i] / most;
        if (m->is_in[i] && ratio != 1 && fabs(ratio - m->params->min_p) < CLOSE)
            m->is_close = true;
        if (ratio < m->params->min_p)
            m->is_in[i] = false;
    }
}

static void xtc(struct sampling_model *m)
{
    double threshold = m->params->xtc_threshold > 0 ? m->params->xtc_threshold : 0.1;
    int order[MODEL_MOST];
    softmax(m, 1);
    int n = sort(m, m->logits, order), n_over = 0;
    for (int i = 0; i < n; i++) {
        if (fabs(m->p[order[i]] - threshold) < CLOSE)
            m->is_close = true;
        n_over += m->p[order[i]] >= threshold;
    }
    for (int i = 0; i < n_over - 1; i++) {
        m->is_in[order[i]] = false;
        double gap = m->logits[order[i]] - m->logits[order[n_over - 1]];
        if (gap > 0 && gap < CLOSE)
            m->is_close = true;
    }
}

/* ---- all -------------------------------------------------------------------------------------- */

void model_run(struct sampling_model *m, const float *logits, const uint64_t *allowed, bool does_xtc)
{
    const struct kt_sampling_params *p = m->params;
    static int order[MODEL_MOST];
    int n;
    m->is_close = false;
    for (int i = 0; i < m->n; i++)
        m->logits[i] = allowed && !(allowed[i / 64] >> i % 64 & 1) ? -INFINITY : (double)logits[i];
    for (uint64_t i = 0; i < p->n_logit_bias; i++)
        m->logits[p->logit_bias[i].id] += (double)p->logit_bias[i].bias;
    penalize(m);
    if (p->dry_multiplier > 0)
        dry(m);
    for (int i = 0; i < m->n; i++)
        m->is_in[i] = m->logits[i] > -INFINITY;
    if (p->temperature == 0) {
        n = sort(m, m->logits, order);
        cut(m, m->logits, order, n, 1);
    } else {
        if (p->top_n_sigma > 0)
            top_n_sigma(m);
        n = sort(m, m->logits, order);
        if (p->top_k > 0 && (int)p->top_k < n)
            cut(m, m->logits, order, n, (int)p->top_k);
        if (p->typical_p > 0 && p->typical_p < 1)
            typical(m);
        if (p->top_p > 0 && p->top_p < 1) {
            softmax(m, 1);
            n = sort(m, m->logits, order);
            cut(m, m->logits, order, n, count_mass(m, order, n, p->top_p));
        }
        if (p->min_p > 0)
            min_p(m);
        if (does_xtc)
            xtc(m);
    }
    m->n_left = 0;
    for (int i = 0; i < m->n; i++)
        m->n_left += m->is_in[i];
    softmax(m, p->temperature > 0 ? p->temperature : 1);
}

int model_draw(struct sampling_model *m, double u)
{
    double sum = 0;
    int id = -1;
    for (int i = 0; i < m->n; i++) {
        sum += m->p[i];
        if (sum > 1e-6 && sum < 1 - 1e-6 && fabs(sum - u) < CLOSE)
            m->is_close = true;
        if (m->p[i] > 0 && (id < 0 || sum <= u))
            id = i;
        if (sum > u)
            return i;
    }
    return id;
}

void model_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x[4], k0 = key[0], k1 = key[1];
    memcpy(x, counter, sizeof(x));
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * x[0], p1 = UINT64_C(0xCD9E8D57) * x[2];
        uint32_t y[4] = {(uint32_t)(p1 >> 32) ^ x[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ x[3] ^ k1,
                         (uint32_t)p0};
        memcpy(x, y, sizeof(x));
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    memcpy(out, x, sizeof(x));
}

double model_random(uint64_t seed, uint64_t position, uint32_t stream)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), stream, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    model_philox(counter, key, out);
    return ldexp(floor(ldexp((double)out[0], 21) + (double)(out[1] >> 11)), -53);
}
