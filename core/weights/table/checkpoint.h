/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - the data of a checkpoint: its files, its tensors, its layers with experts.
 *
 * A file format is a struct kt_checkpoint_format, whose read() fills the struct kt_checkpoint from the header
 * of a file. In safetensors files, tensors only have names: a struct kt_mapper finds the experts among them.
 */
#ifndef KT_CORE_WEIGHTS_TABLE_CHECKPOINT_H
#define KT_CORE_WEIGHTS_TABLE_CHECKPOINT_H

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"

#include <stdatomic.h>
#include <stdbool.h>

struct kt_tensor {
    struct kt_tensor_info info; /* its name is owned by the tensor */
    uint32_t part;              /* the file that holds it */
    bool unknown;               /* its type; what the file calls it follows the name's 0 */
    bool stray;                 /* the index puts its name into another file */
    bool copy;                  /* and there it is: this one is dropped once all are indexed */
    void *loaded;               /* its bytes, if they are not read through the mapping */
};

struct kt_tensors {
    struct kt_tensor *tensor; /* by file and offset, once indexed */
    uint64_t n, capacity;
    uint32_t *slot; /* by the hash of the name, once indexed: number of a tensor and 1, or 0 */
    uint64_t n_slots;
};

struct kt_moe {
    struct kt_moe_info info;
    struct kt_tensor *tensor[3]; /* by enum kt_projection; gate and up may be one tensor */
    uint64_t first_row[3];       /* of the projection in an expert's part of its tensor */
    struct kt_tensor *bias[3];   /* NULL: none */
    struct kt_tensor *scale[3];  /* one number an expert; NULL: none */
    float *converted[3];         /* biases that are not float32 in the file */
    void *map;                   /* data of the mapper; freed with free() */
    uint32_t uses;               /* kt_checkpoint_use without kt_checkpoint_unuse */
    bool shown;                  /* kt_checkpoint_experts without kt_checkpoint_release_layer */
};

/* A weight that kt_checkpoint_weight handed out. */
struct kt_weight {
    struct kt_weight *next;
    struct kt_view view;
    float *bias; /* NULL: none */
    void *map;   /* what the view needs besides; freed with free_map */
    char name[]; /* without the ending */
};

struct kt_checkpoint;
struct kt_stored;
struct kt_model_config;
struct kt_gguf_key;
struct json_t;

/* Hands out the views of a layer's first n_experts experts. */
typedef enum kt_status (*kt_experts_fn)(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                                        struct kt_expert *experts, uint32_t n_experts,
                                        struct kt_error *error);

struct kt_checkpoint_format {
    const char *name;
    /* Can a file of this size that begins so be of this format? */
    bool (*matches)(const uint8_t head[16], uint64_t size);
    /* `path` is that of file 0; more files may be beside it. */
    enum kt_status (*read)(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error);
    /* Opens sample file `number`, below 2 * n_moe, for the fingerprint. For formats with files that are not
     * in kt_checkpoint.part; else NULL. */
    enum kt_status (*sample)(const struct kt_checkpoint *checkpoint, uint64_t number, struct kt_file *file,
                             struct kt_error *error);
    /* Fills view, bias and map of the weight of that name; KT_E_NOT_FOUND: there is none. */
    enum kt_status (*weight)(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                             struct kt_error *error);
    void (*free_map)(void *map); /* of a weight */
    const char *no_experts;      /* why a file may have no experts, for messages */
};

/* A file of the checkpoint. */
struct kt_part {
    struct kt_file file;
    uint64_t data;           /* where the tensors begin */
    struct json_t *metadata; /* __metadata__ of a safetensors file, or NULL */
};

struct kt_checkpoint {
    atomic_uint references;
    const struct kt_checkpoint_format *format;
    struct kt_log log;
    enum kt_io io;
    char label[KT_LABEL_SIZE]; /* of the path that was opened, for messages */
    char *folder;              /* of safetensors files; NULL for other formats */
    bool whole;                /* the folder was opened, not a file in it */
    struct kt_part *part;
    uint32_t n_parts;
    uint64_t n_loose; /* more files, which are open only while they are read */
    uint64_t size;    /* of all files */
    char architecture[64];
    char name[KT_NAME_SIZE + 1];
    uint64_t n_layers;
    uint64_t expert_size;
    struct kt_tensors tensors;
    struct kt_moe *moe; /* ascending by layer */
    uint64_t n_moe;
    uint64_t n_beyond;         /* behind them in moe[]: layers that predict further tokens */
    struct kt_stored **linear; /* packed linears of a store, by name */
    uint64_t n_linears;
    kt_experts_fn experts;
    void (*release)(struct kt_moe *moe);
    struct kt_gguf_key *key; /* of file key_part; by name */
    uint64_t n_keys;
    uint32_t key_part;
    struct kt_weight *weights;    /* that were handed out */
    struct kt_folder_file *files; /* likewise */
    struct kt_tensor **odd;       /* beside weights, unknown (model/beside.c), then NULL; NULL: not listed */
    struct kt_model_config *config; /* of config.json, for weights; NULL: not read yet */
    struct kt_lock lock;            /* of decoded layers, since any thread may unload a layer */
    /* Why the experts of this model cannot be computed, with the file that says so; "": they can. */
    char refusal[sizeof((struct kt_error *)NULL)->message];
};

#endif
