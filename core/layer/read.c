/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - weights of a loaded layer as float32. */
#include "core/base/error.h"
#include "core/layer/layer.h"
#include "core/layer/store_check.h"

#include <kt/kt.h>

/* The part of a row that a shard has: all of a gate or up row, some columns of a down row. */
static enum kt_status weight_row(const struct kt_layer *layer, const struct kt_shard *shard, uint32_t expert,
                                 enum kt_projection projection, uint64_t row, float *out,
                                 struct kt_error *error)
{
    const char *object =
        kt_shard_object(shard, expert, projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP);
    if (error)
        error->message[0] = '\0';
    enum kt_status status = kt_layer_ops(layer)->weight_row(layer->backend->instance, &shard->layout, object,
                                                            shard->source ? &shard->source[expert] : NULL,
                                                            projection, row, out, error);
    return status == KT_OK ? status : kt_fail_plugin(error, status, "the backend gives no reason");
}

enum kt_status kt_layer_weights(const struct kt_layer *layer, uint32_t expert, enum kt_projection projection,
                                uint64_t row, uint64_t n_rows, float *out, struct kt_error *error)
{
    if (!layer || !out)
        return kt_fail(error, KT_E_INVALID, "kt_layer_weights: layer and out must not be NULL");
    if (!layer->loaded)
        return kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? layer->params.hidden_size : layer->params.intermediate_size;
    uint64_t cols = down ? layer->params.intermediate_size : layer->params.hidden_size;
    if (expert >= layer->params.n_experts || (unsigned)projection > KT_DOWN || row > rows ||
        n_rows > rows - row)
        return kt_fail(error, KT_E_RANGE,
                       "%s: expert %u, projection %u, rows %llu + %llu: there are %u experts of %llu rows",
                       layer->name, expert, (unsigned)projection, (unsigned long long)row,
                       (unsigned long long)n_rows, layer->params.n_experts, (unsigned long long)rows);
    /* The layer stays as it is for its caller: what is noted is which bytes have been looked at. */
    enum kt_status status = kt_store_check_expert((struct kt_layer *)(uintptr_t)layer, expert, error);
    for (uint64_t r = 0; r < n_rows && status == KT_OK; r++)
        for (uint32_t n = 0; n < layer->n_shards && status == KT_OK; n++) {
            const struct kt_shard *shard = &layer->shard[n];
            if (down && shard->begin < shard->end && !(layer->splits_rows && n > 0))
                status = weight_row(layer, shard, expert, projection, row + r, out + r * cols + shard->begin,
                                    error);
            else if (!down && row + r >= shard->begin && row + r < shard->end)
                status = weight_row(layer, shard, expert, projection, row + r - shard->begin, out + r * cols,
                                    error);
        }
    return status;
}
