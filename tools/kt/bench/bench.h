/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what the files of `kt bench` share. */
#ifndef KT_TOOL_BENCH_H
#define KT_TOOL_BENCH_H

#include "tools/kt/bench/isa.h"
#include "tools/kt/base/cli.h"
#include "tools/kt/forward/trace.h"

#include <kt/kt.h>

/* ---- random.c: numbers that are the same on every machine ---- */

struct bench_random {
    uint64_t state[4];
};
void bench_random_seed(struct bench_random *random, uint64_t seed);
uint64_t bench_random_next(struct bench_random *random);
/* Uniform in 0 .. bound - 1. */
uint32_t bench_random_below(struct bench_random *random, uint32_t bound);
/* Mean 0, variance 1. */
float bench_random_gauss(struct bench_random *random);

/* ---- limits.c: what the machine could do ---- */

/* A buffer that the context's threads read; each has touched its part first. */
struct bench_buffer {
    unsigned char *data;
    size_t size;
    bool touched;
};
enum kt_status bench_buffer_create(struct bench_buffer *buffer, uint64_t size, struct kt_error *error);
void bench_buffer_destroy(struct bench_buffer *buffer);

/* The best rate measured for a limit, and how it was reached: "2 streams, prefetch 512 bytes, 256-bit
 * loads". */
struct bench_limit {
    double rate; /* bytes or operations per nanosecond, so GB/s; 0: not measured */
    char way[64];
};

#define BENCH_MAX_WAYS 16

/* Measures every way of reading `passes` times; raises limits[way] and sets its text. */
enum kt_status bench_measure_reads(struct kt_context *context, struct bench_buffer *buffer, unsigned passes,
                                   struct bench_limit *limits, size_t *n_limits, struct kt_error *error);

/* Finds the loops of `instruction` (NULL: of any) that this CPU can run and the level may use. */
size_t bench_find_peaks(uint64_t cpu, const char *level, const char *instruction,
                        const struct bench_peak **peaks, size_t max);

#define BENCH_SLICE_NS 10e6 /* long enough for the clock, short enough to fall between disturbances */
/* Raises the limit if this loop runs faster in one of a few slices of this length. */
enum kt_status bench_measure_peak(struct kt_context *context, const struct bench_peak *peak, double slice_ns,
                                  struct bench_limit *limit, struct kt_error *error);

double bench_now(void); /* nanoseconds */

/* ---- memory.c ---- */

/* Bytes of the last-level cache; 0: unknown. */
uint64_t bench_cache_size(void);

/* ---- source.c, blocks.c: weights out of random numbers ---- */

struct bench_source_type {
    const char *name;
    uint32_t dtype;
    uint32_t scale_dtype; /* KT_DTYPE_NONE: none beside the matrix */
    uint32_t zero_dtype;
    uint32_t group_rows, group_cols; /* group_cols 0: all columns */
    bool turned;                     /* blocks and scales are stored column by column */
};

/* NULL: no such source type. */
const struct bench_source_type *bench_source_find(const char *name);
/* The one for a backend that says it takes these formats ("bf16 f16 q4_k ..."): q4_k, else bf16, else the
 * first that can be made here, else bf16. */
const struct bench_source_type *bench_source_usual(const char *formats);
/* "f32 bf16 q4_k ...", static. */
const char *bench_source_names(void);

struct bench_source {
    char name[64];                           /* of the formats */
    const struct bench_source_type *type;    /* NULL: the weights of a checkpoint */
    uint64_t hidden_size, intermediate_size; /* of a matrix its rows and columns */
    uint32_t n_distinct;                     /* distinct sets of weights; expert i has set i % n_distinct */
    struct kt_expert *experts;               /* n_experts of them; a matrix is the down projection of one */
    uint32_t n_experts;
    uint32_t activation; /* enum kt_activation */
    float limit, alpha;
    void **memory; /* of each matrix and of its scales */
    size_t n_memory;
};
/* Experts with this activation (enum kt_activation), whose limit and alpha are those of the models that have
 * it. */
enum kt_status bench_source_create(const struct bench_source_type *type, uint64_t hidden_size,
                                   uint64_t intermediate_size, uint32_t n_experts, uint32_t activation,
                                   struct bench_source *source, struct kt_error *error);
/* The same for one matrix. */
enum kt_status bench_source_matrix(const struct bench_source_type *type, uint64_t rows, uint64_t cols,
                                   struct bench_source *source, struct kt_error *error);
void bench_source_destroy(struct bench_source *source);
/* Bytes that bench_source_create allocates; 0: overflow, or columns are not whole blocks. */
uint64_t bench_source_size(const struct bench_source_type *type, uint64_t hidden_size,
                           uint64_t intermediate_size, uint32_t n_experts, uint32_t activation,
                           uint32_t *n_distinct);

uint64_t bench_source_matrix_size(const struct bench_source_type *type, uint64_t rows, uint64_t cols);

/* Fills `n_blocks` blocks with weights whose deviation is about sigma; `samples` are 65536 Gaussian
 * numbers. False: unknown format. */
bool bench_blocks_fill(uint32_t dtype, struct bench_random *random, float sigma, uint64_t n_blocks,
                       const float *samples, unsigned char *out);

/* ---- scales.c: formats with separate scales ---- */

/* Formats of 8 and 4 bits: f8_e4m3, f4_e2m1, int4. */
bool bench_has_codes(uint32_t dtype);
uint32_t bench_code(uint32_t dtype, float value);
/* The deviation of the quants for weights with the deviation sigma. */
float bench_code_step(const struct bench_source_type *type, float sigma);
/* Fills n scales for quants of that deviation. */
void bench_scales_fill(const struct bench_source_type *type, struct bench_random *random, float sigma,
                       uint64_t n, unsigned char *out);
void bench_zeros_fill(struct bench_random *random, uint64_t n, unsigned char *out);

/* ---- route.c: which experts a token takes ---- */

/* Draws experts uniformly, then replaces those drawn by the least recently used ones of the copy, so that
 * no expert returns before all others were read. */
struct bench_route {
    struct bench_random random;
    uint32_t n_experts, top_k, n_copies;
    uint64_t n_calls;
    uint32_t *order;    /* [n_copies][n_experts]: a shuffled ring for each copy */
    uint32_t *head;     /* [n_copies]: the least recently used place of the ring */
    uint32_t *drawn;    /* [n_experts]: a permutation to draw from */
    uint32_t n_labels;  /* drawn numbers are below this: n_experts, or the ids of a trace */
    uint32_t *physical; /* [n_labels]: the expert that replaces a drawn one in this call */
};
void bench_route_create(const struct kt_cli *cli, struct bench_route *route, uint32_t n_experts,
                        uint32_t top_k, uint32_t n_copies);
void bench_route_destroy(struct bench_route *route);
/* Fills ids and weights [n_tokens][top_k]; returns the number of distinct experts. */
uint32_t bench_route_next(struct bench_route *route, uint32_t n_tokens, int64_t *ids, float *weights,
                          uint32_t *copy);
/* Call before bench_route_replay, whose ids are below n_labels. */
void bench_route_widen(const struct kt_cli *cli, struct bench_route *route, uint32_t n_labels);
/* As bench_route_next for n given ids of at most n_experts experts; negative ids stay. */
uint32_t bench_route_replay(struct bench_route *route, const int64_t *labels, uint64_t n, int64_t *ids,
                            uint32_t *copy);

/* ---- trace.c: recorded batches ---- */

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

/* ---- set.c: copies of the layer ---- */

struct bench_shape {
    const char *name;
    uint64_t hidden_size, intermediate_size;
    uint32_t n_experts, top_k;
    uint32_t model_experts; /* of the real model */
    bool linear;            /* a matrix: hidden_size rows, intermediate_size columns */
};

/* shape.c: the shape of a name, or of "H,I,E,K"; returns an exit code. */
int bench_shape_choose(const struct kt_cli *cli, const char *text, struct bench_shape *shape);
/* The matrices of "4096x2048,2048x4096", at most max; 0 after a message. */
size_t bench_shape_linears(const struct kt_cli *cli, const char *text, struct bench_shape *shapes,
                           size_t max);

/* trace.c: reads all layers of the trace. `sizes` are n requested batch sizes; if n is 0, it is set
 * to all sizes in the trace, at most max. The shape must fit; its top_k is set to the trace's. Returns an
 * exit code. */
int bench_trace_choose(struct kt_cli *cli, const char *path, struct bench_trace *trace,
                       struct bench_shape *shape, uint64_t *sizes, size_t max, size_t *n);
/* Has the layer, after memory limited it, enough experts for each batch? Returns an exit code. */
int bench_trace_fit(const struct kt_cli *cli, const struct bench_trace *trace, const uint64_t *sizes,
                    size_t n_sizes, uint32_t n_experts);

/* Copies of a layer, or of a linear, used in turn. */
struct bench_set {
    struct kt_layer **layers;   /* NULL: linears */
    struct kt_linear **linears; /* NULL: layers */
    uint32_t n_copies;
    uint32_t n_experts;
    uint32_t top_k;
    uint32_t n_matrices;              /* of an expert; 1: linears */
    uint32_t activation;              /* enum kt_activation; that of linears is none */
    uint64_t input_size, output_size; /* numbers of a token */
    uint64_t packed_size;             /* of one copy */
    uint64_t nominal_size;            /* of one expert */
    double load_rate;                 /* bytes of source per nanosecond, for the copy that loaded fastest */
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

/* Makes and packs as many copies as `want` asks for and memory allows, with a message if they are fewer.
 * Returns an exit code, or BENCH_REFUSED after a message: the backend does not take such weights. */
int bench_set_create(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                     struct bench_set *set);
void bench_set_destroy(struct bench_set *set);
/* Runs a copy; of `forward`, a linear uses inputs, outputs and tokens. */
enum kt_status bench_set_forward(const struct bench_set *set, uint32_t copy, const struct kt_forward *forward,
                                 struct kt_error *error);
/* Bytes to cycle over so that weights come from memory. */
uint64_t bench_cycle_size(void);

/* ---- levels.c ---- */

/* Calls run(data, context) for each level of the backend that this CPU can run, best first, with a context
 * in which the backend uses it; `tells` why the others cannot run. Stops at the first failure. */
int bench_each_level(struct kt_cli *cli, const struct kt_context *context, const char *backend, bool tells,
                     int (*run)(void *data, struct kt_context *context), void *data);

/* ---- calls.c: what the layer is called with ---- */

struct bench_calls {
    const struct bench_trace *trace; /* NULL: calls are drawn */
    struct bench_route route;
    uint64_t next;             /* batch of the trace */
    struct kt_forward forward; /* of the call; the caller sets its output */
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
/* Makes the next call; returns the copy to run it on. */
uint32_t bench_calls_next(struct bench_calls *calls);

/* ---- time.c: the layer, timed ---- */

struct bench_schedule {
    uint64_t repeats; /* calls of a run; 0: as many as fit into min_time */
    uint64_t runs;
    double min_time; /* seconds of a run */
};

/* The share of their usual time that warming up and finding peaks take: below 1 for runs below 0.1 s. */
double bench_haste(const struct bench_schedule *schedule);

/* The timing of one batch size. */
struct bench_result {
    double median;      /* nanoseconds of a call, in the run with the smallest median */
    double best, worst; /* of all calls */
    uint64_t repeats;   /* calls of all runs */
    double experts;     /* touched by a call, on average */
    double rows;        /* multiplied by a call, on average: one an expert of a token */
};

/* Says so where there are more threads than CPUs. */
void bench_warn_threads(const struct kt_cli *cli, uint32_t n_threads);

/* `trace` NULL: calls are drawn. */
int bench_set_time(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                   uint32_t n_threads, const struct bench_schedule *schedule, uint32_t n_tokens,
                   struct bench_result *result);

/* The inputs of n_tokens tokens: Gaussian numbers as bf16. */
void bench_inputs(uint64_t n_tokens, uint64_t hidden_size, uint16_t *out);

/* ---- roofline.c: what a set of layers could do at best ---- */

struct bench_roofline {
    struct bench_buffer buffer;
    struct bench_limit reads[BENCH_MAX_WAYS], read, peak;
    size_t n_reads;
    const struct bench_peak *loops[BENCH_MAX_WAYS];
    size_t n_loops;
    double slice_ns;
};

/* Finds the loops of the level's instruction (a warning if there are none) and makes the buffer; free it
 * with bench_buffer_destroy. */
enum kt_status bench_roofline_create(struct kt_cli *cli, uint64_t cpu, const struct bench_set *set,
                                     const struct bench_schedule *schedule, struct bench_roofline *roofline,
                                     struct kt_error *error);
/* Call before and after the layer: a shared machine drifts, and the best value counts. */
enum kt_status bench_roofline_measure(struct kt_context *context, struct bench_roofline *roofline,
                                      struct kt_error *error);
/* The least nanoseconds for these bytes and operations, by the limits. */
double bench_roofline_time(const struct bench_roofline *roofline, double weight_bytes, double operations);

/* ---- error.c ---- */

/* Runs `n_tokens` through the first copy with float32 output, and compares some of them with float64
 * arithmetic: on the weights that the kernel uses, and on the source. */
int bench_errors(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                 const struct bench_source *source, uint32_t n_tokens, double *kernel_error,
                 double *total_error);

/* ---- dispatch.c ---- */

/* `kt bench --dispatch`, `kt bench --latency` (with the seconds of a row) and `kt bench --limits`; return
 * exit codes. */
int bench_dispatch(struct kt_cli *cli);
int bench_latency(struct kt_cli *cli, double min_time);
int bench_limits(struct kt_cli *cli, uint64_t size);

/* ---- attention.c ---- */

#define BENCH_ATTENTION_MOST 64

/* What `kt bench --attention` was asked for: a row for each combination. */
struct bench_attention {
    const char *shapes[BENCH_ATTENTION_MOST];
    const char *caches[BENCH_ATTENTION_MOST]; /* forms: bf16, q8_0, f32 */
    uint64_t contexts[BENCH_ATTENTION_MOST];  /* tokens before those of the call */
    uint64_t sequences[BENCH_ATTENTION_MOST];
    uint64_t tokens[BENCH_ATTENTION_MOST]; /* of each sequence */
    size_t n_shapes, n_caches, n_contexts, n_sequences, n_tokens;
    const char *backend; /* NULL: the one that comes first */
    uint64_t cycle_size;
    struct bench_schedule schedule;
};

/* Returns an exit code. */
int bench_attention(struct kt_cli *cli, const struct bench_attention *what);

/* ---- stream.c ---- */

/* `kt bench --stream`. `library`: a GPU's runtime, or NULL; `seconds`: of a row. Returns an exit code. */
int bench_stream(struct kt_cli *cli, const char *library, double seconds);

#endif
