/* SPDX-License-Identifier: Apache-2.0 */
/* The input is two bytes, the length of the header, and the rest of a safetensors file. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[1 << 20];
    if (size < 2 || size > sizeof file - 8)
        return 0;
    memset(file, 0, 8);
    memcpy(file, data, 2);
    memcpy(file + 8, data + 2, size - 2);
    use_file(file, size + 6);
    return 0;
}
