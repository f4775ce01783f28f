/* SPDX-License-Identifier: Apache-2.0 */
/* store_header.h - reading what the headers of all files of a store have in common. */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_HEADER_H
#define KT_CORE_WEIGHTS_STORE_STORE_HEADER_H

#include "core/weights/store/store.h"
#include "core/weights/table/checkpoint.h"

#include <stdbool.h>

/* The state of reading a file. */
struct kt_store_reading {
    struct kt_checkpoint *checkpoint;
    uint32_t part;
    uint64_t tensor;       /* the next one */
    const char *checksums; /* the digits of the next one */
    struct kt_error *error;
};

const char *kt_store_label(const struct kt_store_reading *reading);

/* The value of a key, or NULL and an error. */
const char *kt_store_text(const struct kt_store_reading *reading, const char *key);

/* n whole numbers, separated by single spaces. */
enum kt_status kt_store_numbers(const struct kt_store_reading *reading, const char *key, unsigned n,
                                uint64_t *numbers);

/* A short name into a field of `size` bytes. */
enum kt_status kt_store_short(const struct kt_store_reading *reading, const char *key, char *to, size_t size);

enum kt_status kt_store_check_version(const struct kt_store_reading *reading, int version);

/* The formats of n matrices before packing, of which those before `first` do not exist. */
enum kt_status kt_store_formats(const struct kt_store_reading *reading, unsigned first, unsigned n,
                                struct kt_format *formats);

/* Backend, form and fingerprint into `stored`; architecture and number of layers into the checkpoint. */
enum kt_status kt_store_origin(const struct kt_store_reading *reading, struct kt_stored *stored);

/* Are the texts of these keys unchanged, and has the file the name that belongs to `what` it holds? */
enum kt_status kt_store_check_header(const struct kt_store_reading *reading, const char *const *keys,
                                     size_t n_keys, const char *what, const char *name);

/* The number of tensors of the file from the next one on. */
uint64_t kt_store_count(const struct kt_store_reading *reading);

/* Is the next tensor of the file called so? */
bool kt_store_next_is(const struct kt_store_reading *reading, const char *name);

/* Takes the next tensor of the file, which must have this name and type. */
struct kt_tensor *kt_store_take(struct kt_store_reading *reading, const char *name, uint32_t dtype);

/* The next checksum; false: there stands something else. */
bool kt_store_take_sum(struct kt_store_reading *reading, uint64_t *sum);

/* Takes a tensor of biases, n_dims sizes in dims, and compares it with its checksum. */
enum kt_status kt_store_take_bias(struct kt_store_reading *reading, const char *name, uint32_t n_dims,
                                  const uint64_t *dims, struct kt_tensor **bias);

/* A view of this format and size, without data. */
void kt_store_show(const struct kt_format *format, uint64_t rows, uint64_t cols, struct kt_view *view);

/* ---- store_linear.c ---- */

/* Is it the file of a linear? */
bool kt_store_is_linear(const struct kt_checkpoint *checkpoint, uint32_t part);

/* Reads its header and appends it to checkpoint->linear, which has room for it. */
enum kt_status kt_store_read_linear(struct kt_store_reading *reading);

/* Puts the linears into the order of their names, by which they are found from then on. */
void kt_store_sort_linears(struct kt_checkpoint *checkpoint);

#endif
