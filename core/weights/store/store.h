/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the files of a store, and what is known of a layer or linear in one.
 *
 * A store is a folder with one safetensors file for each layer, layer-00003.safetensors, and one for each
 * linear, linear-blk.0.attn_q.safetensors, all packed from one checkpoint. The file of a layer:
 *     layers.L.experts.E.gate_up   U8, what a backend packed of expert E's gate and up
 *     layers.L.experts.E.down      U8, of down
 *     layers.L.gate_bias and so on F32 [n_experts][rows], where there are biases
 * and that of a linear, whose one object may be large and has a checksum for each KT_STORE_PIECE bytes:
 *     NAME.packed                  U8
 *     NAME.bias                    F32 [rows], where there is one
 * in this order without gaps. Objects are padded to a multiple of 64 bytes, and the data begins at a multiple
 * of 4096, so that a mapped file can be used in place. __metadata__ holds the keys below.
 */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_H
#define KT_CORE_WEIGHTS_STORE_STORE_H

#include "core/weights/table/checkpoint.h"

#include <kt/plugin.h>

#define KT_STORE_FORMAT "kt-kernel packed experts"
#define KT_STORE_VERSION 2
#define KT_STORE_FORMAT_LINEAR "kt-kernel packed linear"
#define KT_STORE_VERSION_LINEAR 1
#define KT_STORE_ALIGNMENT 4096

/* Bytes of a linear's object that share a checksum. */
#define KT_STORE_PIECE (UINT64_C(1) << 20)

/* Hex digits of a checksum. */
#define KT_STORE_DIGITS 16

/* A value of KT_STORE_KEY_LAYERS: weights came from the caller, or the list is too long. */
#define KT_STORE_LAYERS_UNKNOWN "..."

/* Keys of __metadata__. All values are text. */
#define KT_STORE_KEY_FORMAT "kt.format"   /* KT_STORE_FORMAT or KT_STORE_FORMAT_LINEAR */
#define KT_STORE_KEY_VERSION "kt.version" /* of that format */
#define KT_STORE_KEY_BACKEND "kt.backend" /* "amx_int8" */
#define KT_STORE_KEY_FORM "kt.form"       /* kt_layout.form, the id of the layout */
#define KT_STORE_KEY_SHARDS "kt.shards"   /* "1": objects are of whole experts */
#define KT_STORE_KEY_LAYER "kt.layer"
#define KT_STORE_KEY_LINEAR "kt.linear"         /* its name */
#define KT_STORE_KEY_SHAPE "kt.shape"           /* n_experts top_k hidden_size intermediate_size; rows cols */
#define KT_STORE_KEY_ACTIVATION "kt.activation" /* number of enum kt_activation, limit, alpha */
#define KT_STORE_KEY_SOURCE_TYPES "kt.source_types"   /* dtypes before packing: gate, up, down; or one */
#define KT_STORE_KEY_SOURCE_SCALES "kt.source_scales" /* of each: dtypes of scales and zeros, group */
#define KT_STORE_KEY_SOURCE "kt.source"               /* kt_checkpoint_fingerprint of the source, or "" */
#define KT_STORE_KEY_MODEL "kt.model"                 /* architecture and number of layers of the model */
#define KT_STORE_KEY_LAYERS "kt.layers"               /* all layers with experts of the model: "0-3,5" */
#define KT_STORE_KEY_CHECKSUMS "kt.xxh3" /* XXH3-64 of each tensor, or each piece and the bias, in order */
#define KT_STORE_KEY_HEADER "kt.xxh3_header" /* XXH3-64 of the texts of the keys above, in order */

/* Those of a layer and of a linear, but for the last one. */
#define KT_STORE_KEYS                                                                                       \
    {                                                                                                       \
        KT_STORE_KEY_FORMAT, KT_STORE_KEY_VERSION, KT_STORE_KEY_BACKEND, KT_STORE_KEY_FORM,                 \
            KT_STORE_KEY_SHARDS, KT_STORE_KEY_LAYER, KT_STORE_KEY_SHAPE, KT_STORE_KEY_ACTIVATION,           \
            KT_STORE_KEY_SOURCE_TYPES, KT_STORE_KEY_SOURCE_SCALES, KT_STORE_KEY_SOURCE, KT_STORE_KEY_MODEL, \
            KT_STORE_KEY_LAYERS, KT_STORE_KEY_CHECKSUMS                                                     \
    }
#define KT_STORE_KEYS_LINEAR                                                                                \
    {                                                                                                       \
        KT_STORE_KEY_FORMAT, KT_STORE_KEY_VERSION, KT_STORE_KEY_BACKEND, KT_STORE_KEY_FORM,                 \
            KT_STORE_KEY_LINEAR, KT_STORE_KEY_SHAPE, KT_STORE_KEY_SOURCE_TYPES, KT_STORE_KEY_SOURCE_SCALES, \
            KT_STORE_KEY_SOURCE, KT_STORE_KEY_MODEL, KT_STORE_KEY_CHECKSUMS,                                \
    }
enum { KT_STORE_N_KEYS = 14, KT_STORE_N_KEYS_LINEAR = 11, KT_STORE_MOST_KEYS = KT_STORE_N_KEYS };

/* The checksum of the header, computed from the texts of the keys. */
uint64_t kt_store_header_sum(const char *const *texts, size_t n);

/* The name of a file without its ending, "layer-00003" or "linear-blk.0.attn_q", with room for
 * ".safetensors". Letters of a linear's name that a file had better not have are written as %2F; of a long
 * name a checksum stands for the rest. */
enum { KT_STORE_NAME_SIZE = 160 };
void kt_store_name_layer(uint64_t layer, char name[KT_STORE_NAME_SIZE]);
void kt_store_name_linear(const char *linear, char name[KT_STORE_NAME_SIZE]);

/* The longest name of a linear: the names of its tensors are longer. */
enum { KT_STORE_LINEAR_SIZE = KT_NAME_SIZE - 8 };

/* A layer of a store, moe->map of its mapper; or a linear, which is one expert that has a down only. */
struct kt_stored {
    char backend[32];
    char form[KT_FORM_SIZE];
    struct kt_format format[3]; /* of gate, up and down before packing */
    const char *source;         /* fingerprint of what was packed */
    const char *layers;         /* with experts, of the model; NULL: a linear */
    uint64_t object_size[2];    /* by enum kt_stage, padded to 64; 0: it has no such stage */
    uint32_t part;              /* the file */
    uint64_t offset;            /* of expert 0's gate_up in it; the objects follow one another */
    const char *linear;         /* its name, in the file's metadata; NULL: a layer */
    uint64_t rows, cols;        /* of a linear */
    struct kt_tensor *bias;     /* of a linear, or NULL */
    uint64_t checksum[];        /* [n_experts][2]; of a linear by piece */
};

static inline uint64_t kt_stored_offset(const struct kt_stored *stored, uint32_t expert, enum kt_stage stage)
{
    return stored->offset + expert * (stored->object_size[0] + stored->object_size[1]) +
           (stage == KT_STAGE_DOWN ? stored->object_size[0] : 0);
}

static inline uint64_t kt_stored_pieces(const struct kt_stored *stored)
{
    return (stored->object_size[KT_STAGE_DOWN] + KT_STORE_PIECE - 1) / KT_STORE_PIECE;
}

static inline uint64_t kt_stored_piece_size(const struct kt_stored *stored, uint64_t piece)
{
    uint64_t left = stored->object_size[KT_STAGE_DOWN] - piece * KT_STORE_PIECE;
    return left < KT_STORE_PIECE ? left : KT_STORE_PIECE;
}

#endif
