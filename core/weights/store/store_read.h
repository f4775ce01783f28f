/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_read.h - the packed weights of a layer in a store.
 *
 * A store is a folder with one safetensors file for each layer, layer-00003.safetensors, all packed from
 * one checkpoint:
 *     layers.L.experts.E.gate_up   U8, what a backend packed of expert E's gate and up
 *     layers.L.experts.E.down      U8, of down
 *     layers.L.gate_bias and so on F32 [n_experts][rows], where there are biases
 * in this order without gaps. Objects are padded to a multiple of 64 bytes, and the data begins at a multiple
 * of 4096, so that a mapped file can be used in place. __metadata__ holds the keys below.
 */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_READ_H
#define KT_CORE_WEIGHTS_STORE_STORE_READ_H

#include "core/weights/table/checkpoint.h"
#include "core/weights/table/mapper.h"

#include <kt/plugin.h>

#define KT_STORE_FORMAT "kt-kernel packed experts"
#define KT_STORE_VERSION 2
#define KT_STORE_ALIGNMENT 4096

/* A value of KT_STORE_KEY_LAYERS: weights came from the caller, or the list is too long. */
#define KT_STORE_LAYERS_UNKNOWN "..."

/* Keys of __metadata__. All values are text. */
#define KT_STORE_KEY_FORMAT "kt.format"   /* KT_STORE_FORMAT */
#define KT_STORE_KEY_VERSION "kt.version" /* KT_STORE_VERSION */
#define KT_STORE_KEY_BACKEND "kt.backend" /* "amx_int8" */
#define KT_STORE_KEY_FORM "kt.form"       /* kt_layout.form, the id of the layout */
#define KT_STORE_KEY_SHARDS "kt.shards"   /* "1": objects are of whole experts */
#define KT_STORE_KEY_LAYER "kt.layer"
#define KT_STORE_KEY_SHAPE "kt.shape"                 /* n_experts top_k hidden_size intermediate_size */
#define KT_STORE_KEY_ACTIVATION "kt.activation"       /* number of enum kt_activation, limit, alpha */
#define KT_STORE_KEY_SOURCE_TYPES "kt.source_types"   /* dtypes of gate, up and down before packing */
#define KT_STORE_KEY_SOURCE_SCALES "kt.source_scales" /* of each: dtypes of scales and zeros, group */
#define KT_STORE_KEY_SOURCE "kt.source"               /* kt_checkpoint_fingerprint of the source, or "" */
#define KT_STORE_KEY_MODEL "kt.model"                 /* architecture and number of layers of the model */
#define KT_STORE_KEY_LAYERS "kt.layers"               /* all layers with experts of the model: "0-3,5" */
#define KT_STORE_KEY_CHECKSUMS "kt.xxh3"              /* XXH3-64 of each tensor, 16 hex digits, in order */
#define KT_STORE_KEY_HEADER "kt.xxh3_header"          /* XXH3-64 of the texts of the keys above, in order */

#define KT_STORE_KEYS                                                                                       \
    {                                                                                                       \
        KT_STORE_KEY_FORMAT, KT_STORE_KEY_VERSION, KT_STORE_KEY_BACKEND, KT_STORE_KEY_FORM,                 \
            KT_STORE_KEY_SHARDS, KT_STORE_KEY_LAYER, KT_STORE_KEY_SHAPE, KT_STORE_KEY_ACTIVATION,           \
            KT_STORE_KEY_SOURCE_TYPES, KT_STORE_KEY_SOURCE_SCALES, KT_STORE_KEY_SOURCE, KT_STORE_KEY_MODEL, \
            KT_STORE_KEY_LAYERS, KT_STORE_KEY_CHECKSUMS                                                     \
    }
enum { KT_STORE_N_KEYS = 14 };

/* The checksum of the header, computed from the texts of the keys. */
uint64_t kt_store_header_sum(const char *const texts[KT_STORE_N_KEYS]);

/* A layer of a store; moe->map of its mapper. */
struct kt_stored {
    char backend[32];
    char form[KT_FORM_SIZE];
    struct kt_format format[3]; /* of gate, up and down before packing */
    const char *source;         /* fingerprint of what was packed */
    const char *layers;         /* with experts, of the model */
    uint64_t object_size[2];    /* by enum kt_stage, padded to 64 */
    uint32_t part;              /* the file */
    uint64_t offset;            /* of expert 0's gate_up in it; the objects follow one another */
    uint64_t checksum[];        /* [n_experts][2] */
};

extern const struct kt_mapper kt_mapper_store;

/* NULL: the layer's weights are in their source format. */
const struct kt_stored *kt_checkpoint_stored(const struct kt_checkpoint *checkpoint, uint64_t layer);

static inline uint64_t kt_stored_offset(const struct kt_stored *stored, uint32_t expert, enum kt_stage stage)
{
    return stored->offset + expert * (stored->object_size[0] + stored->object_size[1]) +
           (stage == KT_STAGE_DOWN ? stored->object_size[0] : 0);
}

/* KT_E_FORMAT if the bytes of an object are not those that were stored. */
enum kt_status kt_stored_check(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                               uint32_t expert, enum kt_stage stage, const void *object,
                               struct kt_error *error);

#endif
