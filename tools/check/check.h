/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - shared by all checks of kernels: random weights of every source format, guarded memory, and
 * functions that run a level on them.
 */
#ifndef KT_CHECK_H
#define KT_CHECK_H

#include "tools/check/exact.h"
#include "tools/check/guard.h"
#include "tools/check/number.h"

#include <kt/plugin.h>
#include <stdbool.h>

/* ---- random.c ---- */
struct source {
    struct kt_expert expert;
    struct guarded data[3][3]; /* of each projection: weights, scales, zeros */
    struct guarded bias[3];
};

uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t n);
double random_gaussian(uint64_t *state);

/* Fills n weights of a format, as bytes of the source, with valid blocks. */
void random_blocks(uint64_t *state, uint32_t dtype, uint8_t *blocks, uint64_t n_blocks);
/* Fills n numbers of f32, f16 or bf16. */
void random_floats(uint64_t *state, uint32_t dtype, uint8_t *out, uint64_t n);

/* Makes views of random weights, some with gaps between rows and blocks, and biases as has_bias says. */
bool source_create(const struct kt_shape *shape, uint64_t *state, struct source *source);
void source_free(struct source *source);

/* ---- scaled.c: weights with scales beside them ---- */
/* Has the format no other than scales beside its weights? */
bool needs_scales(uint32_t dtype);
/* Chooses the form of a matrix's scales and zeros; each `kind` gives another one. */
void random_format(uint64_t *state, unsigned kind, uint32_t dtype, uint64_t rows, uint64_t cols,
                   struct kt_format *format);
/* Makes a view of random weights, scales and zeros; `data` are its allocations. */
bool create_scaled_view(uint64_t *state, const struct kt_format *format, uint64_t rows, uint64_t cols,
                        struct kt_view *view, struct guarded data[3]);

/* ---- shape.c ---- */
/* Picks a dimension, a multiple of both formats' blocks, ragged where they allow it. */
uint64_t pick_size(uint64_t *state, uint32_t first, uint32_t second);
/* Gives a shape activation number i of experts, below N_ACTIVATIONS; the first three are those of plugin
 * ABI 1.0. An activation without a gate takes that from the shape. */
enum { N_ACTIVATIONS = 7 };
uint32_t pick_activation(unsigned i);
void set_activation(struct kt_shape *shape, uint32_t activation);
/* Sizes and formats of weights with scales: one size is long, to have several groups and pieces of K, the
 * other short, to save time. */
void make_scaled_shape(uint32_t dtype, unsigned kind, uint64_t *state, struct kt_shape *shape);

/* ---- run.c: a level's functions on a case ---- */
struct model;    /* what tests/checkkernel knows of a plugin */
struct recorded; /* and what a run of it made of a case */

struct check {
    const struct kt_level *level;
    void *instance;
    const struct kt_host *host;
    const struct model *model;
    const struct recorded *known; /* results that were right; NULL: there are none, or this level's differ */
    struct kt_layout layout;
    uint32_t n_rows; /* rows of a product, which picks them by index from n_acts packed rows */
    uint32_t n_acts;
    uint64_t random;
    struct source source;
    float *weights[3]; /* as weight_row gives them */
    float *rounded[3]; /* weights rounded to bfloat16, where that is how they are multiplied; NULL: not yet */
    float *spread[3];  /* how far they may be from that, NULL: not at all */
    double *groups[3]; /* each row's scales of groups of columns, and as many zeros; NULL: not read yet */
    int8_t *codes[3];  /* each weight as a multiple of its row's scale; NULL: such weights are not known */
    float *minima[3];  /* the part of each weight that its quant does not change, for bounds; NULL: none */
    uint16_t *input;   /* n_acts rows of BF16: of hidden_size numbers, of a linear of intermediate_size */
    uint32_t *index, *out_index;
    struct guarded packed[2], act[2], h, y;
    uint64_t y_stride;
    bool h_panels;  /* h is [16 columns][rows filled up to 16][16], not row after row */
    bool extreme;   /* weights and inputs have one size: their sums are as large as they can be */
    bool large;     /* takes much longer than others */
    bool same_code; /* `known` is of the same machine code */
    bool wrong;
};

/* Is the case a linear, that is an expert's down projection alone? */
static inline bool check_linear(const struct check *check)
{
    return check->layout.shape.activation == KT_ACTIVATION_NONE;
}

static inline uint32_t check_y_dtype(const struct check *check)
{
    return check->layout.y_dtype == KT_DTYPE_BF16 ? KT_DTYPE_BF16 : KT_DTYPE_F32;
}

static inline uint64_t check_y_size(const struct check *check)
{
    return number_size(check_y_dtype(check));
}

static inline enum kt_stage check_first_stage(const struct check *check)
{
    return check_linear(check) ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
}

static inline enum kt_projection check_first_projection(const struct check *check)
{
    return kt_activation_first(check->layout.shape.activation);
}

/* Numbers of an input row. */
static inline uint64_t input_cols(const struct check *check)
{
    return check_linear(check) ? check->layout.shape.intermediate_size : check->layout.shape.hidden_size;
}

/* The source's view of a projection. */
static inline const struct kt_view *check_view(const struct check *check, enum kt_projection projection)
{
    return expert_view(&check->source.expert, projection);
}

/* Makes a linear of a shape: its down projection. */
void make_linear(struct kt_shape *shape);

/* Reports a failure, once for each kind and case. The program defines it. */
void check_fail(struct check *check, const char *format, ...) KT_PRINTF(2, 3);
/* Notes what runs now, for messages about a crash. The program defines it. */
void check_enter(const struct check *check, const char *function);

/* Returns `memory`, or ends the program if it is NULL. */
void *check_need(void *memory);
void check_guard(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded);

/* Makes random rows in BF16, and the order in which products read and write them. */
void make_inputs(struct check *check);
/* Rounds the rows to numbers that both float16 and bfloat16 have. */
void round_inputs(struct check *check);
void free_case(struct check *check);

/* n rounded up to the plugin's row_unit. */
uint64_t fill_rows(const struct check *check, uint64_t n);
/* May packed rows of this stage be interleaved? Then a row has no place of its own. */
bool interleaved(const struct check *check, enum kt_stage stage);
/* Row r of the input as float32. */
void read_input(const struct check *check, uint32_t r, float *x);
/* Packs input rows rows[begin..end-1] of n, or rows begin..end-1 where `rows` is NULL, as BF16, F16 or F32
 * with gaps between them. */
void pack_input(struct check *check, enum kt_stage stage, uint32_t dtype, const uint32_t *rows, uint32_t n,
                uint32_t begin, uint32_t end, uint8_t *packed);
/* Packs rows of a stage: of the input, as BF16, F16 or F32, or of h. A linear has the input's in the order of
 * its product. */
void pack_rows(struct check *check, enum kt_stage stage, uint32_t dtype, uint32_t begin, uint32_t end,
               uint8_t *packed);
/* Row r of h, which is of n rows: its numbers, and those that fill it up. */
void read_h(const struct check *check, const uint8_t *h, uint32_t n, uint32_t r, float *x);
/* Packs rows row..row+n-1 of h, or of a linear, as if they were a product of their own. */
void pack_product(struct check *check, uint32_t row, uint32_t n, uint8_t *packed);

/* Packs the weights of each stage at once. */
void check_pack_once(struct check *check);
/* The same, and checks that ranges of panels in any order give the same bytes. */
void check_pack(struct check *check);
/* Packs the rows of a stage into check->act, and checks that two ranges, and F32 instead of BF16, give the
 * same bytes. */
void check_act_pack(struct check *check, enum kt_stage stage);

/* Runs a stage's product over panels [begin, end) for rows [row, row + n) of the case. */
void run_product(struct check *check, enum kt_stage stage, uint64_t begin, uint64_t end, uint32_t row,
                 uint32_t n, uint8_t *out);
/* Runs the whole product, then two ranges of panels, and checks that the bits are equal. */
void check_ranges(struct check *check, enum kt_stage stage, struct guarded *out);

/* Checks that the bytes between the rows of y are 0x5a, as they were before. */
void check_gaps(struct check *check);

/* Are n floats equal to the bit? All NaNs count as equal: a NaN gets its bits from one of two operands, and
 * compilers choose which for each number of rows. */
bool same_floats(const void *a, const void *b, uint64_t n);
/* The same for y, whose rows have gaps. */
bool same_y(const struct check *check, const uint8_t *a, const uint8_t *b);

/* Runs both products again with rows in other places of the input and of y, and checks that the bits are
 * equal. Leaves the case as it was. */
void check_places(struct check *check);

static inline uint64_t count_panels(const struct check *check, enum kt_stage stage)
{
    const struct kt_layout *layout = &check->layout;
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    return (rows + layout->panel_rows[stage] - 1) / layout->panel_rows[stage];
}

static inline uint64_t projection_rows(const struct kt_shape *shape, enum kt_projection projection)
{
    return projection == KT_DOWN ? shape->hidden_size : shape->intermediate_size;
}

static inline uint64_t projection_cols(const struct kt_shape *shape, enum kt_projection projection)
{
    return projection == KT_DOWN ? shape->intermediate_size : shape->hidden_size;
}

#endif
