/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - model.safetensors.index.json: which file of a folder holds which tensor. */
#ifndef KT_CORE_INDEX_H
#define KT_CORE_INDEX_H

#include "core/weights/checkpoint.h"

#define KT_SAFETENSORS ".safetensors"

enum { KT_LARGEST_FILES = 4096 };

/* Names of files. */
struct kt_names {
    const char **name; /* owned */
    size_t n, capacity;
};

struct kt_listed;

struct kt_index {
    char label[KT_LABEL_SIZE];
    bool found;
    struct kt_names files;    /* each once, in order */
    struct kt_listed *listed; /* its tensors */
    size_t n, capacity;
    char *text; /* their names, each with the 0 at its end */
    size_t used, room;
    bool sizeless, packed; /* its total_size is 0; some tensor is called blk. */
};

/* Reads the index at `path`. index->found stays false if it is one that says nothing. */
enum kt_status kt_index_read(const char *path, struct kt_index *index, struct kt_error *error);

/* Does it name this file? */
bool kt_index_lists(const struct kt_index *index, const char *file);

/* Is each tensor of the index where it says, and listed once? File number i of the checkpoint is
 * index->files.name[i]. */
enum kt_status kt_index_compare(const struct kt_checkpoint *checkpoint, const struct kt_index *index,
                                struct kt_error *error);
void kt_index_drop(struct kt_index *index);

/* Puts a copy of the name before number `at` of the list. */
enum kt_status kt_names_add(struct kt_names *names, size_t at, const char *name, const char *label,
                            struct kt_error *error);
void kt_names_drop(struct kt_names *names);

/* Is there more than this end? */
bool kt_ends_with(const char *text, const char *end);

#endif
