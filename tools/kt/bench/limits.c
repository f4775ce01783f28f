/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - read bandwidth and instruction peaks, on the threads that will run the layer. */
#include "plugins/common/simd/sve_length.h"
#include "tools/kt/bench/bench.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static enum kt_status fail(struct kt_error *error, enum kt_status status, const char *text)
{
    error->status = status;
    snprintf(error->message, sizeof error->message, "%s", text);
    return status;
}

/* ---- instruction sets ---- */

static const struct bench_isa *const instruction_sets[] = {
    &bench_isa_base,
#ifdef BENCH_AVX2
    &bench_isa_avx2,
#endif
#ifdef BENCH_AVX_VNNI
    &bench_isa_avx_vnni,
#endif
#ifdef BENCH_AVX512
    &bench_isa_avx512,
#endif
#ifdef BENCH_AMX
    &bench_isa_amx,
#endif
#ifdef BENCH_DOTPROD
    &bench_isa_dotprod,
#endif
#ifdef BENCH_I8MM
    &bench_isa_i8mm,
#endif
#ifdef BENCH_SVE
    &bench_isa_sve,
#endif
#ifdef BENCH_ARM_BF16
    &bench_isa_arm_bf16,
#endif
};
/* The instruction that __builtin_prefetch(address, 0, 2) in read.h becomes. */
#if defined __aarch64__
#define PREFETCH "pldl2keep"
#else
#define PREFETCH "prefetcht1"
#endif
#define N_INSTRUCTION_SETS (sizeof instruction_sets / sizeof *instruction_sets)

/* The set with the widest loads that the CPU can run. */
static const struct bench_isa *widest_loads(uint64_t cpu)
{
    const struct bench_isa *best = &bench_isa_base;
    for (size_t i = 0; i < N_INSTRUCTION_SETS; i++) {
        const struct bench_isa *isa = instruction_sets[i];
        if (isa->n_reads != 0 && (cpu & isa->cpu) == isa->cpu && isa->bits > best->bits)
            best = isa;
    }
    return best;
}

static bool has_name(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; length != 0 && (at = strstr(at, name)) != NULL; at++)
        if ((at == names || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
            return true;
    return false;
}

size_t bench_find_peaks(uint64_t cpu, const char *level, const char *instruction,
                        const struct bench_peak **peaks, size_t max)
{
    /* A level below AVX-512 cannot use the wide registers of a CPU that has them. */
    bool short_vectors = level != NULL && (strcmp(level, "avx2") == 0 || strcmp(level, "avx_vnni") == 0);
    unsigned widest = short_vectors ? 256 : 512;
    size_t n = 0;
    for (size_t i = 0; i < N_INSTRUCTION_SETS; i++) {
        const struct bench_isa *isa = instruction_sets[i];
        for (size_t p = 0; p < isa->n_peaks && n < max; p++) {
            const struct bench_peak *peak = &isa->peaks[p];
            if ((cpu & peak->cpu) != peak->cpu || peak->bits > widest)
                continue;
            if ((peak->cpu & KT_CPU_SVE) && peak->bits != read_sve_bits())
                continue; /* SVE's registers are as long as the kernel says */
            if (instruction == NULL || has_name(peak->instruction, instruction))
                peaks[n++] = peak;
        }
    }
    return n;
}

/* ---- threads that start together ---- */

struct team {
    atomic_uint arrived;
    atomic_uint phase;
};

static void pause_briefly(unsigned turn)
{
    if (turn % 4096 == 4095)
        sched_yield(); /* there may be more threads than cores */
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static void meet(struct team *team, uint32_t n_threads)
{
    unsigned phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == n_threads) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
        return;
    }
    for (unsigned turn = 0; atomic_load_explicit(&team->phase, memory_order_acquire) == phase; turn++)
        pause_briefly(turn);
}

/* ---- reading ---- */

#define HUGE_PAGE ((size_t)2 << 20)

enum kt_status bench_buffer_create(struct bench_buffer *buffer, uint64_t size, struct kt_error *error)
{
    if (size < HUGE_PAGE || size > SIZE_MAX / 2)
        return fail(error, KT_E_INVALID, "a buffer to read needs at least 2 MiB");
    size_t rounded = ((size_t)size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    unsigned char *raw =
        mmap(NULL, rounded + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        error->status = KT_E_NOMEM;
        snprintf(error->message, sizeof error->message,
                 "no %zu bytes for the buffer that measures the read bandwidth: %s", rounded,
                 strerror(errno));
        return KT_E_NOMEM;
    }
    /* Unmap the memory before and after the aligned part. */
    size_t before = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (before != 0)
        munmap(raw, before);
    munmap(raw + before + rounded, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(raw + before, rounded, MADV_HUGEPAGE);
#endif
    *buffer = (struct bench_buffer){.data = raw + before, .size = rounded};
    return KT_OK;
}

void bench_buffer_destroy(struct bench_buffer *buffer)
{
    if (buffer->data != NULL)
        munmap(buffer->data, buffer->size);
    *buffer = (struct bench_buffer){0};
}

/*
 * A thread reads its part of the buffer in segments that take about as long as a call of a layer. The
 * result of a pass is its median segment, as that of a run is its median call, so disturbances affect both
 * alike.
 */
#define SEGMENT ((size_t)16 << 20)

struct reading {
    struct team team;
    const struct bench_isa *isa;
    struct bench_buffer *buffer;
    unsigned passes;
    size_t segment, n_segments; /* of each thread */
    double *times;              /* [n_segments], of the first thread */
    double rate[BENCH_MAX_WAYS];
    _Atomic uint64_t sum; /* never read; keeps the compiler from dropping the loads */
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bytes of a stream. A little less than a whole number of pages, so that the streams do not all
 * fall into the same sets of the caches. */
static size_t stream_size(size_t segment, unsigned streams)
{
    size_t size = segment / streams & ~(size_t)4095;
    return size > 8192 ? size - 128 * 5 : size;
}

static void read_on_thread(void *data, uint32_t thread, uint32_t n_threads)
{
    struct reading *reading = data;
    size_t slice = reading->segment * reading->n_segments;
    unsigned char *own = reading->buffer->data + slice * thread;
    uint64_t sum = 0;
    if (!reading->buffer->touched)
        memset(own, (int)(thread + 1), slice);
    for (size_t i = 0; i < reading->passes * reading->isa->n_reads; i++) {
        size_t way = i % reading->isa->n_reads;
        const struct bench_read *read = &reading->isa->reads[way];
        size_t size = stream_size(reading->segment, read->streams);
        for (size_t part = 0; part < reading->n_segments; part++) {
            meet(&reading->team, n_threads);
            double begin = bench_now();
            sum += read->run(own + part * reading->segment, size, size);
            meet(&reading->team, n_threads);
            if (thread == 0)
                reading->times[part] = bench_now() - begin;
        }
        if (thread != 0)
            continue;
        qsort(reading->times, reading->n_segments, sizeof *reading->times, compare);
        double rate = (double)size * read->streams * n_threads / reading->times[reading->n_segments / 2];
        if (rate > reading->rate[way])
            reading->rate[way] = rate;
    }
    atomic_fetch_add(&reading->sum, sum);
}

/* Splits the threads' parts into equal segments. False: too few bytes for each. */
static bool cut_segments(struct reading *reading, uint32_t n_threads)
{
    size_t slice = reading->buffer->size / n_threads;
    reading->n_segments = slice / SEGMENT > 1 ? slice / SEGMENT : 1;
    reading->segment = slice / reading->n_segments & ~(size_t)4095;
    return reading->segment >= 8 * 4096;
}

enum kt_status bench_measure_reads(struct kt_context *context, struct bench_buffer *buffer, unsigned passes,
                                   struct bench_limit *limits, size_t *n_limits, struct kt_error *error)
{
    struct kt_context_info info;
    kt_context_info(context, &info);
    struct reading reading = {.isa = widest_loads(info.cpu), .buffer = buffer, .passes = passes};
    if (!cut_segments(&reading, info.n_threads))
        return fail(error, KT_E_INVALID, "the buffer to read is too small for so many threads");
    reading.times = malloc(reading.n_segments * sizeof *reading.times);
    if (reading.times == NULL)
        return fail(error, KT_E_NOMEM, "no memory for the times of reading");
    enum kt_status status = kt_context_run(context, read_on_thread, &reading, error);
    free(reading.times);
    if (status != KT_OK)
        return status;
    buffer->touched = true;
    for (size_t way = 0; way < reading.isa->n_reads; way++) {
        const struct bench_read *read = &reading.isa->reads[way];
        struct bench_limit *limit = &limits[way];
        if (reading.rate[way] > limit->rate)
            limit->rate = reading.rate[way];
        char ahead[32] = "no prefetch";
        if (read->ahead != 0)
            snprintf(ahead, sizeof ahead, PREFETCH " %u", read->ahead);
        snprintf(limit->way, sizeof limit->way, "%u stream%s, %s, %u-bit", read->streams,
                 read->streams == 1 ? "" : "s", ahead, reading.isa->bits);
    }
    *n_limits = reading.isa->n_reads;
    return KT_OK;
}

/* ---- multiplying ---- */

#define N_SLICES 12

struct multiplying {
    struct team team;
    const struct bench_peak *peak;
    double slice_ns;
    uint64_t rounds;
    double rate;
};

static void multiply_on_thread(void *data, uint32_t thread, uint32_t n_threads)
{
    struct multiplying *work = data;
    if (thread == 0) {
        /* This also lets the core settle on its clock for such instructions. */
        double time = 0;
        for (work->rounds = 1024; time < work->slice_ns / 2 && work->rounds < UINT64_MAX / 4;) {
            work->rounds *= 2;
            double begin = bench_now();
            work->peak->run(work->rounds);
            time = bench_now() - begin;
        }
    }
    meet(&work->team, n_threads);
    for (unsigned slice = 0; slice < N_SLICES; slice++) {
        meet(&work->team, n_threads);
        double begin = bench_now();
        work->peak->run(work->rounds);
        meet(&work->team, n_threads);
        double time = bench_now() - begin;
        double rate = (double)work->rounds * (double)work->peak->operations * n_threads / time;
        if (thread == 0 && rate > work->rate)
            work->rate = rate;
    }
}

enum kt_status bench_measure_peak(struct kt_context *context, const struct bench_peak *peak, double slice_ns,
                                  struct bench_limit *limit, struct kt_error *error)
{
    struct multiplying work = {.peak = peak, .slice_ns = slice_ns};
    enum kt_status status = kt_context_run(context, multiply_on_thread, &work, error);
    if (status != KT_OK || work.rate <= limit->rate)
        return status;
    limit->rate = work.rate;
    snprintf(limit->way, sizeof limit->way, "%.*s, %s", (int)strcspn(peak->instruction, " "),
             peak->instruction, peak->form);
    return KT_OK;
}
