/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/chat/sse.h"
#include "tools/engine/base/fail.h"

#include <string.h>

#define MOST ((size_t)4 << 20) /* bytes of a line, and of an event */

/* A line without its end; an empty one ends the event. */
static enum kt_status take_line(struct kt_sse *sse, kt_sse_take *take, void *user, struct kt_error *error)
{
    static const char field[] = "data:";
    const size_t n = sizeof(field) - 1;
    const char *text = sse->line.data;
    size_t length = sse->line.length;
    sse->line.length = 0;
    if (!sse->has_begun && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        length -= 3;
    }
    sse->has_begun = true;
    if (length == 0) {
        length = sse->data.length;
        sse->has_data = false;
        sse->data.length = 0;
        if (length == 0)
            return KT_OK;
        sse->data.data[length] = '\0';
        return take(user, sse->data.data, length, error);
    }
    if (length < n || memcmp(text, field, n) != 0)
        return KT_OK; /* a comment, which keeps the connection alive, or another field */
    text += n;
    length -= n;
    if (length > 0 && *text == ' ') {
        text++;
        length--;
    }
    if (sse->data.length + length > MOST)
        return kt_engine_fail(error, KT_E_FORMAT, "an event of the stream is longer than %zu MiB",
                              MOST >> 20);
    bool done = (!sse->has_data || kt_buffer_add(&sse->data, "\n", 1)) &&
                kt_buffer_add(&sse->data, text, length) && kt_buffer_reserve(&sse->data, 1);
    sse->has_data = true;
    return done ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for the answer");
}

enum kt_status kt_sse_add(struct kt_sse *sse, const char *bytes, size_t length, kt_sse_take *take, void *user,
                          struct kt_error *error)
{
    enum kt_status status = KT_OK;
    while (length > 0 && status == KT_OK) {
        /* A line ends with LF, CR, or both of them. */
        if (sse->was_cr && *bytes == '\n') {
            sse->was_cr = false;
            bytes++;
            length--;
            continue;
        }
        size_t n = 0;
        while (n < length && bytes[n] != '\n' && bytes[n] != '\r')
            n++;
        if (sse->line.length + n > MOST)
            return kt_engine_fail(error, KT_E_FORMAT, "a line of the stream is longer than %zu MiB",
                                  MOST >> 20);
        if (!kt_buffer_add(&sse->line, bytes, n))
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for the answer");
        sse->was_cr = n < length && bytes[n] == '\r';
        bool is_whole = n < length;
        bytes += n + is_whole;
        length -= n + is_whole;
        if (is_whole)
            status = take_line(sse, take, user, error);
    }
    return status;
}

void kt_sse_free(struct kt_sse *sse)
{
    kt_buffer_free(&sse->line);
    kt_buffer_free(&sse->data);
}
