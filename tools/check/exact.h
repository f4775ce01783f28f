/* SPDX-License-Identifier: Apache-2.0 */
/* exact.h - what experts and linears are in float64, on weights that are read row by row. */
#ifndef KT_CHECK_EXACT_H
#define KT_CHECK_EXACT_H

#include <kt/plugin.h>

/* sum(w x), and the sum of the sizes of its terms. */
struct terms {
    double sum, sizes;
};
struct terms exact_terms(const float *w, const double *x, uint64_t n);
double exact_dot(const float *w, const double *x, uint64_t n);

/* A number with a bound of its error in float32. */
struct value {
    double value, bound;
};
/* The activation function of gate and up; a gate that does not exist is 0. */
struct value value_activation(const struct kt_shape *shape, struct value gate, struct value up);

static inline const struct kt_view *expert_view(const struct kt_expert *expert, enum kt_projection projection)
{
    return projection == KT_DOWN ? &expert->down : projection == KT_UP ? &expert->up : &expert->gate;
}

static inline const float *expert_bias(const struct kt_expert *expert, enum kt_projection projection)
{
    return projection == KT_DOWN ? expert->down_bias
           : projection == KT_UP ? expert->up_bias
                                 : expert->gate_bias;
}

/* A layer, or a linear, whose shape has KT_ACTIVATION_NONE and whose weights are an expert's down projection.
 */
struct exact_layer {
    struct kt_shape shape;           /* its sizes and activation */
    const struct kt_expert *experts; /* their biases are used, and their views where there is no `read` */
    /* Rows row .. row + n - 1 of an expert's projection as float32. */
    enum kt_status (*read)(void *data, uint32_t expert, enum kt_projection projection, uint64_t row,
                           uint64_t n, float *out, struct kt_error *error);
    void *data;
};

/* y[n][hidden_size] of an expert for x[n][hidden_size]; of a linear x has intermediate_size numbers a row. */
enum kt_status exact_expert(const struct exact_layer *layer, uint32_t expert, uint32_t n, const double *x,
                            double *y, struct kt_error *error);

/* Attention of one query over keys key + j * stride, j < n: scale, then softcap (0: none), then softmax with
 * a sink (-INFINITY: none). weight[j] / sum is what value j is multiplied by. */
struct exact_attention {
    const float *query, *keys;
    uint64_t n, stride; /* of keys, in numbers */
    uint32_t size;      /* of a key */
    double scale, softcap, sink;
};
/* Returns the sum; `size` gets the largest of the sums of |products| of a score. */
double exact_weights(const struct exact_attention *attention, double *weight, double *size);
/* sum(weight[j] value[j * stride]), and of its terms' sizes. */
struct terms exact_mean(const double *weight, const float *values, uint64_t n, uint64_t stride);

/* The relative error of all numbers added, in the L2 norm. */
struct deviation {
    double wrong, size;
};
static inline void deviation_add(struct deviation *deviation, double have, double want)
{
    deviation->wrong += (have - want) * (have - want);
    deviation->size += want * want;
}
double deviation_error(const struct deviation *deviation);

#endif
