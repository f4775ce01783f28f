/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is three lengths of two bytes each, of config.json, of the index and of the header of a
 * safetensors file, then these, then the file's data. A length of 0: no such file; one that is too
 * long goes to the end. A second file, which is right, stands beside it.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONFIG, INDEX, OWN, OTHER, N_FILES };
static const char *const names[N_FILES] = {"config.json", "model.safetensors.index.json", "a.safetensors",
                                           "b.safetensors"};
static char folder[512];

static void remove_all(void)
{
    char path[640];
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* A file of the folder, which stays open: making one takes longer than reading it. */
static void write_file(int number, const uint8_t *head, size_t head_size, const uint8_t *data, size_t size)
{
    static int open_files[N_FILES] = {-1, -1, -1, -1};
    char path[640];
    int *fd = &open_files[number];
    snprintf(path, sizeof path, "%s/%s", folder, names[number]);
    if (head_size + size == 0) {
        if (*fd >= 0 && (unlink(path) != 0 || close(*fd) != 0))
            abort();
        *fd = -1;
        return;
    }
    if (*fd < 0)
        *fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (*fd < 0 || ftruncate(*fd, 0) != 0 || pwrite(*fd, head, head_size, 0) != (ssize_t)head_size ||
        pwrite(*fd, data, size, (off_t)head_size) != (ssize_t)size)
        abort();
}

static void make_folder(void)
{
    static const char other[] =
        "^\0\0\0\0\0\0\0{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
        "                                         !!";
    const char *outer = getenv("TMPDIR"); /* of tests/fuzz/run, in memory where it can be */
    snprintf(folder, sizeof folder, "%s/kt-fuzz-XXXXXX", outer ? outer : "/tmp");
    if (!mkdtemp(folder))
        abort();
    (void)atexit(remove_all);
    write_file(OTHER, NULL, 0, (const uint8_t *)other, sizeof other - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t length[8] = {0};
    size_t sizes[3], at = 6;
    if (!*folder)
        make_folder();
    if (size < 6)
        return 0;
    for (int i = 0; i < 3; i++) {
        size_t left = size - at - (i > 0 ? sizes[0] : 0) - (i > 1 ? sizes[1] : 0);
        sizes[i] = data[2 * i] | (size_t)data[2 * i + 1] << 8;
        if (i < 2 && sizes[i] > left) /* a header may be too long for its file */
            sizes[i] = left;
    }
    write_file(CONFIG, NULL, 0, data + at, sizes[0]);
    at += sizes[0];
    write_file(INDEX, NULL, 0, data + at, sizes[1]);
    at += sizes[1];
    memcpy(length, data + 4, 2);
    write_file(OWN, length, sizeof length, data + at, size - at);
    use_path(folder, size % 2 ? KT_IO_READ : KT_IO_MMAP);
    return 0;
}
