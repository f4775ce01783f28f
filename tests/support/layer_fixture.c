/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/layer_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double fixture_uniform(uint64_t *state)
{
    /* splitmix64, public domain (Vigna) */
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

double fixture_gaussian(uint64_t *state)
{
    double radius = sqrt(-2 * log(1 - fixture_uniform(state)));
    return radius * cos(6.283185307179586 * fixture_uniform(state));
}

static float *random_floats(uint64_t n, double sigma, uint64_t *state)
{
    float *all = malloc(n * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (uint64_t i = 0; i < n; i++)
        all[i] = (float)(sigma * fixture_gaussian(state));
    return all;
}

static void make_ids(struct fixture *fixture, uint64_t *state)
{
    for (uint32_t t = 0; t < fixture->n_tokens; t++)
        for (uint32_t k = 0; k < fixture->top_k; k++) {
            int64_t *id = &fixture->ids[t * fixture->top_k + k];
            int again;
            do {
                *id = (int64_t)(fixture_uniform(state) * fixture->n_experts);
                again = 0;
                for (uint32_t before = 1; before <= k; before++)
                    again |= id[-(int64_t)before] == *id;
            } while (again);
            fixture->router[t * fixture->top_k + k] = (float)(0.1 + fixture_uniform(state));
        }
}

static void make_experts(struct fixture *fixture)
{
    uint64_t hidden = fixture->hidden, intermediate = fixture->intermediate;
    uint64_t size = hidden * intermediate;
    for (uint32_t e = 0; e < fixture->n_experts; e++) {
        struct kt_expert *expert = &fixture->experts[e];
        struct kt_error ck_error;
        ck_assert_int_eq(kt_view_dense(&expert->gate, KT_DTYPE_F32, fixture->gate + e * size, size * 4,
                                       intermediate, hidden, &ck_error),
                         KT_OK);
        ck_assert_int_eq(kt_view_dense(&expert->up, KT_DTYPE_F32, fixture->up + e * size, size * 4,
                                       intermediate, hidden, &ck_error),
                         KT_OK);
        ck_assert_int_eq(kt_view_dense(&expert->down, KT_DTYPE_F32, fixture->down + e * size, size * 4,
                                       hidden, intermediate, &ck_error),
                         KT_OK);
        if (fixture->bias) {
            expert->gate_bias = fixture->gate_bias + e * intermediate;
            expert->up_bias = fixture->up_bias + e * intermediate;
            expert->down_bias = fixture->down_bias + e * hidden;
        }
        if (kt_activation_first(fixture->activation) == KT_UP) {
            expert->gate = (struct kt_view)KT_VIEW_INIT;
            expert->gate_bias = NULL;
        }
    }
}

void fixture_fill(struct fixture *fixture, uint64_t seed)
{
    uint64_t state = seed;
    fixture->n_experts = fixture->n_experts ? fixture->n_experts : 5;
    fixture->top_k = fixture->top_k ? fixture->top_k : 2;
    fixture->n_tokens = fixture->n_tokens ? fixture->n_tokens : 7;
    fixture->max_tokens = fixture->max_tokens ? fixture->max_tokens : fixture->n_tokens;
    fixture->hidden = fixture->hidden ? fixture->hidden : 37;
    fixture->intermediate = fixture->intermediate ? fixture->intermediate : 29;
    uint64_t hidden = fixture->hidden, intermediate = fixture->intermediate, n = fixture->n_experts;
    uint64_t slots = (uint64_t)fixture->n_tokens * fixture->top_k;
    fixture->gate = random_floats(n * hidden * intermediate, 1 / sqrt((double)hidden), &state);
    fixture->up = random_floats(n * hidden * intermediate, 1 / sqrt((double)hidden), &state);
    fixture->down = random_floats(n * hidden * intermediate, 1 / sqrt((double)intermediate), &state);
    fixture->gate_bias = random_floats(n * intermediate, 0.3, &state);
    fixture->up_bias = random_floats(n * intermediate, 0.3, &state);
    fixture->down_bias = random_floats(n * hidden, 0.3, &state);
    fixture->input = random_floats(fixture->n_tokens * hidden, 1, &state);
    fixture->output = random_floats(fixture->n_tokens * hidden, 1, &state);
    fixture->router = malloc(slots * sizeof *fixture->router);
    fixture->ids = malloc(slots * sizeof *fixture->ids);
    fixture->expected = calloc(fixture->n_tokens * hidden, sizeof *fixture->expected);
    fixture->experts = calloc(n, sizeof *fixture->experts);
    make_ids(fixture, &state);
    make_experts(fixture);
}

struct kt_context *fixture_context_with(const char *const *settings, size_t n)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    params.settings = settings;
    params.n_settings = n;
    struct kt_config *config = NULL;
    struct kt_context *context = NULL;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_config_create(&params, &config, &error) == KT_OK, "%s", error.message);
    ck_assert_msg(kt_context_create(config, &context, &error) == KT_OK, "%s", error.message);
    kt_config_destroy(config);
    return context;
}

struct kt_context *fixture_context(uint32_t threads)
{
    char text[64];
    (void)snprintf(text, sizeof text, "core.threads=%u", threads);
    return fixture_context_with((const char *const[]){text, "core.spin_us=50"}, 2);
}

struct kt_layer_params fixture_params(const struct fixture *fixture)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    params.n_experts = fixture->n_experts;
    params.top_k = fixture->top_k;
    params.hidden_size = fixture->hidden;
    params.intermediate_size = fixture->intermediate;
    params.max_tokens = fixture->max_tokens;
    params.activation = fixture->activation;
    params.limit = fixture->limit;
    params.alpha = fixture->alpha;
    params.backend = "reference";
    params.skip_mask = fixture->mask;
    params.expert_map = fixture->map;
    return params;
}

void fixture_load(struct fixture *fixture, uint32_t threads)
{
    struct kt_layer_params params = fixture_params(fixture);
    struct kt_error error = {KT_OK, ""};
    fixture->context = fixture_context(threads);
    ck_assert_msg(kt_layer_create(fixture->context, &params, &fixture->layer, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_msg(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &error) == KT_OK, "%s",
                  error.message);
}

struct kt_forward fixture_forward(const struct fixture *fixture)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    forward.n_tokens = fixture->n_tokens;
    forward.top_k = fixture->top_k;
    forward.expert_ids = fixture->ids;
    forward.router_weights = fixture->router;
    forward.input = fixture->input;
    forward.output = fixture->output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    return forward;
}

static double activate(const struct fixture *fixture, double g, double u)
{
    double limit = (double)fixture->limit, alpha = (double)fixture->alpha, silu = g / (1 + exp(-g));
    double less = g < limit ? g : limit, clamped = u < -limit ? -limit : u > limit ? limit : u;
    switch (fixture->activation) {
    case KT_ACTIVATION_SWIGLU:
        return less / (1 + exp(-less)) * clamped;
    case KT_ACTIVATION_SWIGLUOAI:
        return less / (1 + exp(-alpha * less)) * (clamped + 1);
    case KT_ACTIVATION_GELU_TANH:
        return g / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (g + 0.044715 * g * g * g))) * u;
    case KT_ACTIVATION_SWIGLUSTEP:
        return (silu < limit ? silu : limit) * clamped;
    case KT_ACTIVATION_RELU2:
        return u > 0 ? u * u : 0;
    case KT_ACTIVATION_SITU:
        return alpha * tanh(g / alpha) / (1 + exp(-g)) * limit * tanh(u / limit);
    default:
        return silu * u;
    }
}

static double dot(const float *a, const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)x[i];
    return sum;
}

static void model_expert(const struct fixture *fixture, uint64_t e, const float *x, double weight,
                         double *out)
{
    uint64_t hidden = fixture->hidden, intermediate = fixture->intermediate;
    uint64_t size = hidden * intermediate;
    double *h = malloc(intermediate * sizeof *h);
    for (uint64_t i = 0; i < intermediate; i++) {
        double bias_g = fixture->bias ? (double)fixture->gate_bias[e * intermediate + i] : 0;
        double bias_u = fixture->bias ? (double)fixture->up_bias[e * intermediate + i] : 0;
        h[i] = activate(fixture, dot(fixture->gate + e * size + i * hidden, x, hidden) + bias_g,
                        dot(fixture->up + e * size + i * hidden, x, hidden) + bias_u);
    }
    for (uint64_t o = 0; o < hidden; o++) {
        double sum = fixture->bias ? (double)fixture->down_bias[e * hidden + o] : 0;
        for (uint64_t i = 0; i < intermediate; i++)
            sum += (double)fixture->down[e * size + o * intermediate + i] * h[i];
        out[o] += weight * sum;
    }
    free(h);
}

void fixture_model(struct fixture *fixture)
{
    memset(fixture->expected, 0, fixture->n_tokens * fixture->hidden * sizeof *fixture->expected);
    for (uint32_t t = 0; t < fixture->n_tokens; t++)
        for (uint32_t k = 0; k < fixture->top_k; k++) {
            int64_t id = fixture->ids[t * fixture->top_k + k];
            if (id < 0 || (fixture->mask && fixture->mask[id]))
                continue;
            uint64_t e = (uint64_t)(fixture->map ? fixture->map[id] : id);
            model_expert(fixture, e, fixture->input + t * fixture->hidden,
                         (double)fixture->router[t * fixture->top_k + k],
                         fixture->expected + t * fixture->hidden);
        }
}

double fixture_error(const struct fixture *fixture)
{
    double difference = 0, norm = 0;
    for (uint64_t i = 0; i < fixture->n_tokens * fixture->hidden; i++) {
        double d = (double)fixture->output[i] - fixture->expected[i];
        difference += d * d;
        norm += fixture->expected[i] * fixture->expected[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

void fixture_free(struct fixture *fixture)
{
    kt_layer_destroy(fixture->layer);
    kt_context_destroy(fixture->context);
    void *const owned[] = {fixture->gate,    fixture->up,        fixture->down,     fixture->gate_bias,
                           fixture->up_bias, fixture->down_bias, fixture->input,    fixture->output,
                           fixture->router,  fixture->ids,       fixture->expected, fixture->experts};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
}
