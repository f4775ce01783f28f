/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/session_seal.h"
#include "core/kv/sequence_file.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void session_seal(uint8_t *data, size_t size)
{
    struct kt_kv_header header;
    if (size < sizeof header)
        return;
    memcpy(&header, data, sizeof header);
    header.checksum = XXH3_64bits(&header, offsetof(struct kt_kv_header, checksum));
    memcpy(data, &header, sizeof header);
    uint64_t at = sizeof header, rest = header.declaration_size + header.model_size + header.note_size;
    if (size - at < 8 || rest > size - at - 8)
        return;
    uint64_t sum = XXH3_64bits_withSeed(data + at, (size_t)rest, header.checksum);
    memcpy(data + at + rest, &sum, 8);
    at += rest + 8;
    for (uint64_t page = 0; at + 8 <= size && header.page_bytes <= size - at - 8; page++) {
        sum = XXH3_64bits_withSeed(data + at, (size_t)header.page_bytes, page);
        memcpy(data + at + header.page_bytes, &sum, 8);
        at += header.page_bytes + 8;
    }
}
