/* SPDX-License-Identifier: Apache-2.0 */
/* layer_fixture.h - a small random layer with its weights, inputs and a plain model of the result. */
#ifndef KT_TESTS_SUPPORT_LAYER_FIXTURE_H
#define KT_TESTS_SUPPORT_LAYER_FIXTURE_H

#include <check.h>
#include <kt/kt.h>
#include <string.h>

struct fixture {
    uint32_t n_experts, top_k, n_tokens, max_tokens;
    uint64_t hidden, intermediate;
    uint32_t activation;
    float limit, alpha;
    int bias;
    const uint8_t *mask;
    const int64_t *map;
    /* owned */
    float *gate, *up, *down;                /* [experts][rows][cols] */
    float *gate_bias, *up_bias, *down_bias; /* [experts][rows] */
    float *input, *output, *router;
    int64_t *ids;
    double *expected; /* [n_tokens][hidden] */
    struct kt_expert *experts;
    struct kt_context *context;
    struct kt_layer *layer;
};

/* Fills sizes that are 0 with small odd defaults, then weights, inputs and ids from `seed`. */
void fixture_fill(struct fixture *fixture, uint64_t seed);

/* A context with that many threads; a configuration that no file of the machine reaches. */
struct kt_context *fixture_context(uint32_t threads);
struct kt_context *fixture_context_with(const char *const *settings, size_t n);

/* Makes context and layer and loads it. */
void fixture_load(struct fixture *fixture, uint32_t threads);
struct kt_layer_params fixture_params(const struct fixture *fixture);

/* The forward of the whole batch, float32 in and out. */
struct kt_forward fixture_forward(const struct fixture *fixture);

/* Computes `expected` in double by the definition, skipping negative and masked ids. */
void fixture_model(struct fixture *fixture);

/* Relative L2 distance of output and expected. */
double fixture_error(const struct fixture *fixture);

void fixture_free(struct fixture *fixture);

/* A number in [0, 1), and a Gaussian one. */
double fixture_uniform(uint64_t *state);
double fixture_gaussian(uint64_t *state);

#define ck_ok(call)                                                                                          \
    do {                                                                                                     \
        struct kt_error ck_error = {KT_OK, ""};                                                              \
        enum kt_status ck_status = (call);                                                                   \
        ck_assert_msg(ck_status == KT_OK, "%s: %s: %s", #call, kt_status_name(ck_status), ck_error.message); \
    } while (0)

/* A call gave this status and this error, which says these words. */
#define ck_says(status, error, wanted, text)                                                        \
    do {                                                                                            \
        enum kt_status ck_status = (status);                                                        \
        ck_assert_msg(ck_status == (wanted), "%s: %s: %s", #status, kt_status_name(ck_status),      \
                      (error)->message);                                                            \
        ck_assert_msg(strstr((error)->message, (text)) != NULL, "%s: \"%s\" lacks \"%s\"", #status, \
                      (error)->message, (text));                                                    \
    } while (0)

/* The call, which gets &ck_error, fails so and says these words. */
#define ck_fails(call, wanted, text)            \
    do {                                        \
        struct kt_error ck_error = {KT_OK, ""}; \
        ck_says(call, &ck_error, wanted, text); \
    } while (0)

/* Of experts, in turns. */
static inline uint32_t fixture_activation(int i)
{
    static const uint32_t all[] = {KT_ACTIVATION_SILU,      KT_ACTIVATION_SWIGLU,     KT_ACTIVATION_SWIGLUOAI,
                                   KT_ACTIVATION_GELU_TANH, KT_ACTIVATION_SWIGLUSTEP, KT_ACTIVATION_SITU,
                                   KT_ACTIVATION_RELU2};
    return all[(size_t)i % (sizeof all / sizeof all[0])];
}

#endif
