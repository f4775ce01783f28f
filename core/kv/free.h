/* SPDX-License-Identifier: Apache-2.0 */
/* free.h - the end of a cache. */
#ifndef KT_CORE_KV_FREE_H
#define KT_CORE_KV_FREE_H

#include "core/kv/cache.h"

void kt_kv_free(struct kt_kv *kv);

#endif
