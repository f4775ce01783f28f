/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - opens the fuzzer's bytes as a file, or what was made of them, and uses all that it offers. */
#ifndef KT_TESTS_FUZZ_H
#define KT_TESTS_FUZZ_H

#include <kt/kt.h>

void use_file(const uint8_t *data, size_t size);
void use_path(const char *path, enum kt_io io);

#endif
