/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - services for a plugin under test. */
#ifndef KT_CHECKKERNEL_HOST_H
#define KT_CHECKKERNEL_HOST_H

#include <kt/plugin.h>

extern const struct kt_host check_host;
/* Blocks that were allocated and not released. */
extern int check_allocated;
/* The next service that can fail so does, KT_E_NOMEM or KT_E_IO; then it is KT_OK. */
extern enum kt_status check_service_fails;

#endif
