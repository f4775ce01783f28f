/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI as 1.0 has it, on LP64: sizes of all structs of <kt/types.h> and <kt/plugin.h>, offsets
 * of their fields, numbers of their constants. A plugin that was built against these headers relies on
 * every row. A row is never changed without the version number that its message names.
 */
#include <kt/plugin.h>

#include <check.h>
#include <stdlib.h>

struct row {
    const char *what;
    uint64_t is, was;
};

#define SIZE(type, bytes)                                      \
    {                                                          \
        "sizeof(struct " #type ")", sizeof(struct type), bytes \
    }
#define FIELD(type, field, bytes)                                       \
    {                                                                   \
        "struct " #type "." #field, offsetof(struct type, field), bytes \
    }
#define NUMBER(name, number)            \
    {                                   \
#name, (uint64_t)(name), number \
    }

static const struct row rows[] = {
    SIZE(kt_error, 1024),
    FIELD(kt_error, status, 0),
    FIELD(kt_error, message, 4),
    SIZE(kt_scales, 56),
    FIELD(kt_scales, data, 0),
    FIELD(kt_scales, size, 8),
    FIELD(kt_scales, dtype, 16),
    FIELD(kt_scales, reserved, 20),
    FIELD(kt_scales, group_rows, 24),
    FIELD(kt_scales, group_cols, 32),
    FIELD(kt_scales, row_stride, 40),
    FIELD(kt_scales, col_stride, 48),
    SIZE(kt_view, 176),
    FIELD(kt_view, struct_size, 0),
    FIELD(kt_view, dtype, 4),
    FIELD(kt_view, data, 8),
    FIELD(kt_view, size, 16),
    FIELD(kt_view, rows, 24),
    FIELD(kt_view, cols, 32),
    FIELD(kt_view, row_stride, 40),
    FIELD(kt_view, block_stride, 48),
    FIELD(kt_view, scales, 56),
    FIELD(kt_view, zeros, 112),
    FIELD(kt_view, name, 168),
    SIZE(kt_expert, 552),
    FIELD(kt_expert, gate, 0),
    FIELD(kt_expert, up, 176),
    FIELD(kt_expert, down, 352),
    FIELD(kt_expert, gate_bias, 528),
    FIELD(kt_expert, up_bias, 536),
    FIELD(kt_expert, down_bias, 544),
    SIZE(kt_caps, 40),
    FIELD(kt_caps, cpu, 0),
    FIELD(kt_caps, l1d_size, 8),
    FIELD(kt_caps, l2_size, 16),
    FIELD(kt_caps, l3_size, 24),
    FIELD(kt_caps, stream_ahead, 32),
    SIZE(kt_host, 64),
    FIELD(kt_host, struct_size, 0),
    FIELD(kt_host, abi_minor, 4),
    FIELD(kt_host, data, 8),
    FIELD(kt_host, log, 16),
    FIELD(kt_host, allocate, 24),
    FIELD(kt_host, release, 32),
    FIELD(kt_host, dequantize, 40),
    FIELD(kt_host, dtype_name, 48),
    FIELD(kt_host, trust, 56),
    SIZE(kt_option, 56),
    FIELD(kt_option, key, 0),
    FIELD(kt_option, type, 8),
    FIELD(kt_option, default_text, 16),
    FIELD(kt_option, choices, 24),
    FIELD(kt_option, minimum, 32),
    FIELD(kt_option, maximum, 40),
    FIELD(kt_option, help, 48),
    SIZE(kt_option_value, 16),
    FIELD(kt_option_value, text, 0),
    FIELD(kt_option_value, number, 8),
    SIZE(kt_format, 32),
    FIELD(kt_format, dtype, 0),
    FIELD(kt_format, scale_dtype, 4),
    FIELD(kt_format, zero_dtype, 8),
    FIELD(kt_format, reserved, 12),
    FIELD(kt_format, group_rows, 16),
    FIELD(kt_format, group_cols, 24),
    SIZE(kt_shape, 136),
    FIELD(kt_shape, n_experts, 0),
    FIELD(kt_shape, top_k, 4),
    FIELD(kt_shape, hidden_size, 8),
    FIELD(kt_shape, intermediate_size, 16),
    FIELD(kt_shape, activation, 24),
    FIELD(kt_shape, limit, 28),
    FIELD(kt_shape, alpha, 32),
    FIELD(kt_shape, has_bias, 36),
    FIELD(kt_shape, format, 40),
    SIZE(kt_layout, 368),
    FIELD(kt_layout, shape, 0),
    FIELD(kt_layout, panel_rows, 136),
    FIELD(kt_layout, k_unit, 152),
    FIELD(kt_layout, weight_size, 160),
    FIELD(kt_layout, nominal_size, 176),
    FIELD(kt_layout, act_row_size, 192),
    FIELD(kt_layout, h_row_size, 208),
    FIELD(kt_layout, row_unit, 216),
    FIELD(kt_layout, y_dtype, 220),
    FIELD(kt_layout, scratch_size, 224),
    FIELD(kt_layout, form, 232),
    FIELD(kt_layout, keeps_source, 264),
    FIELD(kt_layout, stored, 268),
    FIELD(kt_layout, words, 272),
    FIELD(kt_layout, state, 336),
    FIELD(kt_layout, instruction, 344),
    FIELD(kt_layout, rounding, 352),
    FIELD(kt_layout, compact, 360),
    FIELD(kt_layout, deterministic, 364),
    SIZE(kt_pack, 48),
    FIELD(kt_pack, layout, 0),
    FIELD(kt_pack, stage, 8),
    FIELD(kt_pack, source, 16),
    FIELD(kt_pack, panel_begin, 24),
    FIELD(kt_pack, panel_end, 32),
    FIELD(kt_pack, packed, 40),
    SIZE(kt_act_pack, 64),
    FIELD(kt_act_pack, layout, 0),
    FIELD(kt_act_pack, stage, 8),
    FIELD(kt_act_pack, source_dtype, 12),
    FIELD(kt_act_pack, n_rows, 16),
    FIELD(kt_act_pack, row_begin, 20),
    FIELD(kt_act_pack, row_end, 24),
    FIELD(kt_act_pack, source, 32),
    FIELD(kt_act_pack, source_stride, 40),
    FIELD(kt_act_pack, packed, 48),
    FIELD(kt_act_pack, error, 56),
    SIZE(kt_product, 136),
    FIELD(kt_product, layout, 0),
    FIELD(kt_product, packed, 8),
    FIELD(kt_product, source, 16),
    FIELD(kt_product, panel_begin, 24),
    FIELD(kt_product, panel_end, 32),
    FIELD(kt_product, n_rows, 40),
    FIELD(kt_product, act, 48),
    FIELD(kt_product, index, 56),
    FIELD(kt_product, out, 64),
    FIELD(kt_product, out_index, 72),
    FIELD(kt_product, out_stride, 80),
    FIELD(kt_product, bias, 88),
    FIELD(kt_product, scratch, 104),
    FIELD(kt_product, next, 112),
    FIELD(kt_product, next_size, 120),
    FIELD(kt_product, error, 128),
    SIZE(kt_gather, 48),
    FIELD(kt_gather, layout, 0),
    FIELD(kt_gather, act, 8),
    FIELD(kt_gather, index, 16),
    FIELD(kt_gather, n_rows, 24),
    FIELD(kt_gather, out, 32),
    FIELD(kt_gather, error, 40),
    SIZE(kt_cut, 72),
    FIELD(kt_cut, whole, 0),
    FIELD(kt_cut, shard, 8),
    FIELD(kt_cut, stage, 16),
    FIELD(kt_cut, begin, 24),
    FIELD(kt_cut, panel_begin, 32),
    FIELD(kt_cut, panel_end, 40),
    FIELD(kt_cut, packed, 48),
    FIELD(kt_cut, out, 56),
    FIELD(kt_cut, error, 64),
    SIZE(kt_unpack, 104),
    FIELD(kt_unpack, layout, 0),
    FIELD(kt_unpack, projection, 8),
    FIELD(kt_unpack, reserved, 12),
    FIELD(kt_unpack, packed, 16),
    FIELD(kt_unpack, row_begin, 24),
    FIELD(kt_unpack, row_end, 32),
    FIELD(kt_unpack, col_begin, 40),
    FIELD(kt_unpack, col_end, 48),
    FIELD(kt_unpack, codes, 56),
    FIELD(kt_unpack, codes_stride, 64),
    FIELD(kt_unpack, scales, 72),
    FIELD(kt_unpack, scales_stride, 80),
    FIELD(kt_unpack, zeros, 88),
    FIELD(kt_unpack, zeros_stride, 96),
    SIZE(kt_ops, 104),
    FIELD(kt_ops, struct_size, 0),
    FIELD(kt_ops, reserved, 4),
    FIELD(kt_ops, layout, 8),
    FIELD(kt_ops, release_layout, 16),
    FIELD(kt_ops, pack, 24),
    FIELD(kt_ops, act_pack, 32),
    FIELD(kt_ops, gather, 40),
    FIELD(kt_ops, gate_up, 48),
    FIELD(kt_ops, down, 56),
    FIELD(kt_ops, weight_row, 64),
    FIELD(kt_ops, thread_enter, 72),
    FIELD(kt_ops, thread_leave, 80),
    FIELD(kt_ops, cut, 88),
    FIELD(kt_ops, unpack, 96),
    SIZE(kt_level, 48),
    FIELD(kt_level, struct_size, 0),
    FIELD(kt_level, reserved, 4),
    FIELD(kt_level, name, 8),
    FIELD(kt_level, cpu, 16),
    FIELD(kt_level, instruction, 24),
    FIELD(kt_level, ops, 32),
    FIELD(kt_level, check, 40),
    SIZE(kt_plugin, 104),
    FIELD(kt_plugin, abi_major, 0),
    FIELD(kt_plugin, abi_minor, 4),
    FIELD(kt_plugin, struct_size, 8),
    FIELD(kt_plugin, n_levels, 12),
    FIELD(kt_plugin, name, 16),
    FIELD(kt_plugin, version, 24),
    FIELD(kt_plugin, description, 32),
    FIELD(kt_plugin, formats, 40),
    FIELD(kt_plugin, sources, 48),
    FIELD(kt_plugin, levels, 56),
    FIELD(kt_plugin, options, 64),
    FIELD(kt_plugin, n_options, 72),
    FIELD(kt_plugin, reserved, 76),
    FIELD(kt_plugin, probe, 80),
    FIELD(kt_plugin, open, 88),
    FIELD(kt_plugin, close, 96),
};

static const struct row numbers[] = {
    NUMBER(KT_OK, 0),
    NUMBER(KT_E_INVALID, 1),
    NUMBER(KT_E_RANGE, 2),
    NUMBER(KT_E_NOMEM, 3),
    NUMBER(KT_E_IO, 4),
    NUMBER(KT_E_FORMAT, 5),
    NUMBER(KT_E_UNSUPPORTED, 6),
    NUMBER(KT_E_NOT_FOUND, 7),
    NUMBER(KT_E_CONFIG, 8),
    NUMBER(KT_E_PLUGIN, 9),
    NUMBER(KT_E_BUSY, 10),
    NUMBER(KT_E_SYSTEM, 11),
    NUMBER(KT_E_STATE, 12),
    NUMBER(KT_E_BACKEND, 13),
    NUMBER(KT_LOG_ERROR, 0),
    NUMBER(KT_LOG_WARNING, 1),
    NUMBER(KT_LOG_INFO, 2),
    NUMBER(KT_LOG_DEBUG, 3),
    NUMBER(KT_DTYPE_NONE, 0),
    NUMBER(KT_DTYPE_F32, 1),
    NUMBER(KT_DTYPE_F16, 2),
    NUMBER(KT_DTYPE_BF16, 3),
    NUMBER(KT_DTYPE_F64, 4),
    NUMBER(KT_DTYPE_I8, 5),
    NUMBER(KT_DTYPE_I16, 6),
    NUMBER(KT_DTYPE_I32, 7),
    NUMBER(KT_DTYPE_I64, 8),
    NUMBER(KT_DTYPE_U8, 9),
    NUMBER(KT_DTYPE_U16, 10),
    NUMBER(KT_DTYPE_U32, 11),
    NUMBER(KT_DTYPE_U64, 12),
    NUMBER(KT_DTYPE_BOOL, 13),
    NUMBER(KT_DTYPE_F8_E4M3, 14),
    NUMBER(KT_DTYPE_F8_E5M2, 15),
    NUMBER(KT_DTYPE_F8_E8M0, 16),
    NUMBER(KT_DTYPE_INT4, 17),
    NUMBER(KT_DTYPE_F4_E2M1, 18),
    NUMBER(KT_DTYPE_Q4_0, 32),
    NUMBER(KT_DTYPE_Q4_1, 33),
    NUMBER(KT_DTYPE_Q5_0, 34),
    NUMBER(KT_DTYPE_Q5_1, 35),
    NUMBER(KT_DTYPE_Q8_0, 36),
    NUMBER(KT_DTYPE_Q2_K, 37),
    NUMBER(KT_DTYPE_Q3_K, 38),
    NUMBER(KT_DTYPE_Q4_K, 39),
    NUMBER(KT_DTYPE_Q5_K, 40),
    NUMBER(KT_DTYPE_Q6_K, 41),
    NUMBER(KT_DTYPE_IQ4_NL, 42),
    NUMBER(KT_DTYPE_IQ4_XS, 43),
    NUMBER(KT_DTYPE_MXFP4, 44),
    NUMBER(KT_DTYPE_Q8_1, 45),
    NUMBER(KT_DTYPE_Q8_K, 46),
    NUMBER(KT_DTYPE_IQ1_S, 47),
    NUMBER(KT_DTYPE_IQ1_M, 48),
    NUMBER(KT_DTYPE_IQ2_XXS, 49),
    NUMBER(KT_DTYPE_IQ2_XS, 50),
    NUMBER(KT_DTYPE_IQ2_S, 51),
    NUMBER(KT_DTYPE_IQ3_XXS, 52),
    NUMBER(KT_DTYPE_IQ3_S, 53),
    NUMBER(KT_DTYPE_TQ1_0, 54),
    NUMBER(KT_DTYPE_TQ2_0, 55),
    NUMBER(KT_DTYPE_NVFP4, 56),
    NUMBER(KT_DTYPE_Q1_0, 57),
    NUMBER(KT_DTYPE_Q2_0, 58),
    NUMBER(KT_ACTIVATION_SILU, 0),
    NUMBER(KT_ACTIVATION_SWIGLU, 1),
    NUMBER(KT_ACTIVATION_SWIGLUOAI, 2),
    NUMBER(KT_GATE, 0),
    NUMBER(KT_UP, 1),
    NUMBER(KT_DOWN, 2),
    NUMBER(KT_OPTION_BOOL, 0),
    NUMBER(KT_OPTION_INT, 1),
    NUMBER(KT_OPTION_STRING, 2),
    NUMBER(KT_OPTION_ENUM, 3),
    NUMBER(KT_STAGE_GATE_UP, 0),
    NUMBER(KT_STAGE_DOWN, 1),
    NUMBER(KT_CPU_AVX, UINT64_C(1) << 0),
    NUMBER(KT_CPU_AVX2, UINT64_C(1) << 1),
    NUMBER(KT_CPU_FMA, UINT64_C(1) << 2),
    NUMBER(KT_CPU_F16C, UINT64_C(1) << 3),
    NUMBER(KT_CPU_AVX_VNNI, UINT64_C(1) << 4),
    NUMBER(KT_CPU_AVX512F, UINT64_C(1) << 5),
    NUMBER(KT_CPU_AVX512BW, UINT64_C(1) << 6),
    NUMBER(KT_CPU_AVX512VL, UINT64_C(1) << 7),
    NUMBER(KT_CPU_AVX512DQ, UINT64_C(1) << 8),
    NUMBER(KT_CPU_AVX512_VNNI, UINT64_C(1) << 9),
    NUMBER(KT_CPU_AVX512_VBMI, UINT64_C(1) << 10),
    NUMBER(KT_CPU_AVX512_BF16, UINT64_C(1) << 11),
    NUMBER(KT_CPU_AVX512_FP16, UINT64_C(1) << 12),
    NUMBER(KT_CPU_AMX_TILE, UINT64_C(1) << 13),
    NUMBER(KT_CPU_AMX_INT8, UINT64_C(1) << 14),
    NUMBER(KT_CPU_AMX_BF16, UINT64_C(1) << 15),
    NUMBER(KT_CPU_NEON, UINT64_C(1) << 32),
    NUMBER(KT_CPU_DOTPROD, UINT64_C(1) << 33),
    NUMBER(KT_CPU_I8MM, UINT64_C(1) << 34),
    NUMBER(KT_CPU_ARM_BF16, UINT64_C(1) << 35),
    NUMBER(KT_CPU_SVE, UINT64_C(1) << 36),
    NUMBER(KT_CPU_SVE2, UINT64_C(1) << 37),
};

static void check_rows(const struct row *table, size_t n, const char *advice)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(table[i].is == table[i].was, "%s is %llu, ABI %d.%d has %llu. %s", table[i].what,
                      (unsigned long long)table[i].is, KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MINOR,
                      (unsigned long long)table[i].was, advice);
}

START_TEST(structs_are_as_plugins_know_them)
{
    check_rows(rows, sizeof rows / sizeof rows[0],
               "A field that was appended at the end of a struct: raise KT_PLUGIN_ABI_MINOR, read the "
               "field only where struct_size covers it, and add its row here. Anything else: raise "
               "KT_PLUGIN_ABI_MAJOR in plugin.h and KT_PLUGIN_ABI in configure.ac. Either way, date it "
               "in the ABI changelog of plugin.h.");
}
END_TEST

START_TEST(numbers_are_as_plugins_know_them)
{
    check_rows(numbers, sizeof numbers / sizeof numbers[0],
               "A number once given keeps its meaning: give the new thing a new one. If it must be, "
               "raise KT_PLUGIN_ABI_MAJOR in plugin.h and KT_PLUGIN_ABI in configure.ac, and date it in "
               "the ABI changelog of plugin.h.");
}
END_TEST

/* The three fields that protect the rest stand first, whatever the version. */
START_TEST(the_head_never_moves)
{
    ck_assert_uint_eq(offsetof(struct kt_plugin, abi_major), 0);
    ck_assert_uint_eq(offsetof(struct kt_plugin, abi_minor), 4);
    ck_assert_uint_eq(offsetof(struct kt_plugin, struct_size), 8);
    ck_assert_uint_eq(offsetof(struct kt_level, struct_size), 0);
    ck_assert_uint_eq(offsetof(struct kt_ops, struct_size), 0);
    ck_assert_uint_eq(offsetof(struct kt_host, struct_size), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("abi");
    TCase *tests = tcase_create("abi");
    if (sizeof(void *) == 8 && sizeof(long) == 8) {
        tcase_add_test(tests, structs_are_as_plugins_know_them);
        tcase_add_test(tests, numbers_are_as_plugins_know_them);
    }
    tcase_add_test(tests, the_head_never_moves);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
