/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - sizes of a case: ragged, and small, since every product is also computed in float64. */
#include "tools/check/check.h"

#include <kt/kt.h>
#include <string.h>

uint64_t pick_size(uint64_t *state, uint32_t first, uint32_t second)
{
    uint32_t a, b, bytes;
    kt_dtype_block(first, &a, &bytes);
    kt_dtype_block(second, &b, &bytes);
    uint32_t block = a > b ? a : b;
    if (block == 1)
        return 1 + random_below(state, 150);
    return (uint64_t)block * (1 + random_below(state, block == 256 ? 2 : 12));
}

void make_linear(struct kt_shape *shape)
{
    memset(shape->format, 0, KT_DOWN * sizeof *shape->format);
    shape->n_experts = shape->top_k = 1;
    shape->activation = KT_ACTIVATION_NONE;
    shape->limit = shape->alpha = 0;
    shape->has_bias &= 1u << KT_DOWN;
}

uint32_t pick_activation(unsigned i)
{
    static const uint32_t all[N_ACTIVATIONS] = {KT_ACTIVATION_SILU,       KT_ACTIVATION_SWIGLU,
                                                KT_ACTIVATION_SWIGLUOAI,  KT_ACTIVATION_GELU_TANH,
                                                KT_ACTIVATION_SWIGLUSTEP, KT_ACTIVATION_SITU,
                                                KT_ACTIVATION_RELU2};
    return all[i];
}

void set_activation(struct kt_shape *shape, uint32_t activation)
{
    shape->activation = activation;
    if (kt_activation_first(activation) == KT_UP) {
        memset(&shape->format[KT_GATE], 0, sizeof shape->format[KT_GATE]);
        shape->has_bias &= ~(1u << KT_GATE);
    }
}

/* A size up to `most`, in whole blocks; one in three in whole tiles, one in six one block longer than that.
 */
static uint64_t pick_scaled_size(uint64_t *state, uint32_t dtype, uint32_t most)
{
    uint32_t block, bytes;
    kt_dtype_block(dtype, &block, &bytes);
    uint32_t way = random_below(state, 6), unit = way < 3 ? 32 : block;
    return (1 + random_below(state, most) + unit - 1) / unit * unit + (way == 2 ? block : 0);
}

void make_scaled_shape(uint32_t dtype, unsigned kind, uint64_t *state, struct kt_shape *shape)
{
    bool wide = random_below(state, 2);
    uint64_t hidden = pick_scaled_size(state, dtype, wide ? 640 : 100);
    uint64_t intermediate = pick_scaled_size(state, dtype, wide ? 100 : 640);
    shape->hidden_size = hidden;
    shape->intermediate_size = intermediate;
    random_format(state, kind, dtype, intermediate, hidden, &shape->format[KT_GATE]);
    shape->format[KT_UP] = shape->format[KT_GATE];
    random_format(state, kind + 1 + random_below(state, 60), dtype, hidden, intermediate,
                  &shape->format[KT_DOWN]);
}
