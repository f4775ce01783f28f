/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batches.c - threads that compute random batches at once on random layers of every backend, compared with a
 * model in float64 of the weights that the kernels say they use (kt_layer_weights).
 *
 *     batches SECONDS SEED [MOST]
 *
 * Ends after so many seconds or batches, whichever comes first; prints what attack.c prints. A round has
 * layers of its own: what each expert gives for each of ROWS inputs is computed beforehand, with a bound on
 * its error.
 */
#include "tests/campaign/change.h"
#include "tests/campaign/user.h"

#include <kt/kt.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENTS = 4, LAYERS = 3, EXPERTS = 6, TOP_K = 3, ROWS = 16, TOKENS = 12, MOST = 96, ROUND = 4000 };

/* What a backend makes of h, the input of `down`: each number is rounded to so many bits, or to parts of the
 * row's largest; half a part, and a little for float32. Inputs are kept as they are (make_inputs). */
struct rounding {
    const char *backend;
    double relative, of_largest;
};
static const struct rounding roundings[] = {{"reference", 0x1p-20, 0},
                                            {"bf16", 0x1.02p-8, 0},
                                            {"amx_int8", 0x1p-20, 0x1.02p-1 / 127}};
enum { N_ROUNDINGS = sizeof roundings / sizeof roundings[0] };

struct layer {
    struct kt_layer *layer;
    const struct rounding *rounding;
    uint32_t hidden, intermediate;
    uint16_t *weights; /* bfloat16 */
    uint8_t mask[EXPERTS];
    uint16_t input[ROWS][MOST]; /* bfloat16 */
    double y[ROWS][EXPERTS][MOST], bound[ROWS][EXPERTS][MOST];
};

struct batch {
    struct layer *layer;
    struct kt_forward forward;
    uint64_t ticket;
    int64_t ids[TOKENS * TOP_K];
    float weights[TOKENS * TOP_K], input[TOKENS * MOST], output[TOKENS * MOST];
    uint16_t narrow[TOKENS * MOST];
    uint32_t row[TOKENS]; /* ROWS: not a number */
};

static struct kt_context *context;
static struct layer layers[LAYERS];
static atomic_long tried, wrong;
static long most_batches;
static double end;

/* ---- numbers ---- */

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)kt_below(state, n);
}

/* A bfloat16 between -1 and 1, of few bits, so that sums have no rounding to speak of. */
static uint16_t small(uint64_t *state)
{
    float value = (float)((int)below(state, 255) - 127) / 128;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- what is expected ---- */

/* sum[i] of weights times values, and by how much it may differ if each value does by so much. */
static void multiply(const float *weights, uint32_t rows, uint32_t cols, const double *values,
                     const double *errors, double *sum, double *bound)
{
    for (uint32_t i = 0; i < rows; i++) {
        double all = 0, off = 0, size = 0;
        for (uint32_t j = 0; j < cols; j++) {
            double w = (double)weights[i * cols + j];
            all += w * values[j];
            off += fabs(w) * errors[j];
            size += fabs(w * values[j]);
        }
        sum[i] = all;
        bound[i] = off + size * 0x1p-18; /* of sums in float32 */
    }
}

/* Adds to each error what the backend's rounding of that row does. */
static void round_row(const struct rounding *rounding, const double *values, uint32_t n, double *errors)
{
    double largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(values[i]) + errors[i]);
    for (uint32_t i = 0; i < n; i++)
        errors[i] += fabs(values[i]) * rounding->relative + largest * rounding->of_largest;
}

static void expect_expert(struct layer *layer, uint32_t expert, const float *gate, const float *up,
                          const float *down)
{
    double x[MOST], ex[MOST], g[MOST], eg[MOST], u[MOST], eu[MOST], h[MOST], eh[MOST];
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < layer->hidden; i++) {
            x[i] = (double)widen(layer->input[row][i]);
            ex[i] = fabs(x[i]) * 0x1p-20;
        }
        multiply(gate, layer->intermediate, layer->hidden, x, ex, g, eg);
        multiply(up, layer->intermediate, layer->hidden, x, ex, u, eu);
        for (uint32_t i = 0; i < layer->intermediate; i++) {
            double silu = g[i] / (1 + exp(-g[i])), off = 1.1 * eg[i]; /* silu's slope is below 1.1 */
            h[i] = silu * u[i];
            eh[i] = off * (fabs(u[i]) + eu[i]) + (fabs(silu) + 0x1p-18) * eu[i];
        }
        round_row(layer->rounding, h, layer->intermediate, eh);
        multiply(down, layer->hidden, layer->intermediate, h, eh, layer->y[row][expert],
                 layer->bound[row][expert]);
    }
}

static void expect_layer(struct layer *layer)
{
    static float weights[3][MOST * MOST];
    struct kt_error error;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        for (int p = 0; p < 3; p++)
            need(kt_layer_weights(layer->layer, e, (enum kt_projection)p, 0,
                                  p == KT_DOWN ? layer->hidden : layer->intermediate, weights[p], &error),
                 "kt_layer_weights", &error);
        expect_expert(layer, e, weights[0], weights[1], weights[2]);
    }
}

/* ---- layers ---- */

/* Each 32 numbers hold 127/128, so that int8 has a step of 1/128 for them and keeps all, as bfloat16 does. */
static void make_inputs(struct layer *layer, uint64_t *state)
{
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < layer->hidden; i++)
            layer->input[row][i] = i % 32 == row ? 0x3f7e : small(state);
}

static void make_layer(struct layer *layer, uint64_t *state)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_expert experts[EXPERTS];
    struct kt_error error = {.status = KT_OK};
    uint32_t n_backends = (uint32_t)kt_context_backend_count(context), loaded[N_ROUNDINGS], n = 0;
    for (uint32_t i = 0; i < n_backends; i++) {
        struct kt_backend_info info;
        need(kt_context_backend(context, i, &info, &error), "kt_context_backend", &error);
        for (uint32_t r = 0; r < N_ROUNDINGS; r++)
            if (info.state == KT_BACKEND_LOADED && strcmp(info.name, roundings[r].backend) == 0)
                loaded[n++] = r;
    }
    layer->rounding = &roundings[loaded[below(state, n)]];
    layer->hidden = 32 * (1 + below(state, 3));
    layer->intermediate = 32 * (1 + below(state, 3));
    size_t size = (size_t)layer->hidden * layer->intermediate;
    layer->weights = malloc(sizeof *layer->weights * size * 3 * EXPERTS);
    if (!layer->weights)
        exit(2);
    memset(experts, 0, sizeof experts);
    for (size_t i = 0; i < size * 3 * EXPERTS; i++)
        layer->weights[i] = small(state);
    for (size_t e = 0; e < EXPERTS; e++)
        for (size_t p = 0; p < 3; p++) {
            struct kt_view *view = p == 0 ? &experts[e].gate : p == 1 ? &experts[e].up : &experts[e].down;
            need(kt_view_dense(view, KT_DTYPE_BF16, layer->weights + (3 * e + p) * size, 2 * size,
                               p < 2 ? layer->intermediate : layer->hidden,
                               p < 2 ? layer->hidden : layer->intermediate, &error),
                 "kt_view_dense", &error);
        }
    memset(layer->mask, 0, sizeof layer->mask);
    params.n_experts = EXPERTS;
    params.top_k = TOP_K;
    params.hidden_size = layer->hidden;
    params.intermediate_size = layer->intermediate;
    params.max_tokens = 1 + below(state, TOKENS);
    params.backend = layer->rounding->backend;
    params.skip_mask = layer->mask;
    layer->mask[below(state, EXPERTS)] = below(state, 2) != 0;
    need(kt_layer_create(context, &params, &layer->layer, &error), "kt_layer_create", &error);
    need(kt_layer_load(layer->layer, experts, EXPERTS, &error), "kt_layer_load", &error);
    make_inputs(layer, state);
    expect_layer(layer);
}

/* ---- batches ---- */

static void make_batch(struct batch *batch, uint64_t *state)
{
    struct layer *layer = batch->layer = &layers[below(state, LAYERS)];
    uint32_t n = below(state, TOKENS + 1), hidden = layer->hidden;
    bool narrow = below(state, 2) != 0;
    for (uint32_t t = 0; t < n; t++) {
        batch->row[t] = below(state, 40) == 0 ? ROWS : below(state, ROWS);
        uint32_t first = below(state, EXPERTS);
        for (uint32_t k = 0; k < TOP_K; k++) {
            batch->ids[t * TOP_K + k] = below(state, 10) == 0 ? -1 : (int64_t)(first + k) % EXPERTS;
            batch->weights[t * TOP_K + k] = (float)(1 + below(state, 8)) / 8;
        }
        for (uint32_t i = 0; i < hidden; i++) {
            uint16_t x = batch->row[t] < ROWS ? layer->input[batch->row[t]][i] : 0x7fc0; /* not a number */
            batch->narrow[t * hidden + i] = x;
            batch->input[t * hidden + i] = widen(x);
        }
    }
    for (uint32_t i = 0; i < TOKENS * MOST; i++)
        batch->output[i] = -77;
    batch->forward = (struct kt_forward)KT_FORWARD_INIT;
    batch->forward.n_tokens = n;
    batch->forward.expert_ids = batch->ids;
    batch->forward.router_weights = batch->weights;
    batch->forward.input = narrow ? (const void *)batch->narrow : batch->input;
    batch->forward.input_dtype = narrow ? KT_DTYPE_BF16 : KT_DTYPE_F32;
    batch->forward.output = batch->output;
    batch->forward.output_dtype = KT_DTYPE_F32;
}

/* Is the token as it must be? One that is not a number is so only where an expert has seen it. */
static bool is_right(const struct batch *batch, uint32_t t, uint32_t i)
{
    const struct layer *layer = batch->layer;
    double sum = 0, bound = 0x1p-30;
    bool seen = false;
    for (uint32_t k = 0; k < TOP_K; k++) {
        int64_t id = batch->ids[t * TOP_K + k];
        double weight = (double)batch->weights[t * TOP_K + k];
        if (id < 0 || layer->mask[id])
            continue;
        seen = true;
        if (batch->row[t] == ROWS)
            continue;
        sum += weight * layer->y[batch->row[t]][id][i];
        bound += weight * layer->bound[batch->row[t]][id][i] + fabs(sum) * 0x1p-20;
    }
    double got = (double)batch->output[t * layer->hidden + i];
    return batch->row[t] == ROWS && seen ? isnan(got) : fabs(got - sum) <= bound;
}

static void judge(const struct batch *batch, enum kt_status status, const struct kt_error *error,
                  uint64_t seed)
{
    const struct layer *layer = batch->layer;
    atomic_fetch_add(&tried, 1);
    if (status != KT_OK) {
        printf("wrong: seed %llu, %s: %s\n", (unsigned long long)seed, layer->rounding->backend,
               error->message);
        atomic_fetch_add(&wrong, 1);
        return;
    }
    uint32_t n = batch->forward.n_tokens, hidden = layer->hidden;
    for (uint32_t i = 0; i < TOKENS * MOST; i++)
        if (i < n * hidden ? !is_right(batch, i / hidden, i % hidden) : batch->output[i] != -77) {
            printf("wrong: seed %llu, %s %u x %u: number %u of token %u of %u is %.9g\n",
                   (unsigned long long)seed, layer->rounding->backend, hidden, layer->intermediate,
                   i % hidden, i / hidden, n, (double)batch->output[i]);
            atomic_fetch_add(&wrong, 1);
            return;
        }
}

/* Some batches on their way at once, waited for in another order; or one by kt_layer_forward. */
static void *run_client(void *argument)
{
    enum { AT_ONCE = 3 };
    struct batch *batch = calloc(AT_ONCE, sizeof *batch);
    uint64_t seed = *(uint64_t *)argument, state = seed;
    for (int i = 0; batch && i < ROUND / CLIENTS && now() < end && atomic_load(&tried) < most_batches;) {
        struct kt_error error = {.status = KT_OK};
        uint32_t n = 1 + below(&state, AT_ONCE), first = below(&state, n);
        enum kt_status status[AT_ONCE];
        for (uint32_t k = 0; k < n; k++) {
            make_batch(&batch[k], &state);
            status[k] =
                n == 1 ? kt_layer_forward(batch[k].layer->layer, &batch[k].forward, &error)
                       : kt_layer_submit(batch[k].layer->layer, &batch[k].forward, &batch[k].ticket, &error);
        }
        for (uint32_t k = 0; k < n; k++) {
            struct batch *one = &batch[(first + k) % n];
            enum kt_status *its = &status[(first + k) % n];
            if (n > 1 && *its == KT_OK)
                *its = kt_wait(context, one->ticket, &error);
            judge(one, *its, &error, seed);
        }
        i += (int)n;
    }
    free(batch);
    return NULL;
}

static void run_round(uint64_t seed)
{
    pthread_t client[CLIENTS];
    uint64_t seeds[CLIENTS], state = seed;
    char threads[40];
    (void)snprintf(threads, sizeof threads, "core.threads=%u", 1 + below(&state, 3));
    context = make_context(threads);
    for (int i = 0; i < LAYERS; i++)
        make_layer(&layers[i], &state);
    for (uint64_t i = 0; i < CLIENTS; i++) {
        seeds[i] = seed * CLIENTS + i;
        if (pthread_create(&client[i], NULL, run_client, &seeds[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(client[i], NULL);
    for (int i = 0; i < LAYERS; i++) {
        kt_layer_destroy(layers[i].layer);
        free(layers[i].weights);
    }
    kt_context_destroy(context);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    end = now() + (argc > 1 ? atof(argv[1]) : 1);
    most_batches = argc > 3 ? atol(argv[3]) : 1L << 40;
    do
        run_round(seed++);
    while (now() < end && atomic_load(&tried) < most_batches);
    printf("%ld 0 0 %ld 0 %llu\n", tried, wrong, (unsigned long long)seed);
    return wrong > 0;
}
