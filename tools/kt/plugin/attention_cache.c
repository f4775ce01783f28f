/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_cache.c - a sequence of a cache for checks of attention, by the words of <kt/kv.h>.
 *
 * Its pages lie in a random order among others. NaN stand wherever a kernel has no business: in other pages,
 * between the heads of a page, and in keys behind the last token. Values behind it and what pads rows are
 * zero, as <kt/kv.h> says.
 */
#include "tools/kt/plugin/attention.h"

#include <stdlib.h>
#include <string.h>

#define N_PAGES ((ATTENTION_TOKENS + KT_KV_PAGE - 1) / KT_KV_PAGE)
#define OTHER_PAGES 3

/* ---- places ---- */

/* Numbers of 4 bytes. */
static uint64_t pack_of(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 1 : dtype == KT_DTYPE_BF16 ? 2 : 4;
}

static uint64_t number_place(const struct kt_kv_field *field, uint64_t t, uint64_t i)
{
    uint64_t p = pack_of(field->dtype), w = field->width;
    return field->layout == KT_KV_KEY ? ((t / 16 * ((w + p - 1) / p) + i / p) * 16 + t % 16) * p + i % p
                                      : (t / p * w + i) * p + t % p;
}

static uint64_t scale_place(const struct kt_kv_field *field, uint64_t t, uint64_t g)
{
    uint64_t groups = (field->width + KT_KV_GROUP - 1) / KT_KV_GROUP;
    return field->layout == KT_KV_KEY ? (t / 16 * groups + g) * 16 + t % 16 : g * KT_KV_PAGE + t;
}

static void lay_out(struct kt_kv_place *place, const struct kt_kv_field *field, uint64_t *random)
{
    uint64_t p = pack_of(field->dtype), w = field->width, groups = (w + KT_KV_GROUP - 1) / KT_KV_GROUP;
    uint64_t row = field->layout == KT_KV_KEY ? (w + p - 1) / p * 4 : w * 4 / p;
    *place = (struct kt_kv_place){.page_rows = KT_KV_PAGE, .page_step = 1, .field = *field};
    place->size = (KT_KV_PAGE * row + 63) / 64 * 64;
    if (field->dtype == KT_DTYPE_Q8_0) {
        place->scales = place->size;
        place->size = (place->size + KT_KV_PAGE * groups * 2 + 63) / 64 * 64;
    }
    place->page_stride = place->size + 64 * (uint64_t)random_below(random, 3);
}

/* ---- rows ---- */

/* Row t of the sequence into its page, and as the numbers that it stands for. */
static void put_row(const struct attention_rows *rows, char *page, uint64_t t, uint64_t *random)
{
    const struct kt_kv_field *field = &rows->place.field;
    float *numbers = rows->numbers + t * field->width;
    float scale = 0;
    for (uint64_t i = 0; i < field->width; i++) {
        uint64_t at = number_place(field, t % KT_KV_PAGE, i);
        int8_t code = (int8_t)((int)random_below(random, 255) - 127);
        if (field->dtype == KT_DTYPE_Q8_0) {
            if (i % KT_KV_GROUP == 0) {
                scale = 0x1p-7f + (float)random_below(random, 16) * 0x1p-11f;
                write_number(page + rows->place.scales +
                                 2 * scale_place(field, t % KT_KV_PAGE, i / KT_KV_GROUP),
                             KT_DTYPE_F16, scale);
            }
            page[at] = (char)code;
            numbers[i] = (float)code * scale;
            continue;
        }
        uint32_t size = number_size(field->dtype);
        float value = (float)((double)(random_next(random) >> 40) * 0x1p-22 - 2);
        write_number(page + at * size, field->dtype, value);
        numbers[i] = read_number(page + at * size, field->dtype);
    }
}

/* NaN in the keys behind the last token. */
static void spoil_row(const struct attention_rows *rows, char *page, uint64_t t)
{
    const struct kt_kv_field *field = &rows->place.field;
    uint64_t size = 4 / pack_of(field->dtype);
    for (uint64_t i = 0; i < field->width; i++)
        memset(page + number_place(field, t % KT_KV_PAGE, i) * size, 0xff, size);
    for (uint64_t g = 0; field->dtype == KT_DTYPE_Q8_0 && g * KT_KV_GROUP < field->width; g++)
        memset(page + rows->place.scales + 2 * scale_place(field, t % KT_KV_PAGE, g), 0xff, 2);
}

static void create_rows(struct attention_case *item, const char *name, const struct kt_kv_field *field,
                        struct attention_rows *rows)
{
    const uint32_t *pages = (const uint32_t *)(const void *)item->pages.data;
    lay_out(&rows->place, field, &item->random);
    const struct kt_kv_place *place = &rows->place;
    uint64_t n = N_PAGES + OTHER_PAGES;
    check_guard(name, (n - 1) * place->page_stride + place->size, 64, random_below(&item->random, 4) > 0,
                &rows->memory);
    memset(rows->memory.data, 0xff, rows->memory.size);
    rows->place.base = rows->memory.data;
    rows->numbers = check_need(malloc(sizeof(float) * ATTENTION_TOKENS * field->width));
    for (uint64_t t = 0; t < (uint64_t)N_PAGES * KT_KV_PAGE; t++) {
        char *page = (char *)rows->memory.data + pages[t / KT_KV_PAGE] * place->page_stride;
        if (t % KT_KV_PAGE == 0)
            memset(page, 0, place->size);
        if (t < ATTENTION_TOKENS)
            put_row(rows, page, t, &item->random);
        else if (field->layout == KT_KV_KEY && !item->layout.shape.latent)
            spoil_row(rows, page, t);
    }
    guard_seal(&rows->memory);
}

void attention_cache_create(struct attention_case *item)
{
    const struct kt_attention_shape *shape = &item->layout.shape;
    uint32_t order[N_PAGES + OTHER_PAGES];
    for (uint32_t i = 0; i < N_PAGES + OTHER_PAGES; i++) {
        uint32_t j = random_below(&item->random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    check_guard("the page table", N_PAGES * sizeof(*order), sizeof(*order), true, &item->pages);
    memcpy(item->pages.data, order, N_PAGES * sizeof(*order));
    guard_seal(&item->pages);
    create_rows(item, "the cache's keys", &shape->key, &item->keys);
    if (!shape->latent)
        create_rows(item, "the cache's values", &shape->value, &item->values);
}

static void free_rows(struct attention_rows *rows)
{
    guard_free(&rows->memory);
    free(rows->numbers);
}

void attention_cache_free(struct attention_case *item)
{
    free_rows(&item->keys);
    free_rows(&item->values);
    guard_free(&item->pages);
}
