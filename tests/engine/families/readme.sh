#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of models in README.md is that of make_table.py.
command -v python3 >/dev/null || { echo "SKIP: python3 is missing"; exit 77; }
exec python3 "${KT_TEST_SOURCE:?}/tests/engine/families/make_table.py" --check
