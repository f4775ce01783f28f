/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/cpu.h"

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/machine/cpu_features.h"

#include <stdio.h>
#include <string.h>

/* In the order of the bits; names are printed in this order. */
static const struct {
    const char *name;
    uint64_t bit;
} features[] = {
    {"avx", KT_CPU_AVX},
    {"avx2", KT_CPU_AVX2},
    {"fma", KT_CPU_FMA},
    {"f16c", KT_CPU_F16C},
    {"avx_vnni", KT_CPU_AVX_VNNI},
    {"avx512f", KT_CPU_AVX512F},
    {"avx512bw", KT_CPU_AVX512BW},
    {"avx512vl", KT_CPU_AVX512VL},
    {"avx512dq", KT_CPU_AVX512DQ},
    {"avx512_vnni", KT_CPU_AVX512_VNNI},
    {"avx512_vbmi", KT_CPU_AVX512_VBMI},
    {"avx512_bf16", KT_CPU_AVX512_BF16},
    {"avx512_fp16", KT_CPU_AVX512_FP16},
    {"amx_tile", KT_CPU_AMX_TILE},
    {"amx_int8", KT_CPU_AMX_INT8},
    {"amx_bf16", KT_CPU_AMX_BF16},
    {"neon", KT_CPU_NEON},
    {"dotprod", KT_CPU_DOTPROD},
    {"i8mm", KT_CPU_I8MM},
    {"arm_bf16", KT_CPU_ARM_BF16},
    {"sve", KT_CPU_SVE},
    {"sve2", KT_CPU_SVE2},
};
enum { N_FEATURES = sizeof features / sizeof features[0] };

#define AVX2_BITS (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define AVX512_BITS (AVX2_BITS | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)
#define AMX_BITS (KT_CPU_AMX_TILE | KT_CPU_AMX_INT8 | KT_CPU_AMX_BF16)
#define X86_BITS UINT64_C(0xffffffff)
#define ARM_BITS (~X86_BITS)
#define I8MM_BITS (KT_CPU_NEON | KT_CPU_DOTPROD | KT_CPU_I8MM)

/* Best first. `keeps`: the features that remain when a user masks by this name, of its architecture; those of
 * the other one always remain. `makes`: the features that a CPU of this name must have. These are fewer:
 * Cooper Lake has BF16 without VBMI. */
static const struct {
    const char *name;
    uint64_t keeps;
    uint64_t makes;
} variants[] = {
    {"amx", ~UINT64_C(0), AVX512_BITS | KT_CPU_AVX512_VNNI | AMX_BITS},
    {"avx512_bf16", ~AMX_BITS, AVX512_BITS | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_BF16},
    {"avx512_vbmi", ~(AMX_BITS | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16),
     AVX512_BITS | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI},
    {"avx512_vnni", AVX512_BITS | KT_CPU_AVX512_VNNI | KT_CPU_AVX_VNNI | ARM_BITS,
     AVX512_BITS | KT_CPU_AVX512_VNNI},
    {"avx512", AVX512_BITS | ARM_BITS, AVX512_BITS},
    {"avx2", AVX2_BITS | ARM_BITS, AVX2_BITS},
    {"arm_bf16", ~UINT64_C(0), I8MM_BITS | KT_CPU_ARM_BF16},
    {"i8mm", I8MM_BITS | X86_BITS, I8MM_BITS},
    {"dotprod", KT_CPU_NEON | KT_CPU_DOTPROD | X86_BITS, KT_CPU_NEON | KT_CPU_DOTPROD},
    {"neon", KT_CPU_NEON | X86_BITS, KT_CPU_NEON},
    {"scalar", 0, 0},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

enum kt_status kt_cpu_mask(const char *variant, uint64_t *bits, struct kt_error *error)
{
    if (!variant || variant[0] == '\0') {
        *bits = ~UINT64_C(0);
        return KT_OK;
    }
    const char *names[N_VARIANTS];
    for (size_t i = 0; i < N_VARIANTS; i++) {
        names[i] = variants[i].name;
        if (strcmp(variant, names[i]) == 0) {
            *bits = variants[i].keeps;
            return KT_OK;
        }
    }
    const char *nearest = kt_nearest(variant, names, N_VARIANTS);
    return kt_fail(error, KT_E_CONFIG,
                   "CPU variant \"%s\" is unknown%s%s%s; known are amx, avx512_bf16, avx512_vbmi, "
                   "avx512_vnni, avx512, avx2, arm_bf16, i8mm, dotprod, neon and scalar",
                   variant, nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}

enum kt_status kt_cpu_detect(const char *variant, struct kt_caps *caps, struct kt_error *error)
{
    uint64_t mask;
    enum kt_status status = kt_cpu_mask(variant, &mask, error);
    if (status != KT_OK)
        return status;
    struct kt_caps found = {.cpu = kt_cpu_hardware() & mask};
    if ((found.cpu & AMX_BITS) != 0 && !kt_cpu_amx_permitted())
        found.cpu &= ~AMX_BITS;
    kt_cpu_caches(&found);
    *caps = found;
    return KT_OK;
}

static const char *find_feature(const char *word, uint64_t *bit)
{
    const char *names[N_FEATURES];
    for (size_t i = 0; i < N_FEATURES; i++) {
        names[i] = features[i].name;
        if (strcmp(word, names[i]) == 0) {
            *bit = features[i].bit;
            return names[i];
        }
    }
    *bit = 0;
    return kt_nearest(word, names, N_FEATURES);
}

enum kt_status kt_cpu_parse(const char *names, uint64_t *bits, struct kt_error *error)
{
    static const char separators[] = " \t,";
    uint64_t all = 0;
    for (const char *at = names + strspn(names, separators); *at != '\0'; at += strspn(at, separators)) {
        char word[32];
        size_t length = strcspn(at, separators);
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), at);
        uint64_t bit;
        const char *nearest = find_feature(word, &bit);
        if (bit == 0)
            return kt_fail(error, KT_E_CONFIG, "CPU feature \"%s\" is unknown%s%s%s", word,
                           nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
        all |= bit;
        at += length;
    }
    *bits = all;
    return KT_OK;
}

char *kt_cpu_names(uint64_t bits, char *text, size_t size)
{
    size_t used = 0;
    if (size > 0)
        text[0] = '\0';
    for (unsigned bit = 0; bit < 64; bit++) {
        if ((bits >> bit & 1) == 0)
            continue;
        char word[16];
        (void)snprintf(word, sizeof word, "bit%u", bit);
        for (size_t i = 0; i < N_FEATURES; i++) {
            if (features[i].bit == UINT64_C(1) << bit)
                (void)snprintf(word, sizeof word, "%s", features[i].name);
        }
        size_t length = strlen(word) + (used > 0);
        if (used + length >= size)
            break;
        (void)snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", word);
        used += length;
    }
    return text;
}

const char *kt_cpu_variant(uint64_t bits)
{
    size_t i = 0;
    while (i < N_VARIANTS - 1 && (bits & variants[i].makes) != variants[i].makes)
        i++;
    return variants[i].name;
}
