/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel_pack.c - packs a checkpoint as KT-Kernel's converter does: INPUT FOLDER METHOD PARTS tensors|files
 */
#include "tests/support/ktkernel_build.h"

#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

static int fail(void)
{
    fprintf(stderr, "%s\n", error.message);
    return 1;
}

/* The weights of a layer as float32. */
static int take(struct kt_checkpoint *input, uint64_t layer, struct ktk_model *model)
{
    struct kt_moe_info moe;
    if (kt_checkpoint_moe(input, layer, &moe, &error) != KT_OK)
        return fail();
    struct kt_expert *experts = calloc(moe.n_experts, sizeof *experts);
    if (!experts || kt_checkpoint_experts(input, layer, experts, moe.n_experts, &error) != KT_OK)
        return free(experts), fail();
    model->n_experts = moe.n_experts;
    model->hidden = moe.hidden_size;
    model->intermediate = moe.intermediate_size;
    ktk_fill(model, 1);
    int code = 0;
    for (uint32_t i = 0; i < 3 * moe.n_experts && code == 0; i++) {
        const struct kt_expert *expert = &experts[i / 3];
        const struct kt_view *views[] = {&expert->gate, &expert->up, &expert->down}, *view = views[i % 3];
        float *to = model->weights[i % 3] + i / 3 * view->rows * view->cols;
        for (uint64_t row = 0; row < view->rows && code == 0; row++)
            if (kt_view_row(view, row, to + row * view->cols, &error) != KT_OK)
                code = fail();
    }
    free(experts);
    return code;
}

int main(int argc, char **argv)
{
    static const char *const methods[] = {"INT8", "INT4", "MOE_INT8", "MOE_INT4"};
    struct kt_checkpoint *input;
    struct kt_checkpoint_info info;
    struct ktk_model model = {.n_parts = 1};
    if (argc != 6)
        return fprintf(stderr, "usage: %s INPUT FOLDER METHOD PARTS tensors|files\n", argv[0]), 2;
    while (model.method < KTK_MOE_INT4 && strcmp(argv[3], methods[model.method]) != 0)
        model.method++;
    model.n_parts = (uint32_t)atoi(argv[4]);
    if (kt_checkpoint_open(argv[1], NULL, &input, &error) != KT_OK)
        return fail();
    kt_checkpoint_info(input, &info);
    int code = 0;
    for (uint64_t i = 0; i < info.n_moe_layers && code == 0; i++) {
        uint64_t layer;
        if (kt_checkpoint_moe_layer(input, i, &layer, &error) != KT_OK)
            code = fail();
        else if ((code = take(input, layer, &model)) == 0) {
            ktk_write(&model, argv[2], (unsigned)layer, strcmp(argv[5], "files") == 0);
            ktk_free(&model);
        }
    }
    kt_checkpoint_close(input);
    return code;
}
