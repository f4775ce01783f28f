/* SPDX-License-Identifier: Apache-2.0 */
/* mappers.c - chooses the mapper of a safetensors checkpoint. */
#include "core/weights/safetensors/mappers.h"

#include "core/base/log.h"
#include "core/weights/ktkernel/ktkernel.h"
#include "core/weights/ktkernel/ktkernel_files.h"
#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/experts.h"
#include "core/weights/store/store_read.h"

#include <stdio.h>

/* Tried in this order. */
static const struct kt_mapper *const mappers[] = {&kt_mapper_store, &kt_mapper_ktkernel,
                                                  &kt_mapper_ktkernel_files, &kt_mapper_families, NULL};

/* The first that matches. A second match is logged, because its experts are left out. */
static const struct kt_mapper *choose(const struct kt_checkpoint *checkpoint)
{
    const struct kt_mapper *mapper = NULL;
    for (size_t i = 0; mappers[i]; i++) {
        if (!mappers[i]->matches(checkpoint))
            continue;
        if (!mapper)
            mapper = mappers[i];
        else
            kt_log_write(&checkpoint->log, KT_LOG_WARNING,
                         "%s: holds experts in the layout of %s and in that of %s, which are left out: keep "
                         "each in a folder of its own",
                         checkpoint->label, mapper->whose, mappers[i]->whose);
    }
    return mapper;
}

enum kt_status kt_safetensors_map(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    struct kt_model_config config;
    const struct kt_mapper *mapper = choose(checkpoint);
    /* A config.json beside a single file without experts may be of something else. */
    if (!mapper && !checkpoint->whole)
        return KT_OK;
    enum kt_status status = kt_model_config_read(checkpoint->folder, &config, error);
    if (status != KT_OK)
        return status;
    (void)snprintf(checkpoint->architecture, sizeof checkpoint->architecture, "%s", config.model_type);
    if (*config.refusal)
        (void)snprintf(checkpoint->refusal, sizeof checkpoint->refusal, "%s: %s", config.label,
                       config.refusal);
    checkpoint->n_layers = config.layers.value;
    if (mapper) {
        checkpoint->experts = mapper->experts;
        checkpoint->release = mapper->release;
        status = mapper->map(checkpoint, &config, error);
    }
    kt_model_config_clear(&config);
    return status;
}
