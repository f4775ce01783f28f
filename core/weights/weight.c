/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c - weights of linears, norms and embeddings by their names, the same for every format. */
#include "core/base/error.h"
#include "core/weights/model/beside.h"
#include "core/weights/store/store_read.h"
#include "core/weights/table/checkpoint.h"
#include "core/weights/weights.h"

#include <kt/model.h>
#include <stdlib.h>
#include <string.h>

static void free_weight(const struct kt_checkpoint *checkpoint, struct kt_weight *weight)
{
    if (weight->map)
        checkpoint->format->free_map(weight->map);
    free(weight->bias);
    free(weight);
}

void kt_weights_free(struct kt_checkpoint *checkpoint)
{
    while (checkpoint->weights) {
        struct kt_weight *weight = checkpoint->weights;
        checkpoint->weights = weight->next;
        free_weight(checkpoint, weight);
    }
    free(checkpoint->odd);
    checkpoint->odd = NULL;
}

static enum kt_status make(struct kt_checkpoint *checkpoint, const char *name, struct kt_error *error)
{
    size_t length = strlen(name);
    const struct kt_stored *stored = kt_stored_linear(checkpoint, name);
    if (!stored && !checkpoint->format->weight)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: holds experts only, and no weight \"%.200s\"",
                       checkpoint->label, name);
    struct kt_weight *weight = calloc(1, sizeof *weight + length + 1);
    if (!weight)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for weight \"%.200s\"", checkpoint->label, name);
    memcpy(weight->name, name, length);
    enum kt_status status = stored ? kt_stored_weight(checkpoint, stored, weight, error)
                                   : checkpoint->format->weight(checkpoint, weight, error);
    if (status == KT_OK && !stored)
        status = kt_beside_check(checkpoint, name, error);
    if (status != KT_OK) {
        free_weight(checkpoint, weight);
        return status;
    }
    weight->next = checkpoint->weights;
    checkpoint->weights = weight;
    return KT_OK;
}

static const struct kt_weight *find(const struct kt_checkpoint *checkpoint, const char *name)
{
    const struct kt_weight *weight = checkpoint->weights;
    while (weight && strcmp(weight->name, name) != 0)
        weight = weight->next;
    return weight;
}

enum kt_status kt_checkpoint_weight(struct kt_checkpoint *checkpoint, const char *name, struct kt_view *view,
                                    const float **bias, struct kt_error *error)
{
    if (!checkpoint || !name || !view)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL",
                       !checkpoint ? "checkpoint"
                       : !name     ? "name of a weight"
                                   : "view");
    enum kt_status status = find(checkpoint, name) ? KT_OK : make(checkpoint, name, error);
    if (status != KT_OK)
        return status;
    const struct kt_weight *weight = find(checkpoint, name);
    *view = weight->view;
    if (bias)
        *bias = weight->bias;
    return KT_OK;
}
