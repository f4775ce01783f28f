/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a GGUF file without its magic. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[1 << 20];
    if (size > sizeof file - 4)
        return 0;
    memcpy(file, "GGUF", 4);
    memcpy(file + 4, data, size);
    use_file(file, size + 4);
    return 0;
}
