/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - xoshiro256**, seeded by splitmix64 (Blackman and Vigna). */
#include "tools/kt/bench/bench.h"

#include <math.h>

void bench_random_seed(struct bench_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        random->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

uint64_t bench_random_next(struct bench_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint32_t bench_random_below(struct bench_random *random, uint32_t bound)
{
    /* The bias of this product is below bound / 2^32. */
    return (uint32_t)(((bench_random_next(random) >> 32) * bound) >> 32);
}

float bench_random_gauss(struct bench_random *random)
{
    double u = ((double)(bench_random_next(random) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(bench_random_next(random) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v));
}
