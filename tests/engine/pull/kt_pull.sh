#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt model pull and verify, from a hub on this machine that also misbehaves.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "a program that is emulated cannot execute another one"
[ -x "$(dirname "$kt_program")/kt-serve" ] || skip "kt-serve was not built"
python=${PYTHON:-python3}
"$python" -c 'import http.server' 2>/dev/null || python=python3
"$python" -c 'import http.server' 2>/dev/null || skip "there is no Python"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY HF_TOKEN HF_HUB_OFFLINE MODELSCOPE_API_TOKEN
cp "$KT_TEST_SOURCE/etc/known-models.ini" "$dir/known-models.ini"
registry=$XDG_DATA_HOME/kt-kernel/models.ini
models=$XDG_DATA_HOME/kt-kernel/models
hub=$dir/hub
mkdir "$hub"

# Repositories: a folder of safetensors, GGUF files of which one is in two parts.
small=$hub/Own/small
mkdir -p "$small/original" "$hub/Own/gguf/Q8" "$hub/MiniMaxAI"
cp "$data"/mxfp4-l0/* "$small"
echo '{"model": {}}' >"$small/tokenizer.json"
echo text >"$small/README.md"
: >"$small/empty.json"
cp "$small/config.json" "$small/original/params.json"
cp "$data/tiny-moe-iq4_xs-l0-l3.gguf" "$hub/Own/gguf/tiny-IQ4_XS.gguf"
cp "$data/tiny-moe-iq4_xs-l0-l3.gguf" "$hub/Own/gguf/mmproj-tiny.gguf"
head -c 5000 "$data/tiny-moe-q4_k_m.gguf" >"$hub/Own/gguf/Q8/tiny-00001-of-00002.gguf"
head -c 7000 "$data/tiny-moe-q4_k_m.gguf" >"$hub/Own/gguf/Q8/tiny-00002-of-00002.gguf"
cp -r "$small" "$hub/MiniMaxAI/MiniMax-M2"
# The largest file of $small.
large=$(cd "$small" && find . -maxdepth 1 -name '*.safetensors' -size +100k | head -n 1)
large=${large#./}
[ -n "$large" ] || { fail "there must be a large file" && finish; }

mkfifo "$dir/port"
"$python" "$KT_TEST_SOURCE/tests/engine/pull/pull_hub.py" "$hub" >"$dir/port" 2>"$dir/hub.log" &
server=$!
trap 'kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
read -r port <"$dir/port"
HF_ENDPOINT=http://127.0.0.1:$port
MODELSCOPE_ENDPOINT=$HF_ENDPOINT/
export HF_ENDPOINT MODELSCOPE_ENDPOINT

pull()
{
    kt model pull --retry-wait 0.001 "$@"
}
# The rules of repository `small`.
rules()
{
    printf '%s\n' "$@" >"$hub/small.rules"
}
# A pull into a fresh folder, $to.
fresh()
{
    to=$dir/to
    rm -rf "$to" "$registry"
    : >"$hub/log"
    pull Own/small --to "$to" "$@"
}
is_whole()
{
    exits 0
    cmp -s "$small/$large" "$to/$large" || fail "$large must have come whole"
    [ ! -e "$to/$large.part" ] || fail "no part must be left"
    grep -q "^path = $to$" "$registry" || fail "it must be registered"
}
# $1: what is said. Nothing wrong gets a file's name, or one in the registry.
is_refused()
{
    exits 1
    warns "$1"
    [ ! -e "$to/$large" ] || fail "what is wrong must not get the file's name"
    [ ! -e "$registry" ] || fail "it must not be registered"
}

# What would be fetched.
pull Own/small --dry-run --format csv
exits 0
says "^$large,"
says '^tokenizer.json,'
says_not 'README\|original'
[ ! -e "$registry" ] && [ ! -e "$models" ] || fail "a dry run must write nothing"
pull Own/nothing
exits 1
warns '404'
pull nonsense
exits 2
warns 'neither OWNER/NAME'
HF_HUB_OFFLINE=1 pull Own/small
exits 1
warns 'HF_HUB_OFFLINE'
HF_ENDPOINT=http://hub.example pull Own/small
exits 1
warns 'only https'
HF_ENDPOINT=http://127.0.0.1.example pull Own/small
exits 1
warns 'only https'
HF_ENDPOINT=http://hub.example HF_TOKEN=secret pull Own/small --allow-http
exits 1
warns 'not sent without encryption'
HF_ENDPOINT=https://127.0.0.1:$port pull Own/small --retries 0
exits 1

# A folder of safetensors, with its name; pulled again, nothing is fetched.
pull Own/small --aliases s
exits 0
[ "$(wc -l <"$err")" -eq 1 ] || fail "only where it is must be said"
for file in "$large" config.json tokenizer.json empty.json; do
    cmp "$small/$file" "$models/Own/small/$file" || fail "$file must have come"
done
[ ! -e "$models/Own/small/README.md" ] || fail "README.md is not needed"
(cd "$models/Own/small" && sha256sum -c --quiet .kt-pull.sha256) || fail "sha256sum must find it right"
kt model list --format csv
says '^small,s,qwen3_moe,safetensors,[0-9]*,,.*models/Own/small,Own/small,'
kt inspect small
exits 0
kt model verify small
exits 0
says "^$large .* ok"
: >"$hub/log"
pull Own/small
exits 0
! grep -q /resolve/ "$hub/log" || fail "nothing must be fetched again"
grep -q 'tree/[0-9a-f]\{40\}' "$hub/log" || fail "the commit must be fixed"
# A small file that the hub has changed, to one of the same size.
echo '{"model": []}' >"$small/tokenizer.json"
pull Own/small
exits 0
cmp "$small/tokenizer.json" "$models/Own/small/tokenizer.json" || fail "what the hub has changed must come"
# A byte that is another one, and a file that is gone.
printf x | dd of="$models/Own/small/$large" bs=1 seek=5000 conv=notrunc 2>/dev/null
rm "$models/Own/small/config.json"
kt model verify "$models/Own/small"
exits 1
says "^$large .* damaged"
says '^config.json .* missing'
rm "$models/Own/small/$large"
pull Own/small
exits 0
kt model verify s
exits 0
kt model verify "$data/tiny-moe-iq4_xs-l0-l3.gguf"
exits 0
says 'not known, for it was not pulled'

# A known model's name; ModelScope; one file.
pull m2
exits 0
kt model path minimax-m2
says 'models/MiniMaxAI/MiniMax-M2$'
pull Own/small --hub modelscope --to "$dir/scope" --name scope
exits 0
cmp -s "$small/$large" "$dir/scope/$large" || fail "ModelScope's file must have come"
grep -q '/models/Own/small/resolve/master/' "$hub/log" || fail "ModelScope has another address"
grep -q '^hub = modelscope$' "$registry" || fail "the hub must be kept"
pull Own/small --file config.json --to "$dir/one"
exits 0
warns 'no weights'
[ "$(find "$dir/one" -type f ! -name '.*' | wc -l)" -eq 1 ] || fail "one file was asked for"
pull Own/small --to "$dir/other" --name s
exits 1
warns 'has the name s'
[ ! -e "$dir/other" ] || fail "a name that is taken must be noticed before"

# GGUF: one of several, in parts.
pull Own/gguf
exits 1
says '^Q8/tiny-00001-of-00002.gguf  *2 '
says_not mmproj
warns "2 models match; choose one with --file"
pull Own/gguf --file '*.gguf'
exits 1
pull Own/gguf --file '*iq4*'
exits 0
kt model path tiny-IQ4_XS
says 'Own/gguf/tiny-IQ4_XS.gguf$'
kt inspect tiny-IQ4_XS
exits 0
pull Own/gguf --file 'Q8/*00001*' --name split
exits 0
[ -f "$models/Own/gguf/Q8/tiny-00002-of-00002.gguf" ] || fail "all parts must come"
kt model path split
says 'Q8/tiny-00001-of-00002.gguf$'
kt model verify tiny-IQ4_XS
exits 0
says_not Q8
kt model verify split
exits 1
says '^Q8/tiny-00002-of-00002.gguf .* ok'

# Tokens are for the hub alone; large files come from elsewhere.
rules "*.safetensors redirect"
HF_TOKEN=secret fresh
is_whole
grep -q "^$port .*secret$" "$hub/log" || fail "the hub must get the token"
grep -q "^[0-9]* /cdn/.* -$" "$hub/log" || fail "the file must come from the other port"
! grep -v "^$port " "$hub/log" | grep -q secret || fail "nobody else must get the token"
HF_TOKEN="a
b" pull Own/small
exits 1
warns 'HF_TOKEN is not a token'

# What breaks off goes on where it was.
rules "*.safetensors once cut 200000" "*.safetensors once status 503" "*.safetensors once status 429 0"
fresh --retry-wait 0.06 -v
is_whole
warns '; again in 0\.1 s'
warns '503; again in 0\.1 s'
warns '429; again in 0\.2 s'
[ "$(grep -c "$large bytes=200000-" "$hub/log")" -eq 3 ] || fail "it must go on at byte 200000"
rules "*.safetensors cut 1000"
fresh --retries 2
is_refused 'files are missing'
[ "$(wc -c <"$to/$large.part")" -eq 3000 ] || fail "the part must stay"
rules
pull Own/small --to "$to"
is_whole
grep -q "$large bytes=3000-" "$hub/log" || fail "a later pull must go on"
# A part that is not the file's beginning, and one that is longer than the file.
for bytes in 5000 9000000; do
    rm -rf "$to"
    mkdir "$to"
    head -c $bytes /dev/zero >"$to/$large.part"
    pull Own/small --to "$to"
    is_whole
done
rm -rf "$to"
mkdir "$to"
cp "$small/$large" "$to/$large.part"
: >"$hub/log"
pull Own/small --to "$to"
is_whole
! grep -q "$large" "$hub/log" || fail "a whole part must not be asked for"
rules "*.safetensors slow"
fresh --retries 0 --timeout 1
is_refused 'nothing came for 1 s'
[ "$(wc -c <"$to/$large.part")" -eq 2000 ] || fail "what came must stay"

# Other ways to go on, each with a file of its own.
for file in ignore shift; do
    mkdir -p "$hub/Own/some"
    head -c 9000 "$small/$large" >"$hub/Own/some/$file.bin"
    printf '%s\n' "$file.bin once cut 2000" "$file.bin once $file"
done >"$hub/some.rules"
rm -f "$registry"
pull Own/some --file '*.bin' --to "$dir/some"
exits 0
for file in ignore shift; do
    cmp "$hub/Own/some/$file.bin" "$dir/some/$file.bin" || fail "$file.bin must have come whole"
done

# What is wrong never gets the name, and only what may be right is kept.
mkdir "$hub/Own/bad"
while read -r file rule; do
    head -c 3000 "$small/$large" >"$hub/Own/bad/$file.bin"
    echo "$file.bin $(echo "$rule" | tr _ ' ')"
done >"$hub/bad.rules" <<'END_OF_RULES'
elsewhere location_http://hub.example/x
file location_file:///etc/passwd
loop loop
wrong wrong
long long
short short_1000
status status_403
END_OF_RULES
head -c 3000 "$small/$large" >"$hub/Own/bad/hash.bin"
echo small >"$hub/Own/bad/git.bin"
printf '%s\n' "list:hash.bin hash" "list:git.bin hash" >>"$hub/bad.rules"
pull Own/bad --file '*.bin' --to "$dir/bad" --retries 1
exits 1
warns 'elsewhere.bin: it is sent on to http://hub.example/x, which is less protected'
warns 'file.bin: it is sent on to file:.*less protected'
warns 'loop.bin: it was sent on more than 10 times'
warns 'wrong.bin: its SHA-256 is'
warns 'hash.bin: its SHA-256 is .* the hub says 1111'
warns 'git.bin: its SHA-1 of git is'
warns 'long.bin: more bytes came than the 3000'
warns 'short.bin: it ends after 2000 of 3000 bytes'
warns 'status.bin: HTTP 403: a token may be needed, in HF_TOKEN'
warns '9 files are missing'
[ "$(cd "$dir/bad" && echo *)" = short.bin.part ] || fail "there must be nothing but the part of short.bin"
[ ! -e "$registry" ] || fail "nothing must be registered"
for name in ../x.json 'a\u0001.json' x.json.part; do
    rules "list:tokenizer.json name $name"
    fresh --file '*'
    is_refused 'rejected\|JSON'
done
[ ! -e "$dir/x.json" ] || fail "a file left the folder"
rules "list:tokenizer.json name a\\u0000.json"
fresh
is_refused 'JSON'
rules "list:tokenizer.json name config.json"
fresh
is_refused 'twice'
rules "list:$large size 999999999999999999"
fresh
is_refused 'to be fetched, and .* are free'
rules "list:$large size -1"
fresh
is_refused 'without a path or a size'
rules "list huge"
fresh
is_refused 'longer than 16 MiB'
rules "list text [["
fresh
is_refused 'not .*JSON'
rules "list once status 500" "list once status 429"
fresh
is_whole

# A signal leaves a part that goes on; two at once do not write the same file.
rules "*.safetensors slow"
rm -rf "$to" "$registry"
"$kt_program" model pull Own/small --to "$to" >"$out" 2>"$err" &
first=$!
until [ -s "$to/$large.part" ]; do
    kill -0 "$first" 2>/dev/null || break
    sleep 0.05
done
kt model pull Own/small --to "$to"
exits 1
warns 'another kt model pull writes it'
kill -TERM "$first"
wait "$first"
code=$?
exits 143
[ "$(wc -c <"$to/$large.part")" -eq 2000 ] || fail "the part must stay"
rules
pull Own/small --to "$to"
is_whole

# What is not there, or cannot be written.
pull Own/small --to "$to" --name other
exits 1
warns 'is registered as to; kt model edit changes that'
echo nonsense >"$to/.kt-pull.sha256"
kt model verify "$to"
exits 1
warns 'kt-pull.sha256:1: no line of sha256sum'
pull Own/small --to "$to/config.json/below"
exits 1
warns 'Not a directory'
mkdir -p "$dir/taken/$large.part" "$hub/Own/plain" "$hub/Own/none"
pull Own/small --to "$dir/taken"
exits 1
warns "$large.part: Is a directory"
pull Own/small --file 'nothing*'
exits 1
warns 'Own/small has no file that nothing\* matches'
echo text >"$hub/Own/plain/README.md"
pull Own/plain
exits 1
warns 'Own/plain has neither safetensors nor GGUF files'
pull Own/none
exits 1
warns 'Own/none has no files'
rules "list next http://hub.example/x"
pull Own/small
exits 1
warns 'leads elsewhere, or does not end: http://hub.example/x'
rules "list text {}"
pull Own/small --hub modelscope
exits 1
warns 'Own/small has no list of files: no reason is given'
command_line="kt-serve model list"
"$(dirname "$kt_program")/kt-serve" model list >"$out" 2>"$err"
code=$?
exits 2
warns 'kt itself does this'
finish
