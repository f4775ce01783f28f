/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h - opens a file only if nobody but root and the caller can have put it there. */
#ifndef KT_CORE_BASE_TRUST_H
#define KT_CORE_BASE_TRUST_H

#include <kt/types.h>

/**
 * Opens the regular file that the absolute path leads to, for reading and close-on-exec, and gives
 * its real path (to be freed). Links are resolved first. The file, each folder above it, and a link
 * with its folders must belong to root or the effective user and not be writable by group or
 * others; a root-owned sticky folder such as /tmp may stand above. KT_E_NOT_FOUND: there is none;
 * KT_E_PLUGIN names the first file or folder that is not safe, and what to do.
 */
enum kt_status kt_trust_open(const char *path, char **real, int *fd, struct kt_error *error);

#endif
