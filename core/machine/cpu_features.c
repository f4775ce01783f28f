/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/cpu_features.h"

#if defined __x86_64__

#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits of cpuid as Intel's Software Developer's Manual, volume 2A, names them. */
enum { ECX = 2, EDX = 3, EBX = 1, EAX = 0 };

/* State components of XCR0 (volume 1, chapter 13). */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6, XCR0_AMX = 0x60000 };

struct feature {
    unsigned leaf, subleaf, reg, bit;
    unsigned xcr0;
    uint64_t feature;
};

static const struct feature table[] = {
    {1, 0, ECX, 28, XCR0_AVX, KT_CPU_AVX},
    {1, 0, ECX, 12, XCR0_AVX, KT_CPU_FMA},
    {1, 0, ECX, 29, XCR0_AVX, KT_CPU_F16C},
    {7, 0, EBX, 5, XCR0_AVX, KT_CPU_AVX2},
    {7, 1, EAX, 4, XCR0_AVX, KT_CPU_AVX_VNNI},
    {7, 0, EBX, 16, XCR0_AVX512, KT_CPU_AVX512F},
    {7, 0, EBX, 30, XCR0_AVX512, KT_CPU_AVX512BW},
    {7, 0, EBX, 31, XCR0_AVX512, KT_CPU_AVX512VL},
    {7, 0, EBX, 17, XCR0_AVX512, KT_CPU_AVX512DQ},
    {7, 0, ECX, 11, XCR0_AVX512, KT_CPU_AVX512_VNNI},
    {7, 0, ECX, 1, XCR0_AVX512, KT_CPU_AVX512_VBMI},
    {7, 1, EAX, 5, XCR0_AVX512, KT_CPU_AVX512_BF16},
    {7, 0, EDX, 23, XCR0_AVX512, KT_CPU_AVX512_FP16},
    {7, 0, EDX, 24, XCR0_AMX, KT_CPU_AMX_TILE},
    {7, 0, EDX, 25, XCR0_AMX, KT_CPU_AMX_INT8},
    {7, 0, EDX, 22, XCR0_AMX, KT_CPU_AMX_BF16},
};

static unsigned read_xcr0(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Zeros for a leaf that the CPU does not have: cpuid itself would return the data of the last one. */
static unsigned read_register(const struct feature *feature)
{
    unsigned reg[4];
    if (!__get_cpuid_count(feature->leaf, 0, &reg[EAX], &reg[EBX], &reg[ECX], &reg[EDX]))
        return 0;
    if (feature->subleaf > 0) {
        if (reg[EAX] < feature->subleaf)
            return 0;
        __cpuid_count(feature->leaf, feature->subleaf, reg[EAX], reg[EBX], reg[ECX], reg[EDX]);
    }
    return reg[feature->reg];
}

uint64_t kt_cpu_hardware(void)
{
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0)
        return 0; /* without OSXSAVE xgetbv is an illegal instruction, and no AVX state is saved */
    unsigned xcr0 = read_xcr0();
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((xcr0 & table[i].xcr0) == table[i].xcr0 && (read_register(&table[i]) >> table[i].bit & 1) != 0)
            bits |= table[i].feature;
    }
    /* Extensions are of no use without the base of their kind. */
    if ((bits & KT_CPU_AVX512F) == 0)
        bits &= ~(KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ | KT_CPU_AVX512_VNNI |
                  KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16 | KT_CPU_AVX512_FP16);
    if ((bits & KT_CPU_AMX_TILE) == 0)
        bits &= ~(KT_CPU_AMX_INT8 | KT_CPU_AMX_BF16);
    return bits;
}

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static bool permitted;

static void ask(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 }; /* <asm/prctl.h>, newer kernels */
    permitted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool kt_cpu_amx_permitted(void)
{
    (void)pthread_once(&asked, ask);
    return permitted;
}

#elif defined __aarch64__

#include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2 as Documentation/arm64/elf_hwcaps of Linux numbers them. */
uint64_t kt_cpu_hardware(void)
{
    static const struct {
        unsigned long type;
        unsigned bit;
        uint64_t feature;
    } table[] = {
        {AT_HWCAP, 1, KT_CPU_NEON},       {AT_HWCAP, 20, KT_CPU_DOTPROD}, {AT_HWCAP2, 13, KT_CPU_I8MM},
        {AT_HWCAP2, 14, KT_CPU_ARM_BF16}, {AT_HWCAP, 22, KT_CPU_SVE},     {AT_HWCAP2, 1, KT_CPU_SVE2},
    };
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((getauxval(table[i].type) >> table[i].bit & 1) != 0)
            bits |= table[i].feature;
    }
    return bits;
}

bool kt_cpu_amx_permitted(void)
{
    return false;
}

#else

uint64_t kt_cpu_hardware(void)
{
    return 0;
}

bool kt_cpu_amx_permitted(void)
{
    return false;
}

#endif
