/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what the files of `kt bench` share. */
#ifndef KT_TOOL_BENCH_H
#define KT_TOOL_BENCH_H

#include "tools/kt/bench_isa.h"
#include "tools/kt/cli.h"
#include "tools/kt/trace.h"

#include <kt/kt.h>

/* ---- bench_random.c: numbers that are the same on every machine --------------------------------
 */

struct bench_random {
    uint64_t state[4];
};
void bench_random_seed(struct bench_random *random, uint64_t seed);
uint64_t bench_random_next(struct bench_random *random);
/* Uniform in 0 .. bound - 1. */
uint32_t bench_random_below(struct bench_random *random, uint32_t bound);
/* Mean 0, variance 1. */
float bench_random_gauss(struct bench_random *random);
uint16_t bench_bf16(float value);
uint16_t bench_f16(float value);

/* ---- bench_limits.c: what the machine could do -------------------------------------------------
 */

/* A buffer that the context's threads read, each its own part, which it touched first. */
struct bench_buffer {
    unsigned char *data;
    size_t size;
    bool touched;
};
enum kt_status bench_buffer_create(struct bench_buffer *buffer, uint64_t size, struct kt_error *error);
void bench_buffer_destroy(struct bench_buffer *buffer);

/* The best that was seen of a limit, and how: "2 streams, prefetch 512 bytes, 256-bit loads". */
struct bench_limit {
    double rate; /* bytes or operations per nanosecond, so GB/s; 0: not measured */
    char way[64];
};

#define BENCH_MAX_WAYS 16

/* Measures every way of reading, `passes` times each; raises limits[way] and sets its text. */
enum kt_status bench_measure_reads(struct kt_context *context, struct bench_buffer *buffer, unsigned passes,
                                   struct bench_limit *limits, size_t *n_limits, struct kt_error *error);

/* The loops of `instruction` that this CPU has and the level may use; NULL: of any instruction. */
size_t bench_find_peaks(uint64_t cpu, const char *level, const char *instruction,
                        const struct bench_peak **peaks, size_t max);

/* Raises the limit if this loop runs faster than it says. */
enum kt_status bench_measure_peak(struct kt_context *context, const struct bench_peak *peak,
                                  struct bench_limit *limit, struct kt_error *error);

double bench_now(void); /* nanoseconds */

/* ---- bench_memory.c ----------------------------------------------------------------------------
 */

/* Bytes that may be had now: MemAvailable and the limits of control groups. 0: unknown. */
uint64_t bench_memory_available(void);
/* What the control groups that `membership` lists leave, by the files below `root`; UINT64_MAX: no
 * limit. */
uint64_t bench_group_memory(const char *membership, const char *root);
/* Bytes of the last-level cache; 0: unknown. */
uint64_t bench_cache_size(void);

/* ---- bench_source.c, bench_blocks.c: weights out of random numbers ----------------------------
 */

struct bench_source_type {
    const char *name;
    uint32_t dtype;
    uint32_t scale_dtype; /* KT_DTYPE_NONE: none beside the matrix */
    uint32_t zero_dtype;
    uint32_t group_rows, group_cols; /* group_cols 0: all columns */
    bool turned;                     /* blocks lie column by column, and so do scales */
};

/* NULL: no such source type. */
const struct bench_source_type *bench_source_find(const char *name);
/* The one for a backend that says it takes these formats ("bf16 f16 q4_k ..."): q4_k, else bf16, else the
 * first that can be made here, else bf16. */
const struct bench_source_type *bench_source_usual(const char *formats);
/* "f32 bf16 q4_k ...", static. */
const char *bench_source_names(void);

struct bench_source {
    const struct bench_source_type *type;
    uint64_t hidden_size, intermediate_size;
    uint32_t n_distinct;       /* experts that differ; expert i holds set i % n_distinct */
    struct kt_expert *experts; /* n_experts of them */
    uint32_t n_experts;
    void **memory; /* of each matrix and of its scales */
    size_t n_memory;
};
enum kt_status bench_source_create(const struct bench_source_type *type, uint64_t hidden_size,
                                   uint64_t intermediate_size, uint32_t n_experts,
                                   struct bench_source *source, struct kt_error *error);
void bench_source_destroy(struct bench_source *source);
/* Bytes that bench_source_create takes; 0: they overflow, or columns do not fall on whole blocks.
 */
uint64_t bench_source_size(const struct bench_source_type *type, uint64_t hidden_size,
                           uint64_t intermediate_size, uint32_t n_experts, uint32_t *n_distinct);

/* Fills `n_blocks` blocks with weights of about the deviation sigma; `samples` are 65536 Gaussian
 * numbers. False: the format has no blocks that this file knows. */
bool bench_blocks_fill(uint32_t dtype, struct bench_random *random, float sigma, uint64_t n_blocks,
                       const float *samples, unsigned char *out);
bool bench_blocks_known(uint32_t dtype);

/* ---- bench_scales.c: numbers that stand for nothing without the scales beside them ---------------
 */

/* Formats of 8 and 4 bits: f8_e4m3, f4_e2m1, int4. */
bool bench_has_codes(uint32_t dtype);
uint32_t bench_code(uint32_t dtype, float value);
/* The deviation of the numbers, where that of the weights is to be sigma. */
float bench_code_step(const struct bench_source_type *type, float sigma);
/* Fills n scales for numbers of that deviation. */
void bench_scales_fill(const struct bench_source_type *type, struct bench_random *random, float sigma,
                       uint64_t n, unsigned char *out);
void bench_zeros_fill(struct bench_random *random, uint64_t n, unsigned char *out);

/* ---- bench_route.c: which experts a token takes ------------------------------------------------
 */

/* Draws experts uniformly, then gives the least recently used ones of the copy to what was drawn,
 * so that no expert comes back before all others were read. */
struct bench_route {
    struct bench_random random;
    uint32_t n_experts, top_k, n_copies;
    uint64_t n_calls;
    uint32_t *order;    /* [n_copies][n_experts]: a shuffled ring for each copy */
    uint32_t *head;     /* [n_copies]: the least recently used place of the ring */
    uint32_t *drawn;    /* [n_experts]: a permutation to draw from */
    uint32_t n_labels;  /* what is drawn is below: n_experts; of a trace, its ids */
    uint32_t *physical; /* [n_labels]: what a drawn expert stands for in this call */
};
void bench_route_create(const struct kt_cli *cli, struct bench_route *route, uint32_t n_experts,
                        uint32_t top_k, uint32_t n_copies);
void bench_route_destroy(struct bench_route *route);
/* Fills ids and weights [n_tokens][top_k]; returns how many experts they touch. */
uint32_t bench_route_next(struct bench_route *route, uint32_t n_tokens, int64_t *ids, float *weights,
                          uint32_t *copy);
/* Before bench_route_replay: its labels are below n_labels. */
void bench_route_widen(const struct kt_cli *cli, struct bench_route *route, uint32_t n_labels);
/* The same with n given ids for drawn ones; negative ones stay. They may name at most n_experts. */
uint32_t bench_route_replay(struct bench_route *route, const int64_t *labels, uint64_t n, int64_t *ids,
                            uint32_t *copy);

/* ---- bench_trace.c: recorded batches -----------------------------------------------------------
 */

struct bench_batch {
    const struct kt_trace *layer;
    uint64_t first; /* its first token in the layer */
    uint32_t n_tokens;
};

struct bench_trace {
    struct kt_trace *layers;
    size_t n_layers;
    struct bench_batch *batches; /* in the order in which a model goes through them */
    size_t n_batches;
    uint32_t top_k;       /* of the widest layer */
    uint32_t n_labels;    /* ids are below */
    bool has_input;       /* hidden states */
    uint64_t hidden_size; /* of them */
};

void bench_trace_close(struct bench_trace *trace);

/* ---- bench_set.c: copies of the layer ----------------------------------------------------------
 */

struct bench_shape {
    const char *name;
    uint64_t hidden_size, intermediate_size;
    uint32_t n_experts, top_k;
    uint32_t model_experts; /* of the real model */
};

/* bench_shape.c: the shape of a name, or of "H,I,E,K"; returns an exit code. */
int bench_shape_choose(const struct kt_cli *cli, const char *text, struct bench_shape *shape);

/* bench_trace.c: reads all layers of the trace. `sizes` are the n sizes of batches that are wished; if n is 0
 * it becomes all that there are, at most max. The shape must fit, and gets the trace's experts of a token.
 * Returns an exit code. */
int bench_trace_choose(struct kt_cli *cli, const char *path, struct bench_trace *trace,
                       struct bench_shape *shape, uint64_t *sizes, size_t max, size_t *n);
/* Has the layer, as it fitted into memory, experts for each batch? Returns an exit code. */
int bench_trace_fit(const struct kt_cli *cli, const struct bench_trace *trace, const uint64_t *sizes,
                    size_t n_sizes, uint32_t n_experts);

/* Copies of a layer that are used in turn. */
struct bench_set {
    struct kt_layer **layers;
    uint32_t n_copies;
    uint32_t n_experts;
    uint32_t top_k;
    uint64_t hidden_size;
    uint64_t packed_size;  /* of one copy */
    uint64_t nominal_size; /* of one expert */
    double load_rate;      /* bytes of source per nanosecond, of the copy that was loaded fastest */
    const char *backend, *level, *instruction;
};

struct bench_want {
    const char *backend;
    const struct bench_shape *shape;
    const struct bench_source *source;
    uint64_t cycle_size; /* bytes of weights to cycle over; 0: enough for this machine's caches */
    uint32_t max_tokens;
};

enum { BENCH_REFUSED = -1 };

/* Makes and packs as many copies as `want` asks and memory allows, and says what it cut. Returns an
 * exit code, or BENCH_REFUSED after a message: the backend cannot take such weights. */
int bench_set_create(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                     struct bench_set *set);
void bench_set_destroy(struct bench_set *set);
/* Bytes that make sure that weights come from memory. */
uint64_t bench_cycle_size(void);

/* ---- bench_levels.c ----------------------------------------------------------------------------
 */

/* Calls run(data, context) for each level of the backend that this CPU can run, best first, with a context
 * in which the backend takes it; says why of the others. The first failure ends it. */
int bench_each_level(struct kt_cli *cli, const struct kt_context *context, const char *backend,
                     int (*run)(void *data, struct kt_context *context), void *data);

/* ---- bench_calls.c: what the layer is called with ----------------------------------------------
 */

struct bench_calls {
    const struct bench_trace *trace; /* NULL: calls are drawn */
    struct bench_route route;
    uint64_t next;             /* batch of the trace */
    struct kt_forward forward; /* of the call; its output is for the user to set */
    uint32_t n_touched;        /* experts of the call */
    uint64_t n_rows;           /* of all of them */
    int64_t *ids;
    float *weights;  /* NULL: those of the trace */
    uint16_t *input; /* likewise */
};
void bench_calls_create(const struct kt_cli *cli, const struct bench_set *set,
                        const struct bench_trace *trace, uint32_t n_copies, uint32_t n_tokens,
                        struct bench_calls *calls);
void bench_calls_destroy(struct bench_calls *calls);
/* Makes the next call; returns the copy that is to take it. */
uint32_t bench_calls_next(struct bench_calls *calls);

/* ---- bench_time.c: the layer, timed ------------------------------------------------------------
 */

struct bench_schedule {
    uint64_t repeats; /* calls of a run; 0: as many as min_time takes */
    uint64_t runs;
    double min_time; /* seconds of a run */
};

/* What the timing of one batch size gave. */
struct bench_result {
    double median;      /* nanoseconds of a call, in the run with the smallest median */
    double best, worst; /* of all calls */
    uint64_t repeats;   /* calls of all runs */
    double experts;     /* touched by a call, on average */
    double rows;        /* multiplied by a call, on average: one an expert of a token */
};

/* `trace` NULL: calls are drawn. */
int bench_set_time(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                   uint32_t n_threads, const struct bench_schedule *schedule, uint32_t n_tokens,
                   struct bench_result *result);

/* The inputs of n_tokens tokens: Gaussian numbers as bf16. */
void bench_inputs(uint64_t n_tokens, uint64_t hidden_size, uint16_t *out);

/* ---- bench_roofline.c: what a set of layers could do at best ------------------------------------
 */

struct bench_roofline {
    struct bench_buffer buffer;
    struct bench_limit reads[BENCH_MAX_WAYS], read, peak;
    size_t n_reads;
    const struct bench_peak *loops[BENCH_MAX_WAYS];
    size_t n_loops;
};

/* Finds the loops of the level's instruction, or warns that there are none, and makes the buffer, which
 * bench_buffer_destroy frees. */
enum kt_status bench_roofline_create(struct kt_cli *cli, uint64_t cpu, const struct bench_set *set,
                                     struct bench_roofline *roofline, struct kt_error *error);
/* Once before and once after the layer: a shared machine drifts, and the best counts. */
enum kt_status bench_roofline_measure(struct kt_context *context, struct bench_roofline *roofline,
                                      struct kt_error *error);
/* Nanoseconds that the limits allow for so many bytes and operations. */
double bench_roofline_time(const struct bench_roofline *roofline, double weight_bytes, double operations);

/* ---- bench_error.c -----------------------------------------------------------------------------
 */

/* Runs `n_tokens` through the first copy with float32 output, and compares a few of them with
 * float64 arithmetic on the weights that the kernel uses and on the source. */
int bench_errors(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                 const struct bench_source *source, uint32_t n_tokens, double *kernel_error,
                 double *total_error);

/* ---- bench_dispatch.c --------------------------------------------------------------------------
 */

/* `kt bench --dispatch`, `kt bench --latency` and `kt bench --limits`; return exit codes. */
int bench_dispatch(struct kt_cli *cli);
int bench_latency(struct kt_cli *cli);
int bench_limits(struct kt_cli *cli, uint64_t size);

#endif
