/* SPDX-License-Identifier: Apache-2.0 */
/* stored_layer.h - a layer in a store: storing it, loading it, and what it computes. */
#ifndef KT_TESTS_CORE_LAYER_STORED_LAYER_H
#define KT_TESTS_CORE_LAYER_STORED_LAYER_H

#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

enum { TOKENS = 9 };

/* A GGUF file whose layer 3 has two experts, and a context of one node with the plugin fake. */
extern char *store_source;
extern struct kt_context *store_context;

/* Opens a sandbox with the empty folder "store", and makes these. */
void store_setup(void);
void store_teardown(void);
/* Makes the source one of experts without a gate. */
void store_drop_gate(void);

/* Contexts see one node, or two that do not exist. */
struct kt_context *store_make_context(const char *panel_rows, int nodes);
struct kt_checkpoint *store_open(const char *path, enum kt_io io);
struct kt_layer *store_make_layer(struct kt_context *of, const int64_t *map, const char *backend);

/* Stores the layer, by any backend; or by fake, which must work. */
enum kt_status store_try(struct kt_context *of, const char *backend, struct kt_error *error);
void store_layer(void);

/* TOKENS outputs. */
enum kt_status store_forward(struct kt_layer *layer, float *output, struct kt_error *error);
/* The same of a layer that is loaded from `path`. */
void store_run(struct kt_context *of, const char *path, enum kt_io io, const int64_t *map, float *output);
/* Opens, loads and runs what is stored. */
enum kt_status store_load_and_run(enum kt_io io, struct kt_error *error);

/* The bytes of the store's file, which the caller may change. */
uint8_t *store_read(size_t *size);

#endif
