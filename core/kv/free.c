/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv/free.h"

#include "core/kv/declare.h"

#include <stdlib.h>

void kt_kv_free(struct kt_kv *kv)
{
    for (uint32_t node = 0; node < kv->declared.n_nodes; node++) {
        kt_buffer_destroy(&kv->pages[node]);
        kt_buffer_destroy(&kv->states[node]);
    }
    kt_buffer_destroy(&kv->tables);
    kt_kv_declaration_free(&kv->declared);
    kt_lock_destroy(&kv->lock);
    kt_context_destroy(kv->context);
    free(kv);
}
