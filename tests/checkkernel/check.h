/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - checkkernel: every level of a plugin x source format x ragged shape against float64.
 *
 * What is checked of one case (a level, three formats, a shape, a number of rows):
 *   layout      sizes that the core relies on; packed bytes at most 1.05 times the format's
 *   refusals    layouts that weights with scales cannot have, each refused by name
 *   pack        panel ranges give the same bytes as the whole; nothing beyond the object is touched
 *   cut         a shard is what packing its part of the source makes
 *   refused     a scale that is not a finite number
 *   weight_row  the source's numbers to the bit, or those rounded, as the plugin promises
 *   act_pack    rows do not depend on each other; for plugins whose rows this program can read, each
 *               number is the input's, or rounded as it should be: within half a scale of a group, whose
 *               sums are right
 *   gate_up     within the bound of float32 rounding of a float64 product of the same numbers
 *   down        likewise, from the h that gate_up really wrote
 *   ranges      any split of the panels gives the same bits, and so does any number of rows that the level
 *               multiplies by the same method
 *   places      so does any order of the rows
 *   levels      all levels pack weights of one form to the same bytes, and give the same bits, where a plugin
 *               promises that, or its rows are int8; those whose rows are packed by a rule of their own give
 *               the same among themselves
 *   NaN         in one input row changes no bit of another
 *   linears     a case in five is one: the same of its one product. Plain rows, as BF16, F16 or F32, are
 *               packed in any jobs of whole row units; those of h give the bytes that h gave an expert
 *   memory      weights, activations, h, y and biases stand against pages that cannot be touched
 */
#ifndef KT_CHECKKERNEL_CHECK_H
#define KT_CHECKKERNEL_CHECK_H

#include "tools/check/check.h"

/* ---- model.c ---- */
/* How codes are multiplied: as they are, or, of many rows, as weights rounded to bfloat16 (model_scaled.c).
 */
enum method { METHOD_CODES, METHOD_ROUNDED };

/* A level that multiplies this many rows and more by another method than fewer. */
struct crossover {
    const char *level;
    uint32_t rows;
};

#define MODEL_RULES 3

/* What a plugin promises. */
struct model {
    const char *plugin;
    const uint32_t *dtypes;        /* that it takes, then NONE */
    bool scaled;                   /* they have scales in groups beside them; gate and up are alike */
    float (*weight)(float source); /* what weight_row gives for a weight of the source */
    double terms;                  /* of a float32 sum, for each column of float weights */
    /* Levels "a b" whose instruction adds in an order of its own and takes subnormals for 0; all
     * others agree to the bit, unless their method for weights with scales is their own. */
    const char *own_order;
    const struct crossover
        *crossovers; /* levels where n_rows changes a row's bits, the last one's name is NULL */
    bool rounded; /* from its crossover on a level multiplies weights rounded to bfloat16, below it codes */
    const char *unrounded; /* levels that never do, NULL: none */
    /* Levels that may round halves by columns (simd/avx512_expand.h), NULL: none; and what such a level adds
     * to the codes of a format with minima at most, before it scales them (model_scaled.c). */
    const char *expanded;
    double (*expanded_base)(uint32_t dtype);
    /* The numbers that a projection really multiplies by a method, from a packed row, and a check of them
     * against x; false: they are not what they should be. NULL: rows cannot be read. A row of stage 1
     * is the first of its row_unit. */
    bool (*read_row)(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out);
    /* By which rule of some levels are its rows packed, 1 to MODEL_RULES - 1; 0: by that of all. NULL: 0 */
    unsigned (*own_rule)(const struct kt_layout *layout);
    /* Weights are whole numbers times a scale of their row, and so are activations: results are right to the
     * bit. Finds both for a row of the source, and fails if packing chose badly. NULL: they are not */
    void (*code_row)(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale);
    bool factors; /* a matrix without scales of groups may have one scale for all of it */
    bool (*compact)(const struct kt_layout *layout); /* may it take at most 1.12 times the source? NULL: no */
    const uint32_t
        *also_dtypes;        /* formats that an option's value for --also can change, then NONE; NULL: all */
    const char *fixed_point; /* levels that multiply few rows as fixed-point numbers, NULL: none */
};

/* Each backend's is in its plugins/NAME/tests/model.c; NULL is the last. */
extern const struct model *const check_models[];
const struct model *model_find(const char *plugin);
/* For models: GGUF's types, and weights that weight_row gives as they are. */
extern const uint32_t model_ggml_dtypes[];
extern const uint32_t model_float_dtypes[];
float model_keep(float value);
/* Is the level one of a list's? */
bool model_lists(const char *list, const struct kt_level *level);
/* Does an option make rows int8, with a scale for each 32? Then all levels multiply any number of them alike.
 */
bool model_is_int8(const struct check *check);
/* Rows from which on the level uses its other method; UINT32_MAX: it has one. */
uint32_t model_crossover(const struct check *check);
/* That of the level, where it may use both ways. */
uint32_t model_level_crossover(const struct check *check);

/* Sum of |w| + |x|. */
double model_add_sizes(const float *w, const double *x, uint64_t k);
/* sum(w x) of row `row` of a projection, and the bound of its error in float32. */
struct value model_dot(const struct check *check, enum kt_projection projection, uint64_t row,
                       const double *x);
/* A row of K activations, of weights with scales, as the level multiplies it: rounded to whole numbers of a
 * unit or not. */
void model_fix_row(const struct check *check, uint64_t k, double *x);
/* Likewise for weights with scales: row `row` of a projection of the case, x from model_fix_row. */
struct value model_dot_scaled(const struct check *check, enum kt_projection projection, uint64_t row,
                              const double *x);
/* model_int8.c: x[k] is the scale of whole numbers x[0..k-1]; with the bias. */
struct value model_dot_int8(const struct check *check, enum kt_projection projection, uint64_t row,
                            const double *x);
/* A row of activations, or of weights with one scale: q = x / scale. */
float model_quantize(const float *x, uint64_t k, int8_t *q);
bool model_read_int8(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out);
void model_code_int8(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale);
/* model_int4.c: weights of 4 bits with scales of groups, which are whole numbers times a unit of the row. */
void model_code_int4(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale);
/* mode.c: with --no-subnormal plugins are called in a mode that reads subnormal numbers as 0, as some
 * programs have it; the model is always computed with them. */
extern bool check_drops_subnormal;
void check_in_mode(void);
void check_exactly(void);
/* Before that: scales and zeros of a projection, each of which all rows of activations need. */
void model_read_groups(struct check *check, enum kt_projection projection);
/* Likewise with weights that are rounded to bfloat16: model_round() has done it. */
void model_round(struct check *check, enum kt_projection projection);
struct value model_dot_rounded(const struct check *check, enum kt_projection projection, uint64_t row,
                               const double *x);
/* To bfloat16 and back. */
static inline float round_bf16(float value)
{
    return from_bf16(to_bf16(value));
}
/* Rows of activations as bfloat16, or as float32 rounded so; with the sum of each 32 behind them. */
bool model_read_bf16(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out);
bool model_read_bf16_sums(const struct kt_layout *layout, enum kt_projection projection,
                          const uint8_t *packed, const float *x, enum method method, double *out);
/* A row as bfloat16, k filled up to 64 numbers, row after row or, with 1 KB for each 32 columns, in tiles. */
bool model_read_pairs(uint64_t k, bool tiled, const uint8_t *packed, const float *x, double *out);

/* ---- source.c: what a case is made from; `kind` says which formats, or which groups ---- */
void make_shape(uint32_t dtype, unsigned kind, const struct model *model, uint64_t *state,
                struct kt_shape *shape);
/* A matrix of the format with any number of rows, and of columns that its blocks allow. */
void make_linear_shape(uint32_t dtype, unsigned kind, const struct model *model, uint64_t *state,
                       struct kt_shape *shape);
/* Doubles K of the first product until it has many tiles, and a linear's rows until they are several groups
 * of panels; scales of a whole row stay such. */
void make_large(struct kt_shape *shape, bool is_linear);
/* The weights of check->layout.shape. */
void make_source(struct check *check, unsigned kind);

/* ---- the checks of a case ---- */
/* weights.c: layout, cut, weight_row, scales that pack must refuse. */
void check_layout(struct check *check);
void check_refusals(struct check *check);
void check_cut(struct check *check);
void check_weights(struct check *check);
void check_refused(struct check *check);

/* minima.c: check->minima. */
void check_minima(struct check *check);
/* What the code of each weight is multiplied by, |scale|, or NULL where the format has no minima. Weights
 * from which it is found are rounded to float32. */
float *minima_find_steps(struct check *check, enum kt_projection projection);

/* products.c: each leaves its result in check->act, h and y. */
void check_act(struct check *check, enum kt_stage stage);
void check_gate_up(struct check *check);
void check_down(struct check *check);
void check_nan(struct check *check);
void check_nan_linear(struct check *check);
/* Is the linear of an expert's down projection packed as it is, its rows as those of h? */
void check_same_linear(struct check *check);

#endif
