/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/random_view.h"

#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kt_view random_view(const struct random_source *source, uint64_t rows, uint64_t cols)
{
    struct kt_view view = KT_VIEW_INIT;
    uint64_t blocks = rows * cols / source->elements, state = rows + 7;
    uint64_t groups = source->scale_cols ? rows * cols / source->scale_cols : 0;
    uint8_t *data = malloc(blocks * source->bytes + groups * 2), *scales = data + blocks * source->bytes;
    ck_assert_ptr_nonnull(data);
    for (uint64_t i = 0; i < blocks * source->bytes; i++) {
        data[i] = (uint8_t)(fixture_uniform(&state) * 256);
        if (i % source->bytes == source->at)
            data[i] = source->exponent | (source->bytes < 8 ? data[i] & 0x80 : 0);
    }
    view.dtype = source->dtype;
    view.rows = rows;
    view.cols = cols;
    view.data = data;
    view.size = blocks * source->bytes;
    view.row_stride = (int64_t)(cols / source->elements * source->bytes);
    view.block_stride = (int64_t)source->bytes;
    for (uint64_t i = 0; i < groups * 2; i++)
        scales[i] = i % 2 ? 0x3c : (uint8_t)(i & 0x7f);
    if (groups)
        view.scales = (struct kt_scales){.data = scales,
                                         .size = groups * 2,
                                         .dtype = KT_DTYPE_BF16,
                                         .group_rows = 1,
                                         .group_cols = source->scale_cols,
                                         .row_stride = (int64_t)(cols / source->scale_cols * 2),
                                         .col_stride = 2};
    return view;
}

void random_view_free(struct kt_view *view)
{
    free((void *)(uintptr_t)view->data);
}

struct kt_context *random_view_context(const struct random_source *source, const char *level,
                                       unsigned threads, const char *nodes, const char *setting)
{
    char module[512] = "core.strict=yes", count[32], at[64] = "core.strict=yes";
    if (strcmp(source->backend, "reference") != 0) {
        const char *file = sandbox_backend(source->backend);
        if (!file)
            return NULL;
        (void)snprintf(module, sizeof module, "plugin.%s.module=%s", source->backend, file);
        if (level)
            (void)snprintf(at, sizeof at, "plugin.%s.level=%s", source->backend, level);
    }
    (void)snprintf(count, sizeof count, "core.threads=%u", threads);
    const char *const settings[] = {module, at, "core.strict=yes", "core.spin_us=0", count, setting};
    if (nodes)
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", nodes, 1), 0);
    struct kt_context *context = fixture_context_with(settings, setting ? 6 : 5);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    return context;
}
