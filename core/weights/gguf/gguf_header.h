/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_header.h - the header of a GGUF file: metadata, and the list of tensors. */
#ifndef KT_CORE_WEIGHTS_GGUF_GGUF_HEADER_H
#define KT_CORE_WEIGHTS_GGUF_GGUF_HEADER_H

#include "core/weights/file/limits.h"
#include "core/weights/table/checkpoint.h"

#define KT_GGUF_MAGIC "GGUF" /* the first four bytes of a file */

/* Types of values, with their numbers in files. */
enum kt_gguf_type {
    KT_GGUF_U8 = 0,
    KT_GGUF_I8 = 1,
    KT_GGUF_U16 = 2,
    KT_GGUF_I16 = 3,
    KT_GGUF_U32 = 4,
    KT_GGUF_I32 = 5,
    KT_GGUF_F32 = 6,
    KT_GGUF_BOOL = 7,
    KT_GGUF_STRING = 8,
    KT_GGUF_ARRAY = 9,
    KT_GGUF_U64 = 10,
    KT_GGUF_I64 = 11,
    KT_GGUF_F64 = 12
};

struct kt_gguf_key {
    char *name;
    uint64_t at;      /* byte of the file where the key begins */
    uint32_t type;    /* enum kt_gguf_type */
    uint32_t element; /* of an array */
    uint64_t number;  /* of an integer (sign extended) or a bool */
    uint64_t value;   /* byte of the file where it begins, of an array its first element */
    uint64_t size;    /* bytes of it */
    uint64_t count;   /* of an array */
    void *loaded;     /* its bytes, if they are not read through the mapping */
};

struct kt_gguf {
    struct kt_checkpoint *checkpoint;
    uint32_t part;           /* the file of the checkpoint that is read */
    struct kt_gguf_key *key; /* by name, once all are read */
    uint64_t n_keys, capacity;
    uint64_t n_tensors; /* as the header says */
    uint64_t alignment;
    char architecture[sizeof((struct kt_checkpoint *)NULL)->architecture]; /* "": no such key */
    char name[sizeof((struct kt_checkpoint *)NULL)->name];
    char what[KT_NAME_SIZE + 32]; /* the thing that is being read, for messages */
    struct kt_reader reader;
};

/* The key of that name among n that are in order, or NULL. */
struct kt_gguf_key *kt_gguf_find_key(struct kt_gguf_key *keys, uint64_t n, const char *name);
const struct kt_gguf_key *kt_gguf_find(const struct kt_gguf *gguf, const char *name);

/* The value of an integer key, of any integer type; 0 if there is no such key. */
enum kt_status kt_gguf_count(const struct kt_gguf *gguf, const char *name, uint64_t *count,
                             struct kt_error *error);

/* "array of u8" and so on, into text. */
const char *kt_gguf_type_name(const struct kt_gguf_key *key, char text[32]);

/* Reads the metadata of file `part`, which must not move until kt_gguf_end. Sets *gguf on success. */
enum kt_status kt_gguf_begin(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_gguf **gguf,
                             struct kt_error *error);
void kt_gguf_end(struct kt_gguf *gguf); /* NULL: nothing */

/* Leaves the keys to the checkpoint, for kt_checkpoint_value. */
void kt_gguf_keep_keys(struct kt_gguf *gguf);
void kt_gguf_free_keys(struct kt_checkpoint *checkpoint);

/* Reads a string of 1 to KT_LONGEST_NAME bytes, which can be shown. *name: to be freed; NULL on failure. */
enum kt_status kt_gguf_read_name(struct kt_gguf *gguf, const char *what, char **name, struct kt_error *error);

/* After that, reads the list of tensors and adds it to that of the checkpoint. */
enum kt_status kt_gguf_read_tensors(struct kt_gguf *gguf, struct kt_error *error);

/* The label of the file, for messages. */
static inline const char *kt_gguf_label(const struct kt_gguf *gguf)
{
    return gguf->reader.file->label;
}

#endif
