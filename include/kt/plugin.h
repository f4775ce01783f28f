/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/plugin.h - the ABI between the core and a backend plugin.
 *
 * A backend is a number format and a matrix product. The core implements routing, grouping of tokens by
 * expert, threads, NUMA nodes, the weighted sum and the queue; a plugin determines how weights and
 * activations are packed, and multiplies them.
 *
 * A plugin is a shared object kt_NAME.so that exports exactly one data symbol, kt_plugin_NAME, and has no
 * undefined kt_ symbol: the functions that it may call are in struct kt_host. It has no constructors, prints
 * nothing, starts no threads, and never exits or aborts.
 *
 * ABI promise
 *   - A core of major M, minor m loads a plugin of major M whose minor is <= m.
 *   - Structs only grow at their end. The core reads a field of struct kt_plugin, struct kt_level or
 *     struct kt_ops that was added after 1.0 only if struct_size covers it. Structs that the core
 *     passes to a plugin are at least as long as in the plugin's header; structs that the plugin fills
 *     in are zeroed first.
 *   - The first three fields of struct kt_plugin never move: they protect the rest.
 *
 * ABI changelog
 *   1.0  2026-11-21  first version
 *   1.1  2026-11-21  kt_level.check; kt_host.trust; kt_layout.stored, reserved before
 *   1.2  2026-11-21  error of kt_act_pack, kt_gather, kt_product and kt_cut; KT_E_BACKEND
 *   1.3  2026-11-21  kt_layout.instruction
 *   1.4  2026-11-22  kt_layout.rounding, kt_layout.compact
 *   1.5  2026-11-22  linears: KT_ACTIVATION_NONE, kt_act_pack of plain rows in stage 1;
 *                    kt_layout.deterministic
 *   1.6  2026-11-23  kt_level.attention and kt_level.rows, without which ops may be left out
 *   1.7  2026-11-23  tunables: struct kt_tunable, kt_ops.tunables, kt_layout.tuned, and the same of attention
 *   1.8  2026-11-26  kt_attention_layout.adds, kt_attend.add, reserved before: attend() over several chunks
 *   1.9  2026-11-27  KT_ACTIVATION_GELU_TANH, SWIGLUSTEP, SITU, and RELU2 without a gate; of rows
 *                    KT_GATING_GELU, KT_ROUTING_LOGITS, KT_ROUTING_MIXER and kt_rows_route.near; plugins of
 *                    an older minor version are not called with any of these
 *   1.10 2026-11-28  kt_attention_ops.score
 *
 * Threads: probe, open, close and layout are called from one thread at a time. All other functions are called
 * from many threads at once, with jobs that write to disjoint memory.
 *
 * Errors: a function without a return value reports a failure, such as of a vendor's library, in its job's
 * `error` (since 1.2, never NULL), and may leave its output incomplete:
 *     kt_plugin_fail(job->error, KT_E_BACKEND, "libvendor: status %d", code);
 * The forward then ends with KT_E_BACKEND and that reason, without further computation; the next one is not
 * affected.
 *
 * Linears (since 1.5): a plain product y = W x + bias is an expert with only a down projection. Its shape has
 * KT_ACTIVATION_NONE, one expert, top_k 1, W's rows as hidden_size and W's columns as intermediate_size; in
 * format and has_bias only KT_DOWN is set. The layout leaves the fields of stage 0 at 0: panel_rows[0],
 * weight_size[0], nominal_size[0], act_row_size[0], and h_row_size. There are only jobs of stage 1 and
 * projection KT_DOWN, the views gate and up are empty, and gather and gate_up are not called. act_pack gets
 * plain rows, see there; the rest is as for experts. A plugin that does not support linears rejects this
 * activation in layout(); plugins of an older minor version are not called with it.
 *
 * Activations: a plugin that does not support the activation of a shape rejects it in layout(), with
 * kt_activation_name() in the reason. A plugin is only called with activations that its minor version has.
 * With KT_ACTIVATION_RELU2 experts have no gate: its format is zero, its view empty, bias[0] of stage 0 NULL,
 * and there are no jobs of projection KT_GATE; panel_rows[0] counts rows of up.
 *
 * Tunables (since 1.7): values that must be measured on the machine, such as a prefetch distance or the
 * number of rows from which another kernel is faster. A level lists them with its functions; `kt tune`
 * measures them, and writes faster values to the configuration (kt.ini(5)). A value only affects speed:
 * packed weights, their form, all sizes of a layout except scratch_size, and results do not depend on it,
 * except for tunables with KT_TUNABLE_BITS.
 */
#ifndef KT_PLUGIN_H
#define KT_PLUGIN_H

#include <kt/types.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KT_PLUGIN_ABI_MAJOR 1
#define KT_PLUGIN_ABI_MINOR 10

/* CPU features, as bits of a uint64_t. A set bit means: the CPU has it, the operating system saves
 * its registers, and the user's mask (KT_KERNEL_CPU_VARIANT) allows it. */
#define KT_CPU_AVX (UINT64_C(1) << 0)
#define KT_CPU_AVX2 (UINT64_C(1) << 1)
#define KT_CPU_FMA (UINT64_C(1) << 2)
#define KT_CPU_F16C (UINT64_C(1) << 3)
#define KT_CPU_AVX_VNNI (UINT64_C(1) << 4)
#define KT_CPU_AVX512F (UINT64_C(1) << 5)
#define KT_CPU_AVX512BW (UINT64_C(1) << 6)
#define KT_CPU_AVX512VL (UINT64_C(1) << 7)
#define KT_CPU_AVX512DQ (UINT64_C(1) << 8)
#define KT_CPU_AVX512_VNNI (UINT64_C(1) << 9)
#define KT_CPU_AVX512_VBMI (UINT64_C(1) << 10)
#define KT_CPU_AVX512_BF16 (UINT64_C(1) << 11)
#define KT_CPU_AVX512_FP16 (UINT64_C(1) << 12)
#define KT_CPU_AMX_TILE (UINT64_C(1) << 13) /* and this process may use tiles */
#define KT_CPU_AMX_INT8 (UINT64_C(1) << 14)
#define KT_CPU_AMX_BF16 (UINT64_C(1) << 15)
#define KT_CPU_NEON (UINT64_C(1) << 32)
#define KT_CPU_DOTPROD (UINT64_C(1) << 33)
#define KT_CPU_I8MM (UINT64_C(1) << 34)
#define KT_CPU_ARM_BF16 (UINT64_C(1) << 35)
#define KT_CPU_SVE (UINT64_C(1) << 36)
#define KT_CPU_SVE2 (UINT64_C(1) << 37)

/** The machine. */
struct kt_caps {
    uint64_t cpu;      /**< KT_CPU_ bits */
    uint64_t l1d_size; /**< bytes per core; 0: unknown */
    uint64_t l2_size;
    uint64_t l3_size;
    uint64_t stream_ahead; /**< prefetch distance in bytes for weights read from memory: small if the hardware
                              prefetches ascending reads; 0: unknown */
};

/** Functions of the core for a plugin. Lives as long as the plugin is open. */
struct kt_host {
    uint32_t struct_size;
    uint32_t abi_minor; /**< the core's KT_PLUGIN_ABI_MINOR */
    void *data;         /**< the core's own */

    /** Writes one line (no newline) to the user's log callback. Any thread. */
    void (*log)(const struct kt_host *host, enum kt_log_level level, const char *format, ...) KT_PRINTF(3, 4);

    /** 64-byte aligned memory that is not zeroed, or NULL; release gives it back. Any thread. */
    void *(*allocate)(const struct kt_host *host, uint64_t size);
    void (*release)(const struct kt_host *host, void *memory, uint64_t size);

    /**
     * Dequantizes n weights of row `row` of `view`, starting at column `col`, to float32. Supports any source
     * format of the core, including GGUF blocks and scaled FP8, so a plugin does not have to implement
     * them. `col` must be a multiple of the format's block; n may end inside a block.
     */
    enum kt_status (*dequantize)(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error);

    /** "q4_k" for KT_DTYPE_Q4_K, for messages; "?" for an unknown number. Static. */
    const char *(*dtype_name)(uint32_t dtype);

    /** Since 1.1. Checks whether the file at this absolute path may be loaded into the process. As with a
     * plugin, it and each folder above it must belong to root or the user and not be writable by others.
     * Otherwise the error has the unsafe or missing part. */
    enum kt_status (*trust)(const struct kt_host *host, const char *path, struct kt_error *error);
};

/** Types of options. */
enum kt_option_type {
    KT_OPTION_BOOL = 0,   /**< yes, no, true, false, on, off, 1, 0; number is 0 or 1 */
    KT_OPTION_INT = 1,    /**< within minimum..maximum */
    KT_OPTION_STRING = 2, /**< any text */
    KT_OPTION_ENUM = 3    /**< one of choices; number is its index */
};

/** An option that a user may set in the plugin's section. */
struct kt_option {
    const char *key; /**< lower case, digits and _ ; not enabled, module, cpu, level, priority */
    enum kt_option_type type;
    const char *default_text;
    const char *choices;      /**< KT_OPTION_ENUM: "auto|yes|no" */
    int64_t minimum, maximum; /**< KT_OPTION_INT */
    const char *help;         /**< one line */
};

/** An option's value: checked by the core, in the order of the option table. */
struct kt_option_value {
    const char *text;
    int64_t number;
};

/** Most tunables of a level. */
#define KT_MAX_TUNABLES 8

/* Flags of tunables. */
#define KT_TUNABLE_DOUBLING 1u /* worth trying: minimum, twice that, ... and maximum; else each number */
#define KT_TUNABLE_BITS                                                           \
    2u /* it changes at how many rows the bits of results change: never set under \
          core.deterministic */

/** A number that `kt tune` may choose. Since 1.7. */
struct kt_tunable {
    const char *name;          /**< lower case, digits and _; not gain */
    const char *what;          /**< one line for people, with the unit */
    uint64_t minimum, maximum; /**< 1 <= minimum <= maximum */
    uint64_t standard;         /**< default, if nothing is configured; 0: chosen by layout() */
    uint32_t flags;            /**< KT_TUNABLE_ bits */
    uint32_t reserved;
};

#define KT_FORM_SIZE 32

/** The two products of an expert: stage 0 gate and up with the activation, stage 1 down. */
enum kt_stage { KT_STAGE_GATE_UP = 0, KT_STAGE_DOWN = 1 };

/** The source format of a projection. */
struct kt_format {
    uint32_t dtype;       /**< enum kt_dtype of the weights */
    uint32_t scale_dtype; /**< KT_DTYPE_NONE: no separate scales */
    uint32_t zero_dtype;
    uint32_t reserved;
    uint64_t group_rows;
    uint64_t group_cols;
};

/** The shape and formats that a layer needs. */
struct kt_shape {
    uint32_t n_experts;
    uint32_t top_k;
    uint64_t hidden_size;
    uint64_t intermediate_size; /**< of this shard: a NUMA node may have a part of the rows */
    uint32_t activation;        /**< enum kt_activation */
    float limit;
    float alpha;
    uint32_t has_bias;          /**< bit KT_GATE, KT_UP, KT_DOWN: biases will be passed */
    struct kt_format format[3]; /**< by enum kt_projection */
};

/**
 * How a backend stores and multiplies the weights of a shape. The core passes it zeroed to layout(), and then
 * with every job. Stage 0 packs gate and up into one object, stage 1 packs down.
 */
struct kt_layout {
    struct kt_shape shape; /**< filled by the core */

    /** Rows of the smallest independently packed and multiplied unit. Stage 0: a panel holds this
     *  many gate rows and the same up rows. The last panel may be partly empty. A matrix that cannot
     *  be divided (a vendor's reordered one) is one panel: the number of rows. */
    uint64_t panel_rows[2];

    /** intermediate_size is split among NUMA nodes at multiples of this. */
    uint64_t k_unit;

    /** Bytes of one expert's packed object per stage. */
    uint64_t weight_size[2];

    /** Bytes of one expert in the format, without padding; used for rooflines. At least 1, even if a tiny
     *  matrix has less than a byte. */
    uint64_t nominal_size[2];

    /** Bytes of one packed activation row per stage; multiples of 64 keep rows aligned. */
    uint64_t act_row_size[2];

    /** Bytes of one row of h, the activation's output, in any form: only the plugin reads h. */
    uint64_t h_row_size;

    /** Sizes of gather, h and packed h are computed with rows rounded up to a multiple of this; 0 means 1. */
    uint32_t row_unit;

    /** Form of down's output: KT_DTYPE_F32 (also when left 0) or KT_DTYPE_BF16. */
    uint32_t y_dtype;

    /** Maximum bytes of scratch that a thread requires for a product. */
    uint64_t scratch_size;

    /** Names the form of the packed objects, so that they can be stored: the plugin's name, the options
     * that change the bytes, and a number that changes whenever a byte gets another meaning, such as
     * "amx_int4-g32-1". For weights from a store, the core sets it before the call: the plugin lays out for
     * that form or rejects it. Otherwise it is empty before the call; if it stays empty, this plugin's
     * weights cannot be stored. Objects of one form and shape have the same bytes on every machine. */
    char form[KT_FORM_SIZE];

    /** Not 0: products read the source views (struct kt_product.source), which the core then keeps
     *  alive; weight_size may be 0. */
    uint32_t keeps_source;

    /** Since 1.1. Filled by the core. Not 0: packed weights will be stored, so a level with several forms
     * must lay out for one that has a name. */
    uint32_t stored;

    /** Private to the plugin: its decisions for this shape. release_layout frees their memory. */
    uint64_t words[8];
    void *state;

    /** Since 1.3. The multiply instruction whose peak limits this layout's products, if an option makes it
     * differ from the level's; NULL: the level's. Static. */
    const char *instruction;

    /** Since 1.4. The form to which packing rounds the source's weights, for people: "int8, a scale for each
     * row". NULL: the packed weights have the source's values. The core only selects a backend that rounds if
     * the user requested it. A plugin of an older minor version is assumed to keep the formats in
     * kt_plugin.formats. At most 47 characters. Static. */
    const char *rounding;

    /** Since 1.4. Filled by the core. Not 0: memory is short, so a level with several forms lays out for its
     * smallest one, unless the user requested another. */
    uint32_t compact;

    /** Since 1.5. Filled by the core, from core.deterministic. Not 0: the bits of a row must not depend on
     * n_rows, so a level uses one method for any number of rows. Plugins of an older minor version then get
     * one row at a time. */
    uint32_t deterministic;

    /** Since 1.7. The value of each tunable, in the order of kt_ops.tunables, filled by the core: the
     * configured one, or the default. If that is 0, layout() sets the one for this shape and format. */
    uint64_t tuned[KT_MAX_TUNABLES];
};

/** Pack panels [panel_begin, panel_end) of one stage of one expert. */
struct kt_pack {
    const struct kt_layout *layout;
    enum kt_stage stage;
    const struct kt_expert *source; /**< views of this shard */
    uint64_t panel_begin, panel_end;
    void *packed; /**< start of the expert's object, weight_size[stage] bytes, 64-byte aligned */
};

/**
 * Pack activation rows [row_begin, row_end).
 * Stage 0: source row i is at source + i * source_stride, shape.hidden_size values of source_dtype
 *          (KT_DTYPE_BF16, F16 or F32).
 * Stage 1: source is h of n_rows rows as gate_up wrote it; source_dtype and source_stride are 0. Since 1.5,
 *          of a linear: plain rows as in stage 0, of shape.intermediate_size values.
 *
 * Packed row i goes to packed + i * act_row_size[stage]. Stage 0 packs any rows in any order, so each row
 * is independent. In stage 1, rows of one row_unit may be interleaved. All n_rows of a product are packed in
 * one job; those of a linear in one or several, on many threads, each from a multiple of row_unit to another
 * one or to n_rows. A packed row only depends on its source row.
 */
struct kt_act_pack {
    const struct kt_layout *layout;
    enum kt_stage stage;
    uint32_t source_dtype;
    uint32_t n_rows;
    uint32_t row_begin, row_end;
    const void *source;
    int64_t source_stride;
    void *packed;
    struct kt_error *error; /**< since 1.2 */
};

/** Multiply packed activation rows with panels [panel_begin, panel_end) of one expert. */
struct kt_product {
    const struct kt_layout *layout;
    const void *packed;             /**< the expert's packed object of this stage */
    const struct kt_expert *source; /**< the expert's views if keeps_source, else NULL */
    uint64_t panel_begin, panel_end;
    uint32_t n_rows; /**< 1 to 1024 */

    /** Row r of the input is at act + index[r] * act_row_size[stage]; index NULL: row r itself. If the
     * plugin has gather, act is its output and index is NULL in stage 0. */
    const void *act;
    const uint32_t *index;

    /** Stage 0: h, n_rows rows of h_row_size (rounded up to row_unit). Stage 1: row r of y is at
     *  out + out_index[r] * out_stride, hidden_size values of y_dtype; only the rows of the requested
     *  panels are written. */
    void *out;
    const uint32_t *out_index;
    int64_t out_stride;

    const float *bias[2]; /**< stage 0: gate, up; stage 1: down; NULL: none. Indexed by row. */
    void *scratch;        /**< scratch_size bytes, 64-byte aligned, of this thread */

    /** Memory that this thread will probably read next, to prefetch; NULL: unknown. */
    const void *next;
    uint64_t next_size;

    struct kt_error *error; /**< since 1.2 */
};

/** Gather n_rows packed activation rows (stage 0) into the kernel's own order at `out`,
 *  n_rows rounded up to row_unit times act_row_size[0] bytes. */
struct kt_gather {
    const struct kt_layout *layout;
    const void *act;
    const uint32_t *index;
    uint32_t n_rows;
    void *out;
    struct kt_error *error; /**< since 1.2 */
};

/**
 * Extract panels [panel_begin, panel_end) of a shard's object from the object of the whole expert. The shard
 * has intermediate_size rows starting at `begin`, a multiple of k_unit. A scale that spans the boundary does
 * not change.
 */
struct kt_cut {
    const struct kt_layout *whole;
    const struct kt_layout *shard;
    enum kt_stage stage;
    uint64_t begin;
    uint64_t panel_begin, panel_end;
    const void *packed;     /**< whole->weight_size[stage] bytes */
    void *out;              /**< start of the shard's object, shard->weight_size[stage] bytes */
    struct kt_error *error; /**< since 1.2 */
};

/**
 * Return a part of a projection in its source format, bit for bit: rows [row_begin, row_end) and columns
 * [col_begin, col_end) of the shard. A range begins and ends at groups of the format, at blocks of its dtype,
 * or at the end of the matrix; if a group covers all rows or all columns of the matrix, it begins and ends
 * anywhere. An empty range of rows only checks whether this layout's weights can be returned; nothing is
 * written.
 */
struct kt_unpack {
    const struct kt_layout *layout;
    enum kt_projection projection;
    uint32_t reserved;
    const void *packed; /**< the shard's object of the projection's stage */
    uint64_t row_begin, row_end;
    uint64_t col_begin, col_end;

    /** Row r is written to codes + (r - row_begin) * codes_stride, with contiguous blocks. Not aligned. */
    void *codes;
    int64_t codes_stride;
    /** Scales of all groups in the range: groups of columns are contiguous, groups of rows are scales_stride
     * apart, in the format's scale_dtype. NULL: not requested, or none exist. */
    void *scales;
    int64_t scales_stride;
    void *zeros; /**< likewise, in zero_dtype */
    int64_t zeros_stride;
};

/** The functions of one level. struct_size = sizeof(struct kt_ops). */
struct kt_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /** Required. Fills layout for layout->shape, or fails with KT_E_UNSUPPORTED and a reason. */
    enum kt_status (*layout)(void *instance, struct kt_layout *layout, struct kt_error *error);
    /** Optional. Frees layout->state. */
    void (*release_layout)(void *instance, struct kt_layout *layout);
    /** Required unless keeps_source. Many threads at once, disjoint panels write disjoint bytes. */
    enum kt_status (*pack)(void *instance, const struct kt_pack *job, struct kt_error *error);
    /** Required. */
    void (*act_pack)(void *instance, const struct kt_act_pack *job);
    /** Optional. */
    void (*gather)(void *instance, const struct kt_gather *job);
    /** Required. h = activation(gate * x + bias, up * x + bias). A row's result only depends on its own
     * input, the weights and n_rows, not on its position, the panel range or other rows. So results do not
     * depend on threads, nor on the rest of a batch unless the level changes its method with n_rows, which
     * kt_layout.deterministic forbids. */
    void (*gate_up)(void *instance, const struct kt_product *job);
    /** Required. y = down * h + bias. */
    void (*down)(void *instance, const struct kt_product *job);
    /** Required. The weights as used by the kernel: row `row` of `projection`, dequantized from the packed
     *  object (of stage 0 or 1) to float32, all columns. */
    enum kt_status (*weight_row)(void *instance, const struct kt_layout *layout, const void *packed,
                                 const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                 float *out, struct kt_error *error);
    /** Optional, both or none: around the work of a thread, such as AMX tile configuration. */
    void (*thread_enter)(void *instance);
    void (*thread_leave)(void *instance);
    /** Optional. Without it, stored weights can only be loaded on one NUMA node. Many threads at once. */
    void (*cut)(void *instance, const struct kt_cut *job);
    /** Optional. Returns weights in their source format, or fails with KT_E_UNSUPPORTED and a reason if
     * packing lost information. Many threads at once, jobs write to disjoint bytes. */
    enum kt_status (*unpack)(void *instance, const struct kt_unpack *job, struct kt_error *error);

    /** Since 1.7: what can be tuned, n_tunables of them; NULL: nothing. */
    const struct kt_tunable *tunables;
    uint32_t n_tunables;
    uint32_t reserved_tunables;
};

struct kt_attention_ops;
struct kt_rows_ops;

/** A level: one set of functions and the CPU features that it requires. */
struct kt_level {
    uint32_t struct_size;
    uint32_t reserved;
    const char *name;        /**< amx, avx512_bf16, avx512_vnni, avx512, avx2, neon, scalar, ... */
    uint64_t cpu;            /**< KT_CPU_ bits, all required */
    const char *instruction; /**< the multiply instruction whose peak limits it: "tdpbssd", "vpdpbusd",
                                  "vpmaddubsw", "vfmadd", ... */
    const struct kt_ops *ops;

    /** Since 1.1, optional: checks whether an instance can use this level if it requires more than a CPU,
     * such as a library. Called after open for the levels that the CPU supports, best first; if it fails, the
     * core tries the next one and shows the reason. */
    enum kt_status (*check)(void *instance, struct kt_error *error);

    /** Since 1.6: functions for attention, <kt/plugin_attention.h>, and of rows, <kt/plugin_rows.h>; NULL:
     * the level has none. A plugin has ops, attention and rows each in all of its levels or in none; it has
     * at least one of them. */
    const struct kt_attention_ops *attention;
    const struct kt_rows_ops *rows;
};

/** A plugin. The exported data symbol kt_plugin_NAME is of this type. */
struct kt_plugin {
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t struct_size;
    uint32_t n_levels;
    const char *name;        /**< NAME of the symbol, the file and the configuration section */
    const char *version;     /**< of the plugin, for people */
    const char *description; /**< one line */
    const char *formats;     /**< supported source formats, for people: "bf16 f16 q4_k" */
    const char *sources;     /**< license and home page, for people; may be NULL */

    /** Best first: the core selects the first whose features the CPU has. An array of pointers. */
    const struct kt_level *const *levels;
    const struct kt_option *options; /**< n_options of them; may be NULL */
    uint32_t n_options;
    uint32_t reserved;

    /** Optional: checks whether this plugin can work on this machine, else returns the reason. Compiled for
     * the baseline of the architecture; called before open. */
    enum kt_status (*probe)(const struct kt_host *host, const struct kt_caps *caps, struct kt_error *error);
    /** Optional: makes an instance; host, caps and values live until close. */
    enum kt_status (*open)(const struct kt_host *host, const struct kt_caps *caps,
                           const struct kt_option_value *values, void **instance, struct kt_error *error);
    /** Optional. */
    void (*close)(void *instance);
};

#define KT_LEVEL_INIT KT_INIT(kt_level)
#define KT_OPS_INIT KT_INIT(kt_ops)

/**
 * Defines the exported symbol:
 *     KT_PLUGIN_DEFINE(mine) = {
 *         KT_PLUGIN_HEADER(mine), .version = "1.0", .levels = levels, .n_levels = 1, ...
 *     };
 * In C++14 and later:
 *     constexpr kt_plugin describe()
 *     {
 *         kt_plugin plugin = KT_PLUGIN_INIT(mine);
 *         plugin.version = "1.0";
 *         plugin.levels = levels;
 *         plugin.n_levels = 1;
 *         ...
 *         return plugin;
 *     }
 *     KT_PLUGIN_DEFINE(mine) = describe();
 * and likewise with KT_LEVEL_INIT and KT_OPS_INIT; constexpr, because a plugin must not have constructors. In
 * C++11 each field after the name, in order: KT_PLUGIN_DEFINE(mine) = {KT_PLUGIN_HEADER(mine, n_levels),
 * "1.0", ...};
 */
#ifdef __cplusplus
extern "C++" {
namespace kt_cxx
{
KT_CONSTEXPR struct kt_plugin plugin(const char *name)
{
    struct kt_plugin value = sized<struct kt_plugin>();
    value.abi_major = KT_PLUGIN_ABI_MAJOR;
    value.abi_minor = KT_PLUGIN_ABI_MINOR;
    value.name = name;
    return value;
}
} // namespace kt_cxx
}
#define KT_PLUGIN_DEFINE(id)                                                                 \
    extern "C" __attribute__((visibility("default"))) const struct kt_plugin kt_plugin_##id; \
    constexpr struct kt_plugin kt_plugin_##id
#define KT_PLUGIN_INIT(id) kt_cxx::plugin(#id)
#define KT_PLUGIN_HEADER(id, n_levels) \
    KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MINOR, sizeof(struct kt_plugin), n_levels, #id
#else
#define KT_PLUGIN_DEFINE(id)                                                             \
    __attribute__((visibility("default"))) extern const struct kt_plugin kt_plugin_##id; \
    const struct kt_plugin kt_plugin_##id
#define KT_PLUGIN_HEADER(id)                                            \
    .abi_major = KT_PLUGIN_ABI_MAJOR, .abi_minor = KT_PLUGIN_ABI_MINOR, \
    .struct_size = sizeof(struct kt_plugin), .name = #id
#endif

/** Fills an error, which may be NULL, and returns its status: `return kt_plugin_fail(error, ...)`. */
KT_PRINTF(3, 4)
static inline enum kt_status kt_plugin_fail(struct kt_error *error, enum kt_status status, const char *format,
                                            ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        (void)vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
