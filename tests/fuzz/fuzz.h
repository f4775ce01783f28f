/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - opens the fuzzer's bytes as a file and uses all that it offers. */
#ifndef KT_TESTS_FUZZ_H
#define KT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

void use_file(const uint8_t *data, size_t size);

#endif
