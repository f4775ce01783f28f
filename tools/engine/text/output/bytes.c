/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* reallocarray */
#include "tools/engine/text/output/bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct kt_bytes *bytes, size_t more)
{
    if (more <= bytes->room - bytes->length)
        return true;
    size_t room = bytes->room ? bytes->room : 64;
    while (room - bytes->length < more && room < SIZE_MAX / 2)
        room *= 2;
    char *data = room - bytes->length < more ? NULL : reallocarray(bytes->data, room, 1);
    if (!data) {
        bytes->failed = true;
        return false;
    }
    bytes->data = data;
    bytes->room = room;
    return true;
}

void kt_bytes_add(struct kt_bytes *bytes, const char *data, size_t length)
{
    if (length == 0 || !make_room(bytes, length))
        return;
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

const char *kt_bytes_string(struct kt_bytes *bytes)
{
    if (!make_room(bytes, 1))
        return "";
    bytes->data[bytes->length] = '\0';
    return bytes->data;
}

void kt_bytes_free(struct kt_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct kt_bytes){.data = NULL};
}
