/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "tests/fuzz/fuzz.h"

#include "core/weights/decode/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void use_view(const struct kt_view *view)
{
    if (kt_view_check(view, NULL) != KT_OK)
        abort(); /* what a checkpoint hands out is valid */
    if (view->cols > 1 << 16)
        return;
    float *row = malloc((size_t)view->cols * sizeof *row);
    if (row)
        (void)kt_view_row(view, view->rows - 1, row, NULL);
    free(row);
}

static void use_layer(struct kt_checkpoint *checkpoint, uint64_t layer)
{
    struct kt_moe_info moe;
    if (kt_checkpoint_moe(checkpoint, layer, &moe, NULL) != KT_OK)
        abort();
    if (*moe.stored_form) { /* packed: there are no views of it */
        (void)kt_checkpoint_verify(checkpoint, layer, NULL);
        return;
    }
    struct kt_expert *experts = calloc(moe.n_experts, sizeof *experts);
    if (experts && kt_checkpoint_experts(checkpoint, layer, experts, moe.n_experts, NULL) == KT_OK) {
        const struct kt_expert *last = &experts[moe.n_experts - 1];
        use_view(&last->gate);
        use_view(&last->up);
        use_view(&last->down);
        volatile float sum = last->down_bias ? last->down_bias[moe.hidden_size - 1] : 0;
        (void)sum;
    }
    free(experts);
}

static void use_linear(struct kt_checkpoint *checkpoint, uint64_t index)
{
    struct kt_stored_linear_info info, found;
    struct kt_view view;
    const float *bias;
    if (kt_checkpoint_linear(checkpoint, index, &info, NULL) != KT_OK ||
        kt_checkpoint_linear_find(checkpoint, info.name, &found, NULL) != KT_OK || found.name != info.name)
        abort();
    (void)kt_checkpoint_verify_linear(checkpoint, info.name, NULL);
    if (kt_checkpoint_weight(checkpoint, info.name, &view, &bias, NULL) == KT_OK) {
        volatile float sum = bias ? bias[view.rows - 1] : 0;
        (void)sum;
    }
}

static void use_tensors(struct kt_checkpoint *checkpoint, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct kt_tensor_info info;
        uint64_t index = UINT64_MAX;
        const void *data;
        if (kt_checkpoint_tensor(checkpoint, i, &info, NULL) != KT_OK ||
            kt_checkpoint_find(checkpoint, info.name, &index, NULL) != KT_OK || index != i)
            abort();
        if (info.size && kt_checkpoint_data(checkpoint, i, &data, NULL) == KT_OK) {
            const volatile uint8_t *bytes = data;
            (void)(bytes[0] + bytes[info.size - 1]);
        }
    }
}

void use_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    use_path(path, size % 2 ? KT_IO_READ : KT_IO_MMAP);
}

void use_path(const char *path, enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint_info info;
    struct kt_checkpoint *checkpoint;
    struct kt_error error = {.status = KT_OK};
    params.io = io;
    enum kt_status status = kt_checkpoint_open(path, &params, &checkpoint, &error);
    if (status != error.status)
        abort();
    if (status != KT_OK)
        return;
    kt_checkpoint_info(checkpoint, &info);
    use_tensors(checkpoint, info.n_tensors);
    for (uint64_t i = 0; i < info.n_moe_layers; i++) {
        uint64_t layer;
        if (kt_checkpoint_moe_layer(checkpoint, i, &layer, NULL) != KT_OK)
            abort();
        use_layer(checkpoint, layer);
    }
    for (uint64_t i = 0; i < kt_checkpoint_linear_count(checkpoint); i++)
        use_linear(checkpoint, i);
    kt_checkpoint_close(checkpoint);
}
