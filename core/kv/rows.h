/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the rows of a sequence. */
#ifndef KT_CORE_KV_ROWS_H
#define KT_CORE_KV_ROWS_H

#include "core/kv/cache.h"

/* Makes rows zero that belong to a token from `tokens` on and to pages before `end_page`, all in pages that
 * no other sequence has. */
void kt_kv_rows_clear(struct kt_kv_sequence *sequence, uint64_t tokens, uint64_t end_page);

#endif
