/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - the tunables of attention: listed, changed, in words. */
#include "core/attention/lay_out.h"
#include "core/backend/tuning.h"
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/machine/pool.h"

#include <kt/tune.h>
#include <string.h>

enum kt_status kt_attention_tunable(const struct kt_attention *attention, uint32_t index,
                                    struct kt_tunable_info *info, struct kt_error *error)
{
    struct kt_tuned_subject subject;
    if (!attention || !info)
        return kt_fail(error, KT_E_INVALID, "kt_attention_tunable: attention and info must not be NULL");
    kt_attention_tuned_subject(attention, attention->backend, &subject);
    return kt_tuning_info(&subject, attention->name, attention->layout.tuned, index, info, error);
}

/* The pool's lock is held: no forward runs, and results of parts live in one forward only. */
static enum kt_status lay_out_again(struct kt_attention *attention, struct kt_error *error)
{
    struct kt_attention_layout layout;
    struct kt_attention_buffers buffers[KT_MAX_NODES];
    enum kt_status status = kt_attention_lay_out(attention, attention->backend, &layout, error);
    if (status == KT_OK)
        status = kt_attention_make_room(attention, &layout, buffers, error);
    if (status != KT_OK)
        return status;
    attention->layout = layout;
    memcpy(attention->buffers, buffers, attention->n_nodes * sizeof *buffers);
    return KT_OK;
}

enum kt_status kt_attention_tune(struct kt_attention *attention, const char *name, uint64_t value,
                                 struct kt_error *error)
{
    struct kt_tuned_subject subject;
    struct kt_error why = {0};
    uint32_t i = 0;
    if (!attention)
        return kt_fail(error, KT_E_INVALID, "the attention to be tuned is NULL");
    kt_attention_tuned_subject(attention, attention->backend, &subject);
    enum kt_status status = kt_tuning_choose(&subject, attention->name, name, &i, &value, error);
    if (status == KT_OK)
        status = kt_pool_lock(attention->context->pool, error);
    if (status != KT_OK)
        return status;
    const uint64_t was = attention->tuning[i];
    attention->tuning[i] = value;
    status = lay_out_again(attention, error ? error : &why);
    if (status != KT_OK)
        attention->tuning[i] = was;
    kt_pool_unlock(attention->context->pool);
    return status;
}

void kt_attention_tuned(const struct kt_attention *attention, char *text, size_t size)
{
    struct kt_tuned_subject subject;
    struct kt_attention standard = *attention;
    struct kt_attention_layout layout;
    struct kt_error error;
    text[0] = '\0';
    kt_attention_tuned_subject(attention, attention->backend, &subject);
    for (uint32_t i = 0; i < subject.n_tunables; i++)
        standard.tuning[i] = KT_TUNING_STANDARD;
    if (subject.n_tunables > 0 &&
        kt_attention_lay_out(&standard, attention->backend, &layout, &error) == KT_OK)
        kt_tuning_describe(&subject, attention->layout.tuned, layout.tuned, text, size);
}
