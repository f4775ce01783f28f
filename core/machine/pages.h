/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - memory that exists, but whose pages this process may not have yet. */
#ifndef KT_CORE_MACHINE_PAGES_H
#define KT_CORE_MACHINE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Brings the pages of readable memory in, so that later reads fault no more. false: the system says that some
 * of cannot be read, as the mapped file has become shorter. */
bool kt_pages_read(const void *data, uint64_t size);

#endif
