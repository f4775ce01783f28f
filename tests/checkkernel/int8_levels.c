/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/checkkernel/int8_levels.h"
#include "core/machine/cpu.h"
#include "core/base/trust.h"
#include CHECK_BACKEND
#include "plugins/common/simd/numbers.h"
#include "plugins/common/simd/sve_length.h"

#include <check.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef CHECK_EMULATED
#define KT_AMX_MODEL "tests/checkkernel/amx_model.h"
#include "plugins/common/simd/amx.h"
_Thread_local struct amx_model amx_model;
extern const struct kt_ops emulated_ops_avx_vnni;
#ifdef CHECK_EMULATED_AVX512
#define AMX_MODEL_CPU AVX2
extern const struct kt_ops emulated_ops_avx512;
extern const struct kt_ops emulated_ops_avx512_vnni;
#ifdef CHECK_AOCL
extern const struct kt_ops emulated_ops_aocl;
#endif
#else
#define AMX_MODEL_CPU AVX512_BF16
#endif
#ifndef CHECK_AOCL
extern const struct kt_ops emulated_ops_amx;
#endif
#endif

#define AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define AVX512 (AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)
#define AVX512_BF16 (AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16)

const struct check_level check_levels[] = {
    {"scalar", &OPS_NAME(scalar), 0, false, false, 0},
#ifdef LEVEL_AVX2
    {"avx2", &OPS_NAME(avx2), AVX2, false, false, 0},
#endif
#ifdef LEVEL_AVX_VNNI
    {"avx_vnni", &OPS_NAME(avx_vnni), AVX2 | KT_CPU_AVX_VNNI, false, false, 0},
#endif
#ifdef LEVEL_AVX512
    {"avx512", &OPS_NAME(avx512), AVX512, false, false, 0},
#endif
#ifdef LEVEL_AVX512_VNNI
    {"avx512_vnni", &OPS_NAME(avx512_vnni), AVX512 | KT_CPU_AVX512_VNNI, false, false, 0},
#endif
#ifdef LEVEL_AMX
    {"amx", &OPS_NAME(amx), AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AMX_TILE | KT_CPU_AMX_INT8, false, false, 0},
#endif
#ifdef LEVEL_NEON
    {"neon", &OPS_NAME(neon), KT_CPU_NEON, false, false, 0},
#endif
#ifdef LEVEL_DOTPROD
    {"dotprod", &OPS_NAME(dotprod), KT_CPU_NEON | KT_CPU_DOTPROD, false, false, 0},
#endif
#ifdef LEVEL_I8MM
    {"i8mm", &OPS_NAME(i8mm), KT_CPU_NEON | KT_CPU_DOTPROD | KT_CPU_I8MM, false, false, 0},
#endif
#ifdef LEVEL_SVE
    {"sve256", &OPS_NAME(sve256), KT_CPU_NEON | KT_CPU_SVE, false, false, 256},
    {"sve512", &OPS_NAME(sve512), KT_CPU_NEON | KT_CPU_SVE, false, false, 512},
#endif
#ifdef CHECK_KML
    {"kml", &OPS_NAME(kml), KT_CPU_NEON | KT_CPU_DOTPROD, false, true, 0},
#endif
#ifdef LEVEL_AOCL
    {"aocl", &OPS_NAME(aocl), AVX512 | KT_CPU_AVX512_VNNI, false, true, 0},
#endif
#ifdef CHECK_EMULATED
    {"avx_vnni, emulated", &emulated_ops_avx_vnni, AVX2, false, false, 0},
#ifdef CHECK_EMULATED_AVX512
    {"avx512, emulated", &emulated_ops_avx512, AVX2, false, false, 0},
    {"avx512_vnni, emulated", &emulated_ops_avx512_vnni, AVX2, false, false, 0},
#ifdef CHECK_AOCL
    {"aocl, emulated", &emulated_ops_aocl, AVX2, false, true, 0},
#endif
#endif
#ifndef CHECK_AOCL
    {"amx, emulated", &emulated_ops_amx, AMX_MODEL_CPU, true, false, 0},
#endif
#endif
};
const size_t check_n_levels = sizeof check_levels / sizeof *check_levels;

/* An emulator shows what an old CPU does with what is made for it; SIMDe has its turn without one. */
static bool is_emulated_twice(const struct check_level *level)
{
    const char *emulator = getenv("EMULATOR");
    return emulator && *emulator && strstr(level->name, "emulated");
}

/* KT_TEST_LEVEL: the only one to check, which must be able to run. */
static bool is_asked_for(const struct check_level *level)
{
    const char *wanted = getenv("KT_TEST_LEVEL");
    return !wanted || strcmp(level->name, wanted) == 0;
}

bool check_can_run(const struct check_level *level)
{
    static struct kt_caps caps;
    struct kt_error error;
    if (!is_asked_for(level) || is_emulated_twice(level) ||
        (level->sve_bits && level->sve_bits != read_sve_bits()))
        return false;
    if (!caps.cpu && kt_cpu_detect(NULL, &caps, &error) != KT_OK)
        caps.cpu = 0;
    return (level->cpu & ~caps.cpu) == 0;
}

bool check_list_levels(void)
{
    bool any = false;
    for (size_t i = 0; i < check_n_levels; i++) {
        bool here = check_can_run(&check_levels[i]);
        printf("%s: %s\n", check_levels[i].name, here ? "checked" : "not here");
        any |= here;
    }
    return any;
}

void check_tiles(const struct check_level *level)
{
#ifdef CHECK_EMULATED
    if (level->tiles) {
        ck_assert_uint_eq(amx_model.faults, 0);
        ck_assert_uint_gt(amx_model.products, 0);
        ck_assert_int_eq(amx_model.configured, 0);
    }
#else
    (void)level;
#endif
}

/* ---- a host ---- */

int check_fail_next;
int check_allocated;

static bool fail_now(int what)
{
    if (check_fail_next != what)
        return false;
    check_fail_next = CHECK_FAIL_NOTHING;
    return true;
}

static void *allocate(const struct kt_host *host, uint64_t size)
{
    (void)host;
    void *memory = fail_now(CHECK_FAIL_ALLOCATE) ? NULL : aligned_alloc(64, round_up(size, 64));
    check_allocated += memory != NULL;
    return memory;
}

static void release(const struct kt_host *host, void *memory, uint64_t size)
{
    (void)host;
    (void)size;
    check_allocated -= memory != NULL;
    free(memory);
}

static enum kt_status dequantize(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error)
{
    (void)host;
    if (fail_now(CHECK_FAIL_DEQUANTIZE))
        return kt_plugin_fail(error, KT_E_IO, "row %llu cannot be read", (unsigned long long)row);
    for (uint64_t i = 0; i < n; i++) {
        const char *from = (const char *)view->data + (int64_t)row * view->row_stride +
                           (int64_t)(col + i) * view->block_stride;
        out[i] = view->dtype == KT_DTYPE_F32   ? load_f32(from)
                 : view->dtype == KT_DTYPE_F16 ? half_to_float(load_u16(from))
                                               : bf16_to_float(load_u16(from));
    }
    return KT_OK;
}

static enum kt_status trust(const struct kt_host *host, const char *path, struct kt_error *error)
{
    char *real;
    int fd;
    (void)host;
    enum kt_status status = kt_trust_open(path, &real, &fd, error);
    if (status == KT_OK) {
        (void)close(fd);
        free(real);
    }
    return status;
}

const struct kt_host check_host = {
    .struct_size = sizeof(struct kt_host),
    .abi_minor = KT_PLUGIN_ABI_MINOR,
    .allocate = allocate,
    .release = release,
    .dequantize = dequantize,
    .dtype_name = kt_dtype_name,
    .trust = trust,
};
