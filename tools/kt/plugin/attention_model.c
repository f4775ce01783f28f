/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_model.c - attention as <kt/attention.h> defines it, in float64 over the numbers that the
 * cache holds, and how far a level may be off:
 *
 *   scores    sums of key_size products in float32; a level whose instruction has "bf" in its name multiplies
 *             pairs of bfloat16 and may have rounded the scaled query, 2^-9 of each number, and a key of Q8_0
 *   softcap   tanh(x) to 2^-21
 *   weights   exp of scores that are so far off, of a few units of float32, and in bfloat16 as above
 *   outputs   sums of as many products as there are keys, of values of Q8_0 rounded as keys; rounded to their
 *             dtype
 *
 * An error of all scores by d makes each weight larger or smaller by exp(d) at most, and so their sum.
 */
#include "tools/kt/plugin/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOAT 0x1p-23
#define SHORT 0x1.01p-9
#define EXP_UNITS 16 /* of exp and of sums of few numbers */

struct model {
    double *weight; /* of each key that the query sees */
    uint64_t first, n;
    double sum;  /* of weights, with the sink's */
    double size; /* of a score's products, at most */
};

/* What a level loses of a query and a weight. */
static double find_unit(const struct attention_case *item)
{
    const char *instruction =
        item->layout.instruction ? item->layout.instruction : item->run->level->instruction;
    return strstr(instruction, "bf") ? SHORT : FLOAT;
}

/* The relative error of weights and their sum together. */
static double find_error(const struct kt_attention_shape *shape, const struct model *model, double unit)
{
    bool rounds = unit > FLOAT;
    double query = rounds && shape->key.dtype == KT_DTYPE_Q8_0 ? 2 * unit : unit; /* and its key */
    double weight = rounds && shape->value.dtype == KT_DTYPE_Q8_0 ? 2 * unit : unit;
    double score = model->size * (query + (shape->key_size + 3) * FLOAT) + (double)shape->softcap * 0x1p-21;
    return expm1(2 * (score + weight + (double)(model->n + EXP_UNITS) * FLOAT));
}

static void weigh(const struct attention_case *item, const float *query, uint64_t position, double sink,
                  struct model *model)
{
    const struct kt_attention_shape *shape = &item->layout.shape;
    model->first = position >= shape->window ? position - shape->window + 1 : 0;
    model->n = position + 1 - model->first;
    const struct exact_attention attention = {.query = query,
                                              .keys = item->keys.numbers + model->first * shape->key_size,
                                              .n = model->n,
                                              .stride = shape->key_size,
                                              .size = shape->key_size,
                                              .scale = (double)shape->scale,
                                              .softcap = (double)shape->softcap,
                                              .sink = sink};
    model->sum = exact_weights(&attention, model->weight, &model->size);
}

static void compare_query(struct attention_case *item, const struct attention_tile *tile, uint32_t query,
                          struct model *model)
{
    const struct kt_attention_shape *shape = &item->layout.shape;
    const struct attention_rows *rows = shape->latent ? &item->keys : &item->values;
    const uint32_t width = rows->place.field.width, head = query % tile->n_heads;
    double rounding = item->output_dtype == KT_DTYPE_F32    ? 0x1p-23
                      : item->output_dtype == KT_DTYPE_BF16 ? 0x1p-8
                                                            : 0x1p-10;
    weigh(item, tile->numbers + (uint64_t)query * shape->key_size, tile->position + query / tile->n_heads,
          item->sinks ? (double)item->sinks[head] : -INFINITY, model);
    for (uint32_t c = 0; c < shape->value_size && !plugin_failed(item->run); c++) {
        struct terms terms =
            exact_mean(model->weight, rows->numbers + model->first * width + c, model->n, width);
        double want = terms.sum / model->sum, all = terms.sizes;
        double got = (double)attention_output(item, tile, query, c);
        double bound = find_error(shape, model, find_unit(item)) * all / model->sum;
        bound += (fabs(want) + bound) * rounding + 0x1p-24;
        if (!(fabs(got - want) <= bound))
            plugin_fail(item->run,
                        "number %u of token %u, head %u is %.8g, float64 gives %.8g with a bound of %.2g%s",
                        c, query / tile->n_heads, head, got, want, bound,
                        fabs(got - want) <= find_error(shape, model, SHORT) * all / model->sum
                            ? "; if the level multiplies pairs of bfloat16, its instruction must say so"
                            : "");
    }
}

/* A tile of many queries is compared in part: those at its ends and some between. */
void attention_compare(struct attention_case *item, const struct attention_tile *tile)
{
    struct model model = {.weight = check_need(malloc(ATTENTION_TOKENS * sizeof(double)))};
    uint32_t n = tile->n_tokens * tile->n_heads, step = n / 8 + 1;
    step += step % 5 == 0; /* or all were of one kind */
    attention_enter(item, tile, "finish");
    plugin_host_forbid(NULL);
    for (uint32_t q = 0; q < n && !plugin_failed(item->run);
         q += q + step < n || q + 1 == n ? step : n - 1 - q)
        compare_query(item, tile, q, &model);
    free(model.weight);
}
