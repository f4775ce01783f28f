/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.c - a small and right backend: float32 weights, float32 activations, sums in the order of
 * the columns. It packs, it has options and levels, so that everything the core does with a plugin
 * can be tried with it on any CPU. kt_older.so is the same for an ABI that knows no
 * kt_layout.deterministic, and gives more where it multiplies several rows at once. kt_slow.so has tunables
 * whose standards are the worst values: it multiplies `work` times as often as needed, and that 1 + 3 times
 * the distance of `valley` from 3 times; its best level, swift, multiplies four times as often as the next
 * one, brisk.
 */
#include "tools/check/number.h"

#include <kt/plugin.h>
#ifdef OLDER
#undef KT_PLUGIN_ABI_MINOR
#define KT_PLUGIN_ABI_MINOR 4
#else
#define OLDER 0
#endif
#ifdef SLOW
#define STANDARD_WORK 16
#define STANDARD_VALLEY 5
#else
#define STANDARD_WORK 1
#define STANDARD_VALLEY 3
#endif
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SIZE_LIMIT = 1 << 20 };
enum {
    OPTION_PANEL_ROWS,
    OPTION_GREETING,
    OPTION_MODE,
    OPTION_CHECK,
    OPTION_LIE,
    OPTION_STORED,
    OPTION_SWIFT,
    OPTION_ROUNDS,
    OPTION_ROOMY
};
enum { LIE_NONE, LIE_PANELS, LIE_SIZE, LIE_Y, LIE_SHAPE, LIE_TEXT, LIE_NO_TEXT, LIE_PACK, LIE_TUNED };
enum { TUNED_WORK, TUNED_VALLEY, TUNED_MORE_ROWS };

static const struct kt_tunable tunables[] = {
    [TUNED_WORK] = {"work", "times that each product is computed", 1, 16, STANDARD_WORK, KT_TUNABLE_DOUBLING,
                    0},
    [TUNED_VALLEY] = {"valley", "3 is best", 1, 5, 0, 0, 0},
    [TUNED_MORE_ROWS] = {"more_rows", "rows from which results are rounded otherwise", 1, 2048, 2048,
                         KT_TUNABLE_DOUBLING | KT_TUNABLE_BITS, 0},
};

/* An input that starts with one of these numbers makes a stage fail, the last of them without a reason. */
#define FAIL_GATHER 2048.0f
#define FAIL_ACT_PACK 4096.0f
#define FAIL_GATE_UP 8192.0f
#define FAIL_ACT_PACK_H 16384.0f
#define FAIL_DOWN 32768.0f
#define FAIL_MUTE 65536.0f

struct fake {
    const struct kt_host *host;
    const struct kt_option_value *values;
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* What a careless author could write. */
static enum kt_status spoil(int64_t lie, struct kt_layout *layout, struct kt_error *error)
{
    if (lie == LIE_PANELS)
        layout->panel_rows[1] = UINT64_MAX;
    if (lie == LIE_SIZE)
        layout->scratch_size = UINT64_C(1) << 62;
    if (lie == LIE_Y)
        layout->y_dtype = 77;
    if (lie == LIE_SHAPE)
        layout->shape.hidden_size++;
    if (lie == LIE_TUNED)
        layout->tuned[TUNED_WORK] = 17;
    if (lie == LIE_TEXT)
        memset(error, 'A', sizeof *error);
    return lie == LIE_TEXT || lie == LIE_NO_TEXT ? KT_E_UNSUPPORTED : KT_OK;
}

static enum kt_status layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct fake *fake = instance;
    uint64_t hidden = layout->shape.hidden_size, rows = layout->shape.intermediate_size;
    if (hidden > SIZE_LIMIT || rows > SIZE_LIMIT)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%llu x %llu: sizes are at most %d",
                              (unsigned long long)hidden, (unsigned long long)rows, SIZE_LIMIT);
    uint64_t panel = (uint64_t)fake->values[OPTION_PANEL_ROWS].number;
    layout->panel_rows[1] = panel;
    layout->k_unit = 1;
    layout->weight_size[1] = round_up(hidden, panel) * rows * sizeof(float);
    layout->nominal_size[1] = hidden * rows * sizeof(float);
    layout->act_row_size[1] = round_up(rows * sizeof(float), 64);
    if (layout->shape.activation != KT_ACTIVATION_NONE) {
        layout->panel_rows[0] = panel;
        uint64_t both = kt_activation_first(layout->shape.activation) == KT_GATE ? 2 : 1;
        layout->weight_size[0] = round_up(rows, panel) * both * hidden * sizeof(float);
        layout->nominal_size[0] = rows * both * hidden * sizeof(float);
        layout->act_row_size[0] = round_up(hidden * sizeof(float), 64);
        layout->h_row_size = layout->act_row_size[1];
    }
    layout->scratch_size = 64 * (1 + layout->tuned[TUNED_WORK]);
    if (!layout->tuned[TUNED_VALLEY])
        layout->tuned[TUNED_VALLEY] = STANDARD_VALLEY;
    if (fake->values[OPTION_STORED].number)
        (void)snprintf(layout->form, sizeof layout->form, "fake-p%d-1", (int)panel);
    if (fake->values[OPTION_ROOMY].number && !layout->compact) /* of which nothing is used */
        layout->weight_size[1] += 3 << 20;
    layout->rounding = fake->values[OPTION_ROUNDS].number ? "a guess" : NULL;
    return spoil(fake->values[OPTION_LIE].number, layout, error);
}

/* Where a weight row starts in its packed object: panels of gate rows, then as many up rows. */
static float *packed_row(const struct kt_layout *layout, const void *packed, enum kt_projection projection,
                         uint64_t row)
{
    float *object = (float *)(uintptr_t)packed;
    uint64_t panel_rows = layout->panel_rows[projection == KT_DOWN];
    if (projection == KT_DOWN)
        return object + row * layout->shape.intermediate_size;
    if (kt_activation_first(layout->shape.activation) == KT_UP)
        return object + row * layout->shape.hidden_size;
    uint64_t place = row / panel_rows * 2 * panel_rows + row % panel_rows;
    return object + (place + (projection == KT_UP ? panel_rows : 0)) * layout->shape.hidden_size;
}

static enum kt_status pack(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    const struct fake *fake = instance;
    const struct kt_view *views[] = {&job->source->gate, &job->source->up, &job->source->down};
    int first =
        job->stage == KT_STAGE_DOWN ? KT_DOWN : (int)kt_activation_first(job->layout->shape.activation);
    int last = job->stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP;
    uint64_t panel_rows = job->layout->panel_rows[job->stage];
    if (fake->values[OPTION_LIE].number == LIE_PACK)
        return KT_E_IO;
    for (int p = first; p <= last; p++) {
        for (uint64_t row = job->panel_begin * panel_rows;
             row < job->panel_end * panel_rows && row < views[p]->rows; row++) {
            float *out = packed_row(job->layout, job->packed, (enum kt_projection)p, row);
            enum kt_status status =
                fake->host->dequantize(fake->host, views[p], row, 0, views[p]->cols, out, error);
            if (status != KT_OK)
                return status;
        }
    }
    return KT_OK;
}

static void cut(void *instance, const struct kt_cut *job)
{
    (void)instance;
    bool down = job->stage == KT_STAGE_DOWN;
    uint64_t panel_rows = job->shard->panel_rows[job->stage];
    uint64_t rows = down ? job->shard->shape.hidden_size : job->shard->shape.intermediate_size;
    uint64_t cols = down ? job->shard->shape.intermediate_size : job->shard->shape.hidden_size;
    int first = down ? KT_DOWN : (int)kt_activation_first(job->shard->shape.activation);
    for (int p = first; p <= (down ? KT_DOWN : KT_UP); p++) {
        for (uint64_t row = job->panel_begin * panel_rows; row < job->panel_end * panel_rows && row < rows;
             row++) {
            const float *from =
                packed_row(job->whole, job->packed, (enum kt_projection)p, down ? row : job->begin + row);
            memcpy(packed_row(job->shard, job->out, (enum kt_projection)p, row),
                   down ? from + job->begin : from, cols * sizeof *from);
        }
    }
}

static bool is(float number, float wanted)
{
    return number >= wanted && number <= wanted;
}

static void fail(struct kt_error *error, const char *stage)
{
    (void)kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s was asked to fail", stage);
}

static void act_pack(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    uint64_t size = layout->act_row_size[job->stage];
    bool down = job->stage == KT_STAGE_DOWN;
    uint64_t n = down ? layout->shape.intermediate_size : layout->shape.hidden_size;
    for (uint32_t r = job->row_begin; r < job->row_end; r++) {
        float *out = (float *)(void *)((char *)job->packed + r * size);
        if (!job->source_dtype) {
            memcpy(out, (const char *)job->source + r * layout->h_row_size, n * sizeof *out);
            if (is(out[0], FAIL_ACT_PACK_H))
                fail(job->error, "act_pack of h");
            continue;
        }
        const char *source = (const char *)job->source + r * job->source_stride;
        for (uint64_t i = 0; i < n; i++)
            out[i] = read_number(source + i * number_size(job->source_dtype), job->source_dtype);
        if (is(out[0], FAIL_ACT_PACK))
            fail(job->error, "act_pack");
    }
}

static void gather(void *instance, const struct kt_gather *job)
{
    (void)instance;
    uint64_t size = job->layout->act_row_size[KT_STAGE_GATE_UP];
    for (uint32_t r = 0; r < job->n_rows; r++) {
        const char *row = (const char *)job->act + job->index[r] * size;
        memcpy((char *)job->out + r * size, row, size);
        if (is(*(const float *)(const void *)row, FAIL_GATHER))
            fail(job->error, "gather");
    }
}

static const float *act_row(const struct kt_product *job, enum kt_stage stage, uint32_t r)
{
    uint64_t index = job->index ? job->index[r] : r;
    return (const float *)(const void *)((const char *)job->act + index * job->layout->act_row_size[stage]);
}

static uint64_t count_work(const uint64_t tuned[KT_MAX_TUNABLES])
{
    uint64_t valley = tuned[TUNED_VALLEY];
    return tuned[TUNED_WORK] * (1 + 3 * (valley > 3 ? valley - 3 : 3 - valley));
}

static float multiply(const float *weights, const float *x, uint64_t n)
{
    float sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += weights[i] * x[i];
    return sum;
}

/* The columns that are multiplied more than once: of a long row a part, or a model's layer would take
 * seconds. */
#define OFTEN_COLUMNS 64

static float multiply_often(const struct kt_layout *layout, const float *weights, const float *x, uint64_t n)
{
    volatile float sum;
    for (uint64_t times = count_work(layout->tuned); times > 1; times--) {
        sum = multiply(weights, x, n < OFTEN_COLUMNS ? n : OFTEN_COLUMNS);
        __asm__ volatile("" ::: "memory"); /* each time again */
    }
    sum = multiply(weights, x, n);
    return sum;
}

/* Comparisons that are false for a NaN leave it as it is. */
static float clamp(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

static float silu(float x, float alpha)
{
    return x / (1 + expf(-alpha * x));
}

static float cap(float x, float limit)
{
    return limit > 0 ? limit * tanhf(x / limit) : x;
}

static float activate(const struct kt_shape *shape, float g, float u)
{
    float limit = shape->limit, alpha = shape->alpha;
    switch (shape->activation) {
    case KT_ACTIVATION_SWIGLU:
        return silu(clamp(g, -INFINITY, limit), 1) * clamp(u, -limit, limit);
    case KT_ACTIVATION_SWIGLUOAI:
        return silu(clamp(g, -INFINITY, limit), alpha) * (clamp(u, -limit, limit) + 1);
    case KT_ACTIVATION_GELU_TANH:
        return g / (1 + expf(-1.5957691f * (g + 0.044715f * g * g * g))) * u;
    case KT_ACTIVATION_SWIGLUSTEP:
        return clamp(silu(g, 1), -INFINITY, limit) * clamp(u, -limit, limit);
    case KT_ACTIVATION_RELU2:
        return u > 0 ? u * u : 0 * u; /* NaN stays */
    case KT_ACTIVATION_SITU:
        return cap(g, alpha) / (1 + expf(-g)) * cap(u, limit);
    default:
        return silu(g, 1) * u;
    }
}

static void gate_up(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    const struct kt_shape *shape = &layout->shape;
    uint64_t n = shape->hidden_size, end = job->panel_end * layout->panel_rows[0];
    bool gated = kt_activation_first(shape->activation) == KT_GATE;
    for (uint64_t row = job->panel_begin * layout->panel_rows[0]; row < end && row < shape->intermediate_size;
         row++) {
        const float *gate = packed_row(layout, job->packed, KT_GATE, row);
        const float *up = packed_row(layout, job->packed, KT_UP, row);
        for (uint32_t r = 0; r < job->n_rows; r++) {
            const float *x = act_row(job, KT_STAGE_GATE_UP, r);
            float g = gated ? multiply_often(layout, gate, x, n) + (job->bias[0] ? job->bias[0][row] : 0) : 0;
            float u = multiply_often(layout, up, x, n) + (job->bias[1] ? job->bias[1][row] : 0);
            float *h = (float *)(void *)((char *)job->out + r * layout->h_row_size);
            h[row] = is(x[0], FAIL_DOWN) || is(x[0], FAIL_ACT_PACK_H) ? x[0] : activate(shape, g, u);
            if (is(x[0], FAIL_GATE_UP))
                fail(job->error, "gate_up");
            if (is(x[0], FAIL_MUTE))
                job->error->status = KT_E_IO;
        }
    }
}

static void down(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    uint64_t n = layout->shape.intermediate_size, end = job->panel_end * layout->panel_rows[1];
    for (uint64_t row = job->panel_begin * layout->panel_rows[1];
         row < end && row < layout->shape.hidden_size; row++) {
        const float *weights = packed_row(layout, job->packed, KT_DOWN, row);
        for (uint32_t r = 0; r < job->n_rows; r++) {
            const float *x = act_row(job, KT_STAGE_DOWN, r);
            float *y = (float *)(void *)((char *)job->out + (int64_t)job->out_index[r] * job->out_stride);
            y[row] = multiply_often(layout, weights, x, n) + (job->bias[0] ? job->bias[0][row] : 0);
            if (OLDER && job->n_rows > 1)
                y[row] += 1;
            if (job->n_rows >= layout->tuned[TUNED_MORE_ROWS])
                y[row] *= 1 + 4 * FLT_EPSILON;
            if (is(x[0], FAIL_DOWN))
                fail(job->error, "down");
        }
    }
}

static enum kt_status weight_row(void *instance, const struct kt_layout *packed_layout, const void *packed,
                                 const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                 float *out, struct kt_error *error)
{
    (void)instance;
    (void)source;
    (void)error;
    uint64_t cols =
        projection == KT_DOWN ? packed_layout->shape.intermediate_size : packed_layout->shape.hidden_size;
    memcpy(out, packed_row(packed_layout, packed, projection, row), cols * sizeof *out);
    return KT_OK;
}

static enum kt_status probe(const struct kt_host *host, const struct kt_caps *caps, struct kt_error *error)
{
    (void)caps;
    if (host->struct_size < sizeof *host)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "the host is shorter than its version says");
    host->log(host, KT_LOG_DEBUG, "probed");
    return KT_OK;
}

static enum kt_status open_fake(const struct kt_host *host, const struct kt_caps *caps,
                                const struct kt_option_value *values, void **instance, struct kt_error *error)
{
    (void)caps;
    struct fake *fake = host->allocate(host, sizeof *fake);
    if (!fake)
        return kt_plugin_fail(error, KT_E_NOMEM, "no memory for an instance");
    *fake = (struct fake){host, values};
    *instance = fake;
    if (values[OPTION_MODE].number == 1)
        host->log(host, KT_LOG_INFO, "open, %s, check %d", values[OPTION_GREETING].text,
                  (int)values[OPTION_CHECK].number);
    return KT_OK;
}

static void close_fake(void *instance)
{
    struct fake *fake = instance;
    const struct kt_host *host = fake->host;
    if (fake->values[OPTION_MODE].number == 1)
        host->log(host, KT_LOG_INFO, "closed");
    host->release(host, fake, sizeof *fake);
}

#ifdef SLOW
static void gate_up_often(void *instance, const struct kt_product *job)
{
    for (int i = 0; i < 4; i++)
        gate_up(instance, job);
}

static void down_often(void *instance, const struct kt_product *job)
{
    for (int i = 0; i < 4; i++)
        down(instance, job);
}

static const struct kt_ops often = {
    .struct_size = sizeof often,
    .layout = layout,
    .pack = pack,
    .act_pack = act_pack,
    .gate_up = gate_up_often,
    .down = down_often,
    .weight_row = weight_row,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof tunables[0],
};
#define SWIFT_OPS often
#else
#define SWIFT_OPS ops
#endif
static const struct kt_ops ops = {
    .struct_size = sizeof ops,
    .layout = layout,
    .pack = pack,
    .act_pack = act_pack,
    .gate_up = gate_up,
    .down = down,
    .weight_row = weight_row,
    .cut = cut,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof tunables[0],
};
static const struct kt_ops gathering = {
    .struct_size = sizeof gathering,
    .layout = layout,
    .pack = pack,
    .act_pack = act_pack,
    .gather = gather,
    .gate_up = gate_up,
    .down = down,
    .weight_row = weight_row,
    .cut = cut,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof tunables[0],
};

/* Like a library that is needed: there, missing, or not even worth a word. */
static enum kt_status check_swift(void *instance, struct kt_error *error)
{
    const struct fake *fake = instance;
    int64_t choice = fake->values[OPTION_SWIFT].number;
    if (choice == 1)
        return kt_plugin_fail(error, KT_E_NOT_FOUND, "libswift.so is not there");
    return choice == 2 ? KT_E_UNSUPPORTED : KT_OK;
}

/* No CPU has bit 63. */
static const struct kt_level future = {.struct_size = sizeof future,
                                       .name = "future",
                                       .cpu = UINT64_C(1) << 63,
                                       .instruction = "fmatmul",
                                       .ops = &ops};
static const struct kt_level swift = {.struct_size = sizeof swift,
                                      .name = "swift",
                                      .instruction = "mulss",
                                      .ops = &SWIFT_OPS,
                                      .check = check_swift};
#ifdef SLOW
static const struct kt_level brisk = {.struct_size = sizeof brisk,
                                      .name = "brisk",
                                      .instruction = "mulss",
                                      .ops = &ops};
#endif
static const struct kt_level scalar = {.struct_size = sizeof scalar,
                                       .name = "scalar",
                                       .instruction = "mulss",
                                       .ops = &gathering};
static const struct kt_level *const levels[] = {
    &future,
    &swift,
#ifdef SLOW
    &brisk,
#endif
    &scalar,
};

#ifdef WRONG /* its faults are others */
#define LIES "none"
#else
#define LIES "none|panels|size|y|shape|text|no_text|pack|tuned"
#endif
static const struct kt_option options[] = {
    [OPTION_PANEL_ROWS] = {"panel_rows", KT_OPTION_INT, "4", NULL, 1, 128, "rows of a panel"},
    [OPTION_GREETING] = {"greeting", KT_OPTION_STRING, "hello", NULL, 0, 0, "what open says"},
    [OPTION_MODE] = {"mode", KT_OPTION_ENUM, "quiet", "quiet|loud", 0, 0, "loud: it logs"},
    [OPTION_CHECK] = {"check", KT_OPTION_BOOL, "no", NULL, 0, 0, "a switch"},
    [OPTION_LIE] = {"lie", KT_OPTION_ENUM, "none", LIES, 0, 0, "what layout or pack does wrong"},
    [OPTION_STORED] = {"stored", KT_OPTION_BOOL, "no", NULL, 0, 0, "its weights can be stored"},
    [OPTION_SWIFT] = {"swift", KT_OPTION_ENUM, "there", "there|missing|mute", 0, 0,
                      "can it work at the level swift"},
    [OPTION_ROUNDS] = {"rounds", KT_OPTION_BOOL, "no", NULL, 0, 0, "it says that packing rounds"},
    [OPTION_ROOMY] = {"roomy", KT_OPTION_BOOL, "no", NULL, 0, 0, "unless memory is short it wants more"},
};

#ifndef WRONG /* wrong.c has its own */
#define DEFINE(name) KT_PLUGIN_DEFINE(name)
#define HEADER(name) KT_PLUGIN_HEADER(name)
DEFINE(NAME) = {
    HEADER(NAME),
    .version = "1.0",
    .description = "float32, for tests",
    .formats = "every format that the core decodes",
    .levels = levels,
    .n_levels = sizeof levels / sizeof levels[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .probe = probe,
    .open = open_fake,
    .close = close_fake,
};
#endif
