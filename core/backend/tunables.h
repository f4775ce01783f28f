/* SPDX-License-Identifier: Apache-2.0 */
/* tunables.h - checks what a plugin says of its tunables. */
#ifndef KT_CORE_BACKEND_TUNABLES_H
#define KT_CORE_BACKEND_TUNABLES_H

#include <kt/plugin.h>

/* The part of a key that tells how much faster the values of a level, format and shape are: no tunable has
 * this name. */
#define KT_TUNED_GAIN "gain"

enum kt_status kt_tuned_check_list(const char *level, const struct kt_tunable *tunables, uint32_t n_tunables,
                                   struct kt_error *error);

#endif
