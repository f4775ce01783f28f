/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - numbers in formats of few bits, and what those stand for. */
#include "tests/engine/families/family.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 };

uint64_t code_bytes(enum code code, uint64_t count)
{
    return code == CODE_Q8_0 ? count / BLOCK * 34 : code == CODE_Q4_0 ? count / BLOCK * 18 : count;
}

/* A float16 near a number that is far from its limits, rounded towards 0; its bits. */
static uint16_t half_of(float value, float *out)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t cut = bits & 0xffffe000u, exponent = bits >> 23 & 0xff;
    memcpy(out, &cut, sizeof(cut));
    if (exponent < 113 || exponent > 142) /* not below 2^-14 */
        cut = 0, *out = 0;
    return (uint16_t)(cut == 0 ? 0 : (bits >> 16 & 0x8000) | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* Q8_0: scale, 32 codes. Q4_0: scale, number i and i + 16 in a byte, from -8 on. */
static void code_block(enum code code, float *values, uint8_t *bytes)
{
    float most = 0, scale;
    for (int i = 0; i < BLOCK; i++)
        if (fabsf(values[i]) > fabsf(most))
            most = values[i];
    uint16_t half = half_of(code == CODE_Q8_0 ? most / 127 : most / -8, &scale);
    bytes[0] = (uint8_t)half;
    bytes[1] = (uint8_t)(half >> 8);
    memset(bytes + 2, 0, code == CODE_Q8_0 ? BLOCK : BLOCK / 2);
    for (int i = 0; i < BLOCK; i++) {
        float wish = scale == 0 ? 0 : rintf(values[i] / scale);
        int number = (int)(code == CODE_Q8_0 ? fminf(fmaxf(wish, -127), 127) : fminf(fmaxf(wish, -8), 7));
        if (code == CODE_Q8_0)
            bytes[2 + i] = (uint8_t)number;
        else
            bytes[2 + i % 16] |= (uint8_t)((number + 8) << 4 * (i / 16));
        values[i] = scale * (float)number;
    }
}

void code_rows(enum code code, float *values, uint64_t count, uint8_t *bytes)
{
    for (uint64_t i = 0; i < count; i += BLOCK)
        code_block(code, values + i, bytes + code_bytes(code, i));
}

/* E4M3 nearest to a number of at most 448. */
static uint8_t code_fp8(float value, float *out)
{
    int exponent;
    (void)frexpf(value, &exponent); /* below 2^exponent */
    exponent = exponent - 1 < -6 ? -6 : exponent - 1;
    int number = (int)rintf(ldexpf(fabsf(value), 3 - exponent)); /* eighths of 2^exponent, up to 16 */
    if (number == 16) {
        number = 8;
        exponent++;
    }
    *out = copysignf(ldexpf((float)number, exponent - 3), value);
    return (uint8_t)((value < 0 ? 0x80 : 0) | (number < 8 ? number : (exponent + 7) << 3 | (number - 8)));
}

void code_tiles(float *values, uint64_t rows, uint64_t cols, uint8_t *bytes, float *scales)
{
    for (uint64_t tile = 0; tile < rows / CODE_TILE * (cols / CODE_TILE); tile++) {
        uint64_t first = tile / (cols / CODE_TILE) * CODE_TILE * cols + tile % (cols / CODE_TILE) * CODE_TILE;
        float most = 0;
        for (uint64_t i = 0; i < CODE_TILE * CODE_TILE; i++)
            most = fmaxf(most, fabsf(values[first + i / CODE_TILE * cols + i % CODE_TILE]));
        scales[tile] = most > 0 ? most / 447 : 1; /* below 448, whatever the division rounds to */
        for (uint64_t i = 0; i < CODE_TILE * CODE_TILE; i++) {
            uint64_t at = first + i / CODE_TILE * cols + i % CODE_TILE;
            bytes[at] = code_fp8(values[at] / scales[tile], &values[at]);
            values[at] *= scales[tile];
        }
    }
}
