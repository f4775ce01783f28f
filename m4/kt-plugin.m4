# SPDX-License-Identifier: Apache-2.0
# For authors of kt-kernel plugins: installed as PREFIX/share/aclocal/kt-plugin.m4.
