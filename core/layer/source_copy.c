/* SPDX-License-Identifier: Apache-2.0 */
/* source_copy.c - a copy of the caller's weights for a backend that goes on reading its source. */
#include "core/layer/source_copy.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/layer/layer.h"

#include <stdlib.h>
#include <string.h>

/* Copies the data of a view to `at`, dense, row after row. Returns the bytes used; `at` NULL: only that. */
static uint64_t copy_view(struct kt_view *view, char *at)
{
    uint32_t elements, bytes;
    kt_dtype_block(view->dtype, &elements, &bytes);
    uint64_t blocks = (view->cols + elements - 1) / elements;
    uint64_t size = view->rows * blocks * bytes;
    if (at) {
        for (uint64_t row = 0; row < view->rows; row++)
            for (uint64_t block = 0; block < blocks; block++)
                memcpy(at + (row * blocks + block) * bytes,
                       (const char *)view->data + (int64_t)row * view->row_stride +
                           (int64_t)block * view->block_stride,
                       bytes);
        view->data = at;
        view->size = size;
        view->row_stride = (int64_t)(blocks * bytes);
        view->block_stride = bytes;
        view->name = NULL;
    }
    return kt_align64(size);
}

static uint64_t copy_scales(const struct kt_view *view, struct kt_scales *scales, char *at)
{
    if (!scales->data)
        return 0;
    uint32_t elements, bytes;
    kt_dtype_block(scales->dtype, &elements, &bytes);
    uint64_t rows = (view->rows + scales->group_rows - 1) / scales->group_rows;
    uint64_t cols = (view->cols + scales->group_cols - 1) / scales->group_cols;
    if (at) {
        for (uint64_t row = 0; row < rows; row++)
            for (uint64_t col = 0; col < cols; col++)
                memcpy(at + (row * cols + col) * bytes,
                       (const char *)scales->data + (int64_t)row * scales->row_stride +
                           (int64_t)col * scales->col_stride,
                       bytes);
        scales->data = at;
        scales->size = rows * cols * bytes;
        scales->row_stride = (int64_t)(cols * bytes);
        scales->col_stride = bytes;
    }
    return kt_align64(rows * cols * bytes);
}

static uint64_t copy_expert(struct kt_expert *expert, char *at)
{
    struct kt_view *const views[3] = {&expert->gate, &expert->up, &expert->down};
    uint64_t used = 0;
    for (int p = 0; p < 3; p++) {
        struct kt_view *view = views[p];
        if (!view->data) /* a linear has one */
            continue;
        uint64_t scales = copy_scales(view, &view->scales, at ? at + used : NULL);
        uint64_t zeros = copy_scales(view, &view->zeros, at ? at + used + scales : NULL);
        used += scales + zeros;
        used += copy_view(view, at ? at + used : NULL);
    }
    return used;
}

enum kt_status kt_layer_copy_source(struct kt_layer *layer, struct kt_error *error)
{
    uint64_t size = 0;
    for (uint32_t n = 0; n < layer->n_shards; n++)
        for (uint32_t e = 0; layer->shard[n].source && e < layer->params.n_experts; e++)
            size += copy_expert(&layer->shard[n].source[e], NULL);
    char *at = aligned_alloc(64, kt_align64(size));
    if (!at)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a copy of %llu bytes of weights", layer->name,
                       (unsigned long long)size);
    layer->source_copy = at;
    for (uint32_t n = 0; n < layer->n_shards; n++)
        for (uint32_t e = 0; layer->shard[n].source && e < layer->params.n_experts; e++)
            at += copy_expert(&layer->shard[n].source[e], at);
    return KT_OK;
}
