/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint says of its model, read as the engine does. The input is a GGUF file if it begins so,
 * else a config.json; beside that stands a file of tensors, of a name that some families look for.
 */
#define _GNU_SOURCE /* memfd_create */
#include "tools/engine/model/config/config.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[512], config_path[640], tensors_path[640], gguf_path[64];

static void remove_all(void)
{
    (void)unlink(config_path);
    (void)unlink(tensors_path);
    (void)rmdir(folder);
}

static void write_at(int fd, const void *data, size_t size)
{
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

static void make_folder(void)
{
    static const char tensors[] = "X\0\0\0\0\0\0\0{\"mtp.fc.weight\":{\"dtype\":\"U8\",\"shape\":[2],"
                                  "\"data_offsets\":[0,2]}}                       !!";
    const char *outer = getenv("TMPDIR"); /* of tests/fuzz/run, in memory where it can be */
    snprintf(folder, sizeof(folder), "%s/kt-fuzz-XXXXXX", outer ? outer : "/tmp");
    if (!mkdtemp(folder))
        abort();
    (void)atexit(remove_all);
    snprintf(config_path, sizeof(config_path), "%s/config.json", folder);
    snprintf(tensors_path, sizeof(tensors_path), "%s/model.safetensors", folder);
    int fd = open(tensors_path, O_RDWR | O_CREAT | O_EXCL, 0600);
    write_at(fd, tensors, sizeof(tensors) - 1);
    (void)close(fd);
}

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* What the engine divides by, allocates and counts to. */
static void check_config(const struct kt_engine_config *c)
{
    check(c->n_layers > 0 && c->n_layers <= 4096 && c->n_skipped <= 64, "the number of layers");
    check(c->hidden_size > 0 && c->hidden_size <= 1 << 24, "the hidden size");
    check(c->context_length > 0, "the context");
    check(isfinite(c->eps) && c->eps >= 0, "epsilon");
    check(c->n_experts == 0 || (c->top_k > 0 && c->top_k <= c->n_experts), "the experts of a token");
    check(c->attention.n_kv_heads > 0 && c->attention.n_heads % c->attention.n_kv_heads == 0, "the heads");
    check(c->attention.head_size > 0 || c->latent.kv_rank > 0, "the size of a head");
    check(c->rope.size % 2 == 0, "the numbers that are rotated");
    for (uint32_t i = 0; i < c->n_layers + c->has_mtp; i++)
        check(c->layers[i].mixer <= KT_MIXER_DELTA, "a layer's mixer");
}

static void use_settings(const char *path)
{
    struct kt_engine_config config;
    struct kt_checkpoint *checkpoint;
    struct kt_error error = {KT_OK, ""};
    if (kt_checkpoint_open(path, NULL, &checkpoint, &error) != KT_OK)
        return;
    enum kt_status status = kt_engine_config_read(checkpoint, &config, &error);
    check(status == KT_OK || (status == error.status && error.message[0]), "a failure without words");
    if (status == KT_OK) {
        check_config(&config);
        kt_engine_config_free(&config);
    }
    kt_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int gguf = -1, config = -1;
    if (gguf < 0) {
        make_folder();
        gguf = memfd_create("fuzz", 0);
        snprintf(gguf_path, sizeof(gguf_path), "/proc/self/fd/%d", gguf);
        config = open(config_path, O_RDWR | O_CREAT | O_EXCL, 0600);
    }
    bool is_gguf = size > 4 && memcmp(data, "GGUF", 4) == 0;
    write_at(is_gguf ? gguf : config, data, size);
    use_settings(is_gguf ? gguf_path : folder);
    return 0;
}
