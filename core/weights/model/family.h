/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - the names that families of models give to the tensors of their experts. */
#ifndef KT_CORE_WEIGHTS_MODEL_FAMILY_H
#define KT_CORE_WEIGHTS_MODEL_FAMILY_H

#include <kt/types.h>
#include <stdbool.h>
#include <stddef.h>

/* Projections as tensors have them: enum kt_projection, or gate and up in one. */
enum { KT_GATE_UP = 3, KT_N_KINDS = 4 };

/* The role of a tensor in a projection. */
enum kt_role {
    KT_ROLE_WEIGHT = 0,
    KT_ROLE_SCALE = 1,
    KT_ROLE_BIAS = 2,
    KT_ROLE_ZERO = 3,   /* zero points of groups */
    KT_ROLE_SHAPE = 4,  /* the shape of a packed weight: two numbers */
    KT_ROLE_ORDER = 5,  /* the group of each column; other than ascending ones are refused */
    KT_N_ROLES = 6,     /* roles that are used */
    KT_ROLE_NONE = 6,   /* says nothing about the weights */
    KT_ROLE_REFUSED = 7 /* belongs to a format that cannot be read */
};

/* How the numbers of a weight are arranged in its tensor. Names tell PLAIN, PACKED, GPTQ and BLOCKS; shapes
 * and dtypes tell the others. N: rows of the weight, K: columns. */
enum kt_coding {
    KT_CODING_NONE = 0,
    KT_CODING_PLAIN = 1,  /* numbers [N][K] */
    KT_CODING_PACKED = 2, /* compressed-tensors' int4: words of 8 [N][K/8], or bytes of 2 [N][K/2] */
    KT_CODING_GPTQ = 3,   /* int4: words of 8 columns [K/8][N] */
    KT_CODING_AWQ = 4,    /* int4: words of 8 rows [K][N/8], which are not in order */
    KT_CODING_MX = 5,     /* FP4 E2M1, two a byte [N][K/2], a power of two for 32: DeepSeek-V4 */
    KT_CODING_BLOCKS = 6, /* the same, all experts together [E][N][K/32][16]: gpt-oss */
    KT_N_CODINGS = 7
};

/* What the name of a tensor of experts says. */
struct kt_expert_name {
    uint64_t layer;
    bool predicts;   /* `layer` counts blocks behind the last layer, which predict further tokens (MTP) */
    uint64_t expert; /* 0 in a fused tensor */
    bool fused;      /* it holds all experts of the layer */
    bool below;      /* with the rows of one expert below another's, as in one matrix */
    unsigned prefix, family;
    int kind; /* enum kt_projection or KT_GATE_UP */
    enum kt_role role;
    enum kt_coding coding; /* of a weight */
    const char *part;      /* what its name ends with: ".weight" */
    const char *format;    /* refused: its format's name */
};

/* False: no family has such a name. */
bool kt_expert_name_parse(const char *name, struct kt_expert_name *parsed);

/* Has an expert of some family a tensor of this name, though none that is known: mlp.experts.3.norm.weight?
 */
bool kt_expert_name_is_stray(const char *name);

/* What a tensor whose name ends so is of the weight that is named before. */
struct kt_weight_part {
    const char *ending; /* ".weight_scale"; those of fused tensors have no dot */
    enum kt_role role;
    enum kt_coding coding; /* of a weight */
    const char *format;    /* refused: its format's name */
};

/* The i-th that formats have; false: there is none. */
bool kt_weight_part(size_t i, struct kt_weight_part *part);

/* Writes the name of the weight that has projection `kind` in the family of `like`, with the same ending if
 * `like` is a weight. Returns text. */
char *kt_expert_name_weight(const struct kt_expert_name *like, uint64_t expert, int kind, char *text,
                            size_t size);

#endif
