/* SPDX-License-Identifier: Apache-2.0 */
/* tuning.h - the tunables of what a program has made, a layer or attention: listed, chosen, in words. */
#ifndef KT_CORE_BACKEND_TUNING_H
#define KT_CORE_BACKEND_TUNING_H

#include "core/backend/tuned.h"

#include <kt/tune.h>

/* Tunable `index` of what is called `name`, with the values in force; KT_E_RANGE behind the last one. */
enum kt_status kt_tuning_info(const struct kt_tuned_subject *subject, const char *name,
                              const uint64_t tuned[KT_MAX_TUNABLES], uint32_t index,
                              struct kt_tunable_info *info, struct kt_error *error);

/* Which tunable is `tunable`, and may it have this value? *value, where it is 0, becomes
 * KT_TUNING_STANDARD. */
enum kt_status kt_tuning_choose(const struct kt_tuned_subject *subject, const char *name, const char *tunable,
                                uint32_t *index, uint64_t *value, struct kt_error *error);

/* For people, which configured values are in force: "prefetch_bytes 2048 instead of 1024; 6.0 % faster"; "":
 * none. */
void kt_tuning_describe(const struct kt_tuned_subject *subject, const uint64_t tuned[KT_MAX_TUNABLES],
                        const uint64_t standard[KT_MAX_TUNABLES], char *text, size_t size);

#endif
