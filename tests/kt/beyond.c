/* SPDX-License-Identifier: Apache-2.0 */
/* beyond FEATURE: executes one instruction of it. A CPU without it must end this by SIGILL; an emulated one
 * that does not would prove nothing about kernels that it ran. In assembly, because a compiler may make
 * something narrower of intrinsics. */
#include <stdio.h>
#include <string.h>

#if defined __x86_64__
#define ROWS                                                   \
    ROW("avx", "vxorps %%ymm0, %%ymm0, %%ymm0")                \
    ROW("avx2", "vpaddb %%ymm0, %%ymm0, %%ymm0")               \
    ROW("fma", "vfmadd231ps %%ymm0, %%ymm0, %%ymm0")           \
    ROW("avx_vnni", "%{vex%} vpdpbusd %%ymm0, %%ymm0, %%ymm0") \
    ROW("avx512f", "vpaddd %%zmm0, %%zmm0, %%zmm0")            \
    ROW("avx512vl", "vpaddd %%ymm16, %%ymm16, %%ymm16")        \
    ROW("avx512_vnni", "vpdpbusd %%zmm0, %%zmm0, %%zmm0")      \
    ROW("avx512_bf16", "vdpbf16ps %%zmm0, %%zmm0, %%zmm0")     \
    ROW("avx512_vbmi", "vpermb %%zmm0, %%zmm0, %%zmm0")
#define CLOBBERED "xmm0"
#elif defined __aarch64__
#define ROWS                                                               \
    ROW("dotprod", ".arch armv8.2-a+dotprod\n sdot v0.4s, v0.16b, v0.16b") \
    ROW("i8mm", ".arch armv8.2-a+i8mm\n smmla v0.4s, v0.16b, v0.16b")      \
    ROW("arm_bf16", ".arch armv8.2-a+bf16\n bfmmla v0.4s, v0.8h, v0.8h")
#define CLOBBERED "v0"
#else
#define ROWS
#endif

int main(int argc, char **argv)
{
    const char *wanted = argc == 2 ? argv[1] : "";
#define ROW(feature, instruction)                    \
    if (strcmp(wanted, feature) == 0) {              \
        __asm__ volatile(instruction ::: CLOBBERED); \
        return 0;                                    \
    }
    ROWS
#undef ROW
#define ROW(feature, instruction) " " feature
        (void)
    fprintf(stderr, "usage: beyond FEATURE, one of%s\n", "" ROWS);
    return 2;
}
