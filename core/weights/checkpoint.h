/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - a checkpoint inside: its file, its tensors, its layers with experts.
 *
 * A file format is one struct kt_checkpoint_format: read() fills everything below from the file's
 * header, experts() hands out the views of a layer.
 */
#ifndef KT_CORE_CHECKPOINT_H
#define KT_CORE_CHECKPOINT_H

#include "core/log.h"
#include "core/weights/file.h"
#include "core/weights/weights.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Names of tensors and metadata keys are longer in no real file; messages quote them whole. */
enum { KT_NAME_SIZE = 256 };

struct kt_tensor {
    struct kt_tensor_info info; /* its name is owned by the tensor */
    void *loaded;               /* its bytes, where they are not read through the mapping */
};

struct kt_tensors {
    struct kt_tensor *tensor; /* by offset, once indexed */
    uint64_t n, capacity;
    struct kt_tensor **by_name;
};

struct kt_moe {
    struct kt_moe_info info;
    struct kt_tensor *tensor[3]; /* by enum kt_projection; gate and up may be one tensor */
    uint64_t first_row[3];       /* of the projection in an expert's part of its tensor */
    struct kt_tensor *bias[3];   /* NULL: none */
    struct kt_tensor *scale[3];  /* one number an expert; NULL: none */
    float *converted[3];         /* biases that are not float32 in the file */
};

struct kt_checkpoint;

struct kt_checkpoint_format {
    const char *name;
    /* Can a file of this size that begins so be of this format? */
    bool (*matches)(const uint8_t head[16], uint64_t size);
    enum kt_status (*read)(struct kt_checkpoint *checkpoint, struct kt_error *error);
    enum kt_status (*experts)(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                              struct kt_expert *experts, uint32_t n_experts,
                              struct kt_error *error);
    const char *no_experts; /* why a file of this format may hold none, for messages */
};

extern const struct kt_checkpoint_format kt_format_gguf;
extern const struct kt_checkpoint_format kt_format_safetensors;

struct kt_checkpoint {
    atomic_uint references;
    const struct kt_checkpoint_format *format;
    struct kt_log log;
    struct kt_file file;
    char architecture[64];
    char name[KT_NAME_SIZE + 1];
    uint64_t n_layers;
    uint64_t expert_size;
    struct kt_tensors tensors;
    struct kt_moe *moe; /* ascending by layer */
    uint64_t n_moe;
    const char *refusal; /* why experts cannot be computed as this model does; NULL: they can */
};

/* Is it UTF-8 without control characters, so that it can be a line of a message? */
bool kt_name_valid(const char *text, size_t size);

/* Appends a tensor, whose name (malloc) then belongs to the list, also on failure. */
enum kt_status kt_tensors_add(struct kt_tensors *tensors, const struct kt_tensor_info *info,
                              struct kt_error *error);

/* Sorts the tensors by offset; refuses names that stand twice, and tensors that overlap. */
enum kt_status kt_tensors_index(struct kt_tensors *tensors, const char *label,
                                struct kt_error *error);

/* The tensor of that name, or NULL. */
struct kt_tensor *kt_tensors_find(const struct kt_tensors *tensors, const char *name);
void kt_tensors_free(struct kt_tensors *tensors);

/* The tensor's bytes, aligned for its numbers, until the checkpoint is closed. */
enum kt_status kt_tensor_data(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor,
                              const void **data, struct kt_error *error);

#endif
