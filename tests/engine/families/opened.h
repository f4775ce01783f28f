/* SPDX-License-Identifier: Apache-2.0 */
/* opened.h - what tests of models begin and end with: a context, a model's file, the model. */
#ifndef KT_TESTS_ENGINE_FAMILIES_OPENED_H
#define KT_TESTS_ENGINE_FAMILIES_OPENED_H

#include "tests/engine/families/family.h"

#include <kt/engine.h>

struct opened {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_model_info info;
};

/* The reference backend with attention, and another setting; NULL, and why it is skipped, where attention was
 * not built. */
struct kt_context *opened_context(int threads, const char *setting);
/* The tables of a family. */
void opened_tables(struct family *family, const char *name);
/* Writes its random model, as GGUF or as a folder; the path lives as long as the sandbox. */
const char *opened_file(const struct family *family, bool is_gguf);
/* Opens the model in `path` in the context that is there. */
void opened_model(struct opened *opened, const char *path, const struct kt_model_params *params);
/* Everything is given back: sessions are closed, pages are free. */
void opened_close(struct opened *opened);

#endif
