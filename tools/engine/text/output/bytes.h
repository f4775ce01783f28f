/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - a growing run of bytes. */
#ifndef KT_ENGINE_TEXT_OUTPUT_BYTES_H
#define KT_ENGINE_TEXT_OUTPUT_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/** All 0 is empty. */
struct kt_bytes {
    char *data;
    size_t length;
    size_t room;
    bool failed; /**< memory was short: what was added then is lost */
};

void kt_bytes_add(struct kt_bytes *bytes, const char *data, size_t length);
void kt_bytes_free(struct kt_bytes *bytes);

/** Ends them by a zero byte, which `length` does not count: "" where memory is short. */
const char *kt_bytes_string(struct kt_bytes *bytes);

#endif
