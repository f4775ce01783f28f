#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt model: names of models, in place of paths.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
registry=$XDG_DATA_HOME/kt-kernel/models.ini
cp "$KT_TEST_SOURCE/etc/known-models.ini" "$dir/known-models.ini"
model=$data/tiny-moe-q4_k_m.gguf

# holds FILE TEXT: the file is this, byte for byte.
holds()
{
    printf "$2" | cmp -s - "$1" || fail "the registry must be
$2
and is
$(cat "$1")"
}

# A registry that is not there is empty, and looking does not make one.
kt model list
exits 0
says 'No model has a name yet'
kt model path tiny
exits 1
warns 'no such model'
[ ! -e "$registry" ] || fail "reading must write nothing"

# What is wrong on the command line.
for words in '' 'lst' 'add' 'add a b' 'info' 'list x' 'list --add' 'path x --context 4' 'edit x'; do
    # shellcheck disable=SC2086 # words
    kt model $words
    exits 2
done
kt model lst
warns "did you mean 'list'"
kt model add "$dir/nothing"
exits 1
[ ! -e "$registry" ] || fail "a model that cannot be opened must not be registered"
echo no model >"$dir/no.gguf"
kt model add "$dir/no.gguf"
exits 1
for name in a/b -x '' 'a b' .a "$(printf '%0101d' 0)"; do
    kt model add "$model" "--name=$name"
    exits 2
done

# A name with options; what is wrong of them is not kept.
for options in '--context 0' '--context x' '--kv q9' '--threads 5000' '--kv-size much' '--kv-size 1e300G' \
    '--numa-nodes 3-1' '--backend AMXINT9' '--temperature -1' '--aliases good,a/b'; do
    # shellcheck disable=SC2086
    kt model add "$model" --name tiny $options
    exits 2
    [ ! -s "$registry" ] || fail "nothing must be registered with $options"
done
kt model add "$model" --name tiny --experts "$dir/nothing"
exits 1
kt model add "$model" --name tiny --system 'a ;b'
exits 2
warns 'a file cannot hold this value'
kt model add "$model" --name tiny --aliases t,Small --context 512 --kv q8_0
exits 0
is_silent
holds "$registry" "[tiny]\npath = $model\naliases = t,Small\ncontext = 512\nkv = q8_0\n"
kt model add "$model" --name other
exits 1
warns "models.ini:1: .* is registered as tiny"
ln "$model" "$dir/linked.gguf" 2>/dev/null || ln -s "$model" "$dir/linked.gguf"
cp "$model" "$dir/second.gguf"
for name in tiny TINY t small; do
    kt model add "$dir/second.gguf" --name $name
    exits 1
    warns "the model tiny has the name $name"
done
kt model add "$dir/second.gguf" --aliases small
exits 1

# From within a folder: paths are kept from the root on. Without a name, the file's.
(cd "$dir" && kt model add ./second.gguf)
kt model list --format csv
exits 0
says '^tiny,"t,Small",qwen3moe,gguf,[0-9]*,,'
says "^second,,qwen3moe,gguf,[0-9]*,,$dir/second.gguf"
kt model list --names
[ "$(tr '\n' ' ' <"$out")" = 'tiny t Small second ' ] || fail "names must stand one a line"
kt model path SMALL
exits 0
[ "$(cat "$out")" = "$model" ] || fail "the path must stand alone"
kt model info t --format json
exits 0
says '"architecture": *"qwen3moe"'
says '"key": *"context"'
kt model info "$model"
says '^name: *tiny$'

# Other people's lines stay, and are named where they may be a mistake.
printf '; of mine\n[tiny]\npath = %s\n# note\ncolor = blue\ncontxt = 7\n\n; of second\n[second]\npath = %s\n' \
    "$model" "$dir/second.gguf" >"$registry"
kt model edit tiny --context 256
exits 0
kt model edit tiny --unset context --name teeny
exits 0
holds "$registry" "; of mine\n[teeny]\npath = $model\n# note\ncolor = blue\ncontxt = 7\n\n; of second\n[second]\npath = $dir/second.gguf\n"
kt model info teeny
exits 0
warns 'models.ini:5: .teeny. color: no such key'
warns 'models.ini:6: .teeny. contxt: .* did you mean context?'
kt model edit teeny --unset kv
exits 1
kt model edit teeny --unset path
exits 2
kt model edit teeny --name second
exits 1
kt model edit teeny --path "$dir/linked.gguf"
exits 0
kt model path teeny
says "^$dir/linked.gguf$"
kt model remove teeny
exits 0
warns 'its files stay'
[ -f "$model" ] && [ -e "$dir/linked.gguf" ] || fail "files must stay"
holds "$registry" "; of mine\n\n; of second\n[second]\npath = $dir/second.gguf\n"
kt model rm second
[ ! -e "$registry" ] || ! grep -q '^\[' "$registry" || fail "no section must be left"

# Lines that are wrong, by their number; a path needs no registry.
wrong()
{
    printf "$1" >"$registry"
    kt inspect tiny
    exits 1
    warns "models.ini:$2: .*$3"
    cp "$registry" "$dir/before"
    kt model edit tiny --context 7
    exits 1
    cmp -s "$registry" "$dir/before" || fail "a file that is wrong must not be changed"
    kt inspect "$model"
    exits 0
}
wrong '[tiny]\npath = /x\nnonsense\n' 3 'neither'
wrong 'path = /x\n' 1 'a line .NAME. must stand before'
wrong '[tiny]\npath = x\n' 2 'must begin with a /'
wrong '[a b]\n' 1 'is not a name'
wrong '[tiny]\npath = /x\npath = /y\n' 3 'has path twice'
wrong '[tiny]\n[Tiny]\n' 2 'is called so in line 1'
wrong '[tiny\n' 1 'neither'

# In other verbs. A path wins; what is kept holds, and the command line wins over it.
printf '[tiny]\npath = %s\naliases = t\ncontext = 64\nthreads = 1\nbackend = nonesuch\n[gone]\npath = %s/gone\n' \
    "$model" "$dir" >"$registry"
for verb in inspect explain; do
    kt $verb t --backend reference --format csv 2>/dev/null || :
    kt $verb t --format csv
    exits 0
    cp "$out" "$dir/by_name"
    kt $verb "$model" --format csv
    cmp -s "$out" "$dir/by_name" || fail "kt $verb must do the same by a name"
done
kt explain --model t
exits 0
(cd "$dir" && cp second.gguf t && kt inspect t && says '^file: *t$') || fail "a path must win"
kt inspect gone
exits 1
warns "models.ini:7 has this path for the model gone: 'kt model edit gone --path PATH'"
kt inspect tin
exits 1
warns 'near it: tiny'
kt inspect zzzzz
exits 1
warns "no such file, folder or name of a model; 'kt model list'"
kt inspect m2
warns 'the model MiniMax-M2 is not here'
kt inspect MiniMaxAI/MiniMax-M2
warns 'the model MiniMax-M2 is not here'
kt place t "$dir/none" --total 4
warns 'none'
kt model list --known --format csv
exits 0
says '^MiniMax-M2,m2,FP8,MiniMaxAI/MiniMax-M2,'
if [ -x "$(dirname "$kt_program")/kt-serve" ] && [ -z "${EMULATOR:-}" ] && with_plugin attention; then
    kt run t --dry-run
    exits 1
    warns 'nonesuch'
    kt run t --dry-run --backend auto --format json
    exits 0
    says '"context": *64'
    says '"name": *"tiny"'
    kt run t --dry-run --set core.backend=auto --context 32 -v
    exits 0
    says '^context, tokens: *32'
    warns 'core.threads = 1'
    printf '[tiny]\npath = %s\ncontext = many\n' "$model" >"$registry"
    for verb in 'run tiny --dry-run' 'chat tiny'; do
        # shellcheck disable=SC2086 # a verb and its arguments
        kt $verb </dev/null
        exits 1
        warns 'models.ini:3 has this --context'
    done
    # All that is kept is taken by kt run.
    kt model --help
    awk '/^      --/ { option = $1 } /add, edit: kept for kt run/ { print substr(option, 3) }' "$out" |
        sort >"$dir/kept"
    [ "$(wc -l <"$dir/kept")" -ge 18 ] || fail "options must be kept"
    kt run --help
    sed -n 's/^  \(-.,\|   \) --\([a-z-]*\).*/\2/p' "$out" | sort | comm -13 - "$dir/kept" >"$dir/stray"
    [ ! -s "$dir/stray" ] || fail "kt run does not take $(cat "$dir/stray")"
fi

# Folders are searched; links that lead in a circle end.
rm -f "$registry"
mkdir -p "$dir/models/a/b" "$dir/models/models--O--Some-Model/snapshots/0123" "$dir/models/.hidden"
cp -r "$data/mxfp4-l0" "$dir/models/a/Folder Model"
ln -s "$dir/models" "$dir/models/a/b/up"
echo none >"$dir/models/models--O--Some-Model/snapshots/0123/m-00001-of-00002.gguf"
ln -s "$model" "$dir/models/a/b/tiny-Q4.gguf"
touch "$dir/models/a/x-00002-of-00002.gguf" "$dir/models/a/mmproj-x.gguf" "$dir/models/.hidden/y.gguf"
cp "$data"/mxfp4-l0/* "$dir/models/models--O--Some-Model/snapshots/0123"
kt model scan "$dir/models" --format csv
exits 0
[ ! -e "$registry" ] || fail "without --add nothing is registered"
cut -d, -f1,2 "$out" >"$dir/scanned"
printf '%s\n' name,state Folder-Model,new tiny-Q4,new Some-Model,new ,refused | tr -d '\r' >"$dir/wanted"
tr -d '\r' <"$dir/scanned" | cmp -s - "$dir/wanted" || fail "it must find
$(cat "$dir/wanted")"
kt model scan "$dir/models" --add
exits 0
kt model scan "$dir/models" --format csv
[ "$(grep -c ',registered,' "$out")" -eq 3 ] || fail "three models must be registered"
kt model info Folder-Model
exits 0
says '^missing: *tokenizer'
kt model scan "$dir/nowhere"
exits 1

# Many at once: each change waits for the others.
rm -f "$registry"
kt model add "$model" --name tiny
for n in 1 2 3 4 5 6 7 8; do
    kt_run model edit tiny --aliases "x$n" --context $n >/dev/null 2>&1 &
done
wait
kt model list
exits 0
[ "$(grep -c = "$registry")" -eq 3 ] || fail "each change must be whole"
finish
