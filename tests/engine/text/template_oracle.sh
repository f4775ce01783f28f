#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random templates and conversations render as python3-jinja2 renders them.
set -eu
python=${PYTHON:-python3}
if ! "$python" -c 'import jinja2, sys; sys.exit(jinja2.__version__ < "3.1")' 2>/dev/null; then
    echo "SKIP: random templates need python3-jinja2, 3.1 or later"
    exit 77
fi
set --
[ -z "${KT_TEST_DATA_SHARED:-}" ] || set -- "$KT_TEST_DATA_SHARED"/chat-templates/*.jinja
# One seed, so that a failure is one of the change; KT_TEST_SEED and KT_TEST_CASES for others and more.
exec "$python" "${KT_TEST_SOURCE:?}/tests/engine/text/template_oracle.py" \
    "${EMULATOR:-} ${KT_TEST_BUILD:?}/tests/engine/text/render_lines" "${KT_TEST_CASES:-500}" "${KT_TEST_SEED:-1}" "$@"
