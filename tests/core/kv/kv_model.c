/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/kv/kv_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { WIDEST = 160 };

/* ---- caches ---- */

#define ROWS(layout_, dtype_, heads_, width_, stride_)                                                \
    {                                                                                                 \
        .kind = KT_KV_ROWS, .layout = KT_KV_##layout_, .dtype = KT_DTYPE_##dtype_, .heads = (heads_), \
        .width = (width_), .stride = (stride_)                                                        \
    }

static const struct kt_kv_field attention[] = {ROWS(KEY, BF16, 4, 64, 0), ROWS(VALUE, BF16, 4, 48, 1)};
static const struct kt_kv_field small[] = {ROWS(KEY, Q8_0, 3, 80, 1), ROWS(VALUE, Q8_0, 3, 45, 1),
                                           ROWS(PLAIN, Q8_0, 1, 33, 4), ROWS(VALUE, Q8_0, 1, 3, 32),
                                           ROWS(KEY, Q8_0, 2, 6, 64)};
static const struct kt_kv_field latent[] = {ROWS(KEY, BF16, 1, 160, 1),   ROWS(KEY, F32, 1, 7, 1),
                                            ROWS(VALUE, F32, 2, 5, 1),    ROWS(PLAIN, F32, 1, 1, 1),
                                            ROWS(PLAIN, BF16, 1, 9, 128), ROWS(KEY, BF16, 2, 31, 2),
                                            ROWS(VALUE, BF16, 1, 11, 64)};
static const struct kt_kv_field recurrent[] = {
    {.kind = KT_KV_STATE, .dtype = KT_DTYPE_F32, .heads = 5, .width = 100},
    {.kind = KT_KV_STATE, .dtype = KT_DTYPE_BF16, .heads = 1, .width = 33},
};
static const struct kt_kv_layer without[] = {{attention, COUNT(attention), 0},
                                             {small, COUNT(small), 0},
                                             {latent, COUNT(latent), 0},
                                             {NULL, 0, 0},
                                             {NULL, 0, 0}};
static const struct kt_kv_layer with[] = {{attention, COUNT(attention), 0},
                                          {small, COUNT(small), 0},
                                          {latent, COUNT(latent), 0},
                                          {NULL, 0, 0},
                                          {recurrent, COUNT(recurrent), 0}};

struct kt_kv_params kv_mixed(bool states)
{
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    params.layers = states ? with : without;
    params.n_layers = COUNT(without);
    params.max_sequences = 8;
    params.model = "mixed";
    return params;
}

struct kt_context *kv_context(int nodes)
{
    const char *const settings[] = {"core.threads=2", "core.spin_us=0"};
    char text[64];
    if (nodes > 0) {
        (void)snprintf(text, sizeof text, "numa:%d core:%d pu:1", nodes, 2 / nodes ? 2 / nodes : 1);
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", text, 1), 0);
    }
    struct kt_context *context = fixture_context_with(settings, COUNT(settings));
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    return context;
}

/* ---- rows ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void kv_row(uint64_t tag, uint32_t layer, uint32_t field, uint32_t head, uint32_t width, float *row)
{
    uint64_t seed = mix(tag * 1000003 + layer * 4099 + field * 257 + head);
    for (uint32_t i = 0; i < width; i++) {
        uint64_t bits = mix(seed + i * UINT64_C(0x9e3779b97f4a7c15));
        /* Groups of 32 differ in magnitude by up to 2^40. */
        int exponent = (int)(mix(seed + i / 32) % 40) - 30;
        row[i] = tag ? ldexpf((float)(int32_t)(bits >> 32) * 0x1p-31f, exponent) : 0;
    }
}

enum kt_status kv_write(struct kt_kv_sequence *sequence, const struct kt_kv_params *params, uint32_t layer,
                        uint32_t field, uint64_t row, uint64_t n_rows, const uint64_t *tags,
                        struct kt_error *error)
{
    const struct kt_kv_field *declared = &params->layers[layer].fields[field];
    float numbers[4 * WIDEST];
    enum kt_status status = KT_OK;
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    rows.layer = layer;
    rows.field = field;
    rows.n_heads = declared->heads;
    rows.n_rows = 1;
    rows.dtype = KT_DTYPE_F32;
    for (uint64_t r = 0; r < n_rows && status == KT_OK; r++) {
        for (uint32_t h = 0; h < declared->heads; h++)
            kv_row(tags[r], layer, field, h, declared->width, numbers + h * declared->width);
        rows.row = row + r;
        status = kt_kv_sequence_write(sequence, &rows, numbers, error);
    }
    return status;
}

/* ---- where numbers lie ---- */

static uint64_t up(uint64_t x, uint64_t y)
{
    return (x + y - 1) / y;
}

/* The place of number i of row t, counted in numbers. */
static uint64_t number_place(const struct kt_kv_field *f, uint64_t t, uint64_t i)
{
    uint64_t p = f->dtype == KT_DTYPE_F32 ? 1 : f->dtype == KT_DTYPE_BF16 ? 2 : 4, w = f->width;
    if (f->layout == KT_KV_KEY)
        return ((t / 16 * up(w, p) + i / p) * 16 + t % 16) * p + i % p;
    return f->layout == KT_KV_VALUE ? (t / p * w + i) * p + t % p : t * w + i;
}

static uint64_t scale_place(const struct kt_kv_field *f, uint64_t t, uint64_t g)
{
    uint64_t groups = up(f->width, 32), rows = f->stride > 64 ? 1 : 64 / (f->stride ? f->stride : 1);
    if (f->layout == KT_KV_KEY)
        return (t / 16 * groups + g) * 16 + t % 16;
    return f->layout == KT_KV_VALUE ? g * 4 * up(rows, 4) + t : t * groups + g;
}

static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);
    return half >> 15 ? -value : value;
}

/* A number as the page has it; marks its bytes as used. */
static double number_at(const struct kt_kv_field *f, uint64_t scales, const uint8_t *head, uint64_t t,
                        uint64_t i, uint8_t *used)
{
    uint64_t size = f->dtype == KT_DTYPE_F32 ? 4 : f->dtype == KT_DTYPE_BF16 ? 2 : 1;
    uint64_t at = number_place(f, t, i) * size;
    memset(used + at, 1, size);
    if (f->dtype == KT_DTYPE_F32) {
        float value;
        memcpy(&value, head + at, 4);
        return (double)value;
    }
    if (f->dtype == KT_DTYPE_BF16) {
        float value;
        uint32_t bits = (uint32_t)(head[at] | head[at + 1] << 8) << 16;
        memcpy(&value, &bits, 4);
        return (double)value;
    }
    uint64_t scale = scales + 2 * scale_place(f, t, i / 32);
    memset(used + scale, 1, 2);
    return (int8_t)head[at] * half_value((uint16_t)(head[scale] | head[scale + 1] << 8));
}

/* What rounding may make of a number whose group's largest magnitude is m. */
static bool is_near(const struct kt_kv_field *f, float value, float m, double found)
{
    if (f->dtype == KT_DTYPE_F32)
        return (double)value == found;
    if (f->dtype == KT_DTYPE_Q8_0)
        return fabs((double)value - found) <= (double)m / 254 * (1 + 0x1p-9) + 0x1p-25;
    int exponent;
    (void)frexpf(value, &exponent); /* to 8 bits, ties to even */
    exponent = exponent < -125 ? -125 : exponent;
    return ldexp(nearbyint(ldexp((double)value, 8 - exponent)), exponent - 8) == found;
}

static float largest(const float *row, uint32_t width, uint32_t i)
{
    float m = 0;
    for (uint32_t k = i / 32 * 32; k < width && k < i / 32 * 32 + 32; k++)
        m = fmaxf(m, fabsf(row[k]));
    return m;
}

/* ---- checks ---- */

static char wrong[256];

struct check {
    const struct kt_kv_sequence *sequence;
    const struct kt_kv_field *field;
    struct kt_kv_place place;
    struct kt_kv_sequence_info info;
    uint32_t layer, index, head;
    const uint64_t *tags;
    uint64_t n_rows;
};

static bool check_row(const struct check *c, uint64_t row, const uint8_t *head, uint8_t *used)
{
    float expected[WIDEST], given[WIDEST];
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    uint64_t stride = c->field->stride ? c->field->stride : 1;
    uint64_t tag = row < c->n_rows ? c->tags[(row + 1) * stride - 1] : 0;
    bool read = row < c->n_rows;
    rows.layer = c->layer;
    rows.field = c->index;
    rows.head = c->head;
    rows.n_heads = 1;
    rows.row = row;
    rows.n_rows = 1;
    rows.dtype = KT_DTYPE_F32;
    kv_row(tag, c->layer, c->index, c->head, c->field->width, expected);
    if (read && kt_kv_sequence_read(c->sequence, &rows, given, NULL) != KT_OK)
        return false;
    for (uint32_t i = 0; i < c->field->width; i++) {
        double found = number_at(c->field, c->place.scales, head, row % c->place.page_rows, i, used);
        if (!is_near(c->field, expected[i], largest(expected, c->field->width, i), found) ||
            (read && (double)given[i] != found)) {
            (void)snprintf(wrong, sizeof wrong,
                           "layer %u, field %u, head %u, row %llu, number %u: %g, expected %g", c->layer,
                           c->index, c->head, (unsigned long long)row, i, found, (double)expected[i]);
            return false;
        }
    }
    return true;
}

static bool check_page(const struct check *c, uint32_t page)
{
    const uint8_t *head =
        (const uint8_t *)c->place.base + (uint64_t)c->info.pages[page] * c->place.page_stride;
    uint8_t *used = calloc(1, c->place.size);
    bool right = true;
    if ((page + 1) % c->place.page_step == 0) {
        uint64_t first = (uint64_t)((page + 1) / c->place.page_step - 1) * c->place.page_rows;
        for (uint64_t row = first; row < first + c->place.page_rows && right; row++)
            right = check_row(c, row, head, used);
    }
    for (uint64_t i = 0; i < c->place.size && right; i++) {
        right = used[i] || head[i] == 0;
        if (!right)
            (void)snprintf(wrong, sizeof wrong, "layer %u, field %u, head %u, page %u: byte %llu is not 0",
                           c->layer, c->index, c->head, page, (unsigned long long)i);
    }
    free(used);
    return right;
}

const char *kv_check(const struct kt_kv *kv, const struct kt_kv_sequence *sequence,
                     const struct kt_kv_params *params, const uint64_t *tags, uint64_t n_tokens)
{
    struct check c = {.sequence = sequence, .tags = tags};
    kt_kv_sequence_info(sequence, &c.info);
    (void)snprintf(wrong, sizeof wrong, "a call failed");
    if (c.info.n_pages != up(c.info.tokens + c.info.room, 64) || n_tokens < c.info.tokens)
        return "the number of pages is wrong";
    for (c.layer = 0; c.layer < params->n_layers; c.layer++)
        for (c.index = 0; c.index < params->layers[c.layer].n_fields; c.index++) {
            c.field = &params->layers[c.layer].fields[c.index];
            if (c.field->kind == KT_KV_STATE)
                continue;
            c.n_rows = n_tokens / (c.field->stride ? c.field->stride : 1);
            for (c.head = 0; c.head < c.field->heads; c.head++) {
                if (kt_kv_place(kv, c.layer, c.index, c.head, &c.place, NULL) != KT_OK)
                    return wrong;
                for (uint32_t page = 0; page < c.info.n_pages; page++)
                    if (!check_page(&c, page))
                        return wrong;
            }
        }
    return "";
}

const char *kv_check_counts(const struct kt_kv *kv, struct kt_kv_sequence *const *sequences, size_t n)
{
    struct kt_kv_info info;
    uint32_t used = 0, shared = 0, open = 0;
    kt_kv_info(kv, &info);
    uint32_t *count = calloc(info.n_pages, sizeof *count);
    for (size_t s = 0; s < n; s++) {
        struct kt_kv_sequence_info one;
        if (!sequences[s])
            continue;
        open++;
        kt_kv_sequence_info(sequences[s], &one);
        for (uint32_t i = 0; i < one.n_pages; i++)
            count[one.pages[i]]++;
    }
    for (uint32_t i = 0; i < info.n_pages; i++) {
        used += count[i] > 0;
        shared += count[i] > 1;
    }
    free(count);
    (void)snprintf(wrong, sizeof wrong, "%u used, %u shared, %u free, %u open; expected %u, %u, %u, %u",
                   info.used_pages, info.shared_pages, info.free_pages, info.n_sequences, used, shared,
                   info.n_pages - used, open);
    bool right = info.used_pages == used && info.shared_pages == shared &&
                 info.free_pages == info.n_pages - used && info.n_sequences == open;
    return right ? "" : wrong;
}
