/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuned.h - values that are configured for a plugin's tunables: sections [tuned.NAME], whose keys are
 * LEVEL.FORMAT.SHAPE.TUNABLE, such as avx2.q4_k.experts-2048x768.prefetch_bytes. FORMAT and SHAPE may be *.
 */
#ifndef KT_CORE_BACKEND_TUNED_H
#define KT_CORE_BACKEND_TUNED_H

#include "core/backend/backend.h"
#include "core/backend/tunables.h"

/* What is tuned, as keys name it. */
struct kt_tuned_subject {
    const struct kt_backend *backend;
    const struct kt_tunable *tunables;
    uint32_t n_tunables;
    bool deterministic;
    char format[48];
    char shape[48];
};

/* The setting of a tunable (or KT_TUNED_GAIN): the one that names most, format before shape; NULL: none. */
const struct kt_setting *kt_tuned_setting(const struct kt_tuned_subject *subject, const char *name);

/* A value that was set in a program: the tunable's standard, whatever is configured; 0: as configured. */
#define KT_TUNING_STANDARD UINT64_MAX

/* The values that layout() gets: those set in a program, else the configured ones. */
void kt_tuned_fill(const struct kt_tuned_subject *subject, const uint64_t tuning[KT_MAX_TUNABLES],
                   uint64_t tuned[KT_MAX_TUNABLES]);

/* Are those that layout() left within the tunables' ranges? */
enum kt_status kt_tuned_check_values(const struct kt_tunable *tunables, uint32_t n_tunables,
                                     const uint64_t tuned[KT_MAX_TUNABLES], struct kt_error *error);

/* The level that was faster than better ones, which level = auto takes; NULL: none, or the CPU cannot run it.
 * *setting: where it stands. */
const struct kt_level *kt_tuned_level(const struct kt_backend *backend, const struct kt_setting **setting);

/* Checks all settings of [tuned.NAME] against the plugin's levels and tunables; errors name file and line. */
enum kt_status kt_tuned_check_settings(const struct kt_backend *backend, struct kt_error *error);

#endif
