/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_file.h - writing a file of a store: absent or whole.
 *
 * It has a temporary name, .layer-00003.part, and is locked, so that one process at a time writes it. It gets
 * its own name once it is on the disk. The sizes of all tensors are known before the first is made, so the
 * header is written first, with zeros for checksums, and again at the end.
 */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_FILE_H
#define KT_CORE_WEIGHTS_STORE_STORE_FILE_H

#include <jansson.h>
#include <kt/kt.h>
#include <kt/plugin.h>

struct kt_store_file {
    const char *folder, *what; /* "layer" or "linear", for messages */
    char *path, *temporary;
    int fd;        /* negative: not open */
    uint64_t data; /* where the tensors begin in the file; known when the header was written */
};

/* `name`: without its ending. After a failure kt_store_file_close is called too. */
enum kt_status kt_store_file_open(struct kt_store_file *file, const char *folder, const char *name,
                                  const char *what, struct kt_error *error);

/* Takes space on the disk for `size` bytes of tensors, so that a full one is found before the work. */
enum kt_status kt_store_file_reserve(const struct kt_store_file *file, uint64_t size, struct kt_error *error);

/* Writes at byte `offset` of the file. Any thread. */
enum kt_status kt_store_file_write(const struct kt_store_file *file, const void *from, uint64_t size,
                                   uint64_t offset, struct kt_error *error);

/* Writes the header, padded with spaces so that the data is aligned. Frees root; NULL: there was no memory to
 * make it. */
enum kt_status kt_store_file_header(struct kt_store_file *file, json_t *root, struct kt_error *error);

/* Makes it durable and gives it its name. */
enum kt_status kt_store_file_finish(const struct kt_store_file *file, struct kt_error *error);

/* Removes it unless it has its name: `status` is that of what was done since it was opened. */
void kt_store_file_close(struct kt_store_file *file, enum kt_status status);

/* ---- parts of a header; not 0: there is no memory ---- */

int kt_store_add_text(json_t *metadata, const char *key, const char *format, ...) KT_PRINTF(3, 4);

/* Formats of n matrices before packing. */
int kt_store_add_formats(json_t *metadata, const struct kt_view *const *views, int n);

/* The fingerprint, and architecture and number of layers of the model. */
int kt_store_add_source(json_t *metadata, const char *source, const struct kt_checkpoint_info *model);

/* n checksums and then that of the header, which is made of the texts of the keys. */
int kt_store_add_sums(json_t *metadata, const uint64_t *sums, uint64_t n, const char *const *keys,
                      size_t n_keys);

/* Appends a tensor of `size` bytes, which begins at *at of the data; takes shape. */
int kt_store_add_tensor(json_t *root, const char *name, const char *dtype, json_t *shape, uint64_t *at,
                        uint64_t size);

#endif
