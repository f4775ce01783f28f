/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - the tiny trained model with a session, for tests of whole models. */
#ifndef KT_TESTS_ENGINE_MODEL_WORLD_H
#define KT_TESTS_ENGINE_MODEL_WORLD_H

#include <kt/engine.h>
#include <stdbool.h>

#define VOCABULARY 2048
#define N_IDS 70

struct world {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    int32_t ids[N_IDS];
};

/* The model's path. */
const char *world_tiny(void);

/* A context with attention at this level; NULL, and why it is skipped, where that was not built. */
struct kt_context *world_context(int threads, const char *level);

/* The model in `path` with float32 in its cache; false: it cannot be run here. */
bool world_open(struct world *w, const char *path, int threads, const struct kt_model_params *params);
void world_close(struct world *w);

/* Logits of n ids behind a session; free(). */
float *world_step(struct world *w, struct kt_session *session, const int32_t *ids, uint32_t n);

#endif
