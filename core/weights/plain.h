/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - reads JSON as programs write it, token by token, without building it in memory: a header of
 * 10^6 tensors in a tenth of the time and memory that the JSON library takes. It knows strings without
 * escapes and whole numbers from 0 on. What is not plain is no error: the JSON library reads it.
 */
#ifndef KT_CORE_PLAIN_H
#define KT_CORE_PLAIN_H

#include "core/weights/file.h"

#include <stdbool.h>

/* Bytes of a file up to `end`, from reader.at on. */
struct kt_plain {
    struct kt_reader reader;
    uint64_t end;
    enum kt_status status; /* KT_OK, unless the file could not be read */
    struct kt_error *error;
};

/* `size` bytes from byte `offset` on, all of them inside the file. */
void kt_plain_begin(struct kt_plain *plain, const struct kt_file *file, uint64_t offset, uint64_t size,
                    struct kt_error *error);

/* Steps over spaces and this letter, where it is the next one. */
bool kt_plain_take(struct kt_plain *plain, char letter);

/* Takes a string of less than `size` bytes, as text that ends with 0. */
bool kt_plain_string(struct kt_plain *plain, char *text, size_t size);

/* Takes this very string and the colon after it. */
bool kt_plain_key(struct kt_plain *plain, const char *key);

bool kt_plain_number(struct kt_plain *plain, uint64_t *number);

/* Steps over an object, whatever is in it: it is checked by who reads these bytes. */
bool kt_plain_object(struct kt_plain *plain, uint64_t *offset, uint64_t *size);

/* Is nothing left but spaces? */
bool kt_plain_end(struct kt_plain *plain);

#endif
