/* SPDX-License-Identifier: Apache-2.0 */
/* stored_linear.h - a linear in a store: storing it, loading it, and what it computes. */
#ifndef KT_TESTS_CORE_LAYER_STORED_LINEAR_H
#define KT_TESTS_CORE_LAYER_STORED_LINEAR_H

#include "tests/support/layer_fixture.h"

enum { TOKENS = 5 };

#define NAME "blk.7.attn_q"
#define FILE_NAME "linear-" NAME

#define TWO_NODES "numa:2 core:1 pu:1"

/* The store, and its file of that linear. */
extern const char *stored_folder, *stored_file;

/* Opens the sandbox and makes the store's folder. */
void stored_make_folder(void);

struct kt_linear *stored_make(struct kt_context *context, const char *backend, uint64_t rows, uint64_t cols,
                              enum kt_split split);
enum kt_status stored_try(struct kt_context *context, const char *backend, const struct kt_view *view,
                          const float *bias, const char *name, struct kt_error *error);
struct kt_checkpoint *stored_open(const char *path, enum kt_io io);

/* TOKENS outputs and then the weights that the kernel uses. */
float *stored_run(const struct kt_linear *linear);
float *stored_run_loaded(struct kt_context *context, const char *backend, const struct kt_view *view,
                         const float *bias, enum kt_split split);
float *stored_run_stored(struct kt_context *context, const char *backend, const struct kt_view *view,
                         enum kt_io io, enum kt_split split);

#endif
