#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The man pages and --help name the same verbs, options and settings.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
unset KT_KERNEL_CPU_VARIANT # defaults are told from what is set
man=$KT_TEST_SOURCE/etc/man
find_verbs
command_line="documentation"
: >"$out"
: >"$err"

# The long options of a help text, one a line.
help_options()
{
    sed -n 's/^  \(-.,\|   \) --\([a-z-]*\).*/\2/p' "$out" | sort
}
# The options that a man page explains: the tags of its paragraphs.
man_options()
{
    sed 's/\\-/-/g' "$1" | awk '/^\.T[PQ]/ { tag = 1; next } tag { print; tag = 0 }' |
        sed -n 's/^\.B[IR]* .*--\([a-z-]*\).*/\1/p' | sort
}
same()
{
    diff "$1" "$2" >"$dir/difference" && return
    fail "$3 differ (< $4, > $5):
$(cat "$dir/difference")"
}

# The lines of a page's synopsis, or of a help's usage, as text.
synopsis()
{
    sed 's/\\-/-/g; s/\\f[A-Z]//g' "$1" | awk '
        /^\.SH/ { on = /SYNOPSIS/; next }
        !on { next }
        /^\.br/ { print text; text = ""; next }
        {
            pair = sub(/^\.[BRI][BRI] /, "") # of two fonts: spaces are within quotes only
            sub(/^\.[BI] /, "")
            n = split($0, part, "\"")
            for (i = 1; pair && i <= n; i += 2)
                gsub(/ /, "", part[i])
            text = text (text == "" ? "" : " ")
            for (i = 1; i <= n; i++)
                text = text part[i]
        }
        END { print text }'
}
usage()
{
    awk '/^$/ { exit } { sub(/^(Usage:|      ) /, "") } !/^ *kt / { printf " " } NR > 1 && /^kt / { print "" }
        { sub(/^ */, ""); printf "%s", $0 } END { print "" }' "$out"
}

# tools/kt/base/verbs.h in kt(1), and in kt --help: these verbs, in this order, with these words.
awk '/^\.SH/ { on = /VERBS/; next } /^\.PP/ { on = 0 } on' "$man/kt.1" | grep -vx '.TP' >"$dir/man"
verb_rows | sed 's/^\([a-z]*\) [^:]*: \(.*\)/.BR kt-\1 (1)\n\2./' >"$dir/rows"
same "$dir/rows" "$dir/man" "verbs" "tools/kt/base/verbs.h" "kt(1)"
kt --help
sed -n '/^Verbs:/,/^$/s/^  *\([^ ].*\)/\1/p' "$out" | tr -s '\n ' ' ' >"$dir/help"
verb_rows | sed 's/ [^:]*: / /' | tr -s '\n ' ' ' >"$dir/rows"
same "$dir/rows" "$dir/help" "verbs" "tools/kt/base/verbs.h" "kt --help"
awk '/^\.SH VERBS/ { on = 1 } /^\.SH OPT/ { on = 0 } on && /^\.PP/ { programs = 1 } programs && on' "$man/kt.1" >"$dir/man"
verb_rows | sed -n 's/^\([a-z]*\) .*KT_IN_[ES].*/\1/p' | while read -r verb; do
    grep -qw "$verb" "$dir/man" || echo "kt(1) must say which program runs $verb"
done >"$dir/missing"
[ ! -s "$dir/missing" ] || fail "$(cat "$dir/missing")"

help_options >"$dir/shared"
man_options "$man/kt.1" | grep -vx io >"$dir/man"
same "$dir/shared" "$dir/man" "options of kt" "--help" "kt(1)"
for verb in $own_verbs $engine_verbs; do
    kt $verb --help
    help_options >"$dir/help"
    if grep -qx io "$dir/help"; then
        { cat "$dir/shared" && echo io; } | sort >"$dir/common"
    else
        cp "$dir/shared" "$dir/common"
    fi
    grep -q "etc/man/kt-$verb\.1 " "$KT_TEST_SOURCE/etc/etc.am" || fail "etc/etc.am must list kt-$verb.1"
    usage >"$dir/usage"
    synopsis "$man/kt-$verb.1" >"$dir/man"
    same "$dir/usage" "$dir/man" "synopses of kt $verb" "--help" "kt-$verb(1)"
    grep -qxF "kt-$verb \\- $(verb_rows | sed -n "s/^$verb [^:]*: //p")" "$man/kt-$verb.1" ||
        fail "kt-$verb(1) must name the verb with the words of tools/kt/base/verbs.h"
    comm -23 "$dir/help" "$dir/common" >"$dir/own"
    [ "$(comm -13 "$dir/help" "$dir/common" | wc -l)" -eq 0 ] || fail "a shared option is missing"
    man_options "$man/kt-$verb.1" >"$dir/man"
    same "$dir/own" "$dir/man" "options of kt $verb" "--help" "kt-$verb(1)"
    # Short forms too.
    sed -n 's/^  -\(.\), --\([a-z-]*\).*/-\1 --\2/p' "$out" | grep -v -e '-[hvV] ' |
        while read -r short long; do
            sed 's/\\-/-/g' "$man/kt-$verb.1" | grep -q "^\.BR $short \", \" $long" ||
                echo "kt-$verb(1) must name $short with $long"
        done >"$dir/missing"
    [ ! -s "$dir/missing" ] || fail "$(cat "$dir/missing")"
done

# Methods: KT-Kernel's names and their backends.
sed -n 's/^ *{"\([A-Z0-9_]*\)", "\([a-z0-9_]*\)".*/\1 \2/p' "$KT_TEST_SOURCE/core/base/method.c" >"$dir/methods"
[ "$(wc -l <"$dir/methods")" -ge 13 ] || fail "core/base/method.c must hold the names of methods"
while read -r name backend; do
    grep -q "^\.BR\{0,1\} $name\( ,\)\{0,1\}$" "$man/kt-convert.1" || fail "kt-convert(1) must name the method $name"
    grep -qw "$backend" "$man/kt-convert.1" || fail "kt-convert(1) must name the backend $backend of $name"
done <"$dir/methods"

# Settings: what kt config show lists, with its default, stands in kt.ini(5).
kt config show --format csv
exits 0
sed -n 's/^core,\([a-z_]*\),.*/\1/p' "$out" | sort >"$dir/settings"
awk '/^\.SH/ { core = /\[core\]/ } core && /^\.TP/ { getline; print $2 }' "$man/kt.ini.5" |
    sort >"$dir/man"
same "$dir/settings" "$dir/man" "settings of [core]" "kt config show" "kt.ini(5)"
while IFS=, read -r section key value _; do
    [ "$section" = core ] || continue
    grep -q "^\.BR $key \" (.*default ${value:-empty})\"" "$man/kt.ini.5" ||
        fail "kt.ini(5) must say that the default of $key is ${value:-empty}"
done <"$out"

# The example kt.ini changes nothing as it is, and stands with the defaults.
kt config show --format csv
cp "$out" "$dir/defaults"
example=$KT_TEST_SOURCE/etc/kt.ini
kt config show --format csv --config "$example"
exits 0
cmp -s "$out" "$dir/defaults" || fail "etc/kt.ini must change nothing"
sed '/^;\[plugin/,$d; s/^;\([a-z_]* *=\)/\1/' "$example" >"$dir/all.ini"
kt config show --format csv --config "$dir/all.ini"
exits 0
grep -c "all.ini:" "$out" >"$dir/count"
grep -c '^core,' "$dir/defaults" | cmp -s - "$dir/count" ||
    fail "etc/kt.ini must hold every core setting"
cut -d, -f1-3 "$out" >"$dir/values"
cut -d, -f1-3 "$dir/defaults" | cmp -s - "$dir/values" || fail "etc/kt.ini must hold the defaults"

# What plugin authors choose from: CPU features, and the instructions whose peaks kt bench measures.
sed -n 's/^ *{"\([a-z0-9_]*\)", KT_CPU_[A-Z0-9_]*},$/\1/p' "$KT_TEST_SOURCE/core/machine/cpu.c" >"$dir/features"
[ "$(wc -l <"$dir/features")" -ge 22 ] || fail "core/machine/cpu.c must hold the names of CPU features"
while read -r name; do
    grep -qE "^\.BR? $name( [,.])?$" "$man/kt.ini.5" || fail "kt.ini(5) must name the CPU feature $name"
done <"$dir/features"
sed -n '/^\.B instruction$/,/^\.B formats$/s/^\.BR \([a-z0-9]*\) [,.]$/\1/p' "$man/kt-kernel-plugin.7" >"$dir/peaks"
[ "$(wc -l <"$dir/peaks")" -ge 15 ] || fail "kt-kernel-plugin(7) must name instructions"
while read -r name; do
    cat "$KT_TEST_SOURCE"/tools/kt/bench/*.c | grep -qE "^ *\{\"([a-z0-9]+ )?$name[ \"]" ||
        fail "kt bench does not know $name, an instruction of kt-kernel-plugin(7)"
done <"$dir/peaks"

# A reader sees no name that only the build knows.
! grep -l -e DATADIR -e SYSCONFDIR/ "$man"/* >"$err" || fail "these pages name a make variable"

# Pages are well-formed, where groff is there to say so.
if command -v groff >/dev/null; then
    for page in "$man"/*; do
        groff -man -Tascii -ww -z "$page" 2>"$err"
        [ ! -s "$err" ] || fail "$page is not well-formed"
    done
fi

finish
