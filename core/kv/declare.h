/* SPDX-License-Identifier: Apache-2.0 */
/* declare.h - checks what a cache is declared to keep, and places it. */
#ifndef KT_CORE_KV_DECLARE_H
#define KT_CORE_KV_DECLARE_H

#include "core/kv/cache.h"

enum { KT_KV_FIELD_WORDS = 6 };

enum kt_status kt_kv_declare(const struct kt_kv_params *params, uint32_t n_nodes,
                             struct kt_kv_declaration *declared, struct kt_error *error);
void kt_kv_declaration_free(struct kt_kv_declaration *declared);

/* Finds a field, and checks heads head .. head + n_heads - 1 of it. */
enum kt_status kt_kv_find(const struct kt_kv_declaration *declared, uint32_t kind, uint32_t layer,
                          uint32_t field, uint32_t head, uint32_t n_heads, const struct kt_kv_spot **spot,
                          struct kt_error *error);

/* "8 heads of 128 q8_0, as keys" */
void kt_kv_field_text(const struct kt_kv_field *field, char *text, size_t size);

/* KT_E_UNSUPPORTED, and what differs, if the words of a file are not those of the declaration. */
enum kt_status kt_kv_compare(const struct kt_kv_declaration *declared, const uint32_t *words,
                             uint64_t n_words, struct kt_error *error);

#endif
