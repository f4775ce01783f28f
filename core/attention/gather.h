/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - rows of plain keys, copied into blocks of keys as plugins want them. */
#ifndef KT_CORE_ATTENTION_GATHER_H
#define KT_CORE_ATTENTION_GATHER_H

#include <kt/plugin_attention.h>

/* The place of KT_ATTENTION_CHUNK gathered rows: pages 0, 1, ... follow each other from `base` on, which the
 * caller sets. `plain` is the place that rows come from. */
void kt_attention_gather_place(const struct kt_kv_place *plain, struct kt_kv_place *place);

/* Bytes of all its pages. */
uint64_t kt_attention_gather_size(const struct kt_kv_place *place);

/* Copies n rows of a sequence to rows 0 .. n - 1 of `to`, whose last page is filled up with zeros: rows[0]
 * .. rows[n - 1], or with NULL rows first .. first + n - 1. */
void kt_attention_gather(const struct kt_kv_place *from, const uint32_t *pages, const uint32_t *rows,
                         uint64_t first, uint32_t n, const struct kt_kv_place *to);

#endif
