/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer/compact.h"

#include "core/base/size.h"
#include "core/config/config.h"
#include "core/context/context.h"

#include <stdio.h>
#include <string.h>

/* Bytes of all experts of a layer in this form. */
static uint64_t size_experts(const struct kt_layout *layout)
{
    return layout->shape.n_experts *
           (kt_align64(layout->weight_size[0]) + kt_align64(layout->weight_size[1]));
}

/* Bytes of a layer of the checkpoint in the form that the backend prefers; in the source's, where it does not
 * take the layer. */
static uint64_t size_layer(const struct kt_backend *backend, const struct kt_layout *roomy,
                           const struct kt_moe_info *moe)
{
    const struct kt_ops *ops = backend->level->ops;
    struct kt_layout layout = {.shape = roomy->shape};
    struct kt_error error;
    layout.shape.n_experts = moe->n_experts;
    layout.shape.hidden_size = moe->hidden_size;
    layout.shape.intermediate_size = moe->intermediate_size;
    for (int p = 0; p < 3; p++)
        layout.shape.format[p].dtype = moe->dtype[p];
    if (memcmp(&layout.shape, &roomy->shape, sizeof layout.shape) == 0)
        return size_experts(roomy);
    if (ops->layout(backend->instance, &layout, &error) != KT_OK)
        return moe->size;
    uint64_t size = size_experts(&layout);
    if (ops->release_layout)
        ops->release_layout(backend->instance, &layout);
    return size;
}

static uint64_t size_all(const struct kt_backend *backend, const struct kt_checkpoint *checkpoint,
                         const struct kt_layout *roomy)
{
    struct kt_error error;
    struct kt_moe_info moe;
    uint64_t size = 0, layer;
    if (!checkpoint)
        return size_experts(roomy);
    for (uint64_t i = 0; kt_checkpoint_moe_layer(checkpoint, i, &layer, &error) == KT_OK; i++)
        if (kt_checkpoint_moe(checkpoint, layer, &moe, &error) == KT_OK)
            size += size_layer(backend, roomy, &moe);
    return size;
}

bool kt_compact_needed(const struct kt_layer *layer, const struct kt_backend *backend,
                       const struct kt_checkpoint *checkpoint, const struct kt_layout *roomy,
                       char why[KT_COMPACT_SIZE])
{
    const struct kt_context *context = layer->context;
    uint64_t limit = (uint64_t)kt_config_int(context->config, "core", "memory_mib") << 20;
    uint64_t left = limit ? limit : kt_memory_available();
    uint64_t available = left + (limit ? 0 : atomic_load(&context->packed_size));
    uint64_t need = size_all(backend, checkpoint, roomy);
    why[0] = '\0';
    if (left == 0 || need <= available) /* 0: nobody knows */
        return false;
    (void)snprintf(why, KT_COMPACT_SIZE, "the fast form of %s would take %llu MiB, %llu MiB are %s",
                   checkpoint ? "all layers" : "this layer", (unsigned long long)(need + 0xfffff) >> 20,
                   (unsigned long long)available >> 20, limit ? "allowed (core.memory_mib)" : "free");
    return true;
}
