/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/tuned_file.h"

#include "core/base/error.h"
#include "core/config/config_schema.h"

#include <stdio.h>
#include <string.h>

void kt_tuned_file_begin(struct kt_tuned_file *file)
{
    char microcode[KT_CPU_MODEL_SIZE];
    *file = (struct kt_tuned_file){.reading = true};
    kt_cpu_model(file->own);
    kt_cpu_microcode(microcode);
    size_t length = strlen(file->own);
    if (*microcode)
        (void)snprintf(file->own + length, sizeof file->own - length, " %s", microcode);
}

enum kt_status kt_tuned_file_section(struct kt_tuned_file *file, const char *section, struct kt_error *error)
{
    bool tuned = kt_config_tuned_of(section) != NULL;
    if (tuned && !file->reading)
        return kt_fail(error, KT_E_CONFIG,
                       "[%s]: measured values belong in tuned.ini, in the folder of kt.ini", section);
    if (!tuned && file->reading)
        return kt_fail(error, KT_E_CONFIG,
                       "[%s]: this file has sections [tuned.NAME] only; other settings go to kt.ini",
                       section);
    file->begun = file->skips = file->may_microcode = false;
    return KT_OK;
}

/* Is `word` one of the words? */
static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words + strspn(words, " \t"); *at; at += strspn(at, " \t")) {
        size_t n = strcspn(at, " \t");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* Notes for which CPU the section is, if not for this one. */
static void pass_over(struct kt_tuned_file *file, const char *what, const char *value)
{
    file->skips = true;
    (void)snprintf(file->other, sizeof file->other, "%s%s", what, value);
}

enum kt_status kt_tuned_file_setting(struct kt_tuned_file *file, const char *section, const char *key,
                                     const char *value, bool *taken, struct kt_error *error)
{
    *taken = file->reading;
    if (!file->reading)
        return KT_OK;
    size_t model = strcspn(file->own, " ");
    const char *microcode = file->own + model + strspn(file->own + model, " ");
    if (!file->begun) {
        if (strcmp(key, "cpu") != 0)
            return kt_fail(error, KT_E_CONFIG, "[%s]: the first setting must be cpu, such as cpu = %.*s",
                           section, (int)model, file->own);
        file->begun = file->may_microcode = true;
        if (!has_word(value, file->own, model))
            pass_over(file, "CPU ", value);
        return KT_OK;
    }
    if (strcmp(key, "microcode") == 0) {
        if (!file->may_microcode)
            return kt_fail(error, KT_E_CONFIG, "[%s]: microcode must directly follow cpu", section);
        if (!file->skips && strcmp(value, microcode) != 0)
            pass_over(file, "microcode ", value);
    } else {
        *taken = file->skips;
    }
    file->may_microcode = false;
    return KT_OK;
}
