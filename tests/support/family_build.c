/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/family_build.h"

#include "core/weights/decode/view.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

struct kt_error problem;
struct shard shard;
char logged[2048];

static void take_log(void *data, enum kt_log_level level, const char *message)
{
    (void)data;
    size_t used = strlen(logged);
    (void)snprintf(logged + used, sizeof logged - used, "%d %s\n", (int)level, message);
}

struct kt_checkpoint *open_model(enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    logged[0] = 0;
    params.io = io;
    params.log = take_log;
    ck_assert_msg(kt_checkpoint_open(folder_path(""), &params, &checkpoint, &problem) == KT_OK, "%s",
                  problem.message);
    return checkpoint;
}

void expect(enum kt_status status, const char *fragment)
{
    struct kt_checkpoint *checkpoint = NULL;
    memset(&problem, 0, sizeof problem);
    enum kt_status found = folder_open("", KT_IO_READ, &checkpoint, &problem);
    ck_assert_msg(found == status && problem.status == status, "%s: %s: %s", fragment, kt_status_name(found),
                  problem.message);
    ck_assert_msg(strstr(problem.message, fragment) != NULL, "\"%s\" is not in: %s", fragment,
                  problem.message);
    ck_assert_msg(strstr(problem.message, "kt-test-") && !strchr(problem.message, '\n'), "%s",
                  problem.message);
    ck_assert_ptr_null(checkpoint);
}

void expect_warning(const char *fragment)
{
    struct kt_checkpoint_info info;
    struct kt_checkpoint *checkpoint = open_model(KT_IO_READ);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_moe_layers, 0);
    ck_assert_msg(strstr(logged, fragment) != NULL, "\"%s\" is not in: %s", fragment, logged);
    kt_checkpoint_close(checkpoint);
}

void expect_view(const struct kt_view *view, uint64_t rows, uint64_t cols, const struct place *place)
{
    static float row[4096];
    ck_assert_msg(kt_view_check(view, &problem) == KT_OK, "%s", problem.message);
    ck_assert_str_eq(view->name, place->name);
    ck_assert_uint_eq(view->rows, rows);
    ck_assert_uint_eq(view->cols, cols);
    for (uint64_t r = 0; r < rows; r++) {
        ck_assert_msg(kt_view_row(view, r, row, &problem) == KT_OK, "%s", problem.message);
        for (uint64_t c = 0; c < cols; c++) {
            float expected =
                value_of(place->name, place->dtype, place->first + r * place->row_step + c * place->col_step);
            if (place->scale)
                expected *= value_of(place->scale, place->scale_dtype,
                                     place->scale_first + r / place->group_rows * place->scale_cols +
                                         c / place->group_cols);
            ck_assert_msg(row[c] == expected, "%s: row %d, column %d: %g is not %g", place->name, (int)r,
                          (int)c, (double)row[c], (double)expected);
        }
    }
}

const struct family families[4] = {{"mlp.experts", {"gate_proj", "up_proj", "down_proj"}},
                                   {"block_sparse_moe.experts", {"w1", "w3", "w2"}},
                                   {"experts", {"w1", "w3", "w2"}},
                                   {"ffn.experts", {"w1", "w3", "w2"}}};

const char *name_of(const char *prefix, const struct family *family, int layer, int expert, int projection,
                    const char *part)
{
    static char names[8][256];
    static int next;
    char *name = names[next++ % 8];
    (void)snprintf(name, sizeof names[0], "%s%d.%s.%d.%s.%s", prefix, layer, family->experts, expert,
                   family->projection[projection], part);
    return name;
}

const uint64_t *shape_of(int projection)
{
    static const uint64_t shapes[3][2] = {{I, H}, {I, H}, {H, I}};
    return shapes[projection];
}

void add_layer(const char *prefix, const struct family *family, int layer, const char *dtype)
{
    /* Expert by expert from the last one on, the projections in the order of their names in files.
     */
    static const int order[3] = {KT_DOWN, KT_GATE, KT_UP};
    for (int e = E - 1; e >= 0; e--)
        for (int p = 0; p < 3; p++)
            shard_add(&shard, name_of(prefix, family, layer, e, order[p], "weight"), dtype, 2,
                      shape_of(order[p]));
}

void write_model(void)
{
    shard_begin(&shard);
    add_layer("model.layers.", &families[0], 2, "BF16");
    add_layer("model.layers.", &families[0], 4, "BF16");
    shard_write(&shard, "model.safetensors");
}
