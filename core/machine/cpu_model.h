/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_model.h - which CPU this is, for values that were measured on one. */
#ifndef KT_CORE_MACHINE_CPU_MODEL_H
#define KT_CORE_MACHINE_CPU_MODEL_H

#define KT_CPU_MODEL_SIZE 48

/* "GenuineIntel-6-143": vendor, family and model; on ARM "arm-0x41-0xd40": implementer and part of the first
 * core. "unknown" where nobody says. */
void kt_cpu_model(char text[KT_CPU_MODEL_SIZE]);

/* "0x2b000603"; "" where nobody says. */
void kt_cpu_microcode(char text[KT_CPU_MODEL_SIZE]);

#endif
