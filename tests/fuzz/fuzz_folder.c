/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is three lengths of two bytes each, of config.json, of the index and of the header of a
 * safetensors file, then these, then the file's data. A length of 0: there is no such file. A second
 * file, which is right, stands beside it.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void remove_all(void)
{
    static const char *const names[] = {"config.json", "model.safetensors.index.json", "a.safetensors",
                                        "b.safetensors"};
    char path[128];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void write_file(const char *name, const uint8_t *head, size_t head_size, const uint8_t *data,
                       size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    if (head_size + size == 0)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, head, head_size) != (ssize_t)head_size ||
        write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
}

static void make_folder(void)
{
    static const char other[] =
        "^\0\0\0\0\0\0\0{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
        "                                         !!";
    snprintf(folder, sizeof folder, "%s/kt-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        abort();
    (void)atexit(remove_all);
    write_file("b.safetensors", NULL, 0, (const uint8_t *)other, sizeof other - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t length[8] = {0};
    size_t sizes[3], at = 6;
    if (!*folder)
        make_folder();
    if (size < 6)
        return 0;
    for (int i = 0; i < 3; i++)
        sizes[i] = data[2 * i] | (size_t)data[2 * i + 1] << 8;
    if (sizes[0] + sizes[1] + sizes[2] > size - at)
        return 0;
    write_file("config.json", NULL, 0, data + at, sizes[0]);
    at += sizes[0];
    write_file("model.safetensors.index.json", NULL, 0, data + at, sizes[1]);
    at += sizes[1];
    memcpy(length, data + 4, 2);
    write_file("a.safetensors", length, sizeof length, data + at, size - at);
    use_path(folder, size % 2 ? KT_IO_READ : KT_IO_MMAP);
    return 0;
}
