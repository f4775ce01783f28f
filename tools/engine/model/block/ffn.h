/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffn.h - the network of a layer, or its experts and what is shared by all tokens: ffn_load.c loads it, ffn.c
 * runs it.
 */
#ifndef KT_ENGINE_MODEL_BLOCK_FFN_H
#define KT_ENGINE_MODEL_BLOCK_FFN_H

#include "tools/engine/model/block/block.h"

/* down(f(gate) * up), f by the configuration's gating. */
struct network {
    struct kt_linear *gate, *up, *down; /* NULL: there is none */
    struct kt_linear *both;             /* gate and up in one, instead of them */
    uint64_t width;
};

/* What becomes of a gate and an up before the gating: scale min(gate, most), and (clamp(up) + shift) divided
 * by the scale. */
struct clamp {
    float gate_most, up_most, shift, scale; /* scale 0: nothing */
};

struct kt_ffn {
    struct network dense; /* the layer's, or the experts' shared one, or the one beside them */
    struct clamp clamp;   /* of its numbers */
    struct kt_hidden_norm dense_after, experts_before, experts_after, router_before;
    float *expert_scales;     /* [n_experts], or NULL */
    float *shared_gate;       /* [hidden_size], or NULL */
    struct kt_numbers router; /* [n_experts][hidden_size] */
    float *router_bias;       /* [n_experts], or NULL */
    float *correction;        /* [n_experts], or NULL */
    struct kt_layer *experts; /* NULL: a dense layer */
};

/* Experts that a router chooses from. */
static inline uint32_t router_size(const struct kt_engine_config *c)
{
    return c->n_experts + c->n_identities;
}

#endif
