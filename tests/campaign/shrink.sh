#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models that become shorter while they are mapped, for so many seconds: shrink.sh SECONDS SEED. Prints what attack.c
# prints.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
"$python" "$KT_TEST_SOURCE/tests/campaign/shrink.py" "$1" "$2" "$model" "$dir" "$kt_program"
