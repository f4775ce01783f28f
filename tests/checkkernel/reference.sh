#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend that every other one is compared with in use.
# shellcheck disable=SC2086 # an emulator comes with its arguments
exec "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} \
    "$KT_TEST_BUILD/tests/checkkernel/checkkernel" --plugin reference --seed "${KT_TEST_SEED:-20261121}"
