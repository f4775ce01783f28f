/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/ops_tmpl.h - declares the functions that the levels of a backend share, and all levels, also those
 * that a backend does not have.
 *
 * Parameters  OWN(function)    the name of a function that levels share
 *             OPS_NAME(level)  the name of a level's struct kt_ops, which kernel_LEVEL.c defines
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_OPS_TMPL_H
#define KT_PLUGINS_COMMON_PLUGIN_OPS_TMPL_H

#ifndef OWN
#error "plugin/ops_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "plugin/ops_tmpl.h: define OPS_NAME"
#endif

#include <kt/plugin.h>

enum kt_status OWN(layout)(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status OWN(weight_row)(void *instance, const struct kt_layout *layout, const void *packed,
                               const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                               float *out, struct kt_error *error);
void OWN(cut)(void *instance, const struct kt_cut *job);

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
