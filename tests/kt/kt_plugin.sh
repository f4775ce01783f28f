#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt plugin check: each fault gets its verdict, right plugins pass, bad files are named.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
plugins=$KT_TEST_BUILD/tests/plugins
[ -f "$plugins/kt_wrong.so" ] || skip "the test plugins were not built: libcheck is missing"
if grep -q __asan_init "$plugins/kt_wrong.so"; then
    skip "the address sanitizer is a constructor in each plugin, and takes the faults that are to be found here"
fi

# ---- what the file is --------------------------------------------------------------------------
refused()
{
    exits 1
    says "^file  *failed  .*$1"
}
kt plugin check "$dir/kt_none.so"
refused 'No such file'
kt plugin check "$dir"
refused 'is a directory'
mkfifo "$dir/kt_fifo.so"
kt plugin check "$dir/kt_fifo.so"
refused 'is a fifo'
: >"$dir/kt_empty.so"
kt plugin check "$dir/kt_empty.so"
refused 'has 0 bytes'
cp "$plugins/kt_fake.so" "$dir/fake.so"
kt plugin check "$dir/fake.so"
refused 'the library looks for kt_NAME.so'
cp "$plugins/kt_fake.so" "$dir/kt_Fake.so"
kt plugin check "$dir/kt_Fake.so"
refused 'lower-case letters'

# found FILE CHECK TEXT: this check fails, and says so.
found()
{
    kt plugin check --quick "$1"
    exits 1
    says "^$2  .*failed  .*$3"
    warns 'checks\{0,1\} failed'
}
echo 'int main;' >"$dir/kt_text.so"
found "$dir/kt_text.so" load 'is not an ELF file'
says '^symbols .*failed'
says '^constructors .*skipped'
head -c 3000 "$plugins/kt_fake.so" >"$dir/kt_short.so"
found "$dir/kt_short.so" load 'truncated or damaged'
head -c 40 "$plugins/kt_fake.so" >"$dir/kt_tiny.so"
found "$dir/kt_tiny.so" load 'ends inside its ELF header'
cp "$plugins/kt_fake.so" "$dir/kt_elsewhere.so"
printf '\364\000' | dd of="$dir/kt_elsewhere.so" bs=1 seek=18 conv=notrunc 2>"$err" # no machine of ours
found "$dir/kt_elsewhere.so" load 'is for another machine (ELF machine 244)'
cp "$plugins/kt_fake.so" "$dir/kt_sections.so"
printf '\377\377\377\377\377\377\377\177' | dd of="$dir/kt_sections.so" bs=1 seek=40 conv=notrunc 2>"$err"
found "$dir/kt_sections.so" symbols 'not there, or damaged'

# Segments over memory that is somebody else's: the dynamic linker would protect it, or map over it. A program
# header has 56 bytes: its type, and behind 16 bytes where it lies.
number() { od -An -tu"$2" -j "$1" -N "$2" "$dir/kt_segment.so" | tr -d ' '; }
for type in 1685382482 2; do # PT_GNU_RELRO, PT_DYNAMIC
    cp "$plugins/kt_fake.so" "$dir/kt_segment.so"
    at=$(number 32 8)
    while [ "$(number "$at" 4)" != "$type" ]; do at=$((at + 56)); done
    printf '\001' | dd of="$dir/kt_segment.so" bs=1 seek=$((at + 18)) conv=notrunc 2>"$err"
    found "$dir/kt_segment.so" load 'truncated or damaged'
done

# The copy that is loaded is gone afterwards, and messages name the user's file.
TMPDIR=$dir/tmp
export TMPDIR
mkdir "$TMPDIR"
kt plugin check --quick "$dir/kt_text.so"
says_not 'kt-plugin-'
[ -z "$(ls -A "$TMPDIR")" ] || fail "a copy was left in TMPDIR"

# ---- what the struct says: refused before anything is called ---------------------------------------
found "$plugins/kt_newer_minor.so" load 'plugin ABI 1\.[0-9]*, this core has 1\.[0-9]*; update kt-kernel'
found "$plugins/kt_wrong_major.so" load 'plugin ABI 2, this core has 1'
found "$plugins/kt_short_struct.so" load 'struct_size is 20'
found "$plugins/kt_long_struct.so" load 'struct_size says 1000000 bytes'
found "$plugins/kt_function_symbol.so" load 'is a function'
says '^symbols .*is not a data symbol'
found "$plugins/kt_null_function.so" load 'has no function down'
found "$plugins/kt_twin_levels.so" load 'two of its levels'
found "$plugins/kt_short_ops.so" load 'struct kt_ops of 16 bytes'
found "$plugins/kt_other_name.so" load 'calls itself "somebody"'
found "$plugins/kt_option_default.so" load 'rows'
kt plugin check "$plugins/kt_probe_refuses.so"
exits 0
says '^probe  *skipped  it refuses to work here: there is no vendor library here'

# ---- what lies in the file ---------------------------------------------------------------------------
found "$plugins/kt_constructor.so" constructors '2 functions would run when it is loaded'
found "$plugins/kt_initializer.so" constructors 'a function of its own .* without -Wl,-init'
found "$plugins/kt_bare.so" constructors 'a function of its own .* start-up files are not in it'
found "$plugins/kt_resolver.so" constructors '1 times a function would run when it is loaded, to choose another'
found "$plugins/kt_second_symbol.so" symbols 'it exports another_symbol'
found "$plugins/kt_stack.so" symbols 'it asks for an executable stack'
found "$plugins/kt_boastful.so" layout 'formats says q4_k'
if command -v objdump >/dev/null && [ "$(uname -m)" = x86_64 ]; then
    kt plugin check --quick "$plugins/kt_undeclared.so"
    exits 1
    says '^instructions .*failed .*vpaddd at 0x[0-9a-f]* needs avx2, which no level declares'
else
    echo "instructions are not checked: objdump (binutils) or an x86-64 CPU is missing"
fi

# ---- what the functions do --------------------------------------------------------------------------------
# One row: fault, the check that must fail first, what it or the next one says. Loading calls probe, open and
# close too; where a child does not come back from that, they are called one by one.
faults='
PROBE_CRASH      load         probe: crashed with SIGSEGV
PROBE_EXIT       load         probe: it ended the process with exit status 0
PROBE_PRINT      load         it wrote "hello from a plugin"
PROBE_MUTE       probe        does not say why
OPEN_LEAK        open         2 blocks of the host.s memory were not given back
OPEN_THREAD      load         afterwards the process has other threads
OPEN_TEXT        open         open: AAAA
OPEN_CACHES      ranges       open: crashed with SIGFPE
OPEN_MALLOC      memory       10[0-9]* bytes of malloc are not given back
OPEN_CARELESS    memory       open, allocation 1 fails: crashed with SIGSEGV
CLOSE_TWICE      load         host->release: the memory is none
CLOSE_SIZE       open         bytes are said to be given back of a block of
LAYOUT_OVERFLOW  layout       it lays out 2^62 x 2^62 weights
LAYOUT_SHORT     layout       2^17 x 2^17 weights, stage 0: 0 bytes
LAYOUT_UNIT      layout       k_unit is 0
LAYOUT_SHAPE     layout       it changed the shape
LAYOUT_MUTE      layout       does not say why
PACK_BEYOND      pack         wrote beyond its object\|behind the end of packed weights
PACK_RANGES      pack         in two ranges differs
PACK_SOURCE      pack         it wrote to the source.s weights, which can only be read
WEIGHTS_ROWS     weights      is not the source.s
WEIGHTS_FACTOR   weights      with one [a-z0-9]*,.* is not the source.s
WEIGHTS_ROUND    weights      if packing rounds, kt_layout.rounding must say so
WEIGHTS_BEYOND   weights      behind the end of weight_row.s output
ACT_F16          activations  rows in F16 are packed otherwise
ACT_ROWS         activations  packed by rows differ
GATE_BEFORE      numbers      a byte 1 before the start of packed weights\|is [-0-9]
GATE_COLUMN      numbers      float64 gives
GATE_ALLOCATES   numbers      gate_up asks the host for memory
GATE_SOURCE      numbers      gate_up.*: it wrote to packed weights, which can only be read
GATE_TRAP        numbers      gate_up.*33 rows.*: crashed with SIG[A-Z]*
GATE_THREAD      numbers      afterwards the process has other threads
GATE_PROCESS     numbers      other processes of its own
GATE_ROUNDING    numbers      gate_up.*: it changed the mode of floating point
GATE_HANDLER     numbers      another handler of a signal
GATE_SIGNALS     numbers      other blocked signals
GATE_ALARM       numbers      another timer
GATE_OPENS       numbers      other open files
GATE_CLOSES      numbers      other open files
GATE_FOLDER      numbers      another working directory
GATE_LOCALE      numbers      another locale
GATE_UMASK       numbers      another umask
GATE_ENVIRONMENT numbers      another environment
GATE_INDEX       numbers      gate_up.*: it touched byte 1 behind the end of index
GATE_NEXT        numbers      gate_up.*: it touched byte 1 behind the end of packed weights
GATE_ROWS        numbers      gate_up.*: crashed with SIGSEGV
GATE_BIAS        numbers      gate_up.*: crashed with SIGSEGV
GATE_FIRST       numbers      float64 gives
GATE_FAILS       numbers      gate_up.*: it failed: no reason at all
GATE_OPTION      options      panel_rows = 128, .*: crashed with SIGSEGV
DOWN_ALIGNED     numbers      float64 gives
DOWN_BIAS        numbers      float64 gives
DOWN_COLUMN      numbers      float64 gives
DOWN_GAP         numbers      between the rows of y\|float64 gives\|behind the end of y
DOWN_SCALE       numbers      float64 gives\|all y together are off
DOWN_MEAN        numbers      all y together are off
DOWN_BEYOND      numbers      y
DOWN_PANELS      ranges       differs from all panels at once
DOWN_PLACE       ranges       depends on its place
NAN_LEAKS        isolation    a NaN in token [0-9]* changed y
NAN_HIDDEN       isolation    it is hidden
CUT_ROW          cut          is not the whole expert.s
CUT_BEYOND       cut          wrote beyond the shard\|behind the end of a shard
UNPACK_LIES      unpack       are not the source.s bits
THREADS          threads      the bits differ from those of one thread
LINEAR_STAGE     layout       linear of .*: a linear has no stage 0
LINEAR_FORMAT    layout       layout.*linear of .*: crashed with SIGFPE
LINEAR_VIEW      pack         pack.*linear of .*: crashed with SIGSEGV
LINEAR_STRIDE    activations  linear of .* packed by rows differ
LINEAR_H         activations  linear of .*\(packed by rows differ\|the input.s rows\)
LINEAR_JOBS      activations  linear of .*\(packed by rows differ\|the start of packed activations\|SIGSEGV\)
LINEAR_COLUMN    numbers      linear of .*float64 gives
LINEAR_OPTION    options      panel_rows = 128, linear of .*: crashed with SIGSEGV
'
echo "$faults" >"$dir/faults"
while read -r fault check text; do
    [ -n "$fault" ] || continue
    KT_TEST_FAULT=$fault
    export KT_TEST_FAULT
    kt plugin check --quick "$plugins/kt_wrong.so"
    command_line="$command_line, $fault"
    exits 1
    [ "$(awk '$2 == "failed" || $3 == "failed" { print $1; exit }' "$out")" = "$check" ] ||
        fail "the check $check must be the first to fail"
    says "failed .*\($text\)"
done <"$dir/faults"

# The same, of fewer cases.
KT_TEST_FILE=$dir/writable
export KT_TEST_FILE
: >"$KT_TEST_FILE"
chmod 666 "$KT_TEST_FILE"
finds_faults "$plugins/kt_wrong.so" <<'FAULTS'
PROBE_LEAK       probe        probe: 1 blocks of the host.s memory were not given back
HOST_LEVEL       open         host->log: level 77 is none of enum kt_log_level
HOST_LINES       open         host->log: a line has no newline of its own
HOST_VIEW        open         host->dequantize: row 1, columns 0 to 1 of a view of 1 x 1
HOST_BLOCKS      open         it holds 4096 blocks of the host.s memory at once
HOST_BEHIND      open         it wrote behind the end of a block of 100 bytes of host->allocate
OPEN_LEAVES      open         it failed and left an instance
OPEN_MUTE        open         it failed with status 4 and does not say why
OPEN_PATH        open         kt.ini is not an absolute path of a file
OPEN_WRITABLE    open         writable can be written by others
OPTION_LEAK      options      1 blocks of the host.s memory were not given back
OPTION_MUTE      options      panel_rows = 128: it failed with status 1 and does not say why
MEMORY_LEAK      memory       not given back, with allocation 2 failing
MEMORY_STATUS    memory       allocation 1 fails: it gives status 4 and "no memory"; KT_E_NOMEM
CHECK_MUTE       level        check of level scalar: it refuses with status 6 and does not say why
CHECK_LEAK       level        1 blocks of the host.s memory were not given back
LAYOUT_NOTHING   layout       it takes no format that kt-kernel reads
LAYOUT_LEAK      layout       blocks of the host.s memory were not given back
LAYOUT_AGAIN     layout       it was refused when it was asked for again: not twice
LAYOUT_OTHER     layout       the same shape has another layout when it is asked for again
LAYOUT_PANELS    layout       panel_rows.1. is 0
LAYOUT_NOMINAL   layout       nominal_size.1. is 0
LAYOUT_WEIGHTS   layout       weight_size.1. is 0
LAYOUT_ROWS      layout       act_row_size.1. is 0
LAYOUT_H         layout       h_row_size is 0
LAYOUT_WORDS     layout       rounding has 55 letters, 47 are the most
LAYOUT_SCRATCH   layout       scratch_size is 4611686018427387904, row_unit 0
LAYOUT_Y         layout       y_dtype is 2: KT_DTYPE_F32 or KT_DTYPE_BF16 is allowed
LAYOUT_FORM      layout       form has no end
WEIGHTS_FAIL     weights      row 3 of projection 2: no row 3
WEIGHTS_BEFORE   weights      it wrote before its row
WEIGHTS_SHARD    cut          weight_row of a shard.*: no row of a shard
UNPACK_MUTE      unpack       asked whether it can, it gives status 4
UNPACK_FAILS     unpack       it said that it can, and fails
CUT_FAILS        cut          it failed: no cut
CUT_SHARD        cut          a multiple of k_unit, is refused: no shards are taken
FAULTS

# What never comes back is stopped; under emulation what comes back is slow.
timeout=$((${CK_TIMEOUT_MULTIPLIER:-10} > 10 ? 20 : 2))
for fault in PROBE_LOOP PACK_LOOP; do
    KT_TEST_FAULT=$fault
    kt plugin check --quick --timeout $timeout "$plugins/kt_wrong.so"
    exits 1
    says "\(probe\|pack, .*\): it did not come back within $timeout seconds"
done

# Without a fault nothing is found.
KT_TEST_FAULT=
for format in table json csv tap; do
    kt plugin check --quick --format $format "$plugins/kt_wrong.so"
    exits 0
    is_silent
done
says '^TAP version 13$'
says '^ok 1 - file: kt_wrong.so'
says '^ok 2 - load: version 1.0, built for plugin ABI 1\.[1-9]'
says '^ok [0-9]* - numbers scalar: 2 formats, 8 cases, 2 of them linears$'
says '^ok [0-9]* - speed # SKIP --quick'
[ "$(sed -n '$p' "$out")" = "1..$(grep -c '^ok' "$out")" ] || fail "the plan must count the tests"

# It may refuse linears, and says why; a plugin of an older ABI is not asked for them.
KT_TEST_FAULT=LINEAR_REFUSES
kt plugin check --quick "$plugins/kt_wrong.so"
exits 0
says '^numbers .* 2 formats, 6 cases; no linears: f32 and bf16 are taken$'
cp "$KT_TEST_BUILD/tests/abi/1.0/kt_example.so" "$dir/kt_example.so"
kt plugin check --quick --cases 1 "$dir/kt_example.so"
exits 0
says '^numbers .*; no linears: it is built for plugin ABI 1\.0$'

KT_TEST_FAULT=DOWN_BIAS
kt plugin check --quick --format tap "$plugins/kt_wrong.so"
exits 1
says '^not ok [0-9]* - numbers scalar$'
kt plugin check --quick --format json "$plugins/kt_wrong.so"
says '"schema": "kt.plugin.check"'
says '"state": "failed"'
unset KT_TEST_FAULT

# ---- its INI -------------------------------------------------------------------------------------------------
printf '[plugin.wrong]\nenabled = yes\npanel_rows = 3\n' >"$dir/wrong.ini"
kt plugin check --quick --config "$dir/wrong.ini" "$plugins/kt_wrong.so"
exits 0
says '^configuration  *ok '
printf '[plugin.wrong]\npanel_row = 3\n' >"$dir/wrong.ini"
kt plugin check --quick --config "$dir/wrong.ini" "$plugins/kt_wrong.so"
exits 1
says '^load  *failed .*did you mean panel_rows?'
printf '[plugin.other]\nmodule = kt_other.so\n' >"$dir/wrong.ini"
kt plugin check --quick --config "$dir/wrong.ini" "$plugins/kt_wrong.so"
exits 1
says '^configuration  *failed .*has no section \[plugin.wrong\]'

# ---- the command line ------------------------------------------------------------------------------------------
kt plugin
exits 2
warns 'check FILE.so or new NAME is missing'
kt plugin chek x
exits 2
warns "did you mean 'check'?"
kt plugin check a b
exits 2
kt plugin check --dir x kt_x.so
exits 2
warns 'option of kt plugin new'
kt plugin check --timeout 0 kt_x.so
exits 2
kt config show --format tap
exits 2
warns 'one of table|json|csv'

# ---- ours ----------------------------------------------------------------------------------------------------------
for file in "$KT_TEST_BUILD"/.libs/kt_*.so; do
    [ -f "$file" ] || continue
    name=${file##*/kt_} name=${name%.so}
    [ -f "$KT_TEST_SOURCE/plugins/$name/$name.ini" ] || continue
    kt plugin check --quick --cases 1 --config "$KT_TEST_SOURCE/plugins/$name/$name.ini" "$file"
    exits 0
    is_silent
    says '^\(attention-\)\{0,1\}numbers .* ok '
done
finish
