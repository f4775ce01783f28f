/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/groups.h - how a product is blocked whose rows of activations do not all fit into L2.
 *
 * Row blocks that fit would read all weights once for each block: of DeepSeek-V3's 7168 columns in bfloat16,
 * 64 rows fit, and 512 rows would read the weights 8 times. Instead, rows are taken in groups of up to
 * GROUP_ROWS and panels in groups of as many as have room for their sums in L2. K goes by in pieces; of each,
 * the rows' part passes all panels of the group, and sums wait until the last piece. So weights are read once
 * for each group of rows, and activations once for each group of panels.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_GROUPS_H
#define KT_PLUGINS_COMMON_GEMM_GROUPS_H

#include "plugins/common/gemm/geometry.h"

#define BLOCK_ROWS (2 * TILE_ROWS) /* of a block of sums: 4 KB, with a panel */
/* A little more than what a call of 2048 tokens has for each of 32 experts, so that those with some rows more
 * than others do not read their weights twice. */
#define GROUP_ROWS 576
#define GROUP_BLOCKS 192 /* of sums, in 768 KB */
#define GROUP_PIECE 14   /* tiles of K: the fewest bytes of sums for each product of tiles */

/* Layouts of which so many rows fit into L2 are not grouped: few products have more. */
#define UNGROUPED_ROWS 256

/* May a stage's product be grouped? Its scratch must have room. */
static inline bool has_groups(const struct kt_layout *layout, enum kt_stage stage)
{
    return layout->words[WORD_ROW_BLOCK + stage] < UNGROUPED_ROWS && stage_tiles(layout, stage) > GROUP_PIECE;
}

struct groups {
    uint32_t rows;   /* of a group: about equal, a multiple of BLOCK_ROWS */
    uint64_t panels; /* of a group */
};

static inline struct groups choose_groups(uint32_t n_rows)
{
    uint32_t parts = (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    uint32_t rows = (uint32_t)round_up((n_rows + parts - 1) / parts, BLOCK_ROWS);
    return (struct groups){rows, GROUP_BLOCKS / (rows / BLOCK_ROWS)};
}

/* Bytes that come from beyond L2 for a product with n_panels of panel_bytes, if rows have row_bytes. */
static inline uint64_t count_group_traffic(uint32_t n_rows, uint64_t n_panels, uint64_t panel_bytes,
                                           uint64_t row_bytes)
{
    struct groups groups = choose_groups(n_rows);
    uint64_t row_groups = (n_rows + groups.rows - 1) / groups.rows;
    uint64_t panel_groups = (n_panels + groups.panels - 1) / groups.panels;
    return row_groups * n_panels * panel_bytes + panel_groups * n_rows * row_bytes;
}

/* The same by row blocks of row_block rows. */
static inline uint64_t count_block_traffic(uint32_t n_rows, uint64_t n_panels, uint64_t panel_bytes,
                                           uint64_t row_bytes, uint32_t row_block)
{
    uint64_t blocks = (n_rows + row_block - 1) / row_block;
    return blocks * n_panels * panel_bytes + n_rows * row_bytes;
}

/* Is a product with more rows than a row block better grouped? */
static inline bool takes_groups(uint32_t n_rows, uint64_t n_panels, uint64_t panel_bytes, uint64_t row_bytes,
                                uint32_t row_block)
{
    return n_rows > row_block && count_group_traffic(n_rows, n_panels, panel_bytes, row_bytes) <
                                     count_block_traffic(n_rows, n_panels, panel_bytes, row_bytes, row_block);
}

#endif
