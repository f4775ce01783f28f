#!/bin/sh
# Does the plugin keep the contract of <kt/plugin.h>?
if [ -z "$KT" ]; then
    echo "kt is not in PATH: install kt-kernel, or ./configure KT=/path/to/kt"
    exit 1
fi
# shellcheck disable=SC2086 # an emulator may stand before it
exec $KT plugin check --quick .libs/kt_@NAME@.so --config "$INI"
