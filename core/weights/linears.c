/* SPDX-License-Identifier: Apache-2.0 */
/* linears.c - which packed linears a store holds. */
#include "core/base/error.h"
#include "core/weights/store/store_read.h"
#include "core/weights/table/checkpoint.h"

#include <inttypes.h>
#include <kt/linear.h>

uint64_t kt_checkpoint_linear_count(const struct kt_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->n_linears : 0;
}

static enum kt_status check(const struct kt_checkpoint *checkpoint, const void *result,
                            struct kt_error *error)
{
    if (checkpoint && result)
        return KT_OK;
    return kt_fail(error, KT_E_INVALID, "the %s is NULL", checkpoint ? "result" : "checkpoint");
}

static void describe(const struct kt_stored *stored, struct kt_stored_linear_info *info)
{
    *info = (struct kt_stored_linear_info){
        .name = stored->linear,
        .rows = stored->rows,
        .cols = stored->cols,
        .dtype = stored->format[KT_DOWN].dtype,
        .has_bias = stored->bias != NULL,
        .size = stored->object_size[KT_STAGE_DOWN],
        .stored_backend = stored->backend,
        .stored_form = stored->form,
        .stored_source = stored->source,
    };
}

enum kt_status kt_checkpoint_linear(const struct kt_checkpoint *checkpoint, uint64_t index,
                                    struct kt_stored_linear_info *info, struct kt_error *error)
{
    enum kt_status status = check(checkpoint, info, error);
    if (status == KT_OK && index >= checkpoint->n_linears)
        status =
            kt_fail(error, KT_E_RANGE, "%s: linear %" PRIu64 " was asked for; %" PRIu64 " are packed in it",
                    checkpoint->label, index, checkpoint->n_linears);
    if (status == KT_OK)
        describe(checkpoint->linear[index], info);
    return status;
}

enum kt_status kt_checkpoint_linear_find(const struct kt_checkpoint *checkpoint, const char *name,
                                         struct kt_stored_linear_info *info, struct kt_error *error)
{
    enum kt_status status = check(checkpoint, info, error);
    if (status == KT_OK && !name)
        status = kt_fail(error, KT_E_INVALID, "%s: the name of a linear is NULL", checkpoint->label);
    if (status != KT_OK)
        return status;
    const struct kt_stored *stored = kt_stored_linear(checkpoint, name);
    if (!stored)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: no linear \"%.200s\" is packed in it; %" PRIu64 " are",
                       checkpoint->label, name, checkpoint->n_linears);
    describe(stored, info);
    return KT_OK;
}
