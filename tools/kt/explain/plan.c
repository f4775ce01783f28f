/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what kt explain says of a plan, be it that of a layer or of a linear. */
#include "tools/kt/explain/explain.h"

#include <stdio.h>
#include <string.h>

const char *kt_explain_state(const struct kt_candidate *candidate)
{
    if (candidate->chosen)
        return "chosen";
    return *candidate->reason ? "refused" : "not asked";
}

const char *kt_explain_reason(const struct kt_candidate *candidate)
{
    size_t length = strlen(candidate->backend);
    if (strncmp(candidate->reason, candidate->backend, length) == 0 &&
        strncmp(candidate->reason + length, ": ", 2) == 0)
        return candidate->reason + length + 2;
    return candidate->reason;
}

const struct kt_candidate *kt_explain_chosen(const struct kt_plan *plan)
{
    for (uint32_t c = 0; c < plan->n_candidates; c++) {
        if (plan->candidate[c].chosen)
            return &plan->candidate[c];
    }
    return NULL;
}

static bool is_same_candidate(const struct kt_candidate *a, const struct kt_candidate *b)
{
    return strcmp(a->backend, b->backend) == 0 && strcmp(a->level, b->level) == 0 && a->chosen == b->chosen &&
           strcmp(a->reason, b->reason) == 0;
}

bool kt_explain_is_same(const struct kt_plan *a, const struct kt_plan *b)
{
    if (a->n_candidates != b->n_candidates || a->weight_size != b->weight_size ||
        a->buffer_size != b->buffer_size || a->fallback != b->fallback ||
        strcmp(a->rounding, b->rounding) != 0 || strcmp(a->compact, b->compact) != 0 ||
        strcmp(a->tuned, b->tuned) != 0 || a->keeps_source != b->keeps_source)
        return false;
    for (uint32_t c = 0; c < a->n_candidates; c++) {
        if (!is_same_candidate(&a->candidate[c], &b->candidate[c]))
            return false;
    }
    return true;
}

void kt_explain_options(const struct kt_context *context, const char *backend, char *text, size_t size)
{
    struct kt_backend_info info;
    struct kt_setting setting;
    size_t end = 0;
    *text = '\0';
    for (size_t b = 0; b < kt_context_backend_count(context); b++) {
        if (kt_context_backend(context, b, &info, NULL) != KT_OK || strcmp(info.name, backend) != 0)
            continue;
        for (size_t i = 0; i < info.n_options; i++) {
            if (kt_context_backend_option(context, b, i, &setting, NULL) != KT_OK)
                continue;
            int n = snprintf(text + end, size - end, "%s%s=%s", end ? " " : "", setting.key, setting.value);
            if (n < 0 || (size_t)n >= size - end) {
                text[end] = '\0';
                return;
            }
            end += (size_t)n;
        }
    }
}

const struct kt_column *kt_explain_columns(const struct kt_cli *cli, const struct kt_column *columns,
                                           size_t n, struct kt_column *copy)
{
    static const char *const details[] = {"shape", "buffer_bytes", "options"};
    if (cli->verbose)
        return columns;
    memcpy(copy, columns, n * sizeof(*columns));
    for (size_t c = 0; c < n; c++)
        for (size_t d = 0; d < sizeof(details) / sizeof(details[0]); d++)
            if (strcmp(columns[c].name, details[d]) == 0)
                copy[c].flags |= KT_COLUMN_HIDDEN;
    return copy;
}

void kt_explain_put_plan(const struct kt_context *context, struct kt_table *table, const struct kt_plan *plan)
{
    const struct kt_candidate *taken = kt_explain_chosen(plan);
    char options[256];
    if (taken) {
        kt_table_text(table, "backend", taken->backend);
        kt_table_text(table, "level", taken->level);
        kt_explain_options(context, taken->backend, options, sizeof(options));
        kt_table_text(table, "options", options);
    }
    kt_table_uint(table, "weight_bytes", plan->weight_size);
    kt_table_uint(table, "buffer_bytes", plan->buffer_size);
    kt_table_uint(table, "nominal_bytes", plan->nominal_size);
    kt_table_bool(table, "keeps_source", plan->keeps_source != 0);
    kt_table_bool(table, "fallback", plan->fallback != 0);
    kt_table_text(table, "rounding", plan->rounding);
    kt_table_text(table, "compact", plan->compact);
    kt_table_text(table, "tuned", plan->tuned);
    kt_table_text(table, "error", "");
}

void kt_explain_put_candidate(struct kt_table *table, const struct kt_candidate *candidate)
{
    kt_table_text(table, "backend", candidate->backend);
    kt_table_text(table, "level", candidate->level);
    kt_table_text(table, "state", kt_explain_state(candidate));
    kt_table_text(table, "reason", kt_explain_reason(candidate));
}
