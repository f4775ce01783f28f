/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer/tuned_text.h"

#include "core/base/number.h"
#include "core/layer/lay_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends to a text; what does not fit is left out. */
KT_PRINTF(3, 4)
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    locale_t before = kt_number_begin();
    int n = vsnprintf(text + used, size - used, format, arguments);
    kt_number_end(before);
    va_end(arguments);
    if (n < 0 || (size_t)n >= size - used)
        text[used] = '\0';
}

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
    bool in_force = false;
    text[0] = '\0';
    kt_layer_tuned_subject(layer, backend, &layout->shape, &subject);
    if (subject.n_tunables == 0 || !lay_out_standard(&subject, layout, &standard))
        return;
    for (uint32_t i = 0; i < subject.n_tunables; i++) {
        const struct kt_tunable *tunable = &subject.tunables[i];
        const char *comma = *text ? ", " : "";
        const struct kt_setting *setting = kt_tuned_setting(&subject, tunable->name);
        if (!setting || strtoull(setting->value, NULL, 10) == standard.tuned[i])
            continue;
        if (subject.deterministic && tunable->flags & KT_TUNABLE_BITS) {
            append(text, KT_TUNED_SIZE, "%s%s ignored for core.deterministic", comma, tunable->name);
            continue;
        }
        in_force = true;
        append(text, KT_TUNED_SIZE, "%s%s %llu instead of %llu", comma, tunable->name,
               (unsigned long long)layout->tuned[i], (unsigned long long)standard.tuned[i]);
        if (tunable->flags & KT_TUNABLE_BITS)
            append(text, KT_TUNED_SIZE, " (where bits change)");
    }
    const struct kt_setting *gain = in_force ? kt_tuned_setting(&subject, KT_TUNED_GAIN) : NULL;
    if (gain)
        append(text, KT_TUNED_SIZE, "; %.1f %% faster", (kt_number_read(gain->value, NULL) - 1) * 100);
}
