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
"$PYTHON" -m pip --isolated install --quiet --no-index --no-deps --no-compile --disable-pip-version-check --no-cache-dir \
    --root-user-action=ignore --target "$dir/site" "$dir"/*.whl >"$out" 2>"$err"
code=$?
exits 0
# Its files find each other and nothing of the build.
command_line="readelf -d"
find "$dir/site" -type f \( -name '*.so*' -o -name kt -o -name kt-engine \) ! -name '*.txt' -exec "${READELF:-readelf}" -d {} + >"$out" 2>&1
code=0
says 'RUNPATH.*\[\$ORIGIN\]$'
says_not 'R[A-Z]*PATH.*\[[^$]'

# An older glibc will do than the one here, whichever that is, and auditwheel sees it so, too.
command_line="the wheel's name"
ls "$dir" >"$out"
says 'manylinux_2_\(1[7-9]\|2[0-9]\|3[01]\)_'
tool=${AUDITWHEEL:-auditwheel}
if command -v "$tool" >/dev/null 2>&1; then
    command_line="auditwheel show"
    "$tool" show "$dir"/*.whl >"$out" 2>"$err"
    code=$?
    exits 0
    tr '\n' ' ' <"$out" >"$dir/flat" && mv "$dir/flat" "$out"
    says 'is consistent with the following platform tag: "manylinux_2_\(1[7-9]\|2[0-9]\|3[01]\)_'
else
    echo "SKIP: auditwheel is not installed (pip install auditwheel; AUDITWHEEL names it)"
fi

cat >"$dir/use.py" <<'END'
import os, sys
import importlib.metadata
import kt_kernel, numpy
assert importlib.metadata.requires("kt-kernel") == ["numpy"]
assert importlib.metadata.version("kt-kernel") == kt_kernel.__version__
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
cat >"$dir/text.py" <<'END'
import os, sys
import kt_kernel
model, folder = sys.argv[1:]
tokenizer = kt_kernel.Tokenizer(model)
assert tokenizer.decode(tokenizer.encode("To be, or not")) == "To be, or not"
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line}
for name in ("libktengine.so.0", "libpcre2-8.so", "libutf8proc.so"):
    places = [path for path in maps if os.path.basename(path).startswith(name)]
    assert places and all(path.startswith(folder) for path in places), (name, places)
print("tokenizes")
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
find_verbs
if [ -n "$engine_verbs" ]; then
    run_python "$dir/text.py" "$data/tiny-moe-q4_k_m.gguf" "$dir/site"
    exits 0
    says '^tokenizes$'
    run_python -m kt_kernel tokenize "$data/tiny-moe-q4_k_m.gguf" 'To be'
    exits 0
    says '^398 304$'
fi

# pip makes the same of the source tree, and only the package where no library was built; make install says that
# the package is there.
cat >"$dir/version.py" <<'END'
import importlib.metadata as metadata, sys
found = [str(file) for file in metadata.files("kt-kernel") or []]
print(metadata.version("kt-kernel"), *metadata.requires("kt-kernel"), *found)
END
pip_install()
{
    command_line="pip install ./tools/python $*"
    rm -rf "$dir/other"
    "$PYTHON" -m pip --isolated install --quiet --no-index --no-deps --no-compile --disable-pip-version-check \
        --no-cache-dir --root-user-action=ignore --target "$dir/other" "$@" >"$out" 2>"$err"
    code=$?
}
export PYTHONDONTWRITEBYTECODE=1
if "$PYTHON" -m pip install --help | grep -q config-settings; then
    for build in "$KT_TEST_BUILD" none; do
        pip_install "$KT_TEST_SOURCE/tools/python" --config-settings=build="$build"
        exits 0
        (cd / && PYTHONPATH=$dir/other "$PYTHON" "$dir/version.py") >"$out" 2>"$err"
        code=$?
        exits 0
        says '^[0-9.]* numpy .*kt_kernel/kt_kernel_ext.py'
        if [ "$build" = none ]; then says_not libktkernel; else says '_files/lib/libktkernel.so.0'; fi
    done
    pip_install "$KT_TEST_SOURCE/tools/python" --config-settings=build="$dir"
    exits 1
    warns 'there is no libktkernel.la'
else
    echo "SKIP: pip install ./tools/python: $PYTHON's pip knows no --config-settings (22.1)"
fi
command_line="make install"
make -C "$KT_TEST_BUILD" install-nodist_kt_kernel_infoDATA DESTDIR="$dir/root" pythondir=/site >"$out" 2>"$err"
code=$?
exits 0
(cd / && PYTHONPATH=$dir/root/site "$PYTHON" "$dir/version.py") >"$out" 2>"$err"
code=$?
exits 0
says '^[0-9.]* numpy$'

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
