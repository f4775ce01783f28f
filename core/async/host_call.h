/* SPDX-License-Identifier: Apache-2.0 */
/* host_call.h - what the library itself asks of a call. */
#ifndef KT_CORE_ASYNC_HOST_CALL_H
#define KT_CORE_ASYNC_HOST_CALL_H

#include <kt/kt.h>

/* The name of its layer, for messages. */
const char *kt_host_call_name(const struct kt_host_call *call);

#endif
