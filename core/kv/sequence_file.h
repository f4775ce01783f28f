/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence_file.h - the file of a sequence, little-endian:
 *
 *     struct kt_kv_header
 *     declaration      u32s: the number of layers; of each layer its number of fields; of each field kind,
 *                      layout, dtype, heads, width, stride
 *     model, note      bytes
 *     checksum         u64, XXH3 of the three, seeded with that of the header
 *     pages            page_bytes each, the heads of all fields of all layers in order, and a checksum of
 *                      them, seeded with the number of the page
 *     states           state_bytes in the same order, and a checksum, seeded with the number of pages; only
 *                      if state_bytes is not 0
 *
 * Nodes and page numbers of the cache that wrote it do not occur.
 */
#ifndef KT_CORE_KV_SEQUENCE_FILE_H
#define KT_CORE_KV_SEQUENCE_FILE_H

#include <stdint.h>

#define KT_KV_MAGIC "KTKVSEQ\n"
#define KT_KV_VERSION 1

struct kt_kv_header {
    char magic[8];
    uint32_t version;
    uint32_t page_tokens;
    uint64_t tokens;
    uint64_t page_bytes, state_bytes;
    uint64_t declaration_size, model_size, note_size;
    uint64_t fingerprint;
    uint64_t checksum; /* XXH3 of what stands before it */
};

_Static_assert(sizeof(struct kt_kv_header) == 80, "the header has no gaps");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they lie in memory");

#endif
