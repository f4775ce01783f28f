/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c - which CPU feature an instruction needs, and the names of features. */
#include "tools/kt/plugin/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __aarch64__
static const bool is_arm = true;
#else
static const bool is_arm = false;
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    uint64_t bit;
    const char *name;
} names[] = {
    {KT_CPU_AVX, "avx"},
    {KT_CPU_AVX2, "avx2"},
    {KT_CPU_FMA, "fma"},
    {KT_CPU_F16C, "f16c"},
    {KT_CPU_AVX_VNNI, "avx_vnni"},
    {KT_CPU_AVX512F, "avx512f"},
    {KT_CPU_AVX512BW, "avx512bw"},
    {KT_CPU_AVX512VL, "avx512vl"},
    {KT_CPU_AVX512DQ, "avx512dq"},
    {KT_CPU_AVX512_VNNI, "avx512_vnni"},
    {KT_CPU_AVX512_VBMI, "avx512_vbmi"},
    {KT_CPU_AVX512_BF16, "avx512_bf16"},
    {KT_CPU_AVX512_FP16, "avx512_fp16"},
    {KT_CPU_AMX_TILE, "amx_tile"},
    {KT_CPU_AMX_INT8, "amx_int8"},
    {KT_CPU_AMX_BF16, "amx_bf16"},
    {KT_CPU_NEON, "neon"},
    {KT_CPU_DOTPROD, "dotprod"},
    {KT_CPU_I8MM, "i8mm"},
    {KT_CPU_ARM_BF16, "arm_bf16"},
    {KT_CPU_SVE, "sve"},
    {KT_CPU_SVE2, "sve2"},
};

char *plugin_cpu_names(uint64_t bits, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < COUNT(names) && used < size; i++)
        if (bits & names[i].bit) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", names[i].name);
            bits &= ~names[i].bit;
        }
    if (bits && used < size)
        snprintf(text + used, size - used, "%sfeatures that this kt does not know", used ? " " : "");
    return text;
}

bool plugin_cpu_parse(const char *text, uint64_t *bits)
{
    *bits = 0;
    for (const char *word = text + strspn(text, " \t"); *word; word += strspn(word, " \t")) {
        size_t n = strcspn(word, " \t"), i = 0;
        while (i < COUNT(names) && (strlen(names[i].name) != n || strncmp(names[i].name, word, n) != 0))
            i++;
        if (i == COUNT(names))
            return false;
        *bits |= names[i].bit;
        word += n;
    }
    return true;
}

uint64_t plugin_isa_implied(uint64_t cpu)
{
    const uint64_t all_512 = KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ;
    const uint64_t later = KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16;
    if (cpu & later) /* every CPU with one of these has those, too */
        cpu |= all_512;
    if (cpu & all_512)
        cpu |= KT_CPU_AVX512F | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C;
    if (cpu & (KT_CPU_AMX_INT8 | KT_CPU_AMX_BF16))
        cpu |= KT_CPU_AMX_TILE;
    if (cpu & KT_CPU_AVX_VNNI)
        cpu |= KT_CPU_AVX2;
    if (cpu & (KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C))
        cpu |= KT_CPU_AVX;
    if (cpu & KT_CPU_SVE2)
        cpu |= KT_CPU_SVE;
    return cpu;
}

/* ---- words ------------------------------------------------------------------------------------------ */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

static bool is_one(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static bool starts_with_one(const char *word, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (strncmp(word, list, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

/* ---- x86-64, as objdump writes it -------------------------------------------------------------------- */

/* Registers 16 to 31, which only EVEX can name. */
static bool has_high_register(const char *operands)
{
    for (const char *at = operands; (at = strstr(at, "mm")); at += 2) {
        int number = atoi(at + 2);
        if (number >= 16 && number <= 31)
            return true;
    }
    return false;
}

/* Of bytes and words. */
static bool needs_bw(const char *name)
{
    if (starts(name, "vpmov") &&
        (ends(name, "db") || ends(name, "dw") || ends(name, "qb") || ends(name, "qw")))
        return false; /* from wider numbers */
    if (is_one(name, "vmovdqu8 vmovdqu16 vpmaddwd vpmaddubsw vpalignr vpslldq vpsrldq vpunpcklwd vpunpckhwd"))
        return true;
    return starts(name, "vp") && (ends(name, "b") || ends(name, "w"));
}

static bool needs_dq(const char *name)
{
    return is_one(
               name,
               "vpmullq vandps vandpd vandnps vandnpd vorps vorpd vxorps vxorpd vpmovm2d vpmovm2q vpmovd2m "
               "vpmovq2m") ||
           starts_with_one(name, "vfpclass vrange vreduce") || (starts(name, "vcvt") && strstr(name, "qq")) ||
           (starts_with_one(name, "vextract vinsert vbroadcast") &&
            (ends(name, "32x8") || ends(name, "64x2") || ends(name, "32x2")));
}

static uint64_t classify_evex(const char *name, const char *operands)
{
    uint64_t needs = KT_CPU_AVX512F;
    bool scalar =
        ends(name, "ss") || ends(name, "sd") || is_one(name, "vmovd vmovq vpinsrd vpinsrq vpextrd vpextrq");
    if (!strstr(operands, "%zmm") && !scalar && (strstr(operands, "%xmm") || strstr(operands, "%ymm")))
        needs |= KT_CPU_AVX512VL;
    if (needs_bw(name))
        needs |= KT_CPU_AVX512BW;
    if (needs_dq(name))
        needs |= KT_CPU_AVX512DQ;
    return needs;
}

static uint64_t classify_vex(const char *name, const char *operands)
{
    bool wide = strstr(operands, "%ymm") != NULL;
    if (starts_with_one(name, "vfm vfnm"))
        return KT_CPU_FMA;
    if (is_one(name, "vcvtph2ps vcvtps2ph"))
        return KT_CPU_F16C;
    if (is_one(name, "vpermilps vpermilpd vperm2f128 vptest"))
        return KT_CPU_AVX;
    if (is_one(name,
               "vextracti128 vinserti128 vperm2i128 vbroadcasti128 vpermd vpermq vpermps vpermpd vpblendd") ||
        starts_with_one(name, "vpbroadcast vpsllv vpsrlv vpsrav vpmaskmov vpgather vgather"))
        return KT_CPU_AVX2;
    if (wide && (starts(name, "vp") || is_one(name, "vmovntdqa vmpsadbw")))
        return KT_CPU_AVX2;
    return KT_CPU_AVX;
}

static uint64_t classify_vector(const char *prefix, const char *name, const char *operands)
{
    bool vex = strcmp(prefix, "{vex}") == 0;
    bool evex = strcmp(prefix, "{evex}") == 0 || strstr(operands, "%zmm") || strstr(operands, "{%k") ||
                strstr(operands, "%k") || strstr(operands, "{1to") || strstr(operands, "-sae}") ||
                has_high_register(operands);
    if (starts(name, "vpdpbusd") || starts(name, "vpdpwssd"))
        return vex ? KT_CPU_AVX_VNNI : KT_CPU_AVX512_VNNI;
    if (strstr(name, "bf16"))
        return KT_CPU_AVX512_BF16;
    if (is_one(name, "vpermb vpermi2b vpermt2b vpmultishiftqb"))
        return KT_CPU_AVX512_VBMI;
    if ((ends(name, "ph") && strcmp(name, "vcvtps2ph") != 0) || ends(name, "sh") || ends(name, "phx"))
        return KT_CPU_AVX512_FP16;
    return evex ? classify_evex(name, operands) : classify_vex(name, operands);
}
static uint64_t classify_amx(const char *name)
{
    if (starts(name, "tdpbf16") || starts(name, "tdpfp16"))
        return KT_CPU_AMX_TILE | KT_CPU_AMX_BF16;
    return starts(name, "tdpb") ? KT_CPU_AMX_TILE | KT_CPU_AMX_INT8 : KT_CPU_AMX_TILE;
}

/* Extensions after SSE2 without a KT_CPU_ bit: every CPU with AVX has the first ones, with AVX2 the others.
 */
static uint64_t classify_old(const char *name)
{
    if (is_one(
            name,
            "pshufb palignr pmulhrsw pmaddubsw pmulld ptest pcmpeqq pcmpgtq packusdw insertps extractps dpps "
            "dppd movntdqa movddup movshdup movsldup lddqu popcnt crc32 pminsb pminuw pminud pminsd pmaxsb "
            "pmaxuw pmaxud pmaxsd pextrb pextrd pextrq pinsrb pinsrd pinsrq") ||
        starts_with_one(name,
                        "phadd phsub hadd hsub addsub pabs psign pblend blend pmovzx pmovsx round mpsadbw"))
        return KT_CPU_AVX;
    if (is_one(name, "andn bextr blsi blsr blsmsk bzhi mulx pdep pext rorx sarx shlx shrx lzcnt movbe"))
        return KT_CPU_AVX2;
    return 0;
}

/* ---- aarch64 ------------------------------------------------------------------------------------------ */

static bool has_scalable_register(const char *operands)
{
    for (const char *at = operands; *at; at++)
        if (*at == 'z' && at[1] >= '0' && at[1] <= '9' && (at == operands || strchr(" {[,", at[-1])))
            return true;
    return false;
}

static uint64_t classify_arm(const char *name, const char *operands)
{
    uint64_t needs = has_scalable_register(operands) ? KT_CPU_SVE : 0;
    if (starts(name, "bf"))
        return is_one(name, "bfdot bfmmla bfcvt bfcvtn bfcvtn2 bfmlalb bfmlalt") ? needs | KT_CPU_ARM_BF16
                                                                                 : needs;
    if (is_one(name, "smmla ummla usmmla usdot sudot"))
        return needs | KT_CPU_I8MM;
    if (is_one(name, "sdot udot") && !needs)
        return KT_CPU_DOTPROD;
    return needs;
}

uint64_t plugin_isa_needs(const char *prefix, const char *name, const char *operands)
{
    if (is_arm)
        return classify_arm(name, operands);
    if (starts_with_one(name, "tdp tile ldtilecfg sttilecfg"))
        return classify_amx(name);
    if (name[0] == 'v')
        return classify_vector(prefix, name, operands);
    if (name[0] == 'k' && strstr(operands, "%k"))
        return ends(name, "d") || ends(name, "q") ? KT_CPU_AVX512F | KT_CPU_AVX512BW
               : ends(name, "b")                  ? KT_CPU_AVX512F | KT_CPU_AVX512DQ
                                                  : KT_CPU_AVX512F;
    return classify_old(name);
}
