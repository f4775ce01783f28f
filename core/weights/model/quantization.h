/* SPDX-License-Identifier: Apache-2.0 */
/* quantization.h - what quantization_config of config.json says about weights. */
#ifndef KT_CORE_WEIGHTS_MODEL_QUANTIZATION_H
#define KT_CORE_WEIGHTS_MODEL_QUANTIZATION_H

#include "core/weights/file/json.h"

/* Configurations with more groups are not compared with tensors. */
enum { KT_MOST_GROUPS = 32 };

struct kt_quantization {
    char method[64];                             /* "gptq"; "": not said */
    char packing[64];                            /* checkpoint_format of GPTQ, version of AWQ */
    struct kt_json_count bits;                   /* of a weight */
    struct kt_json_count group;                  /* columns that a scale stands for; 0: all of them */
    struct kt_json_count block_rows, block_cols; /* that one scale of FP8 weights stands for */
    const char *asymmetric;                      /* the key that says that there are zeros, or NULL */
    const char *symmetric;                       /* the key that says that there are none, or NULL */
    const char *real;                            /* the key that says that weights are floats, or NULL */
    const char *reordered; /* the key that says that columns are not in order, or NULL */
};

/* Reads what each of several groups of compressed-tensors says. *n: how many; 0 if there is one or none. */
enum kt_status kt_quantization_groups(const char *label, const json_t *object,
                                      struct kt_quantization groups[KT_MOST_GROUPS], uint32_t *n,
                                      struct kt_error *error);

/* Reads quantization_config, which is an object; `label` is the file's, for messages. */
enum kt_status kt_quantization_read(const char *label, const json_t *object,
                                    struct kt_quantization *quantization, struct kt_error *error);

#endif
