/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuned_file.h - sections of tuned.ini: values that were measured on one CPU.
 *
 *     [tuned.bf16]
 *     cpu = GenuineIntel-6-143      ; or several, separated by spaces
 *     microcode = 0x2b000603        ; optional: any
 *     avx2.bf16.experts-2048x768.prefetch_bytes = 2048
 *
 * A section for another CPU is passed over, so that a file may have one for each.
 */
#ifndef KT_CORE_CONFIG_TUNED_FILE_H
#define KT_CORE_CONFIG_TUNED_FILE_H

#include "core/machine/cpu_model.h"

#include <kt/types.h>
#include <stdbool.h>

struct kt_tuned_file {
    bool reading;       /* such a file */
    bool begun;         /* a section's `cpu` has been read */
    bool skips;         /* the section is for another CPU */
    bool may_microcode; /* it may follow */
    char own[2 * KT_CPU_MODEL_SIZE];
    char other[128]; /* the CPU of a section that was passed over; "": there was none */
};

void kt_tuned_file_begin(struct kt_tuned_file *file);

/* A section begins. Without an error in other files, which have no such sections. */
enum kt_status kt_tuned_file_section(struct kt_tuned_file *file, const char *section, struct kt_error *error);

/* *taken: the setting says for which CPU the section is, or is passed over. */
enum kt_status kt_tuned_file_setting(struct kt_tuned_file *file, const char *section, const char *key,
                                     const char *value, bool *taken, struct kt_error *error);

#endif
