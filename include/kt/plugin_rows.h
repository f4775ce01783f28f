/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/plugin_rows.h - the functions of a plugin for rows: norms, gates, rotary positions, routers, the
 * recurrent form. Since plugin ABI 1.6; <kt/plugin.h> has the rules for all plugins, <kt/rows.h> describes
 * what each function computes.
 *
 * Jobs are those of <kt/rows.h>, checked by the core: sizes are within their bounds, required pointers are
 * not NULL, strides are filled in (never 0 where there is more than one row or part), 0 is replaced by what
 * it stands for (n_parts, scale). A job has zero rows only if a caller asks for none. A row of results
 * depends on that row's own numbers only, not on what else is in the job; delta may compute otherwise from
 * KT_DELTA_CHUNKED rows on, unless the job is deterministic.
 */
#ifndef KT_PLUGIN_ROWS_H
#define KT_PLUGIN_ROWS_H

#include <kt/plugin.h>
#include <kt/rows.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

/** The functions of a level, all required. struct_size = sizeof(struct kt_rows_ops). They are called from
 * many threads at once, with jobs that write to disjoint memory; they allocate nothing and do not fail. */
struct kt_rows_ops {
    uint32_t struct_size;
    uint32_t reserved;

    void (*norm)(void *instance, const struct kt_rows_norm *job);
    void (*gate)(void *instance, const struct kt_rows_gate *job);
    void (*rotate)(void *instance, const struct kt_rows_rotate *job);
    void (*multiply)(void *instance, const struct kt_rows_multiply *job);
    void (*route)(void *instance, const struct kt_rows_route *job);
    void (*convolve)(void *instance, const struct kt_rows_convolve *job);
    void (*decay)(void *instance, const struct kt_rows_decay *job);
    void (*delta)(void *instance, const struct kt_rows_delta *job);
    /** Bytes that delta uses of its scratch, at most; within the bounds of <kt/rows.h>. */
    uint64_t (*delta_scratch)(void *instance, uint32_t key_size, uint32_t value_size);
};
#define KT_ROWS_OPS_INIT KT_INIT(kt_rows_ops)

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
