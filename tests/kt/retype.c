/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retype IN OUT TYPE: copies a GGUF file and calls the type of its experts' tensors TYPE, a number of ggml's.
 * No tensor may become longer; what its weights are then, nobody knows.
 */
#define _GNU_SOURCE /* memmem */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char name[] = "_exps.weight";
    FILE *in = argc == 4 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
    uint32_t type = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, n_dims;
    unsigned n = 0;
    if (!in || !out || fseek(in, 0, SEEK_END) != 0)
        return 2;
    size_t size = (size_t)ftell(in);
    char *data = malloc(size);
    rewind(in);
    if (!data || fread(data, 1, size, in) != size)
        return 2;
    for (char *at = data; (at = memmem(at, size - (size_t)(at - data), name, strlen(name))) != NULL; n++) {
        at += strlen(name);
        memcpy(&n_dims, at, sizeof n_dims);
        memcpy(at + 4 + 8 * (size_t)n_dims, &type, sizeof type);
    }
    bool written = fwrite(data, 1, size, out) == size && fclose(out) == 0;
    fclose(in);
    free(data);
    return n == 0 || !written;
}
