#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random conversations of all forms that are allowed, in the templates of models: none is refused, nothing is lost, and
# the prompt is what Jinja2 makes. KT_TEST_CASES and KT_TEST_SEED for more and others.
set -eu
python=${PYTHON:-python3}
if ! "$python" -c 'import json' 2>/dev/null; then
    echo "SKIP: there is no Python"
    exit 77
fi
if [ -z "${KT_TEST_DATA_SHARED:-}" ] || [ ! -d "$KT_TEST_DATA_SHARED/chat-templates" ]; then
    echo "SKIP: KT_TEST_DATA_SHARED names no folder with chat-templates"
    exit 77
fi
exec "$python" "${KT_TEST_SOURCE:?}/tests/engine/serve/fit_oracle.py" \
    "${EMULATOR:-} ${KT_TEST_BUILD:?}/tests/engine/serve/fit_lines" "${KT_TEST_CASES:-300}" "${KT_TEST_SEED:-1}" \
    "$KT_TEST_DATA_SHARED"/chat-templates/*.jinja
