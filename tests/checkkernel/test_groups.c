/* SPDX-License-Identifier: Apache-2.0 */
/* test_groups.c - groups of rows and panels (gemm/groups.h) of many shapes: they fit where they have to stay,
 * and less comes from beyond L2 than by row blocks, or those are taken. */
#include "plugins/common/gemm/groups.h"

#include <stdio.h>

#define L2_SIZE (2u << 20) /* of CPUs with AMX */

static int failed;

static void expect(bool right, const char *what, uint32_t rows, uint64_t columns)
{
    if (right)
        return;
    fprintf(stderr, "FAIL: %u rows of %llu columns: %s\n", rows, (unsigned long long)columns, what);
    failed = 1;
}

/* A product with n_panels panels of `columns` numbers of `width` bytes. */
static void check_product(uint32_t rows, uint64_t columns, uint64_t width, uint64_t n_panels)
{
    const uint64_t row_bytes = columns * width, panel_bytes = PANEL_ROWS * row_bytes;
    const uint32_t fits = (uint32_t)(L2_SIZE / 8 * 5 / row_bytes / 32 * 32),
                   row_block = fits < 64 ? 64 : fits;
    struct groups groups = choose_groups(rows);
    uint64_t blocks = groups.rows / BLOCK_ROWS;
    expect(groups.rows > 0 && groups.rows % BLOCK_ROWS == 0 && groups.rows <= GROUP_ROWS, "a group's rows",
           rows, columns);
    expect(groups.panels > 0 && groups.panels * blocks <= GROUP_BLOCKS, "a group's panels", rows, columns);
    /* sums, a piece of the rows, and the pieces of two panels */
    uint64_t piece = (uint64_t)GROUP_PIECE * TILE_LINE;
    expect(groups.panels * blocks * 4096 + groups.rows * piece + 2 * PANEL_ROWS * piece <= L2_SIZE * 3 / 4,
           "what should stay in L2", rows, columns);
    expect(groups.panels * blocks * 4096 + 2 * groups.rows * piece + 2 * PANEL_ROWS * piece <= L2_SIZE,
           "the rows' next piece has no room in L2", rows, columns);
    if (rows <= row_block || row_block >= UNGROUPED_ROWS)
        return;
    uint64_t grouped = count_group_traffic(rows, n_panels, panel_bytes, row_bytes);
    uint64_t blocked = count_block_traffic(rows, n_panels, panel_bytes, row_bytes, row_block);
    bool taken = takes_groups(rows, n_panels, panel_bytes, row_bytes, row_block);
    expect(taken == (grouped < blocked), "the way with more bytes is taken", rows, columns);
    if (width == 2 && columns >= 7168)
        expect(taken && grouped * 4 <= blocked * 3, "groups read too much", rows, columns);
}

int main(void)
{
    static const uint64_t columns[] = {2048, 4096, 6144, 7168, 18432};
    for (uint32_t rows = 1; rows <= 8192; rows += rows < 300 ? 1 : 97)
        for (unsigned c = 0; c < sizeof columns / sizeof *columns; c++)
            for (uint64_t width = 1; width <= 2; width++)
                check_product(rows, columns[c], width, 128);
    /* DeepSeek-V3's gate and up in bfloat16: weights once instead of 8 times, activations 11 times */
    uint64_t panel = (uint64_t)PANEL_ROWS * 7168 * 2, row = 7168 * 2;
    uint64_t wanted = 128 * panel + (128 + GROUP_BLOCKS / 16 - 1) / (GROUP_BLOCKS / 16) * 512 * row;
    expect(count_group_traffic(512, 128, panel, row) == wanted, "bytes of groups", 512, 7168);
    expect(count_block_traffic(512, 128, panel, row, 64) == 8 * 128 * panel + 512 * row,
           "bytes of row blocks", 512, 7168);
    return failed;
}
