/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.h - what config.json of a checkpoint says about its experts. */
#ifndef KT_CORE_MODEL_CONFIG_H
#define KT_CORE_MODEL_CONFIG_H

#include "core/weights/file.h"

/* A number and the key that said it; key NULL: none did. */
struct kt_said {
    uint64_t value;
    const char *key;
};

struct kt_model_config {
    char label[KT_LABEL_SIZE]; /* of the file, for messages; "": there is none */
    char model_type[64];       /* "qwen3_moe"; "": not said */
    char quant_method[64];     /* of its quantization_config; "": not said */
    struct kt_said layers, experts, top_k, hidden, intermediate;
    struct kt_said block_rows, block_cols; /* that one scale stands for */
    uint32_t activation;                   /* enum kt_activation */
    float limit, alpha;
    char refusal[256]; /* why its experts cannot be computed; "": they can */
};

/* Reads config.json of the folder. A folder without it, or NULL, leaves all unsaid: SiLU. */
enum kt_status kt_model_config_read(const char *folder, struct kt_model_config *config,
                                    struct kt_error *error);

#endif
