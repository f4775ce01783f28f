/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - the names that families of models give to the tensors of their experts. */
#ifndef KT_CORE_FAMILY_H
#define KT_CORE_FAMILY_H

#include <kt/types.h>
#include <stdbool.h>

/* Projections as tensors have them: enum kt_projection, or gate and up in one. */
enum { KT_GATE_UP = 3, KT_N_KINDS = 4 };

/* What a tensor is to a projection. */
enum kt_role {
    KT_ROLE_WEIGHT = 0,
    KT_ROLE_SCALE = 1,
    KT_ROLE_BIAS = 2,
    KT_N_ROLES = 3,     /* those above are used */
    KT_ROLE_NONE = 3,   /* says nothing about the weights */
    KT_ROLE_REFUSED = 4 /* belongs to a format that cannot be read */
};

/* A tensor of experts, as its name says it. */
struct kt_expert_name {
    uint64_t layer;
    uint64_t expert; /* 0 in a fused tensor */
    bool fused;      /* it holds all experts of the layer */
    unsigned prefix, family;
    int kind; /* enum kt_projection or KT_GATE_UP */
    enum kt_role role;
    const char *format; /* refused: its format's name */
};

/* False: a name that no family gives to an expert's tensor. */
bool kt_expert_name_parse(const char *name, struct kt_expert_name *parsed);

/* Writes the name of the weight that the same family gives to projection `kind`. Returns text. */
char *kt_expert_name_weight(const struct kt_expert_name *like, uint64_t expert, int kind,
                            char *text, size_t size);

#endif
