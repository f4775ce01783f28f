#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wheel: pip installs it, and it works with nothing of the build and no installation beside it.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ "${PYTHON:-:}" != : ] || skip "there is no Python 3.9 or later"
"$PYTHON" -c 'import pip, numpy' 2>/dev/null || skip "$PYTHON has no pip or numpy (Debian: python3-pip python3-numpy)"
[ -f "$KT_TEST_BUILD/tests/wheel/.made" ] || skip "sanitizers and cross compilers make no wheel"
[ -z "${EMULATOR:-}" ] || skip "Python is not run by an emulator"
unset KT_KERNEL_PLUGINCONFDIR PYTHONPATH
cp -R "$KT_TEST_BUILD"/tests/wheel/*.whl "$dir"

command_line="pip install"
"$PYTHON" -m pip --isolated install --quiet --no-index --no-compile --disable-pip-version-check --no-cache-dir \
    --root-user-action=ignore --target "$dir/site" "$dir"/*.whl >"$out" 2>"$err"
code=$?
exits 0
code=$(find "$dir/site" -name '*.so*' ! -name '*.txt' -exec "${READELF:-readelf}" -d {} + | grep -cE 'RPATH|RUNPATH')
exits 0 # of them have one

cat >"$dir/use.py" <<'END'
import os, sys
import kt_kernel, numpy
model, folder = sys.argv[1:]
assert kt_kernel.__file__.startswith(folder), kt_kernel.__file__
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line}
for name in ("libktkernel.so.0", "libhwloc.so", "libjansson.so", "libinih.so"):
    places = [path for path in maps if os.path.basename(path).startswith(name)]
    assert places and all(path.startswith(folder) for path in places), (name, places)
loaded = {backend.name for backend in kt_kernel.backends() if backend.state == "loaded"}
assert loaded >= {"reference", "llamafile", "bf16"}, kt_kernel.backends()
wrapper = kt_kernel.KTMoEWrapper(0, 8, 2, 256, 256, None, 2, 1, model, 64, method="LLAMAFILE")
wrapper.load_weights()
y = wrapper.forward(numpy.ones((3, 256), "float32"), numpy.zeros((3, 1), int), numpy.ones((3, 1), "float32"))
assert numpy.isfinite(y).all() and y.any()
print("works", wrapper.moe.info.backend)
END
run_python()
{
    command_line="python3 $*"
    (cd / && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$dir/site "$PYTHON" "$@") >"$out" 2>"$err"
    code=$?
}
run_python "$dir/use.py" "$data/tiny-moe-q4_k_m.gguf" "$dir/site"
exits 0
says '^works llamafile$'

# The command that it carries finds the same plugins.
run_python -m kt_kernel backends --format csv
exits 0
says '^llamafile,loaded,'
run_python -m kt_kernel forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --backend llamafile --check
exits 0
run_python -m kt_kernel nothing
exits 2

# What a plugin file says is looked at as anywhere: one that others may write is refused, and says so.
chmod o+w "$dir/site/kt_kernel/_files/lib/kt-kernel"/abi*/kt_llamafile.so
run_python -m kt_kernel backends
says 'kt_llamafile.so.*writable'
finish
