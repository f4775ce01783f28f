/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - cut and unpack of a level that has them: no bit may be lost. */
#include "tools/kt/plugin/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cut ---------------------------------------------------------------------------------------------- */

/* Checks that the shard's weights are the whole expert's from row or column `begin` on. */
static void compare_shard(struct check *check, const struct kt_layout *shard, struct guarded packed[2],
                          uint64_t begin)
{
    uint64_t rest = shard->shape.intermediate_size, hidden = shard->shape.hidden_size;
    uint64_t longest = rest > hidden ? rest : hidden;
    float *row = check_need(malloc(longest * sizeof(*row)));
    for (int p = (int)check_first_projection(check); p <= KT_DOWN && !check->wrong; p++) {
        uint64_t rows = p == KT_DOWN ? hidden : rest, cols = p == KT_DOWN ? rest : hidden;
        uint64_t whole = check_view(check, (enum kt_projection)p)->cols;
        for (uint64_t r = 0; r < rows && !check->wrong; r++) {
            const float *want =
                check->weights[p] + (p == KT_DOWN ? r : begin + r) * whole + (p == KT_DOWN ? begin : 0);
            struct kt_error error = {.message = ""};
            check_enter(check, "weight_row of a shard");
            if (check->level->ops->weight_row(check->instance, shard, packed[p == KT_DOWN].data, NULL,
                                              (enum kt_projection)p, r, row, &error) != KT_OK)
                check_fail(check, "%.200s", error.message);
            for (uint64_t c = 0; c < cols && !check->wrong; c++)
                if (memcmp(&row[c], &want[c], sizeof(*row)) != 0 && !(isnan(row[c]) && isnan(want[c])))
                    check_fail(check, "row %llu, column %llu of projection %d is not the whole expert's",
                               (unsigned long long)r, (unsigned long long)c, p);
        }
    }
    free(row);
}

static void cut_stage(struct check *check, const struct kt_layout *shard, int stage, uint64_t begin,
                      struct guarded *out)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? shard->shape.hidden_size : shard->shape.intermediate_size;
    uint64_t panels = (rows + shard->panel_rows[stage] - 1) / shard->panel_rows[stage];
    uint64_t middle = random_below(&check->random, (uint32_t)panels + 1);
    struct kt_error error = {.message = ""};
    struct kt_cut job = {.whole = &check->layout,
                         .shard = shard,
                         .stage = (enum kt_stage)stage,
                         .begin = begin,
                         .panel_end = middle,
                         .packed = check->packed[stage].data,
                         .out = out->data,
                         .error = &error};
    memset(out->data, 0x5a, out->size);
    guard_seal(&check->packed[stage]);
    check_enter(check, "cut");
    check->level->ops->cut(check->instance, &job);
    job.panel_begin = middle;
    job.panel_end = panels;
    check->level->ops->cut(check->instance, &job);
    if (error.status != KT_OK)
        check_fail(check, "it failed: %.200s", error.message);
    guard_unseal(&check->packed[stage]);
    if (!guard_intact(out))
        check_fail(check, "it wrote beyond the shard of stage %d", stage);
}

static void step_cut(struct plugin_case *item)
{
    struct check *check = &item->check;
    const struct kt_layout *layout = &check->layout;
    uint64_t units = layout->k_unit ? (layout->shape.intermediate_size - 1) / layout->k_unit : 0;
    struct kt_layout shard = {.shape = layout->shape};
    struct guarded packed[2] = {{0}, {0}};
    struct kt_error error;
    if (units == 0 || layout->keeps_source)
        return;
    check_pack_once(check);
    if (!check->wrong)
        plugin_read_weights(check);
    uint64_t begin = layout->k_unit * (1 + random_below(&check->random, (uint32_t)units));
    shard.shape.intermediate_size -= begin;
    memcpy(shard.form, layout->form, sizeof(shard.form));
    if (check->wrong)
        return;
    if (!plugin_ask_layout(item, &shard, &error)) {
        check_fail(check, "a shard from row %llu on, a multiple of k_unit, is refused: %.200s",
                   (unsigned long long)begin, error.message);
        return;
    }
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++) {
        check_guard("a shard's weights", shard.weight_size[s], 64, true, &packed[s]);
        cut_stage(check, &shard, s, begin, &packed[s]);
    }
    if (!check->wrong)
        compare_shard(check, &shard, packed, begin);
    guard_free(&packed[0]);
    guard_free(&packed[1]);
    plugin_forget_layout(check, &shard);
}

void plugin_job_cut(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_cut, step_cut);
}

/* ---- unpack ------------------------------------------------------------------------------------------- */

/* The units of a view, or of its scales, in the order in which unpack writes them. */
struct grid {
    const uint8_t *data;
    int64_t row_stride, col_stride;
    uint64_t rows, cols;
    uint32_t bytes;
};

static struct grid grid_of_scales(const struct kt_view *view, const struct kt_scales *scales)
{
    struct grid grid = {.data = scales->data};
    if (!scales->data)
        return grid;
    kt_dtype_block(scales->dtype, NULL, &grid.bytes);
    grid.rows = (view->rows - 1) / scales->group_rows + 1;
    grid.cols = (view->cols - 1) / scales->group_cols + 1;
    grid.row_stride = scales->row_stride;
    grid.col_stride = scales->col_stride;
    return grid;
}

static struct grid grid_of_codes(const struct kt_view *view)
{
    struct grid grid = {.data = view->data,
                        .rows = view->rows,
                        .row_stride = view->row_stride,
                        .col_stride = view->block_stride};
    uint32_t elements;
    kt_dtype_block(view->dtype, &elements, &grid.bytes);
    grid.cols = view->cols / elements;
    return grid;
}

static void compare_grid(struct check *check, const struct grid *grid, const struct guarded *got,
                         const char *what)
{
    for (uint64_t r = 0; r < grid->rows && !check->wrong; r++)
        for (uint64_t c = 0; c < grid->cols; c++)
            if (memcmp(got->data + (r * grid->cols + c) * grid->bytes,
                       grid->data + (int64_t)r * grid->row_stride + (int64_t)c * grid->col_stride,
                       grid->bytes) != 0) {
                check_fail(check, "%s of row %llu, block %llu are not the source's bits", what,
                           (unsigned long long)r, (unsigned long long)c);
                break;
            }
    if (got->map && !guard_intact(got))
        check_fail(check, "it wrote beyond the %s", what);
}

static void unpack_projection(struct check *check, int p)
{
    const struct kt_view *view = check_view(check, (enum kt_projection)p);
    struct grid grids[3] = {grid_of_codes(view), grid_of_scales(view, &view->scales),
                            grid_of_scales(view, &view->zeros)};
    static const char *const names[3] = {"codes", "scales", "zeros"};
    struct guarded out[3] = {{0}, {0}, {0}};
    struct kt_unpack job = {.layout = &check->layout,
                            .projection = (enum kt_projection)p,
                            .packed = check->packed[p == KT_DOWN].data,
                            .col_end = view->cols};
    struct kt_error error = {.message = ""};
    check_enter(check, "unpack");
    enum kt_status status = check->level->ops->unpack(check->instance, &job, &error);
    if (status != KT_OK) {
        if (status != KT_E_UNSUPPORTED || !error.message[0])
            check_fail(check,
                       "asked whether it can, it gives status %d and \"%.200s\"; it refuses with "
                       "KT_E_UNSUPPORTED and a reason",
                       (int)status, error.message);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (grids[i].data)
            check_guard("unpacked bytes", grids[i].rows * grids[i].cols * grids[i].bytes, 1, true, &out[i]);
    job.row_end = view->rows;
    job.codes = out[0].data;
    job.scales = out[1].data;
    job.zeros = out[2].data;
    job.codes_stride = (int64_t)(grids[0].cols * grids[0].bytes);
    job.scales_stride = (int64_t)(grids[1].cols * grids[1].bytes);
    job.zeros_stride = (int64_t)(grids[2].cols * grids[2].bytes);
    status = check->level->ops->unpack(check->instance, &job, &error);
    if (status != KT_OK)
        check_fail(check, "it said that it can, and fails: %.200s", error.message);
    for (int i = 0; i < 3; i++) {
        if (!check->wrong)
            compare_grid(check, &grids[i], &out[i], names[i]);
        guard_free(&out[i]);
    }
}

static void step_unpack(struct plugin_case *item)
{
    struct check *check = &item->check;
    check_pack_once(check);
    for (int s = 0; s < 2; s++)
        guard_seal(&check->packed[s]);
    for (int p = (int)check_first_projection(check); p <= KT_DOWN && !check->wrong; p++)
        unpack_projection(check, p);
}

void plugin_job_unpack(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_unpack, step_unpack);
}
