#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt plugin check of a plugin for attention: each fault gets its verdict, right plugins pass.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
plugin=$KT_TEST_BUILD/tests/plugins/kt_wrong_attention.so
[ -f "$plugin" ] || skip "the test plugins were not built: libcheck is missing"
if grep -q __asan_init "$plugin"; then
    skip "the address sanitizer takes the faults that are to be found here"
fi

finds_faults "$plugin" <<'FAULTS'
LAYOUT_MUTE         attention-layout     does not say why
LAYOUT_ALL          attention-layout     it takes no shape; it refuses others: nothing is taken
LAYOUT_QUERIES      attention-layout     max_queries is 0
LAYOUT_STRIDE       attention-layout     multiples of 64
LAYOUT_SHAPE        attention-layout     it changed the shape
LAYOUT_SCRATCH      attention-layout     scratch_size is 1099511627776; 2^32 is the most
LAYOUT_PARTIAL      attention-layout     partial_stride is 64; a partial result of 64 numbers needs more
LAYOUT_LEAK         attention-layout     blocks of the host.s memory were not given back
LAYOUT_AGAIN        attention-layout     it was refused when it was asked for again: not twice
LAYOUT_COUNTS       attention-layout     another layout when it is asked for again
ATTEND_SCALES       attention-numbers    q8_0, .*float64 gives
ATTEND_COLUMN       attention-numbers    float64 gives
ATTEND_SOFTCAP      attention-numbers    softcap 30, .*float64 gives
ATTEND_STRIDE       attention-numbers    float64 gives
ATTEND_F16          attention-numbers    float64 gives
ATTEND_ROUNDS       attention-numbers    if the level multiplies pairs of bfloat16, its instruction must say so
ATTEND_FIRST_TOKEN  attention-numbers    float64 gives
ATTEND_MASK         attention-numbers    float64 gives
ATTEND_WINDOW       attention-numbers    window 128, .*float64 gives
ATTEND_CHUNK        attention-numbers    queries at 255, .*float64 gives
ATTEND_BEGIN        attention-numbers    attend, .*beyond its scratch
ATTEND_BEYOND       attention-numbers    behind the end of partial results\|beyond its partial results
ATTEND_TUNED        attention-numbers    float64 gives
ATTEND_FAILS        attention-numbers    it failed: no reason at all
ATTEND_ALLOCATES    attention-numbers    attend asks the host for memory
ATTEND_SCRATCH      attention-numbers    behind the end of scratch\|beyond its scratch
ATTEND_CACHE        attention-numbers    it wrote to the cache.s keys, which can only be read
ATTEND_PAGES        attention-numbers    behind the end of the page table
MERGE_SECOND        attention-numbers    merge, .*it wrote to partial results, which can only be read
MERGE_MAX           attention-numbers    float64 gives
FINISH_SINKS        attention-numbers    sinks, .*float64 gives
FINISH_SINK_HEAD    attention-numbers    sinks, .*float64 gives
FINISH_GAP          attention-numbers    behind the end of outputs\|beyond its outputs\|between the outputs
SCORE_NEGATIVE      attention-numbers    score, .*float64 gives
SCORE_OTHERS        attention-numbers    score, .*has other scores alone\|float64 gives
SCORE_BEHIND        attention-numbers    score, .*wrote behind the scores of token 0\|wrote around the scores
SCORE_FAILS         attention-numbers    score, .*it failed: the scores are lost
FINISH_PARTIAL      attention-numbers    finish, .*it wrote to partial results, which can only be read
FINISH_ZEROS        attention-isolation  of a query that saw no key
MERGE_EMPTY         attention-isolation  after a merge with a result that saw no key
TILE                attention-isolation  if it is the tile.s only query
ADDS_CHUNKS         attention-isolation  in one attend of several chunks
ADDS_NOTHING        attention-isolation  with struct kt_attend.add
NAN_LEAKS           attention-isolation  without a NaN in another query of the tile
NAN_HIDDEN          attention-isolation  it is hidden
THREADS             attention-threads    other bits than one thread alone
FAULTS

# Without a fault nothing is found. It may refuse shapes, and may round where its instruction says so.
for fault in '' LAYOUT_REFUSES LAYOUT_BF16; do
    KT_TEST_FAULT=$fault
    kt plugin check --quick --cases 1 "$plugin"
    exits 0
    is_silent
    says '^attention-threads  *scalar  *ok '
    case $fault in
    LAYOUT_REFUSES) says '^attention-numbers .* 7 shapes, 7 cases; it refuses others: q8_0 keys are not taken$' ;;
    *) says '^attention-numbers .* 10 shapes, 10 cases$' ;;
    esac
    # It has no experts, so nothing that they need is checked.
    says_not '^\(layout\|pack\|numbers\|threads\) '
done

# kt backends says what each computes.
set -- --set "plugin.wrong_attention.module=$plugin" --set plugin.off.enabled=no --set plugin.off.module=kt_off.so
kt backends "$@" --set plugin.wrong_attention.enabled=yes
exits 0
says '^wrong_attention  *loaded  *scalar .*  attention'
says '^reference  *loaded .*  experts linears'
kt backends wrong_attention off "$@" --set plugin.wrong_attention.enabled=yes --format json
says '"linears": false,'
says '"attention": true,'
says '"attention": null,'
says '"computes": "attention",'
finish
