#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rows of ratios.csv out of `kt bench --format csv` on standard input: tests/bench/ratios.sh MACHINE [COMMIT]
set -eu
machine=${1:?the machine, in a few words}
commit=${2:-$(git rev-parse --short HEAD)}
awk -F, -v machine="$machine" -v commit="$commit" '
    { sub(/\r$/, "") }
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    { printf "%s,%s,%s,%s,%s,%s-%s-%s-%s,%s,%s,%.2f,%.3g,%.3g\n", machine, commit, $column["backend"],
        $column["level"], $column["source_type"], $column["hidden_size"], $column["intermediate_size"],
        $column["n_experts"], $column["top_k"], $column["n_tokens"], $column["n_threads"],
        $column["roofline_fraction"], $column["kernel_error"], $column["total_error"] }'
