/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.h - what config.json of a checkpoint says about its experts. */
#ifndef KT_CORE_WEIGHTS_MODEL_MODEL_CONFIG_H
#define KT_CORE_WEIGHTS_MODEL_MODEL_CONFIG_H

#include "core/weights/file/file.h"
#include "core/weights/file/json.h"
#include "core/weights/model/quantization.h"

#include <kt/kt.h>

struct kt_model_config {
    char label[KT_LABEL_SIZE]; /* of the file, for messages; "": there is none */
    char model_type[64];       /* "qwen3_moe"; "": not said */
    struct kt_quantization quantization;
    /* Of several groups of compressed-tensors, each with settings of its own; a tensor must agree with one.
     */
    struct kt_quantization group[KT_MOST_GROUPS];
    uint32_t n_groups; /* 0: quantization says it all */
    struct kt_json_count layers, experts, top_k, hidden, intermediate;
    uint32_t activation; /* enum kt_activation */
    float limit, alpha;
    float *layer_limit; /* of SWIGLUSTEP, by layer; 0: none, the layer has silu. NULL: no such list */
    size_t n_layer_limits;
    char refusal[256]; /* why its experts cannot be computed; "": they can */
};

/* Reads config.json of the folder. Without the file, or with folder NULL, only the activation is set: SiLU.
 */
enum kt_status kt_model_config_read(const char *folder, struct kt_model_config *config,
                                    struct kt_error *error);
/* Sets the activation of a layer's experts. */
enum kt_status kt_model_config_activation(const struct kt_model_config *config, uint64_t layer,
                                          struct kt_moe_info *info, struct kt_error *error);
/* Frees what reading allocated. Not required after a failure. */
void kt_model_config_clear(struct kt_model_config *config);

#endif
