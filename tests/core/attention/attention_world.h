/* SPDX-License-Identifier: Apache-2.0 */
/* attention_world.h - caches with numbers, and attention over them. */
#ifndef KT_TESTS_CORE_ATTENTION_WORLD_H
#define KT_TESTS_CORE_ATTENTION_WORLD_H

#include "tests/support/layer_fixture.h"

#include <stdbool.h>

/* value_size of latents: the first of the keys' numbers. */
struct shape {
    uint32_t n_heads, kv_heads, key_size, value_size;
    uint32_t dtype;
    bool latent;
    uint32_t window;
    float softcap;
    bool sinks;
};

#define WORLD_SHAPES 13
extern const struct shape shapes[WORLD_SHAPES];

struct world {
    const struct shape *shape;
    struct kt_context *context;
    struct kt_kv *kv;
    struct kt_attention *attention;
    struct kt_attention_info info;
    float *sinks;
};

/* Is the plugin built? */
bool world_has_plugin(void);

/* false: the level does not run here. */
bool world_open(struct world *world, const struct shape *shape, const char *level, int threads, int nodes);
/* On one thread, with n more settings. */
#define WORLD_SETTINGS 4
bool world_open_with(struct world *world, const struct shape *shape, const char *level,
                     const char *const *settings, size_t n);
void world_close(struct world *world);
struct kt_attention_params world_params(const struct world *world);

/* A sequence of n tokens, of which the last third is reserved only. */
struct kt_kv_sequence *world_fill(const struct world *world, uint32_t n, uint64_t seed);
/* What the cache has of them: rows of all heads. */
float *world_read(const struct world *world, const struct kt_kv_sequence *sequence, uint32_t field,
                  uint32_t n);

struct request {
    struct kt_attention_item item;
    float *queries;
    float *output;
};

/* Queries that are drawn by their positions. */
struct request world_ask(const struct world *world, const struct kt_kv_sequence *sequence, uint64_t position,
                         uint32_t n_tokens);
void world_free_request(struct request *request);
uint64_t world_output_size(const struct world *world, uint32_t n_tokens);

void world_run(const struct world *world, const struct request *requests, uint32_t n);

#endif
