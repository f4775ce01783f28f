/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h - sets of characters, and operations that read one of them, as JSON strings write it. */
#ifndef KT_ENGINE_GRAMMAR_SPANS_H
#define KT_ENGINE_GRAMMAR_SPANS_H

#include "tools/engine/grammar/program.h"

/** Code points; surrogates in it are left out. */
struct kt_span {
    uint32_t first, last;
};

/** Sorts spans and makes one of those that touch; returns how many are left. */
size_t kt_spans_merge(struct kt_span *spans, size_t n);
/** Makes of merged spans what is in none of them: at most n + 1. */
size_t kt_spans_invert(struct kt_span *spans, size_t n);

/** A character of merged spans: to `word` if it is a letter of ASCII, a digit or "_", else to `next`. */
uint32_t kt_op_spans(struct kt_program *p, const struct kt_span *spans, size_t n, uint32_t next,
                     uint32_t word);
/** Of what kt_op_spans has made from operation `first` on: notes that the set may come `limit` times in a row
 * (kt_op_plain, KT_OP_KEEP). Returns how many operations states have to keep for that. */
size_t kt_op_spans_plain(struct kt_program *p, size_t first, const struct kt_span *spans, size_t n,
                         uint32_t limit);
/** Takes such notes back from operation `first` on. */
void kt_op_forget_plain(struct kt_program *p, size_t first);

#endif
