/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - limits at the ends of lines, with which editors ask for what fits into a gap: llama-server's
 * n_indent and t_max_predict_ms. */
#include "tools/engine/serve/job.h"

static bool is_late(const struct kt_job *job)
{
    return job->ask.most_ms > 0 && (kt_cli_now() - job->first) * 1e3 > (double)job->ask.most_ms;
}

bool kt_lines_end(const struct kt_job *job, struct kt_answer *answer, const char *text, uint64_t *length)
{
    struct kt_lines *lines = &answer->lines;
    if (job->ask.least_indent == 0 && job->ask.most_ms == 0)
        return false;
    for (uint64_t i = 0; i < *length; i++) {
        bool is_blank = text[i] == ' ' || text[i] == '\t';
        if (lines->is_indent && !is_blank && lines->indent < job->ask.least_indent) {
            *length = i; /* the block that was asked for is over */
            return true;
        }
        lines->indent = lines->is_indent && is_blank ? lines->indent + 1 : 0;
        lines->is_indent = text[i] == '\n' || (lines->is_indent && is_blank);
        if (text[i] == '\n' && is_late(job)) {
            *length = i + 1;
            return true;
        }
    }
    return false;
}
