#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package kt_kernel, by pytest. Without torch its tests are skipped one by one, by name.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ] || skip "there is no Python 3.9 or later"
for module in numpy pytest; do
    "$PYTHON" -c "import $module" 2>/dev/null || skip "$PYTHON has no $module (Debian: python3-$module)"
done
[ -z "${EMULATOR:-}" ] || skip "Python is not run by an emulator"
[ -z "${KT_TEST_SANITIZERS:-}" ] || skip "a sanitizer must be loaded before Python is"
for plugin in ${KT_TEST_PLUGINS:?}; do
    plugin=${plugin#kt_}
    with_plugin "${plugin%.la}"
done
# A GPU's runtime, for tests that find it as they find libcudart.
mkdir "$dir/lib"
ln -s "$KT_TEST_BUILD/tests/gpu/libstandin.so" "$dir/lib/libcudart.so.13"
LD_LIBRARY_PATH=$dir/lib:${LD_LIBRARY_PATH:-}
KT_KERNEL_LIBRARY=$KT_TEST_BUILD/.libs/libktkernel.so.0
PYTHONPATH=$KT_TEST_SOURCE/tools/python:$KT_TEST_SOURCE/tests/python
PYTHONDONTWRITEBYTECODE=1
PATH=$KT_TEST_BUILD:$PATH
OMP_NUM_THREADS=1 # torch's own threads
export LD_LIBRARY_PATH KT_KERNEL_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE PATH OMP_NUM_THREADS
# The program in README.
sed -n '/^# layer0\.py/,/^    print/p' "$KT_TEST_SOURCE/README.md" >"$dir/layer0.py"
command_line="README's Python program"
"$PYTHON" "$dir/layer0.py" "$data/tiny-moe-q4_k_m.gguf" >"$out" 2>"$err"
code=$?
exits 0
says '^y\[0\] = -*[0-9]'
[ "$n_failed" -eq 0 ] || finish

cd "$KT_TEST_SOURCE/tests/python" || exit 99
timeout 600 "$PYTHON" -m pytest -p no:cacheprovider -q --basetemp="$dir/pytest" \
    ${KT_TEST_PYTEST:-} . >"$out" 2>&1
code=$?
cat "$out"
exit $code
