/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check/format.h"

#define MAKE_FORMAT(dtype, ...) {KT_DTYPE_##dtype, __VA_ARGS__},
static const struct block_format formats[] = {BLOCK_FORMATS(MAKE_FORMAT)};

const struct block_format *block_format(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype)
            return &formats[i];
    return NULL;
}

void block_set_d(const struct block_format *format, uint8_t *block, uint16_t bits)
{
    if (format->d >= 0)
        memcpy(block + format->d, &bits, sizeof bits);
    for (int i = 0; i < 4 && format->dtype == KT_DTYPE_IQ1_M; i++) /* the upper four bits of four words */
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
}
