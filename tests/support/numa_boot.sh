#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Boots a machine of two NUMA nodes and a third without memory, which qemu emulates, and runs tests in it:
#     numa_boot.sh KERNEL TEST...
# from the build folder. The guest has nothing but busybox, this build, its libraries and the tests' data, all
# in memory. What each test printed goes to numa/TEST.log, its result to numa/TEST.trs, as make check has it;
# beside it stand the guest's seconds.
# Exit status 77: something that it needs is missing, and it says what.
set -eu
: "${KT_TEST_BUILD:?is set by make check-numa}" "${KT_TEST_SOURCE:?is set by make check-numa}"
kernel=$1
shift
seconds=900 # for all of it; some 120 on a quiet machine

skip()
{
    echo "SKIP: $*"
    exit 77
}
for program in qemu-system-x86_64 busybox cpio; do
    command -v $program >/dev/null || skip "needs $program"
done
[ -r "$kernel" ] || skip "needs a Linux kernel, which '$kernel' is not: make check-numa KERNEL=/boot/vmlinuz-..."
[ "$(uname -m)" = x86_64 ] || skip "needs an x86_64 host, whose programs the guest runs"
! ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>' || skip "needs busybox that is linked statically"

cd "$KT_TEST_BUILD"
rm -rf numa
mkdir -p numa/root/bin numa/root/proc numa/root/sys numa/root/dev numa/root/tmp
root=$PWD/numa/root

# take FILE...: into the guest, at the same place, with the libraries that it needs.
take()
{
    for file; do
        [ ! -e "$root$file" ] || continue
        mkdir -p "$root${file%/*}"
        cp -L "$file" "$root$file"
    done
}
take_program()
{
    take "$1"
    # shellcheck disable=SC2046 # paths of libraries, one a word
    take $(LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs ldd "$1" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p')
}

# A libtool script stands for a program in .libs.
real()
{
    if [ -f "${1%/*}/.libs/${1##*/}" ]; then echo "${1%/*}/.libs/${1##*/}"; else echo "$1"; fi
}

cp "$(command -v busybox)" "$root/bin/busybox"
for test; do
    case $test in
    *.sh) take "$KT_TEST_SOURCE/$test" ;;
    *)
        program=$(real "$KT_TEST_BUILD/$test")
        take_program "$program"
        echo "$program" >"numa/${test##*/}.path" ;;
    esac
done
take "$KT_TEST_SOURCE/tests/kt/kt_lib.sh" "$KT_TEST_SOURCE"/plugins/*/*.ini
take_program "$(real "$KT_TEST_BUILD/kt")"
take_program "$(real "$KT_TEST_BUILD/tests/kt/refuse")"
for program in attack batches; do
    take_program "$(real "$KT_TEST_BUILD/tests/campaign/$program")"
done
for plugin in "$KT_TEST_BUILD"/.libs/kt_*.so "$KT_TEST_BUILD/tests/plugins/kt_fake.so"; do
    take "$plugin"
done
model=$KT_TEST_DATA/tiny-moe
take "$model"/trace.safetensors "$model"/tiny-moe-q4_k_m.gguf "$model"/tiny-moe-q8_0-l0-l3.gguf \
    "$model"/tiny-moe-bf16-l0-l3.gguf "$model"/int4-g32-l0/* "$model"/fp8-block-l0/*

cat >"$root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp LC_ALL=C.UTF-8 LD_LIBRARY_PATH='$KT_TEST_BUILD/.libs' CK_TIMEOUT_MULTIPLIER=30
export KT_TEST_BUILD='$KT_TEST_BUILD' KT_TEST_SOURCE='$KT_TEST_SOURCE' KT_TEST_DATA='$KT_TEST_DATA'
export KT_TEST_PLUGINS='$KT_TEST_PLUGINS' KT_TEST_NODES=2
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
cp '$(real "$KT_TEST_BUILD/kt")' '$KT_TEST_BUILD/kt' 2>/dev/null
cp '$(real "$KT_TEST_BUILD/tests/kt/refuse")' '$KT_TEST_BUILD/tests/kt/refuse' 2>/dev/null
now() { cut -d. -f1 /proc/uptime; }
echo "== nodes \$(cat /sys/devices/system/node/has_memory), CPUs \$(cat /sys/devices/system/cpu/online)"
END
for test; do
    case $test in
    *.sh) command="sh $KT_TEST_SOURCE/$test" ;;
    *) command=$(cat "numa/${test##*/}.path") ;;
    esac
    # shellcheck disable=SC2016 # for the guest
    printf 'begin=$(now)\necho "== begin %s"\n%s 2>&1\necho "== end %s $? $(($(now) - begin))"\n' \
        "$test" "$command" "$test" >>"$root/init"
done
printf 'echo "== done"\npoweroff -f\n' >>"$root/init"
chmod 755 "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc -R +0:+0) >numa/initramfs

timeout "$seconds" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu Haswell -m 1536 \
    -nographic -no-reboot -nic none -smp 5 \
    -object memory-backend-ram,id=m0,size=768M -object memory-backend-ram,id=m1,size=768M \
    -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa node,nodeid=2,cpus=4 \
    -kernel "$kernel" -initrd numa/initramfs -append 'console=ttyS0 quiet panic=-1' </dev/null \
    >numa/console.log 2>numa/qemu.log || :
sed -i 's/\r//g' numa/console.log
rm -rf "$root" numa/initramfs

# A test without a result failed: the guest died in it, or time ran out.
failed=0
for test; do
    name=numa/${test##*/}
    sed -n "\\,^== begin $test\$,,\\,^== end $test ,p" numa/console.log | sed '/^== /d' >"$name.log"
    end=$(sed -n "s,^== end $test ,,p" numa/console.log)
    code=${end% *}
    case $code in
    0) result=PASS ;;
    77) result=SKIP ;;
    *) result=FAIL failed=1 ;;
    esac
    printf ':test-result: %s\n' "$result" >"$name.trs"
    echo "$result: $test${end:+, ${end#* } s}"
    [ $result != FAIL ] || {
        echo "exit status '$code'" >>"$name.log"
        tail -n 20 "$name.log"
    }
done
grep -q '^== done' numa/console.log || tail -n 20 numa/console.log
exit $failed
