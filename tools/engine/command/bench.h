/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - kt bench, as far as kt-engine runs it. */
#ifndef KT_ENGINE_COMMAND_BENCH_H
#define KT_ENGINE_COMMAND_BENCH_H

#include "tools/kt/bench/options.h"

/* Of a whole model. */
int kt_bench_model(struct kt_cli *cli, const struct bench_args *args);

#endif
