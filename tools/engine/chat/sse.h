/* SPDX-License-Identifier: Apache-2.0 */
/* sse.h - events of a stream as servers send them (text/event-stream), from bytes that come in any pieces. */
#ifndef KT_ENGINE_CHAT_SSE_H
#define KT_ENGINE_CHAT_SSE_H

#include "tools/engine/base/buffer.h"

#include <kt/types.h>

struct kt_sse {
    struct kt_buffer line, data; /* the line that comes; the event's data so far */
    bool was_cr, has_data, has_begun;
};

/* Takes an event's data, at least one byte, which ends in a zero byte that `length` does not count. Not
 * KT_OK: the rest of the bytes is left. */
typedef enum kt_status kt_sse_take(void *user, char *data, size_t length, struct kt_error *error);

/* KT_E_FORMAT: a line or an event is longer than 4 MiB. */
enum kt_status kt_sse_add(struct kt_sse *sse, const char *bytes, size_t length, kt_sse_take *take, void *user,
                          struct kt_error *error);
void kt_sse_free(struct kt_sse *sse);

#endif
