/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - which CPU features may be used: cpuid, XCR0, AMX permission (HWCAP on ARM), the user's
 * mask. */
#ifndef KT_CORE_MACHINE_CPU_H
#define KT_CORE_MACHINE_CPU_H

#include <kt/plugin.h>
#include <stdbool.h>

/**
 * Detects features and cache sizes. `variant` (NULL or "": none) masks features above the named
 * level: amx avx512_bf16 avx512_vbmi avx512_vnni avx512 avx2, arm_bf16 i8mm dotprod neon, scalar; an
 * unknown name is KT_E_CONFIG. Asks the kernel once per process for AMX permission, only where the mask
 * allows AMX.
 */
enum kt_status kt_cpu_detect(const char *variant, struct kt_caps *caps, struct kt_error *error);

/** Parses "avx2 fma f16c" to KT_CPU_ bits; KT_E_CONFIG names an unknown word and the nearest one.
 */
enum kt_status kt_cpu_parse(const char *names, uint64_t *bits, struct kt_error *error);

/** Writes the names of the bits, "avx2 fma", into text (always terminated); returns text. */
char *kt_cpu_names(uint64_t bits, char *text, size_t size);

/** The best variant that the bits make up: "amx" ... "scalar". Static. */
const char *kt_cpu_variant(uint64_t bits);

#endif
