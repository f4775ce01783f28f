/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isa.h - what each file bench_ISA.c provides: ways to read memory with the widest loads of the
 * instruction set, and a loop for each multiply instruction. Each file is compiled with flags of its own,
 * and its table says which CPU features a caller must check first.
 */
#ifndef KT_TOOL_BENCH_ISA_H
#define KT_TOOL_BENCH_ISA_H

#include <kt/plugin.h>
#include <stddef.h>
#include <stdint.h>

/* Reads `streams` sequential streams in turn, 128 bytes each: stream s begins at data + s * stride and is
 * `size` bytes long, a multiple of 128. Returning the sum keeps the compiler from dropping the loads. */
struct bench_read {
    unsigned streams;
    unsigned ahead; /* prefetch distance into L2 in bytes, 0: none */
    uint64_t (*run)(const unsigned char *data, size_t stride, size_t size);
};

/* A loop of one multiply instruction on registers, with enough independent accumulators. */
struct bench_peak {
    const char *instruction; /* its names in struct kt_level: "mulss scalar" */
    const char *form;        /* "zmm", "tile": for people */
    uint64_t cpu;            /* KT_CPU_ bits that it needs */
    unsigned bits;           /* of a register; 0 for tiles */
    uint64_t operations;     /* of one round, a multiply-add counts as two */
    void (*run)(uint64_t rounds);
};

struct bench_isa {
    uint64_t cpu;  /* KT_CPU_ bits that the reads need */
    unsigned bits; /* width of their loads */
    const struct bench_read *reads;
    size_t n_reads;
    const struct bench_peak *peaks;
    size_t n_peaks;
};

extern const struct bench_isa bench_isa_base;
extern const struct bench_isa bench_isa_avx2;
extern const struct bench_isa bench_isa_avx_vnni;
extern const struct bench_isa bench_isa_avx512;
extern const struct bench_isa bench_isa_amx;
extern const struct bench_isa bench_isa_dotprod;
extern const struct bench_isa bench_isa_i8mm;
extern const struct bench_isa bench_isa_sve;
extern const struct bench_isa bench_isa_arm_bf16;

#endif
