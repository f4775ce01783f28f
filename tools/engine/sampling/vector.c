/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/sampling/vector.h"

#include <math.h>
#include <string.h>

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

#define ALL(x) ((v4f){(x), (x), (x), (x)})
#define LOWEST (-87.0f) /* exp() of less is 0 here: denormal numbers are slow, and nobody draws them */

static v4f load(const float *from)
{
    v4f v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static v4f where(v4i mask, v4f yes, v4f no)
{
    return (v4f)(((v4i)yes & mask) | ((v4i)no & ~mask));
}

static v4f larger(v4f a, v4f b)
{
    return where(a > b, a, b);
}

static float largest(v4f v)
{
    float a = v[0] > v[1] ? v[0] : v[1];
    float b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
}

static float sum(v4f v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

/* exp(x), x <= 0 or NaN: 2^n times a Taylor polynomial on [-ln 2 / 2, ln 2 / 2], whose next term is 1.2e-7.
 * What comes of numbers below LOWEST on the way is cleared at the end. */
static inline __attribute__((always_inline)) v4f exponential(v4f x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to a whole number, which the low bits then hold */
    v4f shifted = x * ALL(0x1.715476p0f) + ALL(magic);
    v4f n = shifted - ALL(magic);
    v4f r = x - n * ALL(0x1.63p-1f); /* ln 2 in two parts, so that n times the first is exact */
    r = r - n * ALL(-0x1.bd0106p-13f);
    v4f p = ALL(1.0f / 720) * r + ALL(1.0f / 120);
    p = p * r + ALL(1.0f / 24);
    p = p * r + ALL(1.0f / 6);
    p = p * r + ALL(0.5f);
    p = p * r + ALL(1.0f);
    p = p * r + ALL(1.0f);
    v4i power = ((v4i)shifted - (v4i)ALL(magic) + 127) << 23;
    return (v4f)((v4i)(p * (v4f)power) & (x >= ALL(LOWEST)));
}

/* The last elements of an array, filled up to a vector. */
static v4f load_rest(const float *from, uint64_t n, float filler)
{
    v4f v = ALL(filler);
    for (uint64_t i = 0; i < n; i++)
        v[i] = from[i];
    return v;
}

float kt_logits_block_max(const float *logits, uint64_t n, uint64_t block)
{
    uint64_t i = block * KT_LOGIT_BLOCK;
    uint64_t end = n - i < KT_LOGIT_BLOCK ? n : i + KT_LOGIT_BLOCK;
    v4f max = ALL(-INFINITY);
    for (; i + 4 <= end; i += 4)
        max = larger(load(logits + i), max);
    return largest(larger(load_rest(logits + i, end - i, -INFINITY), max));
}

bool kt_logits_scan(const float *logits, uint64_t n, float *block_max, float *max)
{
    v4i wrong = {0, 0, 0, 0};
    uint64_t n_blocks = KT_LOGIT_BLOCKS(n);
    *max = -INFINITY;
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint64_t i = b * KT_LOGIT_BLOCK;
        uint64_t end = n - i < KT_LOGIT_BLOCK ? n : i + KT_LOGIT_BLOCK;
        v4f most = ALL(-INFINITY), v;
        for (; i + 4 <= end; i += 4) {
            v = load(logits + i);
            wrong |= ~(v < ALL(INFINITY)); /* NaN is not below it either */
            most = larger(v, most);
        }
        v = load_rest(logits + i, end - i, -INFINITY);
        wrong |= ~(v < ALL(INFINITY));
        block_max[b] = largest(larger(v, most));
        *max = block_max[b] > *max ? block_max[b] : *max;
    }
    return !(wrong[0] | wrong[1] | wrong[2] | wrong[3]);
}

double kt_logits_weights(const float *logits, uint64_t n, float max, float scale, float *weights)
{
    double total = 0;
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v4f w = exponential((load(logits + i) - ALL(max)) * ALL(scale));
        memcpy(weights + i, &w, sizeof(w));
        total += (double)sum(w);
    }
    if (i < n) {
        v4f w = exponential((load_rest(logits + i, n - i, -INFINITY) - ALL(max)) * ALL(scale));
        memcpy(weights + i, &w, (size_t)(n - i) * sizeof(*weights));
        total += (double)sum(w);
    }
    return total;
}

double kt_logits_sums(const float *logits, uint64_t n, float max, float scale, const float *block_max,
                      double *sums)
{
    double total = 0;
    uint64_t n_blocks = KT_LOGIT_BLOCKS(n);
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint64_t i = b * KT_LOGIT_BLOCK;
        uint64_t end = n - i < KT_LOGIT_BLOCK ? n : i + KT_LOGIT_BLOCK;
        v4f all = ALL(0), more = ALL(0);
        sums[b] = 0;
        if ((block_max[b] - max) * scale < LOWEST)
            continue;
        for (; i + 8 <= end; i += 8) {
            all += exponential((load(logits + i) - ALL(max)) * ALL(scale));
            more += exponential((load(logits + i + 4) - ALL(max)) * ALL(scale));
        }
        for (; i < end; i += 4)
            all += exponential((load_rest(logits + i, end - i < 4 ? end - i : 4, -INFINITY) - ALL(max)) *
                               ALL(scale));
        sums[b] = (double)sum(all + more);
        total += sums[b];
    }
    return total;
}

double kt_logits_moment(const float *logits, uint64_t n, float max)
{
    double total = 0;
    for (uint64_t i = 0; i < n; i += 4) {
        v4f x = i + 4 <= n ? load(logits + i) : load_rest(logits + i, n - i, -INFINITY);
        x = x - ALL(max);
        x = where(x >= ALL(LOWEST), x, ALL(LOWEST));
        v4f w = where(x > ALL(LOWEST), exponential(x) * x, ALL(0));
        total += (double)sum(w);
    }
    return total;
}

/* Sum of (logit - center)^power, power 1 or 2, of those that are not -inf, which are counted. */
static double sum_differences(const float *logits, uint64_t n, float center, bool squares, uint64_t *count)
{
    double total = 0;
    *count = 0;
    for (uint64_t i = 0; i < n; i += 4) {
        v4f x = i + 4 <= n ? load(logits + i) : load_rest(logits + i, n - i, -INFINITY);
        v4i counts = x > ALL(-INFINITY);
        x = where(counts, x - ALL(center), ALL(0));
        total += (double)sum(squares ? x * x : x);
        *count -= (uint64_t)(int64_t)(counts[0] + counts[1] + counts[2] + counts[3]);
    }
    return total;
}

double kt_logits_deviation(const float *logits, uint64_t n, float max)
{
    uint64_t count;
    double mean = sum_differences(logits, n, max, false, &count) / (double)count;
    float center = (float)((double)max + mean);
    mean = (double)max + mean - (double)center; /* what rounding took off it */
    double squares = sum_differences(logits, n, center, true, &count) / (double)count;
    double variance = squares - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}
