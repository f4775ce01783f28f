#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt on several NUMA nodes, and where memory and threads may not be bound to them: shown, not fatal. On a
# machine of one node, two are made up and the kernel is still asked.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "an emulator binds no memory"
model=$data/tiny-moe-q4_k_m.gguf
with_plugin llamafile || model=$data/tiny-moe-q8_0-l0-l3.gguf

# Models that the backends of this build take, on all nodes, on one, and on a part of those made up.
runs_everywhere()
{
    kt forward --model "$1" --input "$trace" --layer 0 --check --tolerance 5e-2 --output "$dir/a.safetensors"
    exits 0
    ! grep -q 'bound' "$err" || fail "threads and memory can be bound"
    kt forward --model "$1" --input "$trace" --layer 0 --output "$dir/b.safetensors"
    exits 0
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "another run gives another output"
    kt forward --model "$1" --input "$trace" --layer 0 --check --tolerance 5e-2 --numa-nodes 1
    exits 0
    says '^NUMA nodes: *1$'
}

if [ -z "${KT_TEST_NODES:-}" ]; then
    HWLOC_SYNTHETIC='numa:4 core:1 pu:1'
    export HWLOC_SYNTHETIC
    kt forward --model "$model" --input "$trace" --layer 0 --check --numa-nodes 0,2-3 --output "$dir/b.safetensors"
    exits 0
    is_silent
    says '^NUMA nodes: *3$'
    kt explain --model "$model" --layer 0 --numa-nodes 0,2-3
    exits 0
    says '^ *0  *3  '
    HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
    HWLOC_THISSYSTEM=1
    export HWLOC_THISSYSTEM
else
    kt doctor
    exits 0
    says '^numa node  *ok  *node 0: 2 threads'
    says '^numa node  *ok  *node 1: 2 threads'
    says '^numa memory  *ok  *bound to its node'
    says '^idle cpus  *ok  *4$'
    kt explain --model "$model" --layer 0
    exits 0
    says '^ *0  *1  '
    warns 'CPUs 4 stay idle: the NUMA node near to them has no memory'
    kt forward --model "$model" --input "$trace" --layer 0 --numa-nodes 0,2
    exits 1
    warns 'core.numa_nodes asks for node 2, but it has no memory; leave it out'
    for backend in rawint4 avx512_fp8 bf16; do
        with_plugin $backend || :
    done
    for sample in "$model" "$data/int4-g32-l0" "$data/fp8-block-l0" "$data/tiny-moe-bf16-l0-l3.gguf"; do
        runs_everywhere "$sample"
    done
fi

# refused ERRNO CALL ARGUMENT...: kt in a kernel that refuses a call.
refused()
{
    error=$1 call=$2
    shift 2
    command_line="refuse $error $call -- kt $*"
    "$KT_TEST_BUILD/tests/kt/refuse" "$error" "$call" -- "$KT_TEST_BUILD/kt" "$@" >"$out" 2>"$err"
    code=$?
    [ "$code" -ne 77 ] || skip "no call can be refused here: $(cat "$err")"
}

unbound='memory could not be bound to node 0'
refused EPERM mbind forward --model "$model" --input "$trace" --layer 0 --check --output "$dir/c.safetensors"
exits 0
warns "$unbound: Operation not permitted; it lies where threads touch it first"
[ "$(grep -c 'could not be bound' "$err")" -eq 1 ] || fail "it is said once"
kt forward --model "$model" --input "$trace" --layer 0 --output "$dir/a.safetensors"
cmp "$dir/a.safetensors" "$dir/c.safetensors" >/dev/null || fail "unbound memory gives another output"
refused EPERM mbind explain --model "$model"
exits 0
refused EPERM sched_setaffinity forward --model "$model" --input "$trace" --layer 0 --check
exits 0
warns '[1-9] of [1-9] threads could not be bound to a core'
[ -z "${KT_TEST_NODES:-}" ] || finish # kt doctor takes long there
refused ENOSYS mbind doctor
exits 0
says "^numa memory  *warning  *$unbound: [A-Z]"
refused EPERM sched_setaffinity doctor
exits 0
says '^threads  *warning .* could not be bound to a core$'
says '^    .*allow sched_setaffinity'
finish
