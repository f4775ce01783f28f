#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt config get, set and unset: what they check, what they leave of a file, and who overrides it.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
mine=$XDG_CONFIG_HOME/kt-kernel/kt.ini

# The file holds exactly what standard input gives, and nothing lies beside it.
holds()
{
    cat >"$dir/wanted"
    cmp -s "$dir/wanted" "$1" || fail "$1 must hold (<), not (>):
$(diff "$dir/wanted" "$1")"
    for beside in "$1".*; do
        [ ! -e "$beside" ] || fail "$beside is left"
    done
}
mode()
{
    stat -c %a "$1"
}

# ---- a user without a file ----
kt config get core.threads
exits 0
is_silent
[ "$(cat "$out")" = 0 ] || fail "the value alone is printed"
kt config unset core.threads
exits 1
warns "$mine does not set core.threads, which is 0, by default"
[ ! -e "$XDG_CONFIG_HOME" ] || fail "unset must make no folder"
kt config set core.threads 4
exits 0
is_silent
says "^$mine:2: threads = 4$"
printf '[core]\nthreads = 4\n' | holds "$mine"
[ "$(mode "$mine") $(mode "$XDG_CONFIG_HOME")" = "644 700" ] || fail "modes are those of new files and of XDG"
kt config path --format csv
says "^file,$mine,read,"
kt config get core.threads --format csv
exits 0
says "^core,threads,4,$mine:2"
kt config get core.threads --format json
says '"value": "4"'
kt config set --format csv core.threads 5
exits 0
says "^set,$mine,2,core,threads,5,$mine:2"
(
    unset XDG_CONFIG_HOME
    kt config set core.threads 6
    exits 0
    says "^$HOME/.config/kt-kernel/kt.ini:2: "
    unset HOME
    kt config set core.threads 6
    exits 1
    warns 'name the file with --config'
    exit "$n_failed"
) || n_failed=$((n_failed + $?))

# ---- what is refused changes nothing ----
printf '[core]\nthreads = 6\n' >"$mine"
while IFS='|' read -r key value message; do
    kt config set "$key" "$value"
    exits 2
    warns "$message"
    printf '[core]\nthreads = 6\n' | holds "$mine"
done <<'END_OF_CASES'
core.threds|4|did you mean threads?
cor.threads|4|did you mean \[core\]?
core.threads|many|a whole number from 0 to 4096
core.strict|perhaps|yes
core.numa_nodes|x|such as 0,2-3
core.numa_nodes|1023|which this machine does not have
core.backend|frob|no such backend is configured
plugin.frob.level|auto|no plugin "frob" is configured
plugin.reference.level|auto|built in
threads|4|SECTION.KEY is needed
core.threads=4|5|two words
core.plugin_path|/one ;two|cannot hold the value
END_OF_CASES
kt config set core.plugin_path "$(printf '/one\n[core]\nthreads = 1')"
exits 2
kt config set core.plugin_path "/$(printf '%0200d' 0)"
exits 2
warns "nothing was changed: $mine:3: .*at most 190"
printf '[core]\nthreads = 6\n' | holds "$mine"
for words in 'set' 'set core.threads' 'set core.threads=4' 'set core.threads 1 2' 'get' 'unset' 'show core.threads' \
    'get core.threads --system' 'set core.threads 1 --system --config x.ini'; do
    # shellcheck disable=SC2086 # words of a command line
    kt config $words
    exits 2
done
kt config sett core.threads 2
exits 2
warns "unknown action 'sett', did you mean 'set'?"
for key in core.treads core.frob plugin.frob.level; do
    kt config get $key
    exits 1
    warns "$key is not set and has no default"
done
kt config get core.treads
warns 'did you mean core.threads?'

# ---- all other bytes stay ----
cat >"$mine" <<'END_OF_FILE'
# mine
[core]
  threads=3	; of eight
;spin_us = 1000
;spin_us = 500
; huge_pages = yes is the best of all defaults
# debug = no

; not before the next section
[plugin.some]
;[plugin.other]
;level = auto
END_OF_FILE
kt config set core.threads 12
kt config set core.spin_us 7
says ':6: spin_us = 7$'
kt config set core.debug no
kt config set core.huge_pages no
kt config set plugin.some.level neon
kt config set plugin.some.priority -5
exits 0
holds "$mine" <<'END_OF_FILE'
# mine
[core]
  threads=12	; of eight
;spin_us = 1000
;spin_us = 500
spin_us = 7
; huge_pages = yes is the best of all defaults
# debug = no
debug = no
huge_pages = no

; not before the next section
[plugin.some]
level = neon
priority = -5
;[plugin.other]
;level = auto
END_OF_FILE
for key in core.spin_us core.debug core.huge_pages plugin.some.level; do
    kt config unset $key
    exits 0
    says "^$mine:[0-9]*: $key removed$"
    warns "note: $key is "
done
kt config unset plugin.some.priority
exits 0
holds "$mine" <<'END_OF_FILE'
# mine
[core]
  threads=12	; of eight
;spin_us = 1000
;spin_us = 500
; huge_pages = yes is the best of all defaults
# debug = no

; not before the next section
;[plugin.other]
;level = auto
END_OF_FILE

# The example that comes with kt-kernel: below its defaults, also of a section that is a comment.
printf '[plugin.llamafile]\nmodule = kt_llamafile.so\n' >"$dir/shipped/llamafile.ini"
cp "$KT_TEST_SOURCE/etc/kt.ini" "$mine"
kt config set core.queue_depth 16
kt config set plugin.llamafile.priority 3
exits 0
line=$(grep -n '^priority = 3' "$mine" | cut -d: -f1)
says "^$mine:$line: "
diff "$KT_TEST_SOURCE/etc/kt.ini" "$mine" | grep '^[<>]' >"$dir/changes"
printf '> %s\n' 'queue_depth = 16' '[plugin.llamafile]' 'priority = 3' | cmp -s - "$dir/changes" ||
    fail "three lines are added: $(cat "$dir/changes")"
[ "$(grep -A1 '^;queue_depth' "$mine" | tail -n1)" = 'queue_depth = 16' ] || fail "it stands below its default"
[ "$(grep -A1 '^;\[plugin' "$mine" | tail -n1)" = '[plugin.llamafile]' ] || fail "so does the section"
[ "$(grep -A1 '^;priority' "$mine" | tail -n1)" = 'priority = 3' ] || fail "so does the plugin's"
kt config unset plugin.llamafile.priority
kt config unset core.queue_depth
holds "$mine" <"$KT_TEST_SOURCE/etc/kt.ini"
# A commented section inside of another one must not take that one's settings.
printf '[core]\n;[plugin.llamafile]\nthreads = 1\n' >"$mine"
kt config set plugin.llamafile.level auto
printf '[core]\n;[plugin.llamafile]\nthreads = 1\n\n[plugin.llamafile]\nlevel = auto\n' | holds "$mine"
kt config unset plugin.llamafile.level
printf '[core]\n;[plugin.llamafile]\nthreads = 1\n' | holds "$mine"

# Line breaks of other systems, a byte order mark, no break at the end, an empty value.
printf '\357\273\277[core]\r\n;threads = 0\r\ndebug = no' >"$mine"
kt config set core.threads 2
kt config set plugin.llamafile.level auto
kt config set core.cpu_variant ''
printf '\357\273\277[core]\r\n;threads = 0\r\nthreads = 2\r\ndebug = no\r\ncpu_variant =\r\n\r\n[plugin.llamafile]\r\nlevel = auto\r\n' |
    holds "$mine"
kt config set core.cpu_variant scalar
[ "$(grep -c '^cpu_variant = scalar.$' "$mine")" -eq 1 ] || fail "an empty value is replaced"
kt config set core.cpu_variant avx512_base
exits 2
printf '[core]\nthreads = ; none\n' >"$mine"
kt config set core.threads 3
printf '[core]\nthreads = 3 ; none\n' | holds "$mine"

# ---- a file with errors ----
printf '[core]\nthreads = x\n' >"$mine"
kt config set core.spin_us 3
exits 1
warns "nothing was changed, .*another error: $mine:2: "
printf '[core]\nthreads = x\n' | holds "$mine"
kt config set core.threads 3
exits 0
printf '[core]\nthreads = 3\n' | holds "$mine"
printf '[core]\nthreads = 1\nthreads = 2\n' >"$mine"
kt config set core.spin_us 3
exits 1
warns "$mine:3: core.threads is set twice; $mine:2 sets it too"
printf '[core]\nthreds = 3\nthreads = 1\nthreads = 2\n' >"$mine"
kt config unset core.threds
exits 0
warns 'threads is set twice'
kt config unset core.threads
exits 0
printf '[core]\n' | holds "$mine"

# ---- who overrides it ----
KT_KERNEL_CORE_THREADS=1 kt config set core.threads 2
exits 0
warns 'warning: without effect here: core.threads is 1, by environment KT_KERNEL_CORE_THREADS'
kt config set --system core.threads 3
exits 0
says "^$dir/etc/kt.ini:2: "
warns "core.threads is 2, by $mine:2"
kt config unset core.threads
warns "note: core.threads is 3 now, by $dir/etc/kt.ini:2"
kt config unset core.threads
exits 1
warns "does not set core.threads, which is 3, by $dir/etc/kt.ini:2"
kt config unset --system core.threads
exits 0
kt config set --config "$dir/new/own.ini" core.threads 9
exits 0
says "^$dir/new/own.ini:2: "
is_silent
kt config get core.threads --config "$dir/new/own.ini"
[ "$(cat "$out")" = 9 ] || fail "--config names the file"
KT_KERNEL_CONFIG=$dir/new/own.ini kt config set core.threads 8
says "^$dir/new/own.ini:2: "

# ---- the file itself ----
chmod 640 "$mine"
ln -s "$mine" "$dir/link.ini"
kt config set core.threads 5 --config "$dir/link.ini"
exits 0
says "^$dir/link.ini:2: "
[ -L "$dir/link.ini" ] || fail "the link stays"
[ "$(mode "$mine")" = 640 ] || fail "the mode stays"
printf '[core]\nthreads = 5\n' | holds "$mine"
ln -s nowhere "$dir/dangling.ini"
for file in dangling.ini etc; do
    kt config set core.threads 5 --config "$dir/$file"
    exits 1
done
[ ! -e "$dir/nowhere" ] || fail "a link to nothing is mended by nobody"
if [ "$(id -u)" -eq 0 ]; then
    chown 12:34 "$mine"
    kt config set core.threads 4
    [ "$(stat -c %u:%g "$mine")" = 12:34 ] || fail "the owner stays"
    chown 0:0 "$mine"
else
    chmod 440 "$mine"
    kt config set core.threads 4
    exits 1
    warns 'cannot be changed: Permission denied'
    chmod 640 "$mine"
fi

# ---- changes at the same time ----
printf '[core]\n' >"$mine"
for setting in threads=2 spin_us=3 huge_pages=no strict=yes queue_depth=4 cpu_variant=scalar debug=no \
    plugin_path=/nowhere; do
    kt_run config set "core.${setting%=*}" "${setting#*=}" >/dev/null 2>>"$dir/together" &
done
wait
[ "$(wc -l <"$mine")" -eq 9 ] || fail "each of eight settings is there: $(cat "$mine" "$dir/together")"
if command -v flock >/dev/null; then
    printf '[core]\n' >"$mine"
    mkfifo "$dir/held" "$dir/done"
    flock "${mine%/*}" sh -c 'echo >"$1"; read -r _ <"$2"' - "$dir/held" "$dir/done" &
    read -r _ <"$dir/held"
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs ${EMULATOR:-} "$kt_program" config set core.threads 1 >"$out" 2>"$err" &
    set=$!
    until ls -l /proc/$set/fd | grep -q -e "-> ${mine%/*}$"; do # it has opened the folder, to lock it
        kill -0 $set || break
    done
    printf '[core]\n' | holds "$mine"
    echo >"$dir/done"
    wait $set
    code=$?
    exits 0
    wait
    printf '[core]\nthreads = 1\n' | holds "$mine"
fi

# ---- a plugin's levels and options ----
rm "$mine" "$dir/shipped/llamafile.ini"
if with_plugin llamafile; then
    kt config set plugin.llamafile.level frob
    exits 2
    warns 'level = frob is not one of its levels: .*scalar'
    kt config set plugin.llamafile.level sclar
    exits 2
    warns 'level = sclar is not one of its levels: .*, did you mean scalar?'
    kt config set plugin.llamafile.yy f32
    exits 2
    warns 'has no option "yy"'
    kt config set plugin.llamafile.y frob
    exits 2
    warns 'y = .*frob'
    [ ! -e "$mine" ] || fail "nothing is written"
    kt config get plugin.llamafile.y
    exits 0
    [ "$(cat "$out")" = f32 ] || fail "the plugin's default"
    kt config set plugin.llamafile.y bf16
    exits 0
    is_silent
    kt config get plugin.llamafile.y --format csv
    says "^plugin.llamafile,y,bf16,$mine:2"
    kt config set core.backend llamafile
    exits 0
    is_silent
    kt config set plugin.llamafile.enabled no
    kt config set plugin.llamafile.level frob # it is opened to ask it
    exits 2
fi
finish
