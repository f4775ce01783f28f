/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check/check.h"
#include "tools/check/lanes.h"

#include <kt/kt.h>
#include <math.h>
#include <stdlib.h>

#define CHUNK_ROWS 64

LANES_CLONES struct terms exact_terms(const float *w, const double *x, uint64_t n)
{
    lanes sum = {0}, sizes = {0}, term, at;
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes_load_floats(w + i, &term);
        lanes_load(x + i, &at);
        term *= at;
        sum += term;
        lanes_add_size(&sizes, &term);
    }
    struct terms all = {lanes_sum(&sum), lanes_sum(&sizes)};
    for (; i < n; i++) {
        all.sum += (double)w[i] * x[i];
        all.sizes += fabs((double)w[i] * x[i]);
    }
    return all;
}

LANES_CLONES double exact_dot(const float *w, const double *x, uint64_t n)
{
    lanes sum = {0}, term, at;
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes_load_floats(w + i, &term);
        lanes_load(x + i, &at);
        sum += term * at;
    }
    double all = lanes_sum(&sum);
    for (; i < n; i++)
        all += (double)w[i] * x[i];
    return all;
}

static enum kt_status read_rows(const struct exact_layer *layer, uint32_t expert,
                                enum kt_projection projection, uint64_t row, uint64_t n, uint64_t cols,
                                float *out, struct kt_error *error)
{
    const struct kt_view *view = expert_view(&layer->experts[expert], projection);
    enum kt_status status = KT_OK;
    if (layer->read)
        return layer->read(layer->data, expert, projection, row, n, out, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        status = kt_view_row(view, row + i, out + i * cols, error);
    return status;
}

/* y[n][rows] = x[n][cols] W + bias. Each row of weights is read once. */
static enum kt_status multiply(const struct exact_layer *layer, uint32_t expert,
                               enum kt_projection projection, uint32_t n, const double *x, float *chunk,
                               double *y, struct kt_error *error)
{
    const float *bias = expert_bias(&layer->experts[expert], projection);
    uint64_t hidden = layer->shape.hidden_size, intermediate = layer->shape.intermediate_size;
    uint64_t rows = projection == KT_DOWN ? hidden : intermediate, cols = hidden + intermediate - rows;
    for (uint64_t row = 0; row < rows; row += CHUNK_ROWS) {
        uint64_t n_rows = rows - row < CHUNK_ROWS ? rows - row : CHUNK_ROWS;
        enum kt_status status = read_rows(layer, expert, projection, row, n_rows, cols, chunk, error);
        if (status != KT_OK)
            return status;
        for (uint64_t i = 0; i < n_rows; i++)
            for (uint32_t t = 0; t < n; t++)
                y[t * rows + row + i] =
                    exact_dot(chunk + i * cols, x + t * cols, cols) + (bias ? (double)bias[row + i] : 0);
    }
    return KT_OK;
}

static enum kt_status fail_memory(struct kt_error *error)
{
    *error = (struct kt_error){KT_E_NOMEM, "no memory for the exact product"};
    return KT_E_NOMEM;
}

enum kt_status exact_expert(const struct exact_layer *layer, uint32_t expert, uint32_t n, const double *x,
                            double *y, struct kt_error *error)
{
    const struct kt_shape *shape = &layer->shape;
    uint64_t widest = shape->hidden_size, n_h = n * shape->intermediate_size;
    if (shape->intermediate_size > widest)
        widest = shape->intermediate_size;
    float *chunk = malloc(CHUNK_ROWS * widest * sizeof *chunk);
    double *gate = malloc((n_h + 1) * sizeof *gate);
    double *up = malloc((n_h + 1) * sizeof *up);
    enum kt_status status = chunk && gate && up ? KT_OK : fail_memory(error);
    bool linear = shape->activation == KT_ACTIVATION_NONE;
    bool gated = kt_activation_first(shape->activation) == KT_GATE;
    if (gated && status == KT_OK)
        status = multiply(layer, expert, KT_GATE, n, x, chunk, gate, error);
    if (!linear && status == KT_OK)
        status = multiply(layer, expert, KT_UP, n, x, chunk, up, error);
    for (uint64_t i = 0; i < n_h && !linear && status == KT_OK; i++)
        gate[i] =
            value_activation(shape, (struct value){gated ? gate[i] : 0, 0}, (struct value){up[i], 0}).value;
    if (status == KT_OK)
        status = multiply(layer, expert, KT_DOWN, n, linear ? x : gate, chunk, y, error);
    free(chunk);
    free(gate);
    free(up);
    return status;
}

double exact_weights(const struct exact_attention *attention, double *weight, double *size)
{
    double max = attention->sink, cap = attention->softcap;
    double *query = check_need(malloc(attention->size * sizeof *query));
    *size = 0;
    for (uint32_t i = 0; i < attention->size; i++)
        query[i] = (double)attention->query[i];
    for (uint64_t j = 0; j < attention->n; j++) {
        struct terms terms = exact_terms(attention->keys + j * attention->stride, query, attention->size);
        double score = terms.sum * attention->scale;
        *size = fmax(*size, terms.sizes * attention->scale);
        weight[j] = cap > 0 ? cap * tanh(score / cap) : score;
        max = fmax(max, weight[j]);
    }
    free(query);
    double sum = attention->sink > -INFINITY ? exp(attention->sink - max) : 0;
    for (uint64_t j = 0; j < attention->n; j++)
        sum += weight[j] = exp(weight[j] - max);
    return sum;
}

struct terms exact_mean(const double *weight, const float *values, uint64_t n, uint64_t stride)
{
    struct terms all = {0, 0};
    for (uint64_t j = 0; j < n; j++) {
        double part = weight[j] * (double)values[j * stride];
        all.sum += part;
        all.sizes += fabs(part);
    }
    return all;
}

double deviation_error(const struct deviation *deviation)
{
    return sqrt(deviation->wrong / deviation->size);
}
