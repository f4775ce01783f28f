/* SPDX-License-Identifier: Apache-2.0 */
/* codes.h - one row's superblock between the source's blocks, the panel and float32. */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_CODES_H
#define KT_PLUGINS_LLAMAFILE_PACK_CODES_H

#include "plugins/llamafile/llamafile.h"

struct llamafile_codes {
    uint8_t code[SUPERBLOCK];
    uint8_t scale[32]; /* scale_bytes of the superblock, or of each of its groups */
    uint8_t head[4];
};

/* Takes a block of the source apart; of formats with smaller blocks than 256 it is block `index`. */
void llamafile_codes_read(const struct llamafile_format *format, const uint8_t *block, unsigned index,
                          struct llamafile_codes *codes);

/* The weights of n groups, in the operations that define the format, so that they agree to the bit. */
void llamafile_codes_dequantize(const struct llamafile_format *format, const struct llamafile_codes *codes,
                                unsigned groups, float *out);

#endif
