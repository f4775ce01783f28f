/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - who uses which page. The cache's lock is held in all calls. */
#ifndef KT_CORE_KV_PAGES_H
#define KT_CORE_KV_PAGES_H

#include "core/kv/cache.h"

/* Fills a part of a page table with free pages, of which there are enough, and makes them zero. */
void kt_kv_pages_take(struct kt_kv *kv, uint32_t *pages, uint32_t n);

/* Replaces a page of a table by a copy in a free page, of which there is one; the old page has a user less.
 */
void kt_kv_page_copy(struct kt_kv *kv, uint32_t *page);

/* Each page has a user more, or less: a page without any is free. */
void kt_kv_pages_share(struct kt_kv *kv, const uint32_t *pages, uint32_t n);
void kt_kv_pages_drop(struct kt_kv *kv, const uint32_t *pages, uint32_t n);

/* Pages that would become free if they were dropped. */
uint32_t kt_kv_pages_unshared(const struct kt_kv *kv, const uint32_t *pages, uint32_t n);

/* States become those of another slot; of the same one: zero. */
void kt_kv_states_set(struct kt_kv *kv, uint32_t slot, uint32_t source);

#endif
