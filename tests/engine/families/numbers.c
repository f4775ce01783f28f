/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - the weights: a hash of a tensor's name and an index; and what is recorded of logits.
 * make_expected.py has the same. */
#include "tests/engine/families/family.h"

#include <math.h>
#include <string.h>

uint64_t numbers_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t numbers_draw(uint64_t hash, uint64_t index)
{
    uint64_t z = hash + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The sum of four uniform numbers of 16 bits is nearly normal. */
float numbers_value(uint64_t hash, uint64_t index, double mean, double deviation)
{
    uint64_t bits = numbers_draw(hash, index);
    double total = 0;
    for (int i = 0; i < 4; i++)
        total += (double)(bits >> 16 * i & 0xffff);
    float value = (float)(mean + deviation * ((total - 131070.0) / 65536.0 * 1.7320508075688772));
    uint32_t whole;
    memcpy(&whole, &value, sizeof(whole));
    whole = (whole + 0x7fff + (whole >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &whole, sizeof(value));
    return value;
}

float numbers_byte(uint64_t hash, uint64_t index, double first, double range)
{
    return (float)((uint64_t)first + numbers_draw(hash, index) % ((uint64_t)range + 1));
}

double numbers_away(const float *logits, uint32_t n, uint32_t position, const float *recorded)
{
    const uint64_t hash = numbers_hash("signs");
    double sums[PROJECTIONS] = {0}, square = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t signs = numbers_draw(hash, ((uint64_t)position << 32) + i);
        for (int k = 0; k < PROJECTIONS; k++)
            sums[k] += signs >> k & 1 ? -(double)logits[i] : (double)logits[i];
    }
    for (int k = 0; k < PROJECTIONS; k++)
        square += pow(sums[k] - (double)recorded[1 + k], 2);
    return sqrt(square / PROJECTIONS) / (double)recorded[0];
}

double numbers_apart(const float *one, const float *other)
{
    double square = 0;
    for (int k = 0; k < PROJECTIONS; k++)
        square += pow((double)one[1 + k] - (double)other[1 + k], 2);
    return sqrt(square / PROJECTIONS) / (double)other[0];
}
