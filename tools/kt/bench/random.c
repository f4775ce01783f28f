/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - xoshiro256**, seeded by splitmix64 (Blackman and Vigna), and short floats. */
#include "tools/kt/bench/bench.h"

#include <math.h>
#include <string.h>

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

uint16_t bench_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Round to nearest even; what is too large becomes the largest number. */
uint16_t bench_f16(float value)
{
    uint16_t sign = signbit(value) ? 0x8000u : 0;
    float size = fabsf(value);
    if (size >= 65504.0f)
        return (uint16_t)(sign | 0x7bffu);
    if (size < 0x1p-14f) /* subnormal: multiples of 2^-24 */
        return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    bits += 0xfffu + ((bits >> 13) & 1u);
    return (uint16_t)(sign | ((bits >> 13) - (112u << 10)));
}
