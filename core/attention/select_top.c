/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select_top.c - the largest of many scores, without sorting them: the least one that is selected is found
 * digit by digit, by counting; then rows are taken in their order.
 */
#include "core/attention/select.h"

#include <string.h>

#define MOST_DIGITS 2048

/* A number that grows with the score; 0 and -0 are equal, NaN is less than all others. */
static uint32_t order_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 becomes 0 */
    if (score != score)
        return 0;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

/* Of those numbers whose bits above `shift` + `width` are those of `above`, the `left` largest are wanted:
 * finds the digit of the least of these, and how many of its digit are wanted. */
static uint32_t find_digit(const uint32_t *order, uint32_t n, uint32_t above, unsigned shift, unsigned width,
                           uint32_t *left)
{
    uint32_t count[MOST_DIGITS] = {0}, digit = (1u << width) - 1;
    const unsigned behind = shift + width;
    for (uint32_t i = 0; i < n; i++)
        if (behind >= 32 || order[i] >> behind == above)
            count[order[i] >> shift & digit]++;
    for (; count[digit] < *left; digit--)
        *left -= count[digit];
    return digit;
}

void kt_select_top(float *scores, uint32_t n, uint32_t budget, uint32_t *rows)
{
    static const unsigned width[] = {11, 11, 10};
    uint32_t *order = (uint32_t *)(void *)scores;
    uint32_t least = 0, left = budget, taken = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = order_of(scores[i]);
        memcpy(&scores[i], &number, sizeof number);
    }
    for (unsigned pass = 0, shift = 32; pass < 3; pass++) {
        shift -= width[pass];
        least = least << width[pass] | find_digit(order, n, least, shift, width[pass], &left);
    }
    for (uint32_t i = 0; taken < budget; i++) {
        if (order[i] > least)
            rows[taken++] = i;
        else if (order[i] == least && left > 0) {
            rows[taken++] = i;
            left--;
        }
    }
}
