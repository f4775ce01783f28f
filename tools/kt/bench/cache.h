/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - attention over caches of random numbers. */
#ifndef KT_TOOL_BENCH_CACHE_H
#define KT_TOOL_BENCH_CACHE_H

#include "tools/kt/bench/bench.h"

/* Heads of queries and keys, sizes; latent: values are the keys' first numbers; delta: heads of values and of
 * keys of Gated DeltaNet. */
struct bench_heads {
    char name[64];
    uint32_t n_heads, kv_heads, key_size, value_size;
    bool latent, delta;
};

/* How a cache keeps numbers. */
struct bench_form {
    const char *name;
    uint32_t dtype;
};
/* Layers of one cache in turn, all of the same sequences. */
struct bench_cache {
    struct kt_cli *cli;
    struct kt_context *context;
    const struct bench_heads *shape;
    const struct bench_form *form;
    uint32_t n_context, n_sequences, n_tokens, n_layers;
    struct kt_kv *kv;
    struct kt_kv_sequence **sequences;
    struct kt_attention **layers;
    struct kt_attention_item *items;
    float *queries, *outputs, *numbers;
};

/* Shapes and forms by name; return exit codes. */
int bench_heads_choose(const struct kt_cli *cli, const char *text, struct bench_heads *shape);
int bench_form_choose(const struct kt_cli *cli, const char *text, const struct bench_form **form);

/* Bytes of a layer, and how many layers each come from memory in turns; cycle_size 0: as large as this
 * machine's caches ask. */
uint64_t bench_cache_bytes(const struct bench_cache *work);
uint32_t bench_cache_copies(uint64_t bytes, uint64_t cycle_size);
uint32_t bench_cache_layers(const struct bench_cache *work, uint64_t cycle_size);

/* Makes what the fields up to n_layers describe, by a plugin or the first that can. To be destroyed after a
 * failure, too. */
enum kt_status bench_cache_create(struct bench_cache *work, const char *backend, struct kt_error *error);
void bench_cache_destroy(struct bench_cache *work);

/* Runs layer i of a round; *time in nanoseconds. */
enum kt_status bench_cache_run(void *work, uint64_t i, double *time, struct kt_error *error);

#endif
