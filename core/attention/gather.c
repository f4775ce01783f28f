/* SPDX-License-Identifier: Apache-2.0 */
#include "core/attention/gather.h"

#include "core/base/size.h"

#include <string.h>

static uint32_t numbers_of_word(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 1 : dtype == KT_DTYPE_BF16 ? 2 : 4;
}

static uint32_t groups_of(const struct kt_kv_field *field)
{
    return field->dtype == KT_DTYPE_Q8_0 ? (field->width + KT_KV_GROUP - 1) / KT_KV_GROUP : 0;
}

void kt_attention_gather_place(const struct kt_kv_place *plain, struct kt_kv_place *place)
{
    const struct kt_kv_field *field = &plain->field;
    uint64_t numbers = kt_align64((uint64_t)KT_KV_PAGE * field->width / numbers_of_word(field->dtype) * 4);
    uint64_t scales = kt_align64((uint64_t)KT_KV_PAGE * groups_of(field) * sizeof(uint16_t));
    *place = *plain;
    place->field.layout = KT_KV_KEY;
    place->scales = scales ? numbers : 0;
    place->size = place->page_stride = numbers + scales;
    place->base = NULL;
}

uint64_t kt_attention_gather_size(const struct kt_kv_place *place)
{
    return KT_ATTENTION_CHUNK / KT_KV_PAGE * place->page_stride;
}

/* A row in a page, of KT_KV_BLOCK that become one block; NULL: zeros. */
struct source {
    const uint32_t *words;
    const uint16_t *scales;
};

static struct source find_source(const struct kt_kv_place *from, const uint32_t *pages, uint64_t row)
{
    const char *page =
        (const char *)from->base + pages[row / KT_KV_PAGE] * from->page_stride; /* rows of one token each */
    uint64_t t = row % KT_KV_PAGE, words = from->field.width / numbers_of_word(from->field.dtype);
    return (struct source){
        .words = (const uint32_t *)(const void *)page + t * words,
        .scales = (const uint16_t *)(const void *)(page + from->scales) + t * groups_of(&from->field),
    };
}

/* Lines of a block have a word, or a scale, of each of its rows. */
static void copy_block(const struct source source[KT_KV_BLOCK], uint32_t n_words, uint32_t n_scales,
                       uint32_t *words, uint16_t *scales)
{
    for (uint32_t i = 0; i < n_words; i++, words += KT_KV_BLOCK)
        for (uint32_t r = 0; r < KT_KV_BLOCK; r++)
            words[r] = source[r].words[i];
    for (uint32_t i = 0; i < n_scales; i++, scales += KT_KV_BLOCK)
        for (uint32_t r = 0; r < KT_KV_BLOCK; r++)
            scales[r] = source[r].scales[i];
}

/* The same of the first n rows; the others become zero. */
static void copy_some(const struct source *source, uint32_t n, uint32_t n_words, uint32_t n_scales,
                      uint32_t *words, uint16_t *scales)
{
    memset(words, 0, (size_t)n_words * KT_KV_BLOCK * sizeof *words);
    memset(scales, 0, (size_t)n_scales * KT_KV_BLOCK * sizeof *scales);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < n_words; i++)
            words[i * KT_KV_BLOCK + r] = source[r].words[i];
        for (uint32_t i = 0; i < n_scales; i++)
            scales[i * KT_KV_BLOCK + r] = source[r].scales[i];
    }
}

void kt_attention_gather(const struct kt_kv_place *from, const uint32_t *pages, const uint32_t *rows,
                         uint64_t first, uint32_t n, const struct kt_kv_place *to)
{
    const uint32_t n_words = to->field.width / numbers_of_word(to->field.dtype),
                   n_scales = groups_of(&to->field), whole = (n + KT_KV_PAGE - 1) / KT_KV_PAGE * KT_KV_PAGE;
    for (uint32_t r = 0; r < whole; r += KT_KV_BLOCK) {
        struct source source[KT_KV_BLOCK];
        uint32_t here = r >= n ? 0 : n - r < KT_KV_BLOCK ? n - r : KT_KV_BLOCK;
        char *page = (char *)to->base + r / KT_KV_PAGE * to->page_stride;
        uint32_t block = r % KT_KV_PAGE / KT_KV_BLOCK;
        uint32_t *words = (uint32_t *)(void *)page + (uint64_t)block * n_words * KT_KV_BLOCK;
        uint16_t *scales = (uint16_t *)(void *)(page + to->scales) + (uint64_t)block * n_scales * KT_KV_BLOCK;
        for (uint32_t i = 0; i < here; i++)
            source[i] = find_source(from, pages, rows ? rows[r + i] : first + r + i);
        if (here == KT_KV_BLOCK)
            copy_block(source, n_words, n_scales, words, scales);
        else
            copy_some(source, here, n_words, n_scales, words, scales);
    }
}
