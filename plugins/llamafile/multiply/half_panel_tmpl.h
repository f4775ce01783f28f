/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half_panel_tmpl.h - the functions of each format, made once per level.
 *
 * Parameters  BLOCK_QUANTS, BLOCK_FLOATS   activation rows that share one pass over a half panel: 1, 2 or 4
 *             DEQUANTIZES                  1: half panels can be dequantized to tiles of bfloat16
 *                 (dequantize.h)
 *             DOTS_SMMLA                  defined: two rows of activations go together (smmla.h)
 *             ROWS_BLOCKED                 defined: several rows lie in blocks (row_block.h), of all formats
 * but the compact forms and floats BORROWS_AVX2                 defined: level avx2's functions multiply all
 * but several rows of some formats (EACH_WIDE); wants ROWS_BLOCKED BORROWS_VNNI                 defined:
 * level avx512_vnni's functions multiply all formats whose codes are not looked up, which is all that VBMI is
 * for; wants ROWS_SHARE_SCALE ROWS_SHARE_SCALE                  defined: rows whose superblocks share a scale
 * are multiplied as pairs (row_block_shared_scale.h); wants ROWS_BLOCKED ROWS_BOUNDED defined: rows of some
 * formats have bounded sums (bounded_sums.h), which int16 hold by twos; wants ROWS_BLOCKED
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_HALF_PANEL_TMPL_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_HALF_PANEL_TMPL_H

#ifndef BLOCK_QUANTS
#error "llamafile/half_panels_tmpl.h: define BLOCK_QUANTS"
#endif
#ifndef BLOCK_FLOATS
#error "llamafile/half_panels_tmpl.h: define BLOCK_FLOATS"
#endif
#ifndef DEQUANTIZES
#error "llamafile/half_panels_tmpl.h: define DEQUANTIZES"
#endif

#include "plugins/llamafile/formats.h"
#include "plugins/llamafile/multiply/few_rows.h"

#if DEQUANTIZES
#include "plugins/llamafile/multiply/dequantize.h"
#endif
#ifdef ROWS_BLOCKED
#include "plugins/llamafile/multiply/fill_row_blocks.h"
#endif

/* The products of one half panel with up to BLOCK rows, and their tables of sums, if it has those. */
typedef void (*half_panel_fn)(const uint8_t *half_panel, uint64_t k, const uint8_t *const *x,
                              const uint8_t *const *sums, uint64_t distance, float *out);
/* ... and those with 2 to 8 rows that lie in blocks (row_block.h); with 5 to 32 rows of several blocks of 4.
 */
typedef void (*block_fn)(const uint8_t *half_panel, uint64_t k, const uint8_t *block, uint64_t distance,
                         float *out);
typedef void (*blocks_fn)(const uint8_t *half_panel, uint64_t k, const uint8_t *block, unsigned rows,
                          uint64_t distance, float *out);
/* ... 8 rows with both half panels, whose second is so many bytes behind the first. */
typedef void (*both_fn)(const uint8_t *half_panel, uint64_t second, uint64_t k, const uint8_t *block,
                        uint64_t distance, float *out);
/* Tiles t..stop-1 of one half panel, PAIR_SIZE apart. */
typedef void (*dequantize_fn)(const uint8_t *half_panel, uint64_t k, uint64_t t, uint64_t stop,
                              uint64_t distance, uint8_t *to);

/* What is made of formats.h's rows: of weights in blocks of 64 and 128 the kernels see groups. */
#define MAKE_TRAITS(dtype, block, bytes, bits, head, scale, unit, offset, compact)                   \
    {                                                                                                \
        dtype, bits, head, scale, (block) == SUPERBLOCK ? SUPERBLOCK : GROUP, offset, compact, false \
    }
#define EACH_WIDE(DO) EACH_WIDE_CODES(DO) EACH_WIDE_POINTS(DO)
#define EACH_POINTS(DO) EACH_WIDE_POINTS(DO) EACH_OTHER_POINTS(DO)
#ifdef BORROWS_VNNI
#define EACH_QUANT(DO) EACH_POINTS(DO)
#define EACH_TWIN(DO) EACH_TWIN_OF_POINTS(DO)
#else
#define EACH_QUANT(DO) EACH_WIDE(DO) EACH_OTHER_CODES(DO) EACH_OTHER_POINTS(DO)
#define EACH_TWIN(DO) EACH_TWIN_OF_CODES(DO) EACH_TWIN_OF_POINTS(DO)
#endif
#ifdef BORROWS_VNNI
#define EACH_COMPACT(DO) EACH_COMPACT_POINTS(DO)
#define EACH_FLOAT(DO)
#else
#define EACH_COMPACT(DO) EACH_COMPACT_POINTS(DO) EACH_COMPACT_CODES(DO)
#define EACH_FLOAT(DO) EACH_FLOAT_ROW(DO)
#endif

#define QUANT_PRODUCT(name, rows, ...)                                                                   \
    static void name##_##rows(const uint8_t *half_panel, uint64_t k, const uint8_t *const *x,            \
                              const uint8_t *const *sums, uint64_t distance, float *out)                 \
    {                                                                                                    \
        multiply_quants((struct traits)MAKE_TRAITS(__VA_ARGS__), rows, half_panel, k, x, sums, distance, \
                        out);                                                                            \
    }
#define FLOAT_PRODUCT(name, rows, dtype)                                                      \
    static void name##_##rows(const uint8_t *half_panel, uint64_t k, const uint8_t *const *x, \
                              const uint8_t *const *sums, uint64_t distance, float *out)      \
    {                                                                                         \
        (void)sums;                                                                           \
        multiply_floats(dtype, rows, half_panel, k, x, distance, out);                        \
    }
#define QUANT_PRODUCTS(name, ...)       \
    QUANT_PRODUCT(name, 1, __VA_ARGS__) \
    QUANT_PRODUCT(name, 2, __VA_ARGS__) \
    QUANT_PRODUCT(name, 4, __VA_ARGS__)
#define FLOAT_PRODUCTS(name, dtype, ...) \
    FLOAT_PRODUCT(name, 1, dtype)        \
    FLOAT_PRODUCT(name, 2, dtype)        \
    FLOAT_PRODUCT(name, 4, dtype)

#ifdef ROWS_BLOCKED
#if BLOCKS_OF_8
#define BLOCK_PRODUCT(name, rows, ...)                                                                       \
    static void name##_block_##rows(const uint8_t *half_panel, uint64_t k, const uint8_t *block,             \
                                    uint64_t distance, float *out)                                           \
    {                                                                                                        \
        multiply_panels((struct traits)MAKE_TRAITS(__VA_ARGS__), 1, rows, half_panel, 0, k, block, distance, \
                        out);                                                                                \
    }
#define BLOCK_PRODUCTS(name, ...)       \
    QUANT_PRODUCT(name, 1, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 2, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 3, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 4, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 5, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 6, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 7, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 8, __VA_ARGS__)
#define LIST_BLOCKED(name)                                           \
    {name##_block_2, name##_block_3, name##_block_4, name##_block_5, \
     name##_block_6, name##_block_7, name##_block_8},                \
        NULL
#else
#define BLOCK_PRODUCT(name, rows, ...)                                                                      \
    static void name##_block_##rows(const uint8_t *half_panel, uint64_t k, const uint8_t *block,            \
                                    uint64_t distance, float *out)                                          \
    {                                                                                                       \
        multiply_blocked((struct traits)MAKE_TRAITS(__VA_ARGS__), rows, CODES_PACKED, half_panel, k, block, \
                         rows, distance, out);                                                              \
    }
#define BLOCKS_PRODUCT(name, ...)                                                                            \
    static void name##_blocks(const uint8_t *half_panel, uint64_t k, const uint8_t *block, unsigned rows,    \
                              uint64_t distance, float *out)                                                 \
    {                                                                                                        \
        multiply_blocked((struct traits)MAKE_TRAITS(__VA_ARGS__), 4, CODES_LEFT, half_panel, k, block, rows, \
                         distance, out);                                                                     \
    }
#define SEVERAL_PRODUCTS(name, ...)     \
    BLOCK_PRODUCT(name, 2, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 3, __VA_ARGS__) \
    BLOCK_PRODUCT(name, 4, __VA_ARGS__) \
    BLOCKS_PRODUCT(name, __VA_ARGS__)
#define BLOCK_PRODUCTS(name, ...)       \
    QUANT_PRODUCT(name, 1, __VA_ARGS__) \
    SEVERAL_PRODUCTS(name, __VA_ARGS__)
#define LIST_BLOCKED(name) {name##_block_2, name##_block_3, name##_block_4}, name##_blocks
#endif
#endif

struct half_panel_kernel {
    uint32_t dtype;
    bool compact;
    unsigned block;            /* rows at once, at most */
    half_panel_fn multiply[3]; /* 1, 2 and 4 of them */
    dequantize_fn dequantize;  /* NULL: without DEQUANTIZES */
    block_fn blocked[7];       /* 2 to 8 rows, or to 4; NULL: without ROWS_BLOCKED */
    blocks_fn several;         /* more rows than a block of 4 */
};

/* Of ROWS_SHARE_SCALE: those that multiply pairs (row_block_shared_scale.h), by a row too. */
struct shared_scale_kernel {
    uint32_t dtype;
    block_fn multiply[8]; /* 1 to 8 rows */
    both_fn both;
};

/* find_kernel, find_shared_scale_kernel and find_both of level avx512_vnni. */
const struct half_panel_kernel *llamafile_avx512_vnni_kernel(uint32_t dtype, bool compact);
const struct shared_scale_kernel *llamafile_avx512_vnni_shared_scale(uint32_t dtype);
both_fn llamafile_avx512_vnni_both(uint32_t dtype, bool shared);

/* find_kernel and pack_lines of level avx2. */
const struct half_panel_kernel *llamafile_avx2_kernel(uint32_t dtype, bool compact);
bool llamafile_avx2_lines(const struct llamafile_format *format, const struct kt_view *view, uint64_t begin,
                          unsigned n, bool streams, uint8_t *half_panel);

#ifdef BORROWS_AVX2
EACH_WIDE(SEVERAL_PRODUCTS)

struct wide_kernel {
    uint32_t dtype;
    block_fn blocked[3]; /* 2 to 4 rows */
    blocks_fn several;
};
#define WIDE_KERNEL(name, dtype, ...) {dtype, LIST_BLOCKED(name)},

/* The format's, or NULL: those of level avx2. */
static const struct wide_kernel *find_wide(uint32_t dtype)
{
    static const struct wide_kernel kernels[] = {EACH_WIDE(WIDE_KERNEL)};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].dtype == dtype)
            return &kernels[i];
    return NULL;
}

static const struct half_panel_kernel *find_kernel(uint32_t dtype, bool compact)
{
    return llamafile_avx2_kernel(dtype, compact);
}
#else
#ifdef ROWS_BLOCKED
EACH_QUANT(BLOCK_PRODUCTS)
#else
EACH_QUANT(QUANT_PRODUCTS)
#endif

#ifdef BORROWS_VNNI
#define find_shared_scale_kernel(dtype) llamafile_avx512_vnni_shared_scale(dtype)
#define find_both(dtype, shared) llamafile_avx512_vnni_both(dtype, shared)
#elif defined ROWS_SHARE_SCALE
#define SHARED_SCALE_PRODUCT(name, rows, ...)                                                               \
    static void name##_pairs_##rows(const uint8_t *half_panel, uint64_t k, const uint8_t *block,            \
                                    uint64_t distance, float *out)                                          \
    {                                                                                                       \
        multiply_pairs((struct traits)MAKE_TRAITS(__VA_ARGS__), 1, rows, half_panel, 0, k, block, distance, \
                       out);                                                                                \
    }
#define BOTH_SHARED_SCALE(name, ...)                                                                      \
    static void name##_both(const uint8_t *half_panel, uint64_t second, uint64_t k, const uint8_t *block, \
                            uint64_t distance, float *out)                                                \
    {                                                                                                     \
        multiply_pairs((struct traits)MAKE_TRAITS(__VA_ARGS__), 2, 8, half_panel, second, k, block,       \
                       distance, out);                                                                    \
    }
#define SHARED_SCALE_PRODUCTS(name, ...)       \
    BOTH_SHARED_SCALE(name, __VA_ARGS__)       \
    SHARED_SCALE_PRODUCT(name, 1, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 2, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 3, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 4, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 5, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 6, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 7, __VA_ARGS__) \
    SHARED_SCALE_PRODUCT(name, 8, __VA_ARGS__)
EACH_SHARED_SCALE(SHARED_SCALE_PRODUCTS)

#define SHARED_SCALE_KERNEL(name, dtype, ...)                                                         \
    {dtype,                                                                                           \
     {name##_pairs_1, name##_pairs_2, name##_pairs_3, name##_pairs_4, name##_pairs_5, name##_pairs_6, \
      name##_pairs_7, name##_pairs_8},                                                                \
     name##_both},

static const struct shared_scale_kernel *find_shared_scale_kernel(uint32_t dtype)
{
    static const struct shared_scale_kernel kernels[] = {EACH_SHARED_SCALE(SHARED_SCALE_KERNEL)};
    const struct shared_scale_kernel *kernel = kernels;
    while (kernel->dtype != dtype) /* dtype_shares_scale */
        kernel++;
    return kernel;
}

#define BOTH_PANELS(name, ...)                                                                            \
    static void name##_both(const uint8_t *half_panel, uint64_t second, uint64_t k, const uint8_t *block, \
                            uint64_t distance, float *out)                                                \
    {                                                                                                     \
        multiply_panels((struct traits)MAKE_TRAITS(__VA_ARGS__), 2, 8, half_panel, second, k, block,      \
                        distance, out);                                                                   \
    }
ROW_Q8_0(BOTH_PANELS)

/* Of formats for which it is faster: README has figures. NULL: the others. */
static both_fn find_both(uint32_t dtype, bool shared)
{
    if (shared)
        return find_shared_scale_kernel(dtype)->both;
    return dtype == KT_DTYPE_Q8_0 ? q8_0_both : NULL;
}
#endif
#ifdef ROWS_BOUNDED
/* Those with rows whose sums are bounded (bounded_sums.h). */
#define BOUNDED_PRODUCTS(name, dtype, block, bytes, bits, head, scale, unit, offset, compact) \
    BLOCK_PRODUCTS(name##_bounded, dtype, block, bytes, bits, head, scale, unit, BOUNDED_OFFSET, compact)
EACH_BOUNDED(BOUNDED_PRODUCTS)
#endif
EACH_COMPACT(QUANT_PRODUCTS)
EACH_FLOAT(FLOAT_PRODUCTS)

#if DEQUANTIZES
#define QUANT_DEQUANTIZE(name, ...)                                                                       \
    static void name##_dequantize(const uint8_t *half_panel, uint64_t k, uint64_t t, uint64_t stop,       \
                                  uint64_t distance, uint8_t *to)                                         \
    {                                                                                                     \
        dequantize_quants((struct traits)MAKE_TRAITS(__VA_ARGS__), distance, half_panel, k, t, stop, to); \
    }
#define FLOAT_DEQUANTIZE(name, dtype, ...)                                                          \
    static void name##_dequantize(const uint8_t *half_panel, uint64_t k, uint64_t t, uint64_t stop, \
                                  uint64_t distance, uint8_t *to)                                   \
    {                                                                                               \
        dequantize_floats(dtype, distance, half_panel, k, t, stop, to);                             \
    }
EACH_QUANT(QUANT_DEQUANTIZE)
EACH_COMPACT(QUANT_DEQUANTIZE)
EACH_FLOAT(FLOAT_DEQUANTIZE)
#define DEQUANTIZE(name) name##_dequantize
#else
#define DEQUANTIZE(name) NULL
#endif

#define KERNEL(name, dtype, compact, block)                                                   \
    {                                                                                         \
        dtype, compact, block, {name##_1, name##_2, name##_4}, DEQUANTIZE(name), {NULL}, NULL \
    }
#ifdef ROWS_BLOCKED
#define QUANT_KERNEL(name, dtype, ...) \
    {dtype, false, 1, {name##_1, NULL, NULL}, DEQUANTIZE(name), LIST_BLOCKED(name)},
#else
#define QUANT_KERNEL(name, dtype, ...) KERNEL(name, dtype, false, BLOCK_QUANTS),
#endif
#define COMPACT_KERNEL(name, dtype, ...) KERNEL(name, dtype, true, BLOCK_QUANTS),
#define FLOAT_KERNEL(name, dtype, ...) KERNEL(name, dtype, false, BLOCK_FLOATS),

/* `compact`: those of the compact forms are asked first. */
static const struct half_panel_kernel *find_kernel(uint32_t dtype, bool compact)
{
    static const struct half_panel_kernel kernels[] = {EACH_COMPACT(COMPACT_KERNEL) EACH_QUANT(QUANT_KERNEL)
                                                           EACH_TWIN(QUANT_KERNEL) EACH_FLOAT(FLOAT_KERNEL)};
    const struct half_panel_kernel *kernel = kernels;
#ifdef BORROWS_VNNI
    if (!dtype_has_points(dtype) && !(compact && dtype == KT_DTYPE_TQ1_0))
        return llamafile_avx512_vnni_kernel(dtype, compact);
#endif
    while (kernel->dtype != dtype || kernel->compact > compact) /* layout() has taken no other */
        kernel++;
    return kernel;
}

#ifdef ROWS_BOUNDED
#define BOUNDED_KERNEL(name, ...) QUANT_KERNEL(name##_bounded, __VA_ARGS__)
static const struct half_panel_kernel *find_bounded_kernel(uint32_t dtype)
{
    static const struct half_panel_kernel kernels[] = {EACH_BOUNDED(BOUNDED_KERNEL)};
    const struct half_panel_kernel *kernel = kernels;
    while (kernel->dtype != dtype) /* dtype_is_bounded */
        kernel++;
    return kernel;
}
#endif
#endif /* BORROWS_AVX2 */

#ifndef ROWS_BOUNDED /* has_bounded_sums: never */
#define find_bounded_kernel(dtype) NULL
#endif

#endif
