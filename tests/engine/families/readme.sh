#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README.md has the families that are tested.
command -v python3 >/dev/null || { echo "SKIP: python3 is missing"; exit 77; }
exec python3 "${KT_TEST_SOURCE:?}/tests/engine/families/readme.py" "$KT_TEST_SOURCE"
