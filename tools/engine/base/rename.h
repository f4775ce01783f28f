/* SPDX-License-Identifier: Apache-2.0 */
/* rename.h - a finished file gets its name. */
#ifndef KT_ENGINE_BASE_RENAME_H
#define KT_ENGINE_BASE_RENAME_H

#include <stdbool.h>

/** Renames a file that was synced, within its folder, and syncs that, so that the new name outlasts a failure
 * of power. False: errno says why. */
bool kt_rename_synced(const char *from, const char *to);

#endif
