/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.h - what config.json of a checkpoint says about its experts. */
#ifndef KT_CORE_WEIGHTS_MODEL_MODEL_CONFIG_H
#define KT_CORE_WEIGHTS_MODEL_MODEL_CONFIG_H

#include "core/weights/file/file.h"

/* A number and the key that said it; key NULL: none did. */
struct kt_said {
    uint64_t value;
    const char *key;
};

/* What quantization_config says about weights of 4 bits. */
struct kt_quantization {
    char method[64];        /* "gptq"; "": not said */
    char packing[64];       /* checkpoint_format of GPTQ, version of AWQ */
    struct kt_said bits;    /* of a weight */
    struct kt_said group;   /* columns that a scale stands for; 0: all of them */
    const char *asymmetric; /* the key that says that there are zeros, or NULL */
    const char *symmetric;  /* the key that says that there are none, or NULL */
    const char *real;       /* the key that says that weights are floats, or NULL */
    const char *reordered;  /* the key that says that columns are not in order, or NULL */
};

struct kt_model_config {
    char label[KT_LABEL_SIZE]; /* of the file, for messages; "": there is none */
    char model_type[64];       /* "qwen3_moe"; "": not said */
    struct kt_quantization quantization;
    struct kt_said layers, experts, top_k, hidden, intermediate;
    struct kt_said block_rows, block_cols; /* that one scale stands for */
    uint32_t activation;                   /* enum kt_activation */
    float limit, alpha;
    char refusal[256]; /* why its experts cannot be computed; "": they can */
};

/* Reads config.json of the folder. A folder without it, or NULL, leaves all unsaid: SiLU. */
enum kt_status kt_model_config_read(const char *folder, struct kt_model_config *config,
                                    struct kt_error *error);

struct json_t;

/* A whole number of 0 to `largest`, or an error; `key` must outlive `said`. */
enum kt_status kt_model_config_count(const char *label, const struct json_t *value, const char *key,
                                     uint64_t largest, struct kt_said *said, struct kt_error *error);
/* A string, if `value` is not NULL. */
enum kt_status kt_model_config_text(const char *label, const struct json_t *value, const char *key,
                                    char *text, size_t size, struct kt_error *error);
/* Reads quantization_config, which is an object. */
enum kt_status kt_quantization_read(const struct json_t *object, struct kt_model_config *config,
                                    struct kt_error *error);

#endif
