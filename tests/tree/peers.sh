#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's figures beside other programs and the plots say what tests/bench/peers.csv says. `peers.sh table` prints
# README's table as it should be.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
bench=tests/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# Best times and ratios: a disturbed run is an upper bound, which counts beside a clean one and not alone.
cat >"$work/ratios.awk" <<'END'
BEGIN { FS = "," }
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; n_columns = NF; next }
function field(name) { return $(column[name]) }
{
    if (NF != n_columns || field("n_tokens") !~ /^[1-9][0-9]*$/ || field("clean") !~ /^(yes|no)$/ ||
        (field("time_ms") field("times_kt_kernel") field("roofline_fraction")) !~ /^[0-9.]+$/) {
        print "FAIL: peers.csv:" NR ": " $0 >"/dev/stderr"
        exit failed = 1
    }
    zen = field("machine") ~ /Zen 4/
    panel = (zen ? field("level") " " : "") field("shape") " " field("format")
    key = panel SUBSEP field("program") SUBSEP field("n_tokens")
    if (field("time_ms") != "") {
        if (!(key in time) || field("time_ms") + 0 < time[key])
            time[key] = field("time_ms") + 0
        if (field("clean") == "yes")
            clean[key] = 1
    } else if (field("times_kt_kernel") != "")
        ratio[key] = field("times_kt_kernel") + 0
}
function ms(panel, program, n,    key, format) {
    key = panel SUBSEP program SUBSEP n
    if (!(key in clean))
        return "-"
    format = time[key] < 9.995 ? "%.2f" : time[key] < 999.95 ? "%.1f" : "%.0f"
    return sprintf(format, time[key])
}
function row(label, name,    panel, out, i) {
    panel = "2048-768-128-8 " name
    out = "| " label " |"
    for (i = 1; i in programs; i++)
        out = out " " ms(panel, programs[i], 1) " / " ms(panel, programs[i], 512) " |"
    gsub(" - / - ", " - ", out)
    print out >table
}
END {
    if (failed)
        exit 1
    for (key in clean) {
        split(key, part, SUBSEP)
        ours = part[1] SUBSEP "kt-kernel" SUBSEP part[3]
        if (part[2] != "kt-kernel" && ours in time)
            ratio[key] = time[key] / time[ours]
    }
    for (key in ratio) {
        split(key, part, SUBSEP)
        printf "%s %s %s:%.2f\n", part[1], part[2], part[3], ratio[key]
    }
    split("kt-kernel KT-Kernel ik_llama.cpp ggml", programs, " ")
    print "| Weights | kt-kernel | KT-Kernel | ik_llama.cpp | ggml |" >table
    print "|:---|---:|---:|---:|---:|" >table
    split("BF16 FP8 INT8* INT4* INT4 Q8_0 Q6_K Q4_K Q4_0 MXFP4 IQ4_XS", labels, " ")
    split("bf16 fp8 int8 int4 rawint4 q8_0 q6_k q4_k q4_0 mxfp4 iq4_xs", names, " ")
    for (i = 1; i in names; i++)
        row(labels[i], names[i])
}
END
awk -v table="$work/table" -f "$work/ratios.awk" "$bench/peers.csv" >"$work/all" || exit 1
sort "$work/all" >"$work/ratios"
[ "${1:-}" != table ] || { cat "$work/table"; exit 0; }

# The table, line by line and in this order.
grep -nxF -f "$work/table" README.md | sed 's/^[0-9]*://' >"$work/shown"
diff "$work/table" "$work/shown" >"$work/difference" ||
    { fail "README's table is not that of peers.csv (<):"; cat "$work/difference"; }

# Where another program is faster, README says by how much at most.
awk '{ at = $0; sub(/ [0-9]+:[^ ]*$/, "", at); value = $NF; sub(/.*:/, "", value); level = $1 ~ /^avx/ ? $1 : "xeon"
       who = level " " (at ~ /7168/ ? "deepseek" : at ~ /2048-768/ ? "qwen3" : "others") " " $(NF - 1)
       if (value < 1 && (!(who in least) || value < least[who])) least[who] = value }
     END { for (who in least) print least[who], who }' "$work/ratios" >"$work/slower"
[ -s "$work/slower" ] || fail "no figure below 1 was found"
while read -r value who; do
    grep -qF "$value" README.md || fail "README does not say $value, the least of $who"
done <"$work/slower"

# The plots, by what they say of themselves.
for svg in "$bench"/peers-*.svg; do
    [ "$(wc -c <"$svg")" -le 40000 ] || fail "$svg has more than 40000 bytes"
    ! grep -n -e '<script' -e '<image' "$svg" || fail "$svg must be lines and text"
    tail -n 1 "$svg" | grep -q '^</svg>$' || fail "$svg is not whole"
    grep -q "$svg" README.md || fail "README does not name $svg"
done
cat "$bench"/peers-*.svg | awk '/<dc:description>/ { on = 1 }
    on { line = $0; gsub(/ *<[^>]*>/, "", line); n = split(line, word, " "); first = 1
         while (first <= n && word[first] !~ /^[0-9]+:/) first++
         words = ""
         for (i = 1; i < first; i++) words = words word[i] " "
         for (i = first; i <= n; i++) print words word[i] }
    /<\/dc:description>/ { on = 0 }' | sort >"$work/drawn"
diff "$work/ratios" "$work/drawn" >"$work/difference" ||
    { fail "the plots do not show peers.csv (<), make plots draws them:"; head -n 20 "$work/difference"; }
exit $failed
