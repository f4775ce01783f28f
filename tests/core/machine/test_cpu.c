/* SPDX-License-Identifier: Apache-2.0 */
/* CPU features: names, variants, the mask, and what this machine really has. */
#include "core/config/config.h"
#include "core/machine/cpu.h"
#include "core/machine/cpu_features.h"
#include "core/base/suggest.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define AVX512 (AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)
#define AMX (KT_CPU_AMX_TILE | KT_CPU_AMX_INT8 | KT_CPU_AMX_BF16)

#define ARM (KT_CPU_NEON | KT_CPU_DOTPROD | KT_CPU_I8MM)
#define X86_ALL UINT64_C(0xffffffff)

/* Of each architecture, best first. */
static const char *const variants[2][8] = {
    {"amx", "avx512_bf16", "avx512_vbmi", "avx512_vnni", "avx512", "avx2", "scalar"},
    {"arm_bf16", "i8mm", "dotprod", "neon", "scalar"},
};

START_TEST(names_and_bits_go_both_ways)
{
    char text[512];
    uint64_t all = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t back = 0;
        kt_cpu_names(UINT64_C(1) << bit, text, sizeof text);
        if (strncmp(text, "bit", 3) == 0)
            continue;
        ck_assert_int_eq(kt_cpu_parse(text, &back, NULL), KT_OK);
        ck_assert_uint_eq(back, UINT64_C(1) << bit);
        all |= back;
    }
    ck_assert_int_eq(__builtin_popcountll(all), 22);
    uint64_t back;
    kt_cpu_names(all, text, sizeof text);
    ck_assert_int_eq(kt_cpu_parse(text, &back, NULL), KT_OK);
    ck_assert_uint_eq(back, all);
    ck_assert_str_eq(kt_cpu_names(0, text, sizeof text), "");
    ck_assert_str_eq(kt_cpu_names(UINT64_C(1) << 63, text, sizeof text), "bit63");
}
END_TEST

START_TEST(names_are_cut_at_a_word)
{
    char text[16];
    ck_assert_str_eq(kt_cpu_names(AVX2, text, 9), "avx avx2");
    ck_assert_str_eq(kt_cpu_names(AVX2, text, 8), "avx");
    ck_assert_str_eq(kt_cpu_names(AVX2, text, 1), "");
}
END_TEST

START_TEST(parse_takes_lists_and_names_the_wrong_word)
{
    uint64_t bits = 77;
    struct kt_error error;
    ck_assert_int_eq(kt_cpu_parse(" avx2,fma\tf16c ", &bits, &error), KT_OK);
    ck_assert_uint_eq(bits, KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C);
    ck_assert_int_eq(kt_cpu_parse("", &bits, &error), KT_OK);
    ck_assert_uint_eq(bits, 0);
    bits = 77;
    ck_assert_int_eq(kt_cpu_parse("avx2 amx_int9", &bits, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, "\"amx_int9\" is unknown; did you mean amx_int8?"));
    ck_assert_int_eq(kt_cpu_parse("quantum_unit_of_a_length_beyond_all_names", &bits, &error), KT_E_CONFIG);
    ck_assert_uint_eq(bits, 77);
}
END_TEST

START_TEST(variants_are_named_by_what_they_need)
{
    ck_assert_str_eq(kt_cpu_variant(0), "scalar");
    ck_assert_str_eq(kt_cpu_variant(AVX2 & ~KT_CPU_F16C), "scalar");
    ck_assert_str_eq(kt_cpu_variant(AVX2), "avx2");
    ck_assert_str_eq(kt_cpu_variant(AVX2 | KT_CPU_AVX_VNNI), "avx2");
    ck_assert_str_eq(kt_cpu_variant(AVX512), "avx512");
    ck_assert_str_eq(kt_cpu_variant(AVX512 & ~KT_CPU_AVX512VL), "avx2");
    uint64_t vnni = AVX512 | KT_CPU_AVX512_VNNI;
    ck_assert_str_eq(kt_cpu_variant(vnni), "avx512_vnni");
    ck_assert_str_eq(kt_cpu_variant(vnni | KT_CPU_AVX512_VBMI), "avx512_vbmi");
    ck_assert_str_eq(kt_cpu_variant(vnni | KT_CPU_AVX512_BF16), "avx512_bf16");
    ck_assert_str_eq(kt_cpu_variant(vnni | AMX), "amx");
    ck_assert_str_eq(kt_cpu_variant(vnni | (AMX & ~KT_CPU_AMX_TILE)), "avx512_vnni");
    ck_assert_str_eq(kt_cpu_variant(KT_CPU_NEON), "neon");
    ck_assert_str_eq(kt_cpu_variant(KT_CPU_NEON | KT_CPU_SVE), "neon");
    ck_assert_str_eq(kt_cpu_variant(KT_CPU_NEON | KT_CPU_DOTPROD), "dotprod");
    ck_assert_str_eq(kt_cpu_variant(KT_CPU_NEON | KT_CPU_I8MM), "neon");
    ck_assert_str_eq(kt_cpu_variant(ARM), "i8mm");
    ck_assert_str_eq(kt_cpu_variant(ARM | KT_CPU_ARM_BF16 | KT_CPU_SVE2), "arm_bf16");
}
END_TEST

/* Every mask keeps what its variant needs, and takes what is above. */
START_TEST(masks)
{
    static const struct {
        const char *name;
        uint64_t keeps, takes;
    } rows[] = {
        {"amx", ~UINT64_C(0), 0},
        {"avx512_bf16",
         AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16 |
             KT_CPU_AVX_VNNI,
         AMX},
        {"avx512_vbmi", AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX_VNNI,
         AMX | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16},
        {"avx512_vnni", AVX512 | KT_CPU_AVX512_VNNI,
         AMX | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16 | KT_CPU_AVX512_VBMI},
        {"avx512", AVX512,
         AMX | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16 | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_VNNI},
        {"avx2", AVX2 | KT_CPU_NEON, ~(AVX2 | UINT64_C(0xffffffff00000000))},
        {"arm_bf16", ~UINT64_C(0), 0},
        {"i8mm", X86_ALL | ARM, ~(X86_ALL | ARM)},
        {"dotprod", X86_ALL | KT_CPU_NEON | KT_CPU_DOTPROD,
         KT_CPU_I8MM | KT_CPU_ARM_BF16 | KT_CPU_SVE | KT_CPU_SVE2},
        {"neon", X86_ALL | KT_CPU_NEON, ~(X86_ALL | KT_CPU_NEON)},
        {"scalar", 0, ~UINT64_C(0)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t mask = 0;
        ck_assert_int_eq(kt_cpu_mask(rows[i].name, &mask, NULL), KT_OK);
        ck_assert_uint_eq(mask & rows[i].keeps, rows[i].keeps);
        ck_assert_uint_eq(mask & rows[i].takes, 0);
    }
}
END_TEST

START_TEST(unknown_variants_are_refused)
{
    struct kt_caps caps = {.cpu = 77};
    struct kt_error error;
    ck_assert_int_eq(kt_cpu_detect("avx521", &caps, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, "\"avx521\""));
    ck_assert_ptr_nonnull(strstr(error.message, "did you mean avx512?"));
    ck_assert_int_eq(kt_cpu_detect("AVX2", &caps, NULL), KT_E_CONFIG);
    ck_assert_uint_eq(caps.cpu, 77);
}
END_TEST

START_TEST(a_mask_only_takes_away)
{
    struct kt_caps all, masked;
    ck_assert_int_eq(kt_cpu_detect(NULL, &all, NULL), KT_OK);
    for (size_t of = 0; of < 2; of++) {
        uint64_t before = ~UINT64_C(0);
        for (size_t i = 0; variants[of][i]; i++) {
            ck_assert_int_eq(kt_cpu_detect(variants[of][i], &masked, NULL), KT_OK);
            ck_assert_uint_eq(masked.cpu & ~all.cpu, 0);
            ck_assert_uint_eq(masked.cpu & ~before, 0);
            before = masked.cpu;
        }
        ck_assert_uint_eq(before, 0);
    }
    ck_assert_int_eq(kt_cpu_detect("", &masked, NULL), KT_OK);
    ck_assert_uint_eq(masked.cpu, all.cpu);
}
END_TEST

/* The compiler's runtime asks cpuid and XCR0 in its own way. */
START_TEST(hardware_agrees_with_the_compilers_runtime)
{
    uint64_t cpu = kt_cpu_hardware();
#if defined __x86_64__
    __builtin_cpu_init();
    ck_assert_int_eq(!!__builtin_cpu_supports("avx"), (cpu & KT_CPU_AVX) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx2"), (cpu & KT_CPU_AVX2) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("fma"), (cpu & KT_CPU_FMA) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512f"), (cpu & KT_CPU_AVX512F) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512bw"), (cpu & KT_CPU_AVX512BW) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512vl"), (cpu & KT_CPU_AVX512VL) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512dq"), (cpu & KT_CPU_AVX512DQ) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512vnni"), (cpu & KT_CPU_AVX512_VNNI) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512vbmi"), (cpu & KT_CPU_AVX512_VBMI) != 0);
    ck_assert_int_eq(!!__builtin_cpu_supports("avx512bf16"), (cpu & KT_CPU_AVX512_BF16) != 0);
    ck_assert_uint_eq(cpu & (KT_CPU_NEON | KT_CPU_SVE), 0);
#elif defined __aarch64__
    ck_assert_uint_ne(cpu & KT_CPU_NEON, 0); /* of every aarch64 CPU that Linux runs on */
    uint64_t isar0, isar1, pfr0;
    __asm__("mrs %0, ID_AA64ISAR0_EL1" : "=r"(isar0)); /* Linux answers for the CPU */
    __asm__("mrs %0, S3_0_C0_C6_1" : "=r"(isar1));     /* ID_AA64ISAR1_EL1 */
    __asm__("mrs %0, ID_AA64PFR0_EL1" : "=r"(pfr0));
    ck_assert_int_eq((isar0 >> 44 & 15) != 0, (cpu & KT_CPU_DOTPROD) != 0);
    ck_assert_int_eq((isar1 >> 52 & 15) != 0, (cpu & KT_CPU_I8MM) != 0);
    ck_assert_int_eq((isar1 >> 44 & 15) != 0, (cpu & KT_CPU_ARM_BF16) != 0);
    ck_assert_int_eq((pfr0 >> 32 & 15) != 0, (cpu & KT_CPU_SVE) != 0);
    ck_assert_uint_eq(cpu & AVX512, 0);
#else
    ck_assert_uint_eq(cpu, 0);
#endif
}
END_TEST

START_TEST(caches_have_believable_sizes)
{
    struct kt_caps caps;
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert(caps.l1d_size == 0 || (caps.l1d_size >= 4096 && caps.l1d_size <= 1 << 22));
    ck_assert(caps.l2_size == 0 || caps.l2_size >= 1 << 15);
    ck_assert(caps.l3_size == 0 || caps.l3_size >= 1 << 18);
    ck_assert(caps.stream_ahead == 0 || (caps.stream_ahead >= 512 && caps.stream_ahead <= 65536));
}
END_TEST

START_TEST(nearest_names)
{
    static const char *const names[] = {"threads", "numa_nodes", "debug"};
    ck_assert_str_eq(kt_nearest("thread", names, 3), "threads");
    ck_assert_str_eq(kt_nearest("treads", names, 3), "threads");
    ck_assert_str_eq(kt_nearest("numa-node", names, 3), "numa_nodes");
    ck_assert_str_eq(kt_nearest("debug", names, 3), "debug");
    ck_assert_str_eq(kt_nearest("dexxg", names, 3), "debug");
    ck_assert_ptr_null(kt_nearest("dxxxg", names, 3)); /* 3 is not less than half of 5 */
    ck_assert_ptr_null(kt_nearest("bandwidth", names, 3));
    ck_assert_ptr_null(kt_nearest("", names, 3));
    ck_assert_ptr_null(kt_nearest("threads", names, 0));
    char lengthy[4096];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    ck_assert_ptr_null(kt_nearest(lengthy, names, 3));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cpu");
    tcase_add_test(tests, names_and_bits_go_both_ways);
    tcase_add_test(tests, names_are_cut_at_a_word);
    tcase_add_test(tests, parse_takes_lists_and_names_the_wrong_word);
    tcase_add_test(tests, variants_are_named_by_what_they_need);
    tcase_add_test(tests, masks);
    tcase_add_test(tests, unknown_variants_are_refused);
    tcase_add_test(tests, a_mask_only_takes_away);
    tcase_add_test(tests, hardware_agrees_with_the_compilers_runtime);
    tcase_add_test(tests, caches_have_believable_sizes);
    tcase_add_test(tests, nearest_names);
    return run_tests("cpu", tests);
}
