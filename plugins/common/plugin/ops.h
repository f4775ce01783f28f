/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/ops.h - the functions that the levels of a backend share, and the levels' own; some backends have
 * not all of them. OWN(function) and OPS_NAME(level), which the backend's header says, make their names.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_OPS_H
#define KT_PLUGINS_COMMON_PLUGIN_OPS_H

#include <kt/plugin.h>

enum kt_status OWN(layout)(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status OWN(weight_row)(void *instance, const struct kt_layout *layout, const void *packed,
                               const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                               float *out, struct kt_error *error);
void OWN(cut)(void *instance, const struct kt_cut *job);

/* A level of codes that are multiplied as bytes; LAY_OUT is of the file that says how. */
#define LEVEL_OPS(level)                      \
    const struct kt_ops OPS_NAME(level) = {   \
        .struct_size = sizeof(struct kt_ops), \
        .layout = LAY_OUT,                    \
        .pack = pack_weights,                 \
        .act_pack = pack_rows,                \
        .gate_up = multiply_gate_up,          \
        .down = multiply_down,                \
        .weight_row = OWN(weight_row),        \
        .cut = OWN(cut),                      \
    }

/* In kernel_LEVEL.c. */
extern const struct kt_ops OPS_NAME(scalar);
extern const struct kt_ops OPS_NAME(avx2);
extern const struct kt_ops OPS_NAME(avx_vnni);
extern const struct kt_ops OPS_NAME(avx512);
extern const struct kt_ops OPS_NAME(avx512_vnni);
extern const struct kt_ops OPS_NAME(amx);
extern const struct kt_ops OPS_NAME(neon);
extern const struct kt_ops OPS_NAME(dotprod);
extern const struct kt_ops OPS_NAME(i8mm);
extern const struct kt_ops OPS_NAME(sve256);
extern const struct kt_ops OPS_NAME(sve512);

#endif
