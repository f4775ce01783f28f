#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt config and the layers of the configuration, kt backends, and kt doctor's view of both.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"

# ---- no configuration at all ----
kt config show --format csv
exits 0
is_silent
says '^core,threads,0,default,'
kt config path --format csv
exits 0
says ',absent,'
says_not ',failed,'
kt config check
exits 0
kt backends --format csv
exits 0
says '^reference,loaded,'
[ "$(wc -l <"$out")" -eq 2 ] || fail "only the reference is there"
kt backends --options
exits 0
warns 'none of the backends has options'
kt doctor
exits 0
is_silent
says '^self-test reference  *ok  *f32 .*q8_0 .* at scalar, errors up to [0-9]'
[ "$(grep -c '^self-test reference' "$out")" -eq 1 ] || fail "self-tests of a backend share a line"
says '^memory  *[a-z]*  *[0-9.]* [KMGT]iB free$'
says "^cpu quota  *ok  *\(no limit\|[0-9.]* CPUs' time for [0-9]* threads\)$"
says '^[0-9]* checks, none failed'

# ---- where a value comes from ----
mkdir -p "$XDG_CONFIG_HOME/kt-kernel" "$dir/etc/plugins.d"
printf '[core]\nthreads = 3\nspin_us = 10\n' >"$dir/etc/kt.ini"
printf '; mine\n\n[core]\nspin_us = 20\n' >"$XDG_CONFIG_HOME/kt-kernel/kt.ini"
kt config show --format csv
exits 0
says "^core,threads,3,$dir/etc/kt.ini:2,"
says "^core,spin_us,20,$XDG_CONFIG_HOME/kt-kernel/kt.ini:4,"
KT_KERNEL_CORE_SPIN_US=30 kt config show --format csv
says '^core,spin_us,30,environment KT_KERNEL_CORE_SPIN_US,'
KT_KERNEL_CORE_SPIN_US=30 kt config show --format csv --set core.spin_us=40 --set core.spin_us=50
says '^core,spin_us,50,parameter,'
printf '[core]\nthreads = 5\n' >"$dir/own.ini"
kt config show --format csv --config "$dir/own.ini"
exits 0
says "^core,threads,5,$dir/own.ini:2,"
says '^core,spin_us,1000,default,'
kt --config "$dir/own.ini" --format csv config path
exits 0
says "^file,$dir/own.ini,read,"
says_not "$dir/etc/kt.ini"

# ---- what is wrong is named with file and line ----
printf '[core]\nthreads = 2\nthreds = 4\n' >"$dir/bad.ini"
for action in show check; do
    kt config $action --config "$dir/bad.ini"
    exits 1
    cat "$out" >>"$err"
    warns 'bad.ini:3: .*did you mean threads?'
done
# each of them, though not what stands below a section that is none
printf 'x = 1\nthreads = 2\n[core]\nthread = 2\nspin_us = x\nno setting\n[croe]\nthreads = y\n[plugin.a]\nenabled = maybe\n' \
    >"$dir/worse.ini"
kt config check --config "$dir/worse.ini" --format csv
exits 1
for line in 1 4 5 6 7 10; do
    says "^file,.*worse.ini,failed,.*worse.ini:$line: "
done
[ "$(grep -c '^file,.*worse.ini,' "$out")" -eq 6 ] || fail "each line that is wrong has a row, and no other"
warns '^kt config: error: 6 entries are wrong'
kt backends --config "$dir/worse.ini"
exits 1
warns 'worse.ini:1: '
printf '[plugin.a]\nenabled = maybe\npriority = x\n' >"$dir/shipped/a.ini"
kt config check --format csv
exits 1
says '^file,.*a.ini,failed,.*a.ini:2: '
says '^file,.*a.ini,failed,.*a.ini:3: '
rm "$dir/shipped/a.ini"
awk 'BEGIN { for (i = 0; i < 1000; i++) print "x" }' >"$dir/many.ini"
kt config check --config "$dir/many.ini" --format csv
exits 1
[ "$(grep -c '^file,.*many.ini,failed,' "$out")" -eq 100 ] || fail "a file that is none has 100 rows at most"
kt config path --config "$dir/bad.ini"
exits 0
says 'bad.ini  *failed'
kt backends --config "$dir/bad.ini"
exits 1
warns '^kt backends: error: .*bad.ini:3'
kt doctor --config "$dir/bad.ini"
exits 1
sed -n 2p "$out" | grep -q '^config file  *failed .*bad.ini$' || fail "what failed comes first"
sed -n 3p "$out" | grep -q '^    .*bad.ini:3: ' || fail "what to do stands below it"
says '^[0-9]* checks*, 1 failed'
warns '^kt doctor: error: 1 check failed'
printf '[core]\nnuma_nodes = %0250d\n' 1 >"$dir/long.ini"
kt config check --config "$dir/long.ini"
exits 1
says 'long.ini:2: '
printf '\177ELF\001\002' >"$dir/binary.ini"
kt config check --config "$dir/binary.ini"
exits 1
says 'binary.ini:1: '
# check goes on after an error, and names each.
printf '[core]\nthreads = -1\n' >"$dir/etc/kt.ini"
printf '[cor]\n' >"$XDG_CONFIG_HOME/kt-kernel/kt.ini"
kt config check
exits 1
says "failed .*$dir/etc/kt.ini:2: "
says 'failed .*kt.ini:1: .*did you mean \[core\]?'
warns '2 entries are wrong'
rm "$dir/etc/kt.ini" "$XDG_CONFIG_HOME/kt-kernel/kt.ini"
KT_KERNEL_CORE_THREADS=x kt config check
exits 1
warns 'KT_KERNEL_CORE_THREADS'

# ---- backends that cannot be used stay in the list, with the reason ----
cat >"$dir/etc/plugins.d/others.ini" <<'END'
[plugin.absent]
module = kt_absent.so
[plugin.off]
enabled = no
[plugin.unfit]
cpu = amx_int8 sve2
END
kt backends --format csv
exits 0
says '^absent,failed,'
says "^off,disabled,.*$dir/etc/plugins.d/others.ini:4"
says '^unfit,unfit,.*needs .*\(sve2\|amx_int8\)' # one of them is another architecture's
says '^reference,loaded,'
kt backends
exits 0
says '^absent  *failed '
kt backends off
exits 0
says '^off '
says_not '^absent '
kt backends of
exits 1
warns 'did you mean off?'
kt config check
exits 1
says '^plugin  *absent  *failed'
kt doctor
exits 1
says '^backend absent  *failed '
says '^backend off  *skipped'
says '^backend unfit  *skipped'
KT_KERNEL_PLUGIN_ABSENT_ENABLED=required kt backends
exits 1
warns '^kt backends: error: .*absent'
KT_KERNEL_PLUGIN_ABSENT_ENABLED=required kt doctor
exits 1
says 'context  *failed'
rm "$dir/etc/plugins.d/others.ini"

# ---- the plugin ----
if with_plugin llamafile; then
    kt backends --format csv llamafile
    exits 0
    says '^llamafile,loaded,'
    kt backends llamafile
    says 'formats .*q4_k'
    KT_KERNEL_PLUGIN_LLAMAFILE_LEVEL=scalar kt backends --format csv llamafile
    [ "$(field llamafile level)" = scalar ] || fail "the level must be scalar"
    KT_KERNEL_CPU_VARIANT=scalar kt backends --format csv llamafile
    [ "$(field llamafile level)" = scalar ] || fail "the mask must leave scalar"
    kt doctor
    exits 0
    says '^self-test llamafile  *ok  .*bf16'
    KT_KERNEL_CPU_VARIANT=scalar kt doctor
    exits 0
    says '^cpu level  *warning  *scalar'
    kt config check --set plugin.llamafile.level=zzz
    exits 1
    says '^plugin  *llamafile  *failed .*level = zzz is not one of its levels'
    kt backends --format csv llamafile
    best=$(field llamafile level)
    KT_KERNEL_CPU_VARIANT=scalar kt config check --set "plugin.llamafile.level=$best"
    exits 0 # it is a level, only not one for this CPU
    says '^plugin  *llamafile  *ok'
    kt backends --set plugin.llamafile.nonsense=1 --format csv
    exits 0
    says '^llamafile,failed,.*nonsense'
    chmod 777 "$dir/plugins/kt_llamafile.so"
    kt backends --format csv
    says '^llamafile,failed,.*writable'
fi

# ---- drop-ins that cannot be used leave the others alone ----
rm -f "$dir/etc/kt.ini" "$XDG_CONFIG_HOME/kt-kernel/kt.ini"
printf '[plugin.torn]\nenabled = yes\nmod' >"$dir/shipped/torn.ini"
printf '[plugin.twin]\n' >"$dir/shipped/twin_one.ini"
printf '[plugin.twin]\n' >"$dir/shipped/twin_two.ini"
kt backends --format csv
exits 0
says '^reference,loaded,'
says '^torn,failed,.*torn.ini:3: '
says '^twin,failed,.*twin_two.ini:1: .*twin_one.ini; remove one'
kt config show
exits 0
warns 'torn.ini:3: '
kt config check
exits 1
says 'torn.ini  *failed'
says 'twin_two.ini  *failed'
says 'twin_one.ini  *read'
kt doctor
exits 1
says '^config file  *failed .*torn.ini'
says '^backend torn  *failed'
says '^self-test reference  *ok'
rm "$dir/shipped/torn.ini" "$dir/shipped/twin_one.ini" "$dir/shipped/twin_two.ini"

# ---- nor do plugins that end the process that opens them ----
if [ -f "$KT_TEST_BUILD/tests/plugins/kt_exits.so" ] && [ -z "${EMULATOR:-}" ]; then
    for name in crashes exits; do
        install -m 755 "$KT_TEST_BUILD/tests/plugins/kt_$name.so" "$dir/kt_$name.so"
        printf '[plugin.%s]\nmodule = %s\n' $name "$dir/kt_$name.so" >"$dir/shipped/$name.ini"
    done
    kt backends --format csv
    exits 0
    says '^crashes,failed,.*it crashed with SIG'
    says '^exits,failed,.*it ended the process with exit status 7'
    says '^reference,loaded,'
    kt config check
    exits 1
    says '^plugin  *exits  *failed'
    kt doctor
    exits 1
    says '^backend exits  *failed'
    says '^self-test reference  *ok'
    kt config get plugin.exits.enabled
    exits 0
    rm "$dir/shipped/crashes.ini" "$dir/shipped/exits.ini"
fi

# ---- debug messages ----
KT_KERNEL_DEBUG=1 kt config show
exits 0
warns '^kt config: debug: '
finish
