/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend/tuned.h"

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/suggest.h"
#include "core/config/config.h"

#include <kt/plugin_attention.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION_SIZE = 48, PARTS = 4 };

static void name_section(const struct kt_backend *backend, char section[SECTION_SIZE])
{
    (void)snprintf(section, SECTION_SIZE, "tuned.%s", backend->name);
}

/* ---- what is configured --------------------------------------------------------------------- */

const struct kt_setting *kt_tuned_setting(const struct kt_tuned_subject *subject, const char *name)
{
    const char *any = "*";
    const char *const places[][2] = {{subject->format, subject->shape},
                                     {subject->format, any},
                                     {any, subject->shape},
                                     {any, any}};
    const struct kt_setting *found = NULL;
    char section[SECTION_SIZE], key[192];
    name_section(subject->backend, section);
    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        (void)snprintf(key, sizeof key, "%s.%s.%s.%s", subject->backend->level->name, places[i][0],
                       places[i][1], name);
        found = kt_config_find(subject->backend->registry->config, section, key);
    }
    return found;
}

static uint64_t find_value(const struct kt_tuned_subject *subject, uint32_t index)
{
    const struct kt_tunable *tunable = &subject->tunables[index];
    const struct kt_setting *setting = kt_tuned_setting(subject, tunable->name);
    bool ignored = subject->deterministic && tunable->flags & KT_TUNABLE_BITS;
    return setting && !ignored ? strtoull(setting->value, NULL, 10) : tunable->standard;
}

void kt_tuned_fill(const struct kt_tuned_subject *subject, const uint64_t tuning[KT_MAX_TUNABLES],
                   uint64_t tuned[KT_MAX_TUNABLES])
{
    for (uint32_t i = 0; i < subject->n_tunables; i++)
        if (tuning[i] == KT_TUNING_STANDARD)
            tuned[i] = subject->tunables[i].standard;
        else
            tuned[i] = tuning[i] ? tuning[i] : find_value(subject, i);
}

/* ---- what layout() left --------------------------------------------------------------------- */

enum kt_status kt_tuned_check_values(const struct kt_tunable *tunables, uint32_t n_tunables,
                                     const uint64_t tuned[KT_MAX_TUNABLES], struct kt_error *error)
{
    for (uint32_t i = 0; i < n_tunables; i++)
        if (tuned[i] < tunables[i].minimum || tuned[i] > tunables[i].maximum)
            return kt_fail(error, KT_E_PLUGIN, "its layout has %s = %llu; %llu to %llu is possible",
                           tunables[i].name, (unsigned long long)tuned[i],
                           (unsigned long long)tunables[i].minimum, (unsigned long long)tunables[i].maximum);
    return KT_OK;
}

/* ---- whether they fit ----------------------------------------------------------------------- */

/* Names of what can be tuned at a level. */
struct names {
    const char *name[2 * KT_MAX_TUNABLES + 1];
    size_t n;
};

/* The tunable of this name among those of ops and attention; NULL, with all names, if there is none. */
static const struct kt_tunable *find_tunable(const struct kt_level *level, const char *name,
                                             struct names *names)
{
    const struct kt_attention_ops *attention = KT_LEVEL_TABLE(level, attention);
    const struct {
        const struct kt_tunable *tunables;
        uint32_t n;
    } lists[] = {
        {level->ops && KT_TUNABLES(level->ops, kt_ops) ? level->ops->tunables : NULL,
         level->ops ? KT_TUNABLES(level->ops, kt_ops) : 0},
        {attention && KT_TUNABLES(attention, kt_attention_ops) ? attention->tunables : NULL,
         attention ? KT_TUNABLES(attention, kt_attention_ops) : 0},
    };
    names->n = 0;
    for (size_t l = 0; l < 2; l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            if (strcmp(lists[l].tunables[i].name, name) == 0)
                return &lists[l].tunables[i];
            names->name[names->n++] = lists[l].tunables[i].name;
        }
    return NULL;
}

static enum kt_status check_number(const struct kt_setting *setting, const struct kt_tunable *tunable,
                                   struct kt_error *error)
{
    char *end;
    bool digits = setting->value[0] >= '0' && setting->value[0] <= '9';
    unsigned long long value = strtoull(setting->value, &end, 10);
    if (digits && *end == '\0' && strlen(setting->value) < 20 && value >= tunable->minimum &&
        value <= tunable->maximum)
        return KT_OK;
    return kt_fail(error, KT_E_CONFIG, "%s: %s = \"%s\": must be a number from %llu to %llu", setting->origin,
                   setting->key, setting->value, (unsigned long long)tunable->minimum,
                   (unsigned long long)tunable->maximum);
}

static enum kt_status check_gain(const struct kt_setting *setting, struct kt_error *error)
{
    char *end;
    double gain = kt_number_read(setting->value, &end);
    if (setting->value[0] != '\0' && *end == '\0' && gain > 0 && gain < 1000)
        return KT_OK;
    return kt_fail(error, KT_E_CONFIG, "%s: %s = \"%s\": must be a ratio of times above 0, such as 1.06",
                   setting->origin, setting->key, setting->value);
}

static const struct kt_level *find_level(const struct kt_plugin *plugin, const char *name)
{
    for (uint32_t i = 0; i < plugin->n_levels; i++)
        if (strcmp(plugin->levels[i]->name, name) == 0)
            return plugin->levels[i];
    return NULL;
}

const struct kt_level *kt_tuned_level(const struct kt_backend *backend, const struct kt_setting **setting)
{
    char section[SECTION_SIZE];
    name_section(backend, section);
    *setting = kt_config_find(backend->registry->config, section, "level");
    const struct kt_level *level = *setting ? find_level(backend->plugin, (*setting)->value) : NULL;
    return level && (level->cpu & ~backend->registry->caps.cpu) == 0 ? level : NULL;
}

/* LEVEL.FORMAT.SHAPE.TUNABLE, cut in place. */
static bool cut_key(char *key, const char *part[PARTS])
{
    size_t n = 0;
    for (char *at = key; n < PARTS; n++) {
        part[n] = at;
        at += strcspn(at, ".");
        if (at == part[n])
            return false;
        if (*at == '\0')
            return n + 1 == PARTS;
        *at++ = '\0';
    }
    return false;
}

static enum kt_status fail_level(const struct kt_backend *backend, const struct kt_setting *setting,
                                 const char *level, struct kt_error *error)
{
    char hint[KT_HINT_SIZE];
    return kt_fail(error, KT_E_CONFIG, "%s: %s has no level \"%s\"; it has %s%s", setting->origin,
                   backend->name, level, backend->levels, kt_hint(level, backend->levels, hint, sizeof hint));
}

static enum kt_status check_setting(const struct kt_backend *backend, const struct kt_setting *setting,
                                    struct kt_error *error)
{
    char key[192];
    const char *part[PARTS];
    if (strcmp(setting->key, "level") == 0)
        return find_level(backend->plugin, setting->value)
                   ? KT_OK
                   : fail_level(backend, setting, setting->value, error);
    (void)snprintf(key, sizeof key, "%s", setting->key);
    if (strlen(setting->key) >= sizeof key || !cut_key(key, part))
        return kt_fail(error, KT_E_CONFIG,
                       "%s: [%s] has no setting \"%s\"; the form is LEVEL.FORMAT.SHAPE.TUNABLE, such as "
                       "avx2.q4_k.experts-2048x768.prefetch_bytes",
                       setting->origin, setting->section, setting->key);
    const struct kt_level *level = find_level(backend->plugin, part[0]);
    if (!level)
        return fail_level(backend, setting, part[0], error);
    if (strcmp(part[3], KT_TUNED_GAIN) == 0)
        return check_gain(setting, error);
    struct names names;
    const struct kt_tunable *tunable = find_tunable(level, part[3], &names);
    if (tunable)
        return check_number(setting, tunable, error);
    const char *nearest = kt_nearest(part[3], names.name, names.n);
    return kt_fail(error, KT_E_CONFIG,
                   "%s: level %s of %s has no tunable \"%s\"%s%s%s; kt tune --show lists "
                   "them",
                   setting->origin, part[0], backend->name, part[3], nearest ? ", did you mean " : "",
                   nearest ? nearest : "", nearest ? "?" : "");
}

enum kt_status kt_tuned_check_settings(const struct kt_backend *backend, struct kt_error *error)
{
    const struct kt_config *config = backend->registry->config;
    char section[SECTION_SIZE];
    enum kt_status status = KT_OK;
    name_section(backend, section);
    for (size_t i = 0; i < kt_config_setting_count(config) && status == KT_OK; i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.section, section) == 0)
            status = check_setting(backend, &setting, error);
    }
    return status;
}
