/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.h - one row's superblock in the compact form: points of grids by their numbers, as the source has
 * them. llamafile.h says how 16 rows lie in a half panel.
 */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_COMPACT_H
#define KT_PLUGINS_LLAMAFILE_PACK_COMPACT_H

#include "plugins/llamafile/pack/codes.h"

struct llamafile_compact {
    uint8_t index[64]; /* compact_bytes of each group: low bytes of 32 points of 8 weights, or of 64 of 4 */
    uint8_t sign[32];  /* bit j of byte i: weight 8i + j is negative */
    uint8_t scale[24]; /* what stands before the groups, see compact.c */
    uint8_t head[4];
};

/* Takes a block of the source apart; Q1_0's block `index` of two. */
void llamafile_compact_read(uint32_t dtype, const uint8_t *block, unsigned index,
                            struct llamafile_compact *compact);

/* The same superblock as codes of the roomy form. */
void llamafile_compact_expand(uint32_t dtype, const struct llamafile_compact *compact,
                              struct llamafile_codes *codes);

/* A superblock of n groups between a row and its place in a half panel: `scales`, `head` and `groups` are
 * those of the superblock. */
struct llamafile_compact_place {
    uint8_t *scales, *head, *groups;
    unsigned n, row;
};
void llamafile_compact_store(const struct llamafile_format *format, const struct llamafile_compact *compact,
                             const struct llamafile_compact_place *place);
void llamafile_compact_load(const struct llamafile_format *format,
                            const struct llamafile_compact_place *place, struct llamafile_compact *compact);

/* Groups that lie there as codes; llamafile_compact_load leaves their points alone. */
void llamafile_compact_load_codes(const struct llamafile_format *format,
                                  const struct llamafile_compact_place *place, struct llamafile_codes *codes);

#endif
