/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - where GGUF's blocks keep what (ggml-common.h of ggml), for those who make and change them. */
#ifndef KT_CHECK_FORMAT_H
#define KT_CHECK_FORMAT_H

#include "tools/check/number.h"

struct block_format {
    uint32_t dtype;
    int d, dmin;         /* where float16 scales are; -1: there is none */
    uint32_t codes, end; /* bytes that hold codes and nothing else; 0, 0: there are none such */
    uint32_t highest;    /* the code of all bits, where a minimum stands beside codes */
    float deviation;     /* of weights of random codes, for d = 1 */
    float ratio;         /* dmin / d for which their mean is near 0 */
};

/* NULL: it is no format of blocks. */
const struct block_format *block_format(uint32_t dtype);
/* Writes d, the float16 `bits`, where the format has one. */
void block_set_d(const struct block_format *format, uint8_t *block, uint16_t bits);

#endif
