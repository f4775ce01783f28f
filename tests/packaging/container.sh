#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-container: the steps of etc/packaging/Containerfile without a container engine. A stage is a Debian in a
# folder and RUN a shell in it; then a model is served there, by process 1 of its own, as the user that is named.
# Takes some minutes and a network. KT_DEB_ROOT names a minimal Debian to copy (debootstrap --variant=minbase).
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "SKIP: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "container.sh needs root, for chroot"
for tool in debootstrap unshare; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
# Mounts of a namespace of its own go with it.
[ -n "${KT_CONTAINER_INSIDE:-}" ] || KT_CONTAINER_INSIDE=yes exec unshare --mount "$0" "$@"
umask 022
work=$(mktemp -d)
trap 'for root in "$work"/stage*; do umount "$root/proc" "$root/sys" 2>/dev/null || :; done
    rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() { echo "container: FAILED: $*"; exit 1; }
stage=0 root= folder=/ user=root environment=

from()
{
    stage=$((stage + 1)) folder=/ user=root environment=
    root=$work/stage$stage
    suite=${1#debian:}
    if [ -n "${KT_DEB_ROOT:-}" ]; then
        cp -a "$KT_DEB_ROOT" "$root"
    else
        debootstrap --variant=minbase "${suite%-slim}" "$root" >"$work/out" ||
            { cat "$work/out" && fail "debootstrap"; }
    fi
    [ "$#" -lt 3 ] || ln -s "$root" "$work/as-$3"
    mount -t proc proc "$root/proc" && mount --bind -o ro /sys "$root/sys" || skip "nothing can be mounted here"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}
inside()
{
    # shellcheck disable=SC2086 # no word of it has blanks
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
        DEBIAN_FRONTEND=noninteractive $environment chroot "$root" sh -c "cd $folder && $1"
}
# The context is what git tracks; of a release all of it.
copy()
{
    case $1 in
    --from=*) cp -a "$work/as-${1#--from=}$2." "$root$3" ;;
    .)
        mkdir -p "$root$2"
        if [ -e "$source/.git" ]; then
            (cd "$source" && git ls-files -z | tar --null -T - -cf -) | tar -C "$root$2" -xf -
        else
            cp -R "$source/." "$root$2"
        fi
        ;;
    *) fail "COPY $*" ;;
    esac
}

sed -e '/^#/d' -e ':again' -e '/\\$/{N;s/\\\n//;b again' -e '}' -e '/^$/d' \
    "$source/etc/packaging/Containerfile" >"$work/steps"
while read -r verb rest <&3; do
    echo "container: $verb $rest"
    case $verb in
    # shellcheck disable=SC2086
    FROM) from $rest ;;
    # shellcheck disable=SC2086
    COPY) copy $rest ;;
    RUN) inside "$rest" >"$work/out" 2>&1 || { tail -n 50 "$work/out" && fail "$rest"; } ;;
    WORKDIR) folder=$rest ;;
    ENV) environment="$environment $rest" ;;
    USER) user=$rest ;;
    EXPOSE) port=$rest ;;
    ENTRYPOINT) program=$(echo "$rest" | sed 's/["[,]//g; s/]//') ;;
    CMD) ;;
    *) fail "an unknown step: $verb" ;;
    esac
done 3<"$work/steps"
[ "$stage" -eq 2 ] || fail "there must be two stages"

echo "container: a model is served"
mkdir "$root/models"
cp "$source/tests/data/tiny-moe/tiny-moe-q4_k_m.gguf" "$root/models/tiny.gguf"
echo '{% for message in messages %}{{ message.content }}{% endfor %}' >"$root/models/template"
# contained WORD...: the entry point, as the last stage has it, as process 1 of a namespace.
contained()
{
    # shellcheck disable=SC2086
    exec unshare --pid --fork --kill-child=TERM --mount-proc="$root/proc" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="/home/$user" $environment \
        chroot --userspec="$user:$user" --groups= "$root" $program "$@"
}
mkfifo "$work/lines"
contained run /models/tiny.gguf --chat-template /models/template --host 0.0.0.0 --port "$port" 2>"$work/lines" &
server=$!
ready=
exec 3<"$work/lines"
while read -r line <&3; do
    echo "container: $line"
    case $line in *"ready: http:"*) ready=yes && break ;; esac
done
cat <&3 & # whatever comes later
[ -n "$ready" ] || fail "it did not start"
said=$(echo 'To be, or not' | contained chat --port "$port" --max-tokens 8 --temperature 0 2>"$work/out") ||
    { cat "$work/out" && fail "kt chat"; }
[ -n "$said" ] || fail "kt chat said nothing"
kill -TERM "$(pgrep -P "$server" | head -n 1)" || fail "process 1 is gone"
wait "$server" || fail "it must end by SIGTERM without an error"
echo "container: passed"
