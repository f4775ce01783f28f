/* SPDX-License-Identifier: Apache-2.0 */
/* family_build.h - models of experts as families name them, in a folder of folder_build.h. */
#ifndef KT_TESTS_SUPPORT_FAMILY_BUILD_H
#define KT_TESTS_SUPPORT_FAMILY_BUILD_H

#include "tests/support/folder_build.h"

#include <stdbool.h>

/* Sizes of the models that are made here. */
enum { I = 24, H = 40, E = 3, TOP_K = 2 };

extern struct kt_error problem;
extern struct shard shard;
extern char logged[2048]; /* what the last open_model logged, "LEVEL message" a line */

/* Opens the folder, which is right. */
struct kt_checkpoint *open_model(enum kt_io io);
/* Opens it, which fails so. */
/* The model opens, but a warning with the fragment says why its experts cannot be computed. */
void expect_warning(const char *fragment);
void expect(enum kt_status status, const char *fragment);

/* Where an expert's projection lies in its tensor, in elements, and its scales. */
struct place {
    const char *name, *dtype;
    uint64_t first, row_step, col_step;
    const char *scale, *scale_dtype;
    uint64_t group_rows, group_cols, scale_cols, scale_first;
};

void expect_view(const struct kt_view *view, uint64_t rows, uint64_t cols, const struct place *place);

struct family {
    const char *experts, *projection[3];
};
extern const struct family families[4];

/* The name of a tensor; eight of them live at a time. */
const char *name_of(const char *prefix, const struct family *family, int layer, int expert, int projection,
                    const char *part);
const uint64_t *shape_of(int projection);
void add_layer(const char *prefix, const struct family *family, int layer, const char *dtype);

/* Layers 2 and 4 of the first family, in one file. */
void write_model(void);

#endif
