/* SPDX-License-Identifier: Apache-2.0 */
#include "core/attention/lay_out.h"

#include "core/attention/gather.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/config/config.h"
#include "core/context/context.h"
#include "core/machine/pool.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a thread for results of parts; and results that a node has room for at least. Those of latents
 * take 256 KB each; with these two threads share the chunks of one token evenly until spans are as even. */
#define PARTS_SIZE (UINT64_C(1) << 20)
#define LEAST_PARTS 14

static enum kt_status check_layout(const struct kt_attention_layout *layout,
                                   const struct kt_attention_shape *shape, struct kt_error *error)
{
    const uint64_t most = UINT64_C(1) << 32;
    if (memcmp(&layout->shape, shape, sizeof *shape) != 0)
        return kt_fail(error, KT_E_PLUGIN, "layout() changed the requested shape");
    if (layout->max_queries < 1 || layout->max_queries > 65536)
        return kt_fail(error, KT_E_PLUGIN, "its layout has max_queries = %u; 1 to 65536 is possible",
                       layout->max_queries);
    if (layout->partial_stride < 64 || layout->partial_stride % 64 || layout->partial_stride > most ||
        layout->scratch_size > most)
        return kt_fail(
            error, KT_E_PLUGIN,
            "its layout has partial_stride = %llu and scratch_size = %llu; multiples of 64 from 64 "
            "on, and both to %llu, are possible",
            (unsigned long long)layout->partial_stride, (unsigned long long)layout->scratch_size,
            (unsigned long long)most);
    return KT_OK;
}

void kt_attention_tuned_subject(const struct kt_attention *attention, const struct kt_backend *backend,
                                struct kt_tuned_subject *subject)
{
    const struct kt_attention_ops *ops = KT_LEVEL_TABLE(backend->level, attention);
    const struct kt_attention_shape *shape = &attention->layout.shape;
    *subject = (struct kt_tuned_subject){
        .backend = backend,
        .n_tunables = KT_TUNABLES(ops, kt_attention_ops),
        .deterministic = kt_config_bool(attention->context->config, "core", "deterministic"),
    };
    subject->tunables = subject->n_tunables ? ops->tunables : NULL;
    (void)snprintf(subject->format, sizeof subject->format, "%s", kt_dtype_name(shape->key.dtype));
    (void)snprintf(subject->shape, sizeof subject->shape, "attention-%ux%ux%u", shape->n_heads,
                   shape->key_size, shape->value_size);
}

enum kt_status kt_attention_lay_out(const struct kt_attention *attention, const struct kt_backend *backend,
                                    struct kt_attention_layout *layout, struct kt_error *error)
{
    const struct kt_attention_shape *shape = &attention->layout.shape;
    struct kt_tuned_subject subject;
    kt_attention_tuned_subject(attention, backend, &subject);
    *layout = (struct kt_attention_layout){.deterministic = subject.deterministic};
    memcpy(&layout->shape, shape, sizeof *shape);
    kt_tuned_fill(&subject, attention->tuning, layout->tuned);
    error->message[0] = '\0';
    enum kt_status status =
        KT_LEVEL_TABLE(backend->level, attention)->layout(backend->instance, layout, error);
    if (status != KT_OK)
        return kt_fail_plugin(error, status, "rejected without a reason");
    status = check_layout(layout, shape, error);
    if (status == KT_OK)
        status = kt_tuned_check_values(subject.tunables, subject.n_tunables, layout->tuned, error);
    return status;
}

enum kt_status kt_attention_make_room(const struct kt_attention *attention,
                                      const struct kt_attention_layout *layout,
                                      struct kt_attention_buffers buffers[KT_MAX_NODES],
                                      struct kt_error *error)
{
    struct kt_context *context = attention->context;
    struct kt_kv_place place;
    kt_attention_gather_place(&attention->keys[0], &place);
    const uint64_t gathered = kt_attention_gather_size(&place);
    uint64_t need[KT_MAX_NODES];
    for (uint32_t n = 0; n < attention->n_nodes; n++) {
        struct kt_attention_buffers *own = &buffers[n];
        uint64_t threads = context->pool->subpool[n].n_threads;
        own->result = layout->max_queries * layout->partial_stride;
        own->thread_stride =
            kt_align64(layout->scratch_size) + 3 * own->result + (attention->gathers ? gathered : 0);
        own->parts = threads * own->thread_stride;
        own->n_parts = threads * (PARTS_SIZE / own->result + 1);
        own->n_parts = own->n_parts > LEAST_PARTS ? own->n_parts : LEAST_PARTS;
        own->size = own->parts + own->n_parts * own->result;
        need[n] = own->size;
    }
    return kt_arena_grow(&context->arena, context->topology, attention->n_nodes, need, 0, context->huge_pages,
                         error);
}
