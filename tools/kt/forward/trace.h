/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - recorded input of MoE layers, and the file that outputs are written to. */
#ifndef KT_TOOL_TRACE_H
#define KT_TOOL_TRACE_H

#include "tools/kt/base/cli.h"

/* The data of one layer in a trace: aligned copies, as a mapped file need not be aligned. */
struct kt_trace {
    uint64_t layer;
    uint32_t n_tokens, top_k;
    uint64_t hidden_size; /* 0 without input */
    uint32_t input_dtype; /* KT_DTYPE_BF16, KT_DTYPE_F16 or KT_DTYPE_F32 */
    void *input;          /* [n_tokens][hidden_size], NULL if the trace holds none */
    int64_t *ids;         /* [n_tokens][top_k] */
    float *weights;       /* [n_tokens][top_k] */
    float *expected;      /* [n_tokens][hidden_size], NULL if the trace holds none */
    uint32_t n_batches;
    uint32_t *batch; /* [n_batches]: tokens of each; a single batch if the trace has none */
};

/* Does the trace hold tensor layers.N.WHAT? */
bool kt_trace_has(const struct kt_checkpoint *file, uint64_t layer, const char *what);

/*
 * Reads layers.N.hidden_states, .topk_ids, .topk_weights and, where they are there, .batch_tokens and
 * .output. With `expected`, .output must be in that file instead. Checks every dtype and shape, and that
 * weights are finite; messages name the tensor. Returns an exit code; `trace` is set on success.
 */
int kt_trace_read(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_checkpoint *expected,
                  uint64_t layer, struct kt_trace *trace);
/* Reads only the routing (ids, weights, batches) and, if present, hidden_states. */
int kt_trace_read_routing(const struct kt_cli *cli, struct kt_checkpoint *file, uint64_t layer,
                          struct kt_trace *trace);
/* The numbers of the layers whose routing the trace has, ascending and allocated; returns how many. */
size_t kt_trace_layers(const struct kt_cli *cli, const struct kt_checkpoint *file, uint64_t **layers);
void kt_trace_free(struct kt_trace *trace);

/*
 * A safetensors file with one F32 tensor layers.N.output a layer. It has a temporary name in the same
 * folder until kt_save_finish.
 */
struct kt_save;
struct kt_save_tensor {
    uint64_t layer, n_tokens, hidden_size;
};
int kt_save_create(const struct kt_cli *cli, const char *path, const struct kt_save_tensor *tensors, size_t n,
                   struct kt_save **save);
/* Writes the data of the next tensor, in the order of kt_save_create. */
int kt_save_write(struct kt_save *save, const float *values, uint64_t n);
/* If code is 0, gives the file its name, else removes it. Frees `save`, which may be NULL. Returns `code`,
 * or 1 after a message. */
int kt_save_finish(struct kt_save *save, int code);

#endif
