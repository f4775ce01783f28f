/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llamafile.h - how this plugin holds weights and activations.
 *
 * Weights   A half panel is 16 rows with all their K columns; what is missing in the last one is rows of
 *           zeros. A panel is two half panels: of stage 0 gate and up, of stage 1 the next 32 rows
 *           (gemm/geometry.h).
 *           Quantized half panels: superblocks of 256 columns (the last of a 32-column format may be
 *           shorter): [scales][heads][group]..., a group being 32 columns. All that a superblock needs
 *           lies together: a processor follows one ascending stream from memory, and reads half as
 *           fast where the heads of a half panel lie apart.
 *           A group holds planes of 64-byte chunks; a chunk gives each row one 32-bit lane, so one
 *           instruction multiplies 4 weights of each of 16 (8) rows with the same 4 activations:
 *             bytes     chunk i: columns 4i..4i+3                                  (8 bits)
 *             nibbles   chunk c: low nibbles columns 8c..8c+3, high 8c+4..8c+7     (4, 5, 6 bits)
 *             pairs     chunk b: bits 2t, 2t+1 of a byte: columns 16b+4t..16b+4t+3 (2, 3, 6 bits)
 *             singles   bit i of a byte: columns 4i..4i+3                          (3, 5 bits)
 *             triples   chunk c of 3: bits 0-2 columns 8c..8c+3, bits 3-5 columns 8c+4..8c+7, bits 6-7
 *                       a third of the 6 bits of columns 24..31, lowest first     (3 bits with a table)
 *           Codes of the i-quants are indices into a table of 16 values.
 *           Eight formats have two forms; that is the roomy one. In the compact one (compact.c) a group of
 *           points has 16 numbers of points in a row, one of each row, for its first 8 (4) columns, its next
 *           ones and so on, then a line of singles with the signs; before the heads stands all that the
 *           source has beside. Some groups of IQ3 are codes (compact_coded).
 *           TQ1_0 has a line of 4 times 16 bytes, one of each row: byte j has two numbers of three weights,
 *           in its low nibble of columns j, j + 4 and j + 8, in its high one of those 12 further on. A number
 *           is the three digits in base 3 less 13, without its sign. Lines of signs of 4 groups and of codes
 *           of columns 24 + j and 28 + j of 2 groups stand before the heads. Q1_0, which has this form only,
 *           has bit i of byte j of column 4i + j there: that is singles, by columns. It has one scale for
 *           128 columns.
 *           Blocks of 64 and 128 columns are groups of 32 that have the block's scale, those of NVFP4 two
 *           scales as float16, which holds E4M3 exactly: 5 bits a weight (4.5 in the source), Q2_0 2.5
 *           (2.25). Scales keep the format's own numbers, 6-bit ones in a byte each. A head has the float16
 *           scales of a superblock; two that take 32 bytes share a line, in the first superblock of a pair,
 *           so that every chunk is aligned to 64.
 *           Float half panels: column after column, 16 numbers each; BF16 in pairs of columns.
 *           A matrix may have one scale beside it, its factor: then each panel of the stage ends with a line
 *           that has, as float32, the factors of its two half panels, 1 where there is none.
 *
 * Activations
 *           One form for all quantized formats (ACT_*), per 256 columns, but for levels and formats that
 *           multiply pairs (shared_scale.h) or bound sums (bounded_sums.h); float32 for the others; a row
 * holds both if gate and up need both. Level amx multiplies many rows in bfloat16: its rows of stage 0 have
 * that as well, behind the others; of stage 1, where the rows of a product are known when they are packed,
 * they have one or the other. h float32, row-major.
 *
 * With repack = no nothing of this is kept: a product packs each panel into scratch and multiplies that.
 */
#ifndef KT_PLUGINS_LLAMAFILE_H
#define KT_PLUGINS_LLAMAFILE_H

#define TILE_COLUMNS 32
#include "plugins/common/gemm/geometry.h"
#include "plugins/common/plugin/instance.h"

#define BACKEND "llamafile"
#define OPS_NAME(level) llamafile_ops_##level
#define ROW_SUMS 0
#define ROW_SCALES 1   /* the factor of a matrix multiplies sums */
#define GEMV_PENDING 1 /* those of few rows, too */

/* Option repack, in the order of its choices. */
enum repack {
    REPACK_AUTO,    /* roomy, or compact where the core says that memory is short */
    REPACK_ROOMY,   /* for speed */
    REPACK_COMPACT, /* no larger than the source, or hardly */
    REPACK_NO       /* products read the source, nothing is packed */
};

struct llamafile_instance {
    struct instance base;
    enum repack repack;
};

#define GROUP 32 /* columns with one activation scale */
#define SUPERBLOCK 256

/* A packed activation superblock: offsets in bytes. */
#define ACT_Q 0        /* int8[256], within +-127 */
#define ACT_SCALE 256  /* float[8]: of each group */
#define ACT_SUM32 288  /* float[8]: scale * sum of the group's q */
#define ACT_SUM16 320  /* float[16]: the same for half groups */
#define ACT_PAIR16 384 /* int16[16][2]: minus the sums of q over half a group, places 0,1 and 2,3 of 4 */
#define ACT_PAIR32 448 /* int16[8][2]: over a group */
#define ACT_SIZE 512

/* One whose groups share a scale (shared_scale.h): 256 q as above, and */
#define ACT_UNIT 256     /* float: the scale of group g is unit * factor[g] */
#define ACT_FACTOR 260   /* uint8[8]: 1..16 */
#define ACT_HALF_SUM 320 /* int16[16]: sums of q over half groups */
#define ACT_PAIRS 352    /* of each group what a block takes as it is, PAIRS_SIZE: int32[2], int16[2][2] */
#define PAIRS_START 0    /* where the dot products of halves start */
#define PAIRS_FACTOR 8   /* factors of a pair, the second first */
#define PAIRS_SUM 12     /* factor * sum of q, in that order */
#define PAIRS_SIZE 16
#define SHARED_SUM32 \
    2046 /* sum of |q|, at most, over a group: 16 times this is an int16, and so is 15 times */
#define SHARED_SUM16 1023 /* over half a group: 32 times this is an int16 */

/* One whose sums are bounded (bounded_sums.h): q and scales as above, and */
#define ACT_START 320 /* int16[32][2]: for each 8 columns -127 * sum of q of places 0,1 of 4, and 2,3 */
#define BOUNDED_OFFSET 127
#define BOUNDED_TWO 136  /* |q0 + q1| of those places, at most */
#define BOUNDED_FOUR 258 /* sum of |q| of what shares a start, at most */

/* A format of weights. */
struct llamafile_format {
    uint32_t dtype;
    uint16_t block; /* columns of a block of the source */
    uint16_t block_bytes;
    uint8_t bits;        /* of a code; 16 and 32: floats; compact forms: lines of a group */
    uint8_t head_bytes;  /* per row and superblock, 0 where block is not 256 */
    uint8_t scale_bytes; /* per row, in a superblock (block 256) or a group (others); 0: the head's */
    uint8_t scale_unit;  /* bytes of one scale: rows are interleaved in these */
    uint8_t offset;      /* code = weight + offset */
    bool compact;
};

/* kt_layout.words beside those of gemm/geometry.h: bytes of a projection's half panels. */
enum { WORD_HALF_GATE = WORD_OWN, WORD_HALF_UP, WORD_HALF_DOWN, WORD_COMPACT };
#define WORD_SHARED WORD_INT8_ROWS /* bit `stage`: superblocks of its rows share a scale (shared_scale.h) */
#define WORD_BOUNDED \
    WORD_SHARED /* bit BOUNDED_SHIFT + stage: sums of its rows are bounded (bounded_sums.h) */
#define BOUNDED_SHIFT 4

/* The row of a dtype, or NULL if this plugin does not take it. `compact`: in the compact form, if it has one.
 */
const struct llamafile_format *llamafile_format_find(uint32_t dtype, bool compact);

/* ... and of a projection's dtype in a layout, which has taken it. */
static inline const struct llamafile_format *layout_format(const struct kt_layout *layout, uint32_t dtype)
{
    return llamafile_format_find(dtype, layout->words[WORD_COMPACT]);
}

/* Points in a group of a compact form: 0: it has none. */
static inline unsigned compact_points(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_IQ3_XXS:
    case KT_DTYPE_IQ3_S:
        return 8;
    case KT_DTYPE_TQ1_0:
    case KT_DTYPE_Q1_0:
        return 0;
    default:
        return 4;
    }
}

/* Bytes of a row in a group of a compact form, apart from signs: numbers of points, or of trits, or bits. */
static inline unsigned compact_bytes(uint32_t dtype)
{
    return compact_points(dtype) == 8 ? 8 : 4;
}

/* Is the compact form the only one? */
static inline bool dtype_is_compact(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q1_0;
}

/* Groups of a superblock that a compact form has as codes of 4 bits, one line more: looking points of 4
 * weights up takes twice as long, and so many fit into 1.12 times the source's bytes. */
static inline unsigned compact_coded(uint32_t dtype)
{
    return dtype == KT_DTYPE_IQ3_S ? 4 : dtype == KT_DTYPE_IQ3_XXS ? 1 : 0;
}

/* Has it a line of singles? */
static inline bool compact_has_signs(uint32_t dtype)
{
    return dtype != KT_DTYPE_IQ1_S && dtype != KT_DTYPE_IQ1_M && dtype != KT_DTYPE_TQ1_0 &&
           dtype != KT_DTYPE_Q1_0;
}

static inline bool format_is_float(const struct llamafile_format *format)
{
    return format->bits >= 16;
}

/* Bytes of a superblock's scales with n groups, of a group's codes. */
static inline uint64_t scales_size(const struct llamafile_format *format, uint64_t groups)
{
    uint64_t count = format->block == SUPERBLOCK ? 1
                     : format->compact           ? groups * GROUP / format->block
                                                 : groups;
    return round_up(count * format->scale_bytes * TILE_ROWS, 64);
}

/* Bytes of heads in the first n superblocks. */
static inline uint64_t heads_size(uint64_t head_bytes, uint64_t n)
{
    return round_up(n * head_bytes * TILE_ROWS, 64);
}

static inline uint64_t group_size(const struct llamafile_format *format)
{
    return UINT64_C(64) * format->bits;
}

/* ... of the first n groups of a superblock. */
static inline uint64_t groups_size(const struct llamafile_format *format, uint64_t n)
{
    uint64_t coded = format->compact ? compact_coded(format->dtype) : 0;
    return n * group_size(format) + (n < coded ? n : coded) * 64;
}

uint64_t llamafile_half_panel_size(const struct llamafile_format *format, uint64_t k);

/* The format of tile 0 or 1 of a stage's panels. */
static inline const struct kt_format *tile_format(const struct kt_layout *layout, enum kt_stage stage,
                                                  int tile)
{
    return &layout->shape.format[tile_projection(&layout->shape, stage, tile)];
}

/* Has a matrix of the stage a factor? */
static inline bool has_factors(const struct kt_layout *layout, enum kt_stage stage)
{
    return tile_format(layout, stage, 0)->scale_dtype != KT_DTYPE_NONE ||
           tile_format(layout, stage, 1)->scale_dtype != KT_DTYPE_NONE;
}

/* Bytes of half panel 0 or 1. */
static inline uint64_t half_size(const struct kt_layout *layout, enum kt_stage stage, int half)
{
    static const int words[3] = {WORD_HALF_GATE, WORD_HALF_UP, WORD_HALF_DOWN};
    return layout->words[words[tile_projection(&layout->shape, stage, half)]];
}

/* Bytes of both half panels of a panel; behind them come the factors. */
static inline uint64_t halves_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return half_size(layout, stage, 0) + half_size(layout, stage, 1);
}

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return halves_size(layout, stage) + (has_factors(layout, stage) ? 64 : 0);
}

/* Bytes at the end of scratch for the panel that is multiplied, where weights are used in place. */
static inline uint64_t filled_size(const struct kt_layout *layout)
{
    uint64_t first = panel_size(layout, KT_STAGE_GATE_UP), second = panel_size(layout, KT_STAGE_DOWN);
    return round_up(first > second ? first : second, 64);
}

/* Where the second half panel of a panel begins. */
static inline uint64_t first_half_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return half_size(layout, stage, 0);
}

static inline bool dtype_is_float(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16;
}

/* Has a row of activations a part for quantized formats, or one for floats? */
static inline bool has_part(const struct kt_layout *layout, enum kt_stage stage, bool floats)
{
    return dtype_is_float(tile_format(layout, stage, 0)->dtype) == floats ||
           dtype_is_float(tile_format(layout, stage, 1)->dtype) == floats;
}

/* Where the floats of a row of activations are, and where the bfloat16. */
static inline uint64_t floats_offset(const struct kt_layout *layout, enum kt_stage stage)
{
    if (!has_part(layout, stage, false))
        return 0;
    return round_up(stage_k(layout, stage), SUPERBLOCK) / SUPERBLOCK * ACT_SIZE;
}

/* Formats whose integer scales multiply pairs of int16 (row_block_shared_scale.h). */
static inline bool dtype_shares_scale(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q2_K || dtype == KT_DTYPE_Q3_K || dtype == KT_DTYPE_Q4_K ||
           dtype == KT_DTYPE_Q6_K;
}

/* Do superblocks of a stage's rows share a scale? */
static inline bool has_shared_scales(const struct kt_layout *layout, enum kt_stage stage)
{
    return layout->words[WORD_SHARED] >> stage & 1;
}

/* Are the pairs of such a stage halves of groups? */
static inline bool has_half_pairs(const struct kt_layout *layout, enum kt_stage stage)
{
    return tile_format(layout, stage, 0)->dtype != KT_DTYPE_Q4_K;
}

/* Formats of signed weights that want rows whose sums are bounded (bounded_sums.h). */
static inline bool dtype_is_bounded(uint32_t dtype)
{
    return dtype == KT_DTYPE_IQ4_XS || dtype == KT_DTYPE_IQ4_NL;
}

/* Are the sums of a stage's rows bounded? */
static inline bool has_bounded_sums(const struct kt_layout *layout, enum kt_stage stage)
{
    return layout->words[WORD_BOUNDED] >> (BOUNDED_SHIFT + stage) & 1;
}

static inline uint64_t pairs_offset(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t floats = has_part(layout, stage, true) ? stage_k(layout, stage) * sizeof(float) : 0;
    return floats_offset(layout, stage) + round_up(floats, 64);
}

/* The functions of struct kt_ops that all levels share; layouts without bfloat16 rows and with them. */
enum kt_status llamafile_layout(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status llamafile_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status llamafile_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                    const struct kt_expert *source, enum kt_projection projection,
                                    uint64_t row, float *out, struct kt_error *error);

/* A level's own way of packing n rows of a view from row `begin` on (pack/vectors.h); false: it does not take
 * the format. */
typedef bool (*llamafile_lines_fn)(const struct llamafile_format *format, const struct kt_view *view,
                                   uint64_t begin, unsigned n, bool streams, uint8_t *half_panel);
struct llamafile_packer {
    llamafile_lines_fn pack_lines; /* NULL: none */
    bool streams;                  /* past the caches, as nobody reads it soon */
};

/* Packs panel `number` of a stage to `panel`. */
void llamafile_pack_panel(const struct kt_layout *layout, enum kt_stage stage, const struct kt_expert *source,
                          uint64_t number, const struct llamafile_packer *packer, uint8_t *panel);
enum kt_status llamafile_pack(void *instance, const struct kt_pack *job, llamafile_lines_fn pack_lines,
                              struct kt_error *error);

/* Tables of the formats whose codes are looked up. */
extern const int8_t llamafile_iq4_values[16];
extern const int8_t llamafile_mxfp4_values[16];
extern const int8_t llamafile_iq1_values[16];
extern const int8_t llamafile_iq2_values[16];
extern const int8_t llamafile_iq3_xxs_values[16];
extern const int8_t llamafile_iq3_s_values[16];

/* The table of a format with integer scales in superblocks, or NULL. */
static inline const int8_t *format_table(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_IQ4_XS:
        return llamafile_iq4_values;
    case KT_DTYPE_IQ1_S:
    case KT_DTYPE_IQ1_M:
        return llamafile_iq1_values;
    case KT_DTYPE_IQ2_XXS:
    case KT_DTYPE_IQ2_XS:
    case KT_DTYPE_IQ2_S:
        return llamafile_iq2_values;
    case KT_DTYPE_IQ3_XXS:
        return llamafile_iq3_xxs_values;
    case KT_DTYPE_IQ3_S:
        return llamafile_iq3_s_values;
    default:
        return NULL;
    }
}

/* Are codes looked up in a table? */
static inline bool dtype_has_points(uint32_t dtype)
{
    return dtype == KT_DTYPE_IQ4_NL || dtype == KT_DTYPE_MXFP4 || dtype == KT_DTYPE_NVFP4 ||
           format_table(dtype) != NULL;
}

/* Are codes of 3 bits triples, not pairs and singles? */
static inline bool format_has_triples(uint32_t dtype, unsigned bits)
{
    return bits == 3 && format_table(dtype) != NULL;
}

/* What d is multiplied by, so that scales and table values are integers: a power of two, which rounds
 * nothing. IQ1: values are eighths. IQ2, IQ3_XXS: scales are (2n + 1) / 8 and / 4 in ggml, and the values
 * of IQ3_XXS are halved. */
static inline float format_unit(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_IQ1_S:
    case KT_DTYPE_IQ1_M:
    case KT_DTYPE_IQ2_XXS:
    case KT_DTYPE_IQ2_XS:
    case KT_DTYPE_IQ2_S:
        return 0.125f;
    case KT_DTYPE_IQ3_XXS:
        return 0.5f;
    default:
        return 1.0f;
    }
}

/* One per level, in kernel_LEVEL.c. */
extern const struct kt_ops llamafile_ops_scalar;
extern const struct kt_ops llamafile_ops_avx2;
extern const struct kt_ops llamafile_ops_avx_vnni;
extern const struct kt_ops llamafile_ops_avx512;
extern const struct kt_ops llamafile_ops_avx512_vnni;
extern const struct kt_ops llamafile_ops_avx512_vbmi;
extern const struct kt_ops llamafile_ops_amx;
extern const struct kt_ops llamafile_ops_neon;
extern const struct kt_ops llamafile_ops_dotprod;
extern const struct kt_ops llamafile_ops_i8mm;

#endif
