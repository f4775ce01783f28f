/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend/tuning.h"

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_forbidden(const struct kt_tuned_subject *subject, uint32_t index)
{
    return subject->deterministic && subject->tunables[index].flags & KT_TUNABLE_BITS;
}

enum kt_status kt_tuning_info(const struct kt_tuned_subject *subject, const char *name,
                              const uint64_t tuned[KT_MAX_TUNABLES], uint32_t index,
                              struct kt_tunable_info *info, struct kt_error *error)
{
    const struct kt_backend *backend = subject->backend;
    if (index >= subject->n_tunables)
        return kt_fail(error, KT_E_RANGE, "%s: tunable %u: level %s of %s has %u", name, index,
                       backend->level->name, backend->name, subject->n_tunables);
    const struct kt_tunable *tunable = &subject->tunables[index];
    *info = (struct kt_tunable_info){
        .name = tunable->name,
        .what = tunable->what,
        .minimum = tunable->minimum,
        .maximum = tunable->maximum,
        .value = tuned[index],
        .doubling = (tunable->flags & KT_TUNABLE_DOUBLING) != 0,
        .bits = (tunable->flags & KT_TUNABLE_BITS) != 0,
        .forbidden = is_forbidden(subject, index),
    };
    (void)snprintf(info->section, sizeof info->section, "tuned.%s", backend->name);
    (void)snprintf(info->key, sizeof info->key, "%s.%s.%s.%s", backend->level->name, subject->format,
                   subject->shape, tunable->name);
    return KT_OK;
}

enum kt_status kt_tuning_choose(const struct kt_tuned_subject *subject, const char *name, const char *wanted,
                                uint32_t *index, uint64_t *value, struct kt_error *error)
{
    const struct kt_backend *backend = subject->backend;
    const char *names[KT_MAX_TUNABLES];
    uint32_t i = 0;
    for (; i < subject->n_tunables && (!wanted || strcmp(subject->tunables[i].name, wanted) != 0); i++)
        names[i] = subject->tunables[i].name;
    if (i == subject->n_tunables) {
        const char *nearest = wanted ? kt_nearest(wanted, names, i) : NULL;
        return kt_fail(error, KT_E_INVALID, "%s: level %s of %s has no tunable %s%s%s%s", name,
                       backend->level->name, backend->name, wanted ? wanted : "NULL",
                       nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    }
    const struct kt_tunable *tunable = &subject->tunables[i];
    if (*value != 0 && (*value < tunable->minimum || *value > tunable->maximum))
        return kt_fail(error, KT_E_RANGE, "%s: %s = %llu; %llu to %llu is possible, or 0 for the standard",
                       name, wanted, (unsigned long long)*value, (unsigned long long)tunable->minimum,
                       (unsigned long long)tunable->maximum);
    if (*value != 0 && is_forbidden(subject, i))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: %s changes at how many rows bits change, which core.deterministic forbids", name,
                       wanted);
    *index = i;
    *value = *value ? *value : KT_TUNING_STANDARD;
    return KT_OK;
}

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

void kt_tuning_describe(const struct kt_tuned_subject *subject, const uint64_t tuned[KT_MAX_TUNABLES],
                        const uint64_t standard[KT_MAX_TUNABLES], char *text, size_t size)
{
    bool in_force = false;
    text[0] = '\0';
    for (uint32_t i = 0; i < subject->n_tunables; i++) {
        const struct kt_tunable *tunable = &subject->tunables[i];
        const char *comma = *text ? ", " : "";
        const struct kt_setting *setting = kt_tuned_setting(subject, tunable->name);
        if (!setting || strtoull(setting->value, NULL, 10) == standard[i])
            continue;
        if (is_forbidden(subject, i)) {
            append(text, size, "%s%s ignored for core.deterministic", comma, tunable->name);
            continue;
        }
        in_force = true;
        append(text, size, "%s%s %llu instead of %llu", comma, tunable->name, (unsigned long long)tuned[i],
               (unsigned long long)standard[i]);
        if (tunable->flags & KT_TUNABLE_BITS)
            append(text, size, " (where bits change)");
    }
    const struct kt_setting *gain = in_force ? kt_tuned_setting(subject, KT_TUNED_GAIN) : NULL;
    if (gain)
        append(text, size, "; %.1f %% faster", (kt_number_read(gain->value, NULL) - 1) * 100);
}
