/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beside.c - what stands beside a weight NAME and belongs to it: NAME.weight, NAME.scale, NAME.lora_A.weight.
 * Those that are read are rows of `parts` in family.c, or GGUF's below; some are ignored (ignored.c); all
 * others are odd. Those of a checkpoint are listed once: there are few, and weights are many.
 */
#include "core/weights/model/beside.h"

#include "core/base/error.h"
#include "core/weights/model/family.h"
#include "core/weights/model/ignored.h"
#include "core/weights/table/tensors.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What GGUF files have beside a weight. */
static const char *const gguf[] = {"weight", "bias", "scale"};

/* Weights of their own under the name of another one: the corrections of a router's scores. */
static const char *const separate[] = {"e_score_correction_bias", "expert_bias"};

static bool is_listed(const char *const *list, size_t n, const char *ending)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], ending) == 0)
            return true;
    return false;
}

static bool is_read(const struct kt_checkpoint *checkpoint, const char *ending)
{
    struct kt_weight_part part;
    if (!checkpoint->folder)
        return is_listed(gguf, COUNT(gguf), ending);
    for (size_t i = 0; kt_weight_part(i, &part); i++)
        if (*part.ending == '.' && strcmp(part.ending + 1, ending) == 0)
            return true;
    return false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Does the rest of a name say that it belongs to a weight that is named before? Such ones end as weights do:
 * q_proj.lora_A.weight; or they describe one: q_proj.weight.absmax. */
static bool is_inner(const char *rest)
{
    return begins(rest, "lora_") || begins(rest, "weight.") || begins(rest, "bias.") ||
           begins(rest, "base_layer.") || begins(rest, "parametrizations.");
}

static bool is_odd(const struct kt_checkpoint *checkpoint, const char *name)
{
    const char *ending = name;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        ending = dot + 1;
        if (is_inner(ending))
            return true;
    }
    return !is_read(checkpoint, ending) && !kt_ending_is_ignored(ending) &&
           !is_listed(separate, COUNT(separate), ending);
}

static enum kt_status list_odd(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    const struct kt_tensors *tensors = &checkpoint->tensors;
    uint64_t n = 0;
    if (checkpoint->odd)
        return KT_OK;
    for (uint64_t i = 0; i < tensors->n; i++)
        n += is_odd(checkpoint, tensors->tensor[i].info.name);
    checkpoint->odd = calloc((size_t)n + 1, sizeof *checkpoint->odd);
    if (!checkpoint->odd)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a list of tensors", checkpoint->label);
    n = 0;
    for (uint64_t i = 0; i < tensors->n; i++)
        if (is_odd(checkpoint, tensors->tensor[i].info.name))
            checkpoint->odd[n++] = &tensors->tensor[i];
    return KT_OK;
}

enum kt_status kt_beside_check(struct kt_checkpoint *checkpoint, const char *name, struct kt_error *error)
{
    size_t length = strlen(name);
    enum kt_status status = list_odd(checkpoint, error);
    for (uint64_t i = 0; status == KT_OK && checkpoint->odd[i]; i++) {
        const struct kt_tensor *tensor = checkpoint->odd[i];
        if (strncmp(tensor->info.name, name, length) == 0 && tensor->info.name[length] == '.')
            return kt_fail(
                error, KT_E_UNSUPPORTED,
                "%s: tensor \"%s\" belongs to the weight \"%.200s\" and may change its values, but "
                "is not supported",
                kt_tensor_label(checkpoint, tensor), tensor->info.name, name);
    }
    return status;
}
