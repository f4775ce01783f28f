/* SPDX-License-Identifier: Apache-2.0 */
/* form.h - one row of one head, in the layouts of <kt/kv.h>. */
#ifndef KT_CORE_KV_FORM_H
#define KT_CORE_KV_FORM_H

#include "core/kv/cache.h"

/* Writes row `t` of the page whose numbers of this head begin at `head`; `from` has the field's width of
 * numbers of `dtype`, F32, BF16 or F16. NULL: zeros. */
void kt_kv_row_put(const struct kt_kv_spot *spot, char *head, uint32_t t, const void *from, uint32_t dtype);

void kt_kv_row_get(const struct kt_kv_spot *spot, const char *head, uint32_t t, float *to);

#endif
