/* SPDX-License-Identifier: Apache-2.0 */
/* byte_map.h - the characters by which byte-level vocabularies write bytes, GPT-2's. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_BYTE_MAP_H
#define KT_ENGINE_TEXT_TOKENIZER_BYTE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/** The bytes that text[0 .. length - 1] stands for; `out` has room for `length`. False: a character stands
 * for none. */
bool kt_byte_map_read(const char *text, size_t length, char *out, size_t *out_length);

#endif
