/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/sampling/select.h"

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t other = *a;
    *a = *b;
    *b = other;
}

static double weigh(const float *weights, uint64_t key)
{
    return weights ? (double)weights[kt_key_index(key)] : 1;
}

/* Quickselect: only the side where the sum is reached is looked at again. Pivots are picked at random, always
 * in the same way, so no order of keys is slow but by bad luck. */
uint64_t kt_select(uint64_t *keys, uint64_t n, const float *weights, double enough)
{
    uint64_t low = 0, high = n, found = 0;
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (uint64_t i = 0; i < n; i++)
        found = keys[i] > found ? keys[i] : found;
    while (low < high) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        swap(keys + low + (state >> 33) % (high - low), keys + high - 1);
        uint64_t pivot = keys[high - 1], middle = low;
        double below = 0;
        for (uint64_t i = low; i < high - 1; i++) {
            if (keys[i] > pivot)
                continue;
            below += weigh(weights, keys[i]);
            swap(keys + i, keys + middle++);
        }
        swap(keys + middle, keys + high - 1);
        if (below >= enough) {
            high = middle;
            continue;
        }
        enough -= below;
        if (weigh(weights, pivot) >= enough)
            return pivot;
        enough -= weigh(weights, pivot);
        low = middle + 1;
    }
    return found;
}
