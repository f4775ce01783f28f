/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/campaign/change.h"

#include <string.h>

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t kt_roll(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t kt_below(uint64_t *state, uint64_t n)
{
    return n ? kt_roll(state) % n : 0;
}

static void put_number(uint8_t *at, size_t size, uint64_t *state)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     7,
                                     8,
                                     31,
                                     32,
                                     255,
                                     65535,
                                     1 << 20,
                                     UINT32_MAX,
                                     UINT64_C(1) << 32,
                                     UINT64_C(1) << 36,
                                     INT64_MAX,
                                     UINT64_MAX,
                                     UINT64_MAX - 7};
    uint64_t number = edges[kt_below(state, sizeof edges / sizeof edges[0])] +
                      (kt_below(state, 4) == 0 ? kt_below(state, 300) : 0);
    memcpy(at, &number, size);
}

/* Digits of a text become another number. */
static size_t put_digits(uint8_t *data, size_t at, size_t size, uint64_t *state)
{
    static const char *const texts[] = {"0", "-1", "1e9", "18446744073709551615", "9223372036854775807",
                                        "2", "[]", "\"\""};
    const char *text = texts[kt_below(state, sizeof texts / sizeof texts[0])];
    size_t length = strlen(text);
    if (at + length > size)
        return size;
    memcpy(data + at, text, length);
    return size;
}

/* One change. Most hit the first bytes, where headers are. */
static size_t change_once(uint8_t *data, size_t size, size_t head, uint64_t *state)
{
    size_t at = (size_t)kt_below(state, kt_below(state, 8) ? (head < size ? head : size) : size),
           length = (size_t)kt_below(state, 64) + 1;
    length = at + length > size ? size - at : length;
    switch (size ? kt_below(state, 9) : 9) {
    case 0:
        data[at] ^= (uint8_t)(1 << kt_below(state, 8));
        return size;
    case 1:
        data[at] = (uint8_t)kt_roll(state);
        return size;
    case 2:
        if (at + 8 <= size)
            put_number(data + at, kt_below(state, 2) ? 8 : 4, state);
        return size;
    case 3:
        for (; at < size && (data[at] < '0' || data[at] > '9'); at++)
            continue;
        return put_digits(data, at, size, state);
    case 4:
        return at; /* cut off */
    case 5:        /* left out */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 6: { /* from elsewhere */
        size_t from = (size_t)kt_below(state, size);
        length = from + length > size ? size - from : length;
        memmove(data + at, data + from, length);
        return size;
    }
    case 7:
        memset(data + at, kt_below(state, 2) ? 0 : 0xff, length);
        return size;
    default:
        if (at < size)
            data[at] = (uint8_t) "{}[]\",:\\=\n;#\0 /%"[kt_below(state, 17)];
        return size;
    }
}

size_t kt_change(uint8_t *data, size_t size, uint64_t *state)
{
    size_t head = kt_below(state, 2) ? 4096 : 256;
    for (uint64_t n = kt_below(state, 4) + 1; n > 0; n--)
        size = change_once(data, size, head, state);
    return size;
}
