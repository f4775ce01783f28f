/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - shared by the parts of kt explain: layers with experts, and linears. */
#ifndef KT_TOOL_EXPLAIN_H
#define KT_TOOL_EXPLAIN_H

#include "tools/kt/base/table.h"

/* ---- plan.c ------------------------------------------------------------------------- */

/* "chosen", "refused" or "not asked". */
const char *kt_explain_state(const struct kt_candidate *candidate);

/* Why the backend refused, without its name, which the row has. */
const char *kt_explain_reason(const struct kt_candidate *candidate);

/* The chosen candidate, or NULL. */
const struct kt_candidate *kt_explain_chosen(const struct kt_plan *plan);

/* Would two plans look the same in a table? */
bool kt_explain_is_same(const struct kt_plan *a, const struct kt_plan *b);

/* "y=f32 activations=int8": the options of a backend, cut to fit. */
void kt_explain_options(const struct kt_context *context, const char *backend, char *text, size_t size);

/* The columns of a table for people, without -v: those that all rows share or that JSON has are left out, for
 * lines that do not wrap. `copy` has room for n. */
const struct kt_column *kt_explain_columns(const struct kt_cli *cli, const struct kt_column *columns,
                                           size_t n, struct kt_column *copy);

/* The columns of a table row that a plan fills: of the backend, its sizes and how it keeps the weights. */
void kt_explain_put_plan(const struct kt_context *context, struct kt_table *table,
                         const struct kt_plan *plan);

/* Those of a candidate. */
void kt_explain_put_candidate(struct kt_table *table, const struct kt_candidate *candidate);

/* ---- linears.c ---------------------------------------------------------------------- */

struct kt_explain_linears;

/*
 * Plans the weights besides experts and embeddings; those of the n layers with these numbers, or all where
 * layers is NULL. Reads no weights; one that no backend takes is a result. Allocated.
 */
struct kt_explain_linears *kt_explain_linears_make(const struct kt_cli *cli, struct kt_context *context,
                                                   struct kt_checkpoint *checkpoint, const uint64_t *layers,
                                                   size_t n, uint64_t max_tokens);
void kt_explain_linears_free(struct kt_explain_linears *linears);

/* Their totals, and their tables. Without linears nothing is shown but empty tables in JSON. */
void kt_explain_linears_facts(struct kt_output *output, const struct kt_explain_linears *linears);
void kt_explain_linears_tables(const struct kt_cli *cli, const struct kt_context *context,
                               struct kt_output *output, struct kt_explain_linears *linears);

/* Were there refusals that only -v shows? Known after the tables. */
bool kt_explain_linears_left_out(const struct kt_explain_linears *linears);

#endif
