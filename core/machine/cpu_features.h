/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_features.h - what the CPU and the operating system say, before the user's mask. */
#ifndef KT_CORE_MACHINE_CPU_FEATURES_H
#define KT_CORE_MACHINE_CPU_FEATURES_H

#include <kt/plugin.h>
#include <stdbool.h>

/* KT_CPU_ bits that the CPU has and whose registers the operating system saves. */
uint64_t kt_cpu_hardware(void);

/* Asks the kernel, once per process, to let this process use AMX tiles. */
bool kt_cpu_amx_permitted(void);

/* Fills the cache sizes; what cannot be found stays 0. */
void kt_cpu_caches(struct kt_caps *caps);

/* The bits that a variant's mask leaves, all for NULL or ""; an unknown name is KT_E_CONFIG. */
enum kt_status kt_cpu_mask(const char *variant, uint64_t *bits, struct kt_error *error);

#endif
