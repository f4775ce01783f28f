#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt tune with a plugin whose work depends on its tunables in a known way: it multiplies up to 112 times as often
# as needed, so that the best values are found on any machine. Nothing here judges a time.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
umask 022
cp "$KT_TEST_BUILD/tests/plugins/kt_slow.so" "$KT_TEST_BUILD/tests/plugins/kt_fake.so" "$dir"
cat >"$dir/kt.ini" <<INI
[plugin.slow]
module = $dir/kt_slow.so
[plugin.fake]
module = $dir/kt_fake.so
INI
small="--config $dir/kt.ini --shape 8,8,2,1 --threads 1 --cycle 2 --min-time 0.003 --backend slow --source-type f32"
tuned=$dir/tuned.ini

# finds TEXT ARGUMENT...: beside other programs a search may miss what is best, and a comparison may be noisy, but
# hardly four times. The lines of the output are one here.
finds()
{
    text=$1
    shift
    for _ in 1 2 3 4; do
        kt tune "$@"
        ! tr '\n' ' ' <"$out" | grep -q -e "$text" || return 0
    done
    exits 0
    fail "the output must hold: $text"
}

# From the worst end of each range to the best values.
# shellcheck disable=SC2086
finds 'work 1 (16), valley 3 (5)' $small --tokens 1,4 --format csv
[ "$(awk -F, 'NR == 2 { print $1 "," $2 "," $3 }' "$out")" = slow,swift,f32 ] || fail "the row must name what ran"
says ',tuned,'
grep -q '^swift.f32.experts-8x8.work = 1$' "$tuned" || fail "the best work is 1"
grep -q '^swift.f32.experts-8x8.valley = 3$' "$tuned" || fail "the best valley is 3"
grep -q '^swift.f32.experts-8x8.gain = [0-9.]*$' "$tuned" || fail "the gain must be written"
grep -q '^cpu = ' "$tuned" || fail "the CPU must be written"

# They are in force, for this shape only.
kt tune --show --config "$dir/kt.ini" --format csv
exits 0
says '^slow,swift,work,1,16'
kt tune --show --config "$dir/kt.ini"
says 'tuned.slow  swift.f32.experts-8x8.work  *1 '
says 'rows from which results are rounded'

# Again: values of the same layer are replaced, those of others and other sections stay.
{
    echo '; mine'
    echo '[tuned.fake]'
    sed -n '/^cpu/p;/^microcode/p' "$tuned"
    echo 'swift.f32.*.work = 2'
    sed 's/= 3$/= 5/' "$tuned"
    echo 'swift.bf16.*.work = 4'
} >"$dir/longer"
cp "$dir/longer" "$tuned"
# shellcheck disable=SC2086
finds 'valley 3 (5)' $small --tokens 1
grep -q '^; mine$' "$tuned" || fail "comments of other sections must stay"
grep -q '^swift.f32.\*.work = 2$' "$tuned" || fail "other sections must stay"
grep -q '^swift.bf16.\*.work = 4$' "$tuned" || fail "other keys must stay"
[ "$(grep -c '^swift.f32.experts-8x8.valley' "$tuned")" -eq 1 ] || fail "a value must stand once"
[ "$(grep -c '^\[tuned.slow\]' "$tuned")" -eq 1 ] || fail "a section must stand once"
kt config check --config "$dir/kt.ini"
exits 0

# A section of another microcode is replaced as a whole, that of another CPU stays, and is said to be ignored.
sed -e 's/^microcode = .*/microcode = 0xbad/' -e '/^\[tuned.slow\]/,$!d' "$tuned" >"$dir/stale"
if grep -q '^microcode' "$dir/stale"; then
    cp "$dir/stale" "$tuned"
    kt config path --config "$dir/kt.ini"
    says 'ignored  *for microcode 0xbad'
    # shellcheck disable=SC2086
    kt tune $small --tokens 1
    exits 0
    ! grep -q 0xbad "$tuned" || fail "what another microcode gave must go"
    ! grep -q '^swift.bf16' "$tuned" || fail "all that another microcode gave must go"
fi
sed 's/^cpu = .*/cpu = GenuineIntel-0-0/' "$tuned" >"$dir/other"
cp "$dir/other" "$tuned"
kt doctor --config "$dir/kt.ini" --set 'tuned.slow.swift.*.*.work=1' # its self-test is ten times as slow without
says 'for CPU GenuineIntel-0-0, this is'
kt explain "$data/tiny-moe-q4_k_m.gguf" --config "$dir/kt.ini"
says 'tuned.ini is ignored, or parts of it: for CPU GenuineIntel-0-0, this is'
[ ! -f "$KT_TEST_BUILD/libktengine.la" ] || says '^kt generate cannot run it: .*tuned.ini is ignored' # one note behind the other
# shellcheck disable=SC2086
kt tune $small --tokens 1
exits 0
[ "$(grep -c '^\[tuned.slow\]' "$tuned")" -eq 2 ] || fail "each CPU has a section"

# What does not fit names file, line and range.
echo 'swift.f32.*.work = 17' >>"$tuned"
kt config check --config "$dir/kt.ini"
exits 1
says "tuned.ini:[0-9]*: swift.f32.\*.work = \"17\": must be a number from 1 to 16"

# Removed.
kt tune --reset --config "$dir/kt.ini"
exits 0
[ ! -e "$tuned" ] || fail "the file must go"
kt tune --reset --config "$dir/kt.ini"
exits 0
warns 'nothing was tuned'

# A linear.
# shellcheck disable=SC2086
finds 'work 1 (16)' --config "$dir/kt.ini" --linear 8x12 --threads 1 --cycle 2 --tokens 1 --min-time 0.003 --backend slow --source-type f32
grep -q '^swift.f32.linear-8x12.work = 1$' "$tuned" || fail "a linear has values of its own"
rm "$tuned"

# The layers of a model.
finds 'work 1 (16)' "$data/tiny-moe-q4_k_m.gguf" --layers 0 --config "$dir/kt.ini" --threads 1 --cycle 2 --tokens 1 \
    --min-time 0.003 --backend slow
grep -q '^swift\.q4_k[^ ]*\.experts-[0-9x]*\.work = 1$' "$tuned" || fail "values are for the model's format and shape"
rm "$tuned"

# Levels: brisk needs a quarter of the work, so level = auto takes it from then on, but not where it is named.
# shellcheck disable=SC2086
finds ' slow,brisk,f32,[^ ]*,tuned,[^"]*"work 1 (16).* slow,brisk,f32,[^ ]*,faster,' $small --tokens 1 --levels --format csv
grep -q '^level = brisk$' "$tuned" || fail "the fastest level must be kept"
grep -q '^brisk.f32.experts-8x8.work = 1$' "$tuned" || fail "each level is tuned"
kt backends --config "$dir/kt.ini" --format csv
says "^slow,loaded,brisk,.*level = brisk by $tuned:"
kt backends --config "$dir/kt.ini" --set plugin.slow.level=swift --format csv
says '^slow,loaded,swift,'
sed 's/^level = brisk/level = briskly/' "$tuned" >"$dir/wrong"
cp "$dir/wrong" "$tuned"
kt config check --config "$dir/kt.ini"
exits 1
says 'slow has no level "briskly"; it has .*, did you mean brisk?'
rm "$tuned"

# Without time the standards stay, and no file is written.
# shellcheck disable=SC2086
kt tune $small --tokens 1 --minutes 0 --format csv
exits 0
says ',no time,'
[ ! -e "$tuned" ] || fail "nothing was found"

# kt explain shows what is in force.
cat >"$dir/set.ini" <<INI
[core]
backend = fake
[plugin.fake]
module = $dir/kt_fake.so
INI
kt explain "$data/tiny-moe-q4_k_m.gguf" --config "$dir/set.ini" --set 'tuned.fake.swift.*.*.work=4' \
    --set 'tuned.fake.swift.*.*.gain=1.5'
exits 0
says 'work 4 instead of 1; 50.0 % faster'

# What comes with kt-kernel, as if it was for this CPU: levels, tunables and ranges exist.
if [ "$(uname -m)" = x86_64 ]; then
    cpu=$(sed -n 's/^cpu = //p' "$dir/longer" | head -n 1)
    sed "s/^cpu = .*/cpu = $cpu/" "$KT_TEST_SOURCE/etc/tuned.ini" >"$tuned"
    for name in $(sed -n 's/^\[tuned\.\(.*\)\]$/\1/p' "$tuned"); do
        plugin=$KT_TEST_BUILD/.libs/kt_$name.so
        [ ! -f "$plugin" ] || printf '[plugin.%s]\nmodule = %s\n' "$name" "$plugin"
    done >"$dir/all.ini"
    kt config check --config "$dir/all.ini"
    exits 0
    says_not failed
    rm "$tuned"
fi

kt tune --show --reset
exits 2
kt tune --levels
exits 2
warns 'say of which backend'
kt tune --show --backend slow
exits 2
kt tune --tokens 0
exits 2
kt tune --set tuned.nobody.x.y.z.w=1
exits 2
warns 'no plugin "nobody" is configured'
finish
