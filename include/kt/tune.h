/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/tune.h - tries values of a backend's tunables on a loaded layer or linear, as `kt tune` does. Programs
 * that only compute do not use this: configured values (kt.ini(5), [tuned.NAME]) are in effect after loading.
 */
#ifndef KT_TUNE_H
#define KT_TUNE_H

#include <kt/kt.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_attention;
struct kt_linear;

/** A number that may be tuned: struct kt_tunable of <kt/plugin.h>. */
struct kt_tunable_info {
    const char *name; /**< static */
    const char *what; /**< one line for people. Static. */
    uint64_t minimum, maximum;
    uint64_t value;     /**< in effect */
    uint32_t doubling;  /**< not 0: try minimum, twice that, ... and maximum; else each number */
    uint32_t bits;      /**< not 0: it changes the number of rows at which results change their bits */
    uint32_t forbidden; /**< not 0: must not be changed because of core.deterministic */
    uint32_t reserved;
    char section[48]; /**< where values of it are configured: "tuned.bf16", */
    char key[144];    /**< "avx2.bf16.experts-2048x768.prefetch_bytes" */
};

/** Tunable `index` of a loaded layer; KT_E_RANGE after the last one. */
enum kt_status kt_layer_tunable(const struct kt_layer *layer, uint32_t index, struct kt_tunable_info *info,
                                struct kt_error *error);

/** Sets a tunable of a loaded layer, until it is loaded again; 0: its default, regardless of the
 * configuration. On failure it does not change. Waits for a running forward; KT_E_BUSY: submitted work is not
 * done. */
enum kt_status kt_layer_tune(struct kt_layer *layer, const char *name, uint64_t value,
                             struct kt_error *error);

/** The same for a linear. */
enum kt_status kt_linear_tunable(const struct kt_linear *linear, uint32_t index, struct kt_tunable_info *info,
                                 struct kt_error *error);
enum kt_status kt_linear_tune(struct kt_linear *linear, const char *name, uint64_t value,
                              struct kt_error *error);

/** The same for attention. Its keys have the data type of the cache's keys and a shape such as
 * "attention-8x128x128": query heads per key head, elements of a key and of a value. */
enum kt_status kt_attention_tunable(const struct kt_attention *attention, uint32_t index,
                                    struct kt_tunable_info *info, struct kt_error *error);
enum kt_status kt_attention_tune(struct kt_attention *attention, const char *name, uint64_t value,
                                 struct kt_error *error);

/** The configured values in effect, as text like kt_plan.tuned, truncated to fit. `size` is above 0. */
void kt_attention_tuned(const struct kt_attention *attention, char *text, size_t size);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
