/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend/tunables.h"

#include "core/base/error.h"
#include "core/base/option.h"

#include <string.h>

enum { NAME_LIMIT = 31 };

static enum kt_status check_tunable(const char *level, const struct kt_tunable *tunables, uint32_t index,
                                    struct kt_error *error)
{
    const struct kt_tunable *tunable = &tunables[index];
    if (!tunable->name || !kt_option_is_word(tunable->name, NAME_LIMIT) ||
        strcmp(tunable->name, KT_TUNED_GAIN) == 0 || !kt_option_is_text(tunable->what))
        return kt_fail(error, KT_E_PLUGIN,
                       "tunable %u of its level %s has no description, or no name of lower-case letters, "
                       "digits and _ (gain is taken)",
                       index, level);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(tunables[i].name, tunable->name) == 0)
            return kt_fail(error, KT_E_PLUGIN, "its level %s has two tunables %s", level, tunable->name);
    if (tunable->minimum < 1 || tunable->minimum > tunable->maximum || tunable->maximum > INT64_MAX ||
        (tunable->standard && tunable->standard < tunable->minimum) || tunable->standard > tunable->maximum)
        return kt_fail(error, KT_E_PLUGIN,
                       "tunable %s of its level %s has the range %llu to %llu and the standard %llu; a range "
                       "starts at 1 or above, and has the standard, or that is 0",
                       tunable->name, level, (unsigned long long)tunable->minimum,
                       (unsigned long long)tunable->maximum, (unsigned long long)tunable->standard);
    return KT_OK;
}

enum kt_status kt_tuned_check_list(const char *level, const struct kt_tunable *tunables, uint32_t n_tunables,
                                   struct kt_error *error)
{
    if (n_tunables > KT_MAX_TUNABLES || (n_tunables > 0 && !tunables))
        return kt_fail(error, KT_E_PLUGIN, "its level %s has %u tunables%s; at most %d are possible", level,
                       n_tunables, tunables ? "" : " and no list of them", KT_MAX_TUNABLES);
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < n_tunables && status == KT_OK; i++)
        status = check_tunable(level, tunables, i, error);
    return status;
}
