/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/tuning_tmpl.h - what a level sets by measurement and no type or list of functions depends on: fields
 * of one constant, which compilers fold.
 *
 * Parameter  TUNING  fields of struct tuning: .prefetch_bytes = 1024, ...; the others are 0. Which of them a
 *                    template reads, it says
 */
#ifndef KT_PLUGINS_COMMON_GEMM_TUNING_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_TUNING_TMPL_H

#ifndef TUNING
#error "gemm/tuning_tmpl.h: define TUNING"
#endif

#include <stdint.h>

struct tuning {
    /* Prefetch distance of streamed microkernels; 0: the machine's (struct kt_caps.stream_ahead). */
    uint32_t prefetch_bytes;
    /* The most rows with streamed prefetches; above, paced (gemm/prefetch.h). */
    uint32_t streamed_max_rows;
    /* The fewest rows for which panels are dequantized; UINT32_MAX: never. */
    uint32_t dequant_min_rows;
};

static const struct tuning tuning = {TUNING};

#endif
