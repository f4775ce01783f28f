/* SPDX-License-Identifier: Apache-2.0 */
/* breakers.c - tokens in whose text one of some texts stands. */
#define _GNU_SOURCE /* memmem */
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/fail.h"

#include <kt/sampling.h>
#include <kt/text.h>
#include <stdlib.h>
#include <string.h>

static bool holds_any(const struct kt_token *token, const char *const *texts, uint64_t n_texts)
{
    for (uint64_t i = 0; i < n_texts; i++)
        if (memmem(token->text, (size_t)token->length, texts[i], strlen(texts[i])))
            return true;
    return false;
}

enum kt_status kt_sampling_breakers(const struct kt_tokenizer *tokenizer, const char *const *texts,
                                    uint64_t n_texts, int32_t **ids, uint64_t *n_ids, struct kt_error *error)
{
    struct kt_tokenizer_info info;
    int32_t *found = NULL;
    size_t capacity = 0, n = 0;
    if (!tokenizer || (!texts && n_texts > 0) || !ids || !n_ids)
        return kt_engine_fail(error, KT_E_INVALID, "kt_sampling_breakers: a pointer is NULL");
    for (uint64_t i = 0; i < n_texts; i++)
        if (!texts[i] || !texts[i][0])
            return kt_engine_fail(error, KT_E_INVALID, "sequence breaker %llu is empty",
                                  (unsigned long long)i);
    kt_tokenizer_info(tokenizer, &info);
    for (uint32_t id = 0; id < info.n_tokens; id++) {
        struct kt_token token;
        if (kt_tokenizer_token(tokenizer, id, &token, NULL) != KT_OK || !holds_any(&token, texts, n_texts))
            continue;
        int32_t *grown = kt_array_grow(found, &capacity, n + 1, sizeof(*found));
        if (!grown) {
            free(found);
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for %zu sequence breakers", n + 1);
        }
        found = grown;
        found[n++] = (int32_t)id;
    }
    *ids = found;
    *n_ids = n;
    return KT_OK;
}
