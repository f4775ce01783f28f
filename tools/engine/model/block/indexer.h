/* SPDX-License-Identifier: Apache-2.0 */
/* indexer.h - which rows of the cache a layer's queries attend to (DeepSeek sparse attention). */
#ifndef KT_ENGINE_MODEL_BLOCK_INDEXER_H
#define KT_ENGINE_MODEL_BLOCK_INDEXER_H

#include "tools/engine/model/block/block.h"

/** What a layer of the cache has of it beside the latents: 1, or 0 if the layer selects nothing itself. */
uint32_t kt_indexer_fields(const struct kt_engine_config *config, uint32_t layer, uint32_t cache_dtype,
                           struct kt_kv_field *out);
/** Field of its keys in a layer. */
#define KT_INDEXER_FIELD 1

/** block->indexer stays NULL if the layer selects nothing itself. */
enum kt_status kt_indexer_load(struct kt_model *model, uint32_t layer, struct kt_block *block,
                               struct kt_error *error);

/** The selector of a layer over a cache of the model's layers. */
enum kt_status kt_indexer_selector(const struct kt_model *model, struct kt_kv *kv, uint32_t layer,
                                   struct kt_selector **out, struct kt_error *error);
/** Adds what selectors work in, by making one on such a cache. */
enum kt_status kt_indexer_plan(struct kt_model *model, struct kt_kv *kv, struct kt_error *error);

/** Matrices that read what attention does, and the queries' latent; outputs to KT_BUFFER_GATE and
 * KT_BUFFER_ABSORBED. */
struct kt_linear_output kt_indexer_keys(const struct kt_slice *slice);
struct kt_linear_output kt_indexer_queries(const struct kt_slice *slice);

/** Norms and rotates keys of a range of tokens and writes them into the cache. */
enum kt_status kt_indexer_place(const struct kt_slice *slice, struct kt_range range, struct kt_error *error);
/** Rotates queries, weighs their heads, and selects rows: kt_model.selections, which later layers may share.
 */
enum kt_status kt_indexer_run(const struct kt_slice *slice, struct kt_error *error);

#endif
