/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - what checks of kernels share: random weights of every source format,
 * memory between pages that cannot be touched, and a level's functions run on them.
 */
#ifndef KT_CHECK_H
#define KT_CHECK_H

#include <kt/plugin.h>
#include <stdbool.h>

/* ---- guard.c: memory between two pages that cannot be touched ---- */
struct guarded {
    uint8_t *data; /* aligned to `align` */
    uint64_t size;
    uint8_t *map;
    uint64_t map_size;
};

/* At the end of its pages, or at their start; the rest of the pages is known bytes. `name`, static, is what
 * guard_find calls it. */
bool guard_create(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded);
/* Are the bytes around it what they were? */
bool guard_intact(const struct guarded *guarded);
/* From now on it can only be read, or be written again. */
void guard_seal(const struct guarded *guarded);
void guard_unseal(const struct guarded *guarded);
void guard_free(struct guarded *guarded);
/* The name of the memory whose pages, or the pages around them, hold the address, and how far that is from
 * its first byte; NULL: none. May be called by a signal handler. */
const char *guard_find(const void *address, int64_t *offset, uint64_t *size);

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
/* n numbers of f32, f16 or bf16. */
void random_floats(uint64_t *state, uint32_t dtype, uint8_t *out, uint64_t n);

/* Views with gaps between rows and blocks now and then; biases per has_bias. */
bool source_create(const struct kt_shape *shape, uint64_t *state, struct source *source);
void source_free(struct source *source);

/* ---- scaled.c: weights with scales beside them ---- */
/* The scales and zeros of a matrix: each `kind` in turn has other ones. */
void random_format(uint64_t *state, unsigned kind, uint32_t dtype, uint64_t rows, uint64_t cols,
                   struct kt_format *format);
/* A view of random weights, scales and zeros, and its allocations. */
bool create_scaled_view(uint64_t *state, const struct kt_format *format, uint64_t rows, uint64_t cols,
                        struct kt_view *view, struct guarded data[3]);

/* ---- shape.c ---- */
/* A dimension that the blocks of both formats divide; ragged where they allow that. */
uint64_t pick_size(uint64_t *state, uint32_t first, uint32_t second);
/* Sizes and formats of weights with scales: one of the sizes is long, for groups and for pieces of K, the
 * other short, for time. */
void make_scaled_shape(uint32_t dtype, unsigned kind, uint64_t *state, struct kt_shape *shape);

/* ---- run.c: a level's functions on a case ---- */
struct model; /* what tests/checkkernel knows of a plugin */

struct check {
    const struct kt_level *level;
    void *instance;
    const struct kt_host *host;
    const struct model *model;
    struct kt_layout layout;
    uint32_t n_rows; /* rows of a product: it takes them by index from n_acts packed rows */
    uint32_t n_acts;
    uint64_t random;
    struct source source;
    float *weights[3]; /* what weight_row says */
    float *minima[3];  /* what is added to each weight whatever its code; NULL: no more than the weight */
    uint16_t *input;   /* n_acts rows of BF16 */
    uint32_t *index, *out_index;
    struct guarded packed[2], act[2], h, y;
    uint64_t y_stride;
    bool wrong;
};

/* Says what is wrong, once per kind and case. The program has it. */
void check_fail(struct check *check, const char *format, ...) KT_PRINTF(2, 3);
/* What now runs, for messages about a crash. The program has it. */
void check_enter(const struct check *check, const char *function);

/* Memory, or the end of the program. */
void *check_need(void *memory);
void check_guard(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded);

/* Random rows in BF16, and the order in which products take and leave them. */
void make_inputs(struct check *check);
/* A number that BF16 has. */
uint16_t to_bf16(float value);
void free_case(struct check *check);

/* n rows filled up to the plugin's unit. */
uint64_t fill_rows(const struct check *check, uint64_t n);
/* May rows of h be packed among each other? Then the place of one says nothing. */
bool interleaved(const struct check *check, enum kt_stage stage);
/* Row r of the input as float32. */
void read_input(const struct check *check, uint32_t r, float *x);
/* Packs rows of the input, as BF16, F16 or F32, or of h. */
void pack_rows(struct check *check, enum kt_stage stage, uint32_t dtype, uint32_t begin, uint32_t end,
               uint8_t *packed);
/* Rows row..row+n-1 of h as a product of their own has them. */
void pack_h(struct check *check, uint32_t row, uint32_t n, uint8_t *packed);

/* The packed object, made in one go; ranges of panels in any order must make the same. */
void check_pack(struct check *check);
/* Packed rows of a stage into check->act: at once as in two ranges, as BF16 as in F32. */
void check_act_pack(struct check *check, enum kt_stage stage);

/* Runs a stage's product over panels [begin, end) for rows [row, row + n) of the case. */
void run_product(struct check *check, enum kt_stage stage, uint64_t begin, uint64_t end, uint32_t row,
                 uint32_t n, uint8_t *out);
/* The whole product, then the same in two panel ranges: the same bits. */
void check_ranges(struct check *check, enum kt_stage stage, struct guarded *out);

/* Are n floats the same to the bit? A NaN is the same as another: which operand's bits it gets is a
 * compiler's choice for each number of rows. */
bool same_floats(const void *a, const void *b, uint64_t n);

/* Both products again from the packed inputs, with the rows in other places: the same bits, wherever y's
 * rows go. Leaves the case as it was. */
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

/* ---- value.c: float64 with a bound beside it ---- */
struct value {
    double value, bound;
};

/* The activation of gate and up, with the bound carried through. */
struct value value_activation(const struct kt_shape *shape, struct value gate, struct value up);

#endif
