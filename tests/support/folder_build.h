/* SPDX-License-Identifier: Apache-2.0 */
/* folder_build.h - makes folders of safetensors files, right and wrong ones. */
#ifndef KT_TESTS_SUPPORT_FOLDER_BUILD_H
#define KT_TESTS_SUPPORT_FOLDER_BUILD_H

#include <kt/kt.h>

/* A folder of its own under the one for temporary files; for a checked fixture. */
void folder_make(void);
void folder_remove(void);

/* The path of something in it, until the next call; "": its own. */
const char *folder_path(const char *name);
void folder_write(const char *name, const void *data, size_t size);
void folder_text(const char *name, const char *format, ...) KT_PRINTF(2, 3);
void folder_delete(const char *name);

/* A safetensors file under construction. */
struct shard {
    char header[1 << 16];
    uint8_t data[1 << 20];
    size_t header_size, size;
};

void shard_begin(struct shard *shard);
/* The text of a __metadata__ object. */
void shard_metadata(struct shard *shard, const char *object);
/* A tensor whose element number i is value_of(name, dtype, i). Slowest dimension first. */
void shard_add(struct shard *shard, const char *name, const char *dtype, unsigned n_dims,
               const uint64_t *dims);
/* A tensor of these bytes. */
void shard_put(struct shard *shard, const char *name, const char *dtype, unsigned n_dims,
               const uint64_t *dims, const void *data);
/* The whole file's bytes, until the next call. */
const uint8_t *shard_bytes(const struct shard *shard, size_t *size);
void shard_write(const struct shard *shard, const char *name);

/* "U8" counts as a power of two, as scales in U8 do. */
float value_of(const char *name, const char *dtype, uint64_t i);

/* Opens the folder, or what is in it. */
enum kt_status folder_open(const char *name, enum kt_io io, struct kt_checkpoint **checkpoint,
                           struct kt_error *error);

#endif
