/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer/tuned_text.h"

#include "core/backend/tuning.h"
#include "core/layer/lay_out.h"

#include <string.h>

/* The layout with standards; false: the backend refuses it. */
static bool lay_out_standard(const struct kt_tuned_subject *subject, const struct kt_layout *layout,
                             struct kt_layout *standard)
{
    const struct kt_backend *backend = subject->backend;
    struct kt_error error;
    *standard = (struct kt_layout){.stored = layout->stored,
                                   .compact = layout->compact,
                                   .deterministic = layout->deterministic};
    memcpy(&standard->shape, &layout->shape, sizeof layout->shape);
    for (uint32_t i = 0; i < subject->n_tunables; i++)
        standard->tuned[i] = subject->tunables[i].standard;
    if (backend->level->ops->layout(backend->instance, standard, &error) != KT_OK)
        return false;
    kt_layout_release(backend, standard);
    return true;
}

void kt_tuned_describe(const struct kt_layer *layer, const struct kt_backend *backend,
                       const struct kt_layout *layout, char text[KT_TUNED_SIZE])
{
    struct kt_tuned_subject subject;
    struct kt_layout standard;
    text[0] = '\0';
    kt_layer_tuned_subject(layer, backend, &layout->shape, &subject);
    if (subject.n_tunables > 0 && lay_out_standard(&subject, layout, &standard))
        kt_tuning_describe(&subject, layout->tuned, standard.tuned, text, KT_TUNED_SIZE);
}
