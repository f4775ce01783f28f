/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.h - a small random layer through a backend, compared with float64 on the same weights. */
#ifndef KT_TOOL_SELFTEST_H
#define KT_TOOL_SELFTEST_H

#include "tools/kt/base/cli.h"

enum kt_selftest_state {
    KT_SELFTEST_PASSED,
    KT_SELFTEST_WRONG,   /* the output differs by more than the limit */
    KT_SELFTEST_REFUSED, /* the backend does not take this format: no failure */
    KT_SELFTEST_FAILED   /* a call failed */
};

struct kt_selftest {
    enum kt_selftest_state state;
    double error, limit; /* relative L2; unset if REFUSED or FAILED */
    uint64_t hash;       /* of the output's bits; unset likewise */
    char message[1024];  /* if REFUSED or FAILED */
};

/* Formats of the test layer; those with separate scales have the usual groups: FP8 in blocks, int4 and
 * MXFP4 in groups of 32. Ends with KT_DTYPE_NONE. */
extern const uint32_t kt_selftest_dtypes[];

/* Runs a layer of `dtype` through `backend`, compares its output with float64 arithmetic on the backend's
 * weights, and these with their source. `is_reference`: the limit is far tighter. `passed`: a run of the same
 * backend and dtype that has; an output of the same bits is not compared again. NULL: none. */
void kt_selftest_run(const struct kt_cli *cli, struct kt_context *context, const char *backend,
                     bool is_reference, uint32_t dtype, const struct kt_selftest *passed,
                     struct kt_selftest *result);

/* Forms of the cache of a self-test of attention. Ends with KT_DTYPE_NONE. */
extern const uint32_t kt_selftest_caches[];

/* Runs queries over a cache of `dtype` through a plugin for attention, and compares outputs with float64
 * arithmetic on what the cache has. */
void kt_selftest_attention(const struct kt_cli *cli, struct kt_context *context, const char *backend,
                           uint32_t dtype, struct kt_selftest *result);

#endif
