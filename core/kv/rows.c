/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv/rows.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/kv/declare.h"
#include "core/kv/form.h"

#include <inttypes.h>

/* Rows of heads, and where the caller has them. */
struct span {
    const struct kt_kv_spot *spot;
    uint64_t row, n_rows;
    uint32_t head, n_heads;
    int64_t row_stride, head_stride;
};

/* Checks all but the rows' range. */
static enum kt_status make_span(const struct kt_kv_sequence *sequence, const struct kt_kv_rows *rows,
                                const void *data, struct span *span, struct kt_error *error)
{
    if (!sequence || !rows || rows->struct_size < sizeof *rows)
        return kt_fail(
            error, KT_E_INVALID,
            "rows of a cache: sequence or rows is NULL, or its struct_size is too small; start with "
            "KT_KV_ROWS_INIT");
    if (!data && rows->n_rows && rows->n_heads)
        return kt_fail(error, KT_E_INVALID, "rows of a cache: data must not be NULL");
    enum kt_status status = kt_kv_find(&sequence->kv->declared, KT_KV_ROWS, rows->layer, rows->field,
                                       rows->head, rows->n_heads, &span->spot, error);
    if (status != KT_OK)
        return status;
    uint32_t number = kt_element_size(rows->dtype);
    if (number == 0)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "rows of a cache: numbers of dtype %s; f32, bf16 or f16 are known",
                       kt_dtype_name(rows->dtype));
    int64_t head_stride = rows->head_stride ? rows->head_stride : (int64_t)span->spot->field.width * number;
    span->row = rows->row;
    span->n_rows = rows->n_rows;
    span->head = rows->head;
    span->n_heads = rows->n_heads;
    span->head_stride = head_stride;
    span->row_stride = rows->row_stride ? rows->row_stride : head_stride * rows->n_heads;
    return KT_OK;
}

static bool within(const struct span *span, uint64_t begin, uint64_t end)
{
    return span->row >= begin && span->row <= end && span->n_rows <= end - span->row;
}

/* The page that holds a row. */
static char *page_of(const struct kt_kv_sequence *sequence, const struct span *span, char *base,
                     uint64_t page_part, uint64_t row)
{
    return base + sequence->pages[kt_kv_page_of(span->spot, row)] * page_part;
}

static enum kt_status fail_position(const struct kt_kv_sequence *sequence, const struct span *span,
                                    uint64_t begin, uint64_t end, struct kt_error *error)
{
    return kt_fail(error, KT_E_STATE,
                   "layer %" PRIu32 ", field %" PRIu32 ": %" PRIu64 " rows from row %" PRIu64
                   " on, expected from row %" PRIu64 " to below row %" PRIu64 ": the sequence has %" PRIu64
                   " tokens, and %" PRIu64 " more are reserved",
                   span->spot->layer, span->spot->index, span->n_rows, span->row, begin, end,
                   sequence->tokens, sequence->reserved);
}

enum kt_status kt_kv_sequence_write(struct kt_kv_sequence *sequence, const struct kt_kv_rows *rows,
                                    const void *data, struct kt_error *error)
{
    struct span span;
    enum kt_status status = make_span(sequence, rows, data, &span, error);
    if (status != KT_OK)
        return status;
    const struct kt_kv *kv = sequence->kv;
    uint64_t begin = sequence->tokens / span.spot->field.stride;
    uint64_t end = (sequence->tokens + sequence->reserved) / span.spot->field.stride;
    if (!within(&span, begin, end))
        return fail_position(sequence, &span, begin, end, error);
    for (uint32_t h = 0; h < span.n_heads; h++) {
        uint32_t node;
        char *base = kt_kv_head(kv, span.spot, span.head + h, &node);
        const char *from = (const char *)data + h * span.head_stride;
        for (uint64_t r = 0; r < span.n_rows; r++)
            kt_kv_row_put(span.spot,
                          page_of(sequence, &span, base, kv->declared.page_part[node], span.row + r),
                          (uint32_t)((span.row + r) % span.spot->page_rows),
                          from + (int64_t)r * span.row_stride, rows->dtype);
    }
    return KT_OK;
}

enum kt_status kt_kv_sequence_read(const struct kt_kv_sequence *sequence, const struct kt_kv_rows *rows,
                                   void *data, struct kt_error *error)
{
    struct span span;
    enum kt_status status = make_span(sequence, rows, data, &span, error);
    if (status != KT_OK)
        return status;
    if (rows->dtype != KT_DTYPE_F32)
        return kt_fail(error, KT_E_UNSUPPORTED, "rows of a cache are read as f32, not as %s",
                       kt_dtype_name(rows->dtype));
    const struct kt_kv *kv = sequence->kv;
    uint64_t end = (sequence->tokens + sequence->reserved) / span.spot->field.stride;
    if (!within(&span, 0, end))
        return fail_position(sequence, &span, 0, end, error);
    if ((span.row_stride | span.head_stride) % (int64_t)sizeof(float))
        return kt_fail(error, KT_E_INVALID,
                       "rows of a cache: strides of %" PRId64 " and %" PRId64 " bytes are not whole numbers",
                       span.row_stride, span.head_stride);
    for (uint32_t h = 0; h < span.n_heads; h++) {
        uint32_t node;
        char *base = kt_kv_head(kv, span.spot, span.head + h, &node);
        char *to = (char *)data + h * span.head_stride;
        for (uint64_t r = 0; r < span.n_rows; r++)
            kt_kv_row_get(span.spot,
                          page_of(sequence, &span, base, kv->declared.page_part[node], span.row + r),
                          (uint32_t)((span.row + r) % span.spot->page_rows),
                          (float *)(void *)(to + (int64_t)r * span.row_stride));
    }
    return KT_OK;
}

enum kt_status kt_kv_sequence_state(const struct kt_kv_sequence *sequence, uint32_t layer, uint32_t field,
                                    uint32_t head, void **state, struct kt_error *error)
{
    const struct kt_kv_spot *spot = NULL;
    uint32_t node;
    if (!sequence || !state)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_state: sequence and state must not be NULL");
    const struct kt_kv *kv = sequence->kv;
    enum kt_status status = kt_kv_find(&kv->declared, KT_KV_STATE, layer, field, head, 1, &spot, error);
    if (status != KT_OK)
        return status;
    char *base = kt_kv_head(kv, spot, head, &node);
    *state = base + sequence->slot * kv->declared.state_part[node];
    return KT_OK;
}

enum kt_status kt_kv_place(const struct kt_kv *kv, uint32_t layer, uint32_t field, uint32_t head,
                           struct kt_kv_place *place, struct kt_error *error)
{
    const struct kt_kv_spot *spot = NULL;
    uint32_t node;
    if (!kv || !place)
        return kt_fail(error, KT_E_INVALID, "kt_kv_place: kv and place must not be NULL");
    enum kt_status status = kt_kv_find(&kv->declared, KT_KV_ROWS, layer, field, head, 1, &spot, error);
    if (status != KT_OK)
        return status;
    char *base = kt_kv_head(kv, spot, head, &node);
    *place = (struct kt_kv_place){
        .base = base,
        .page_stride = kv->declared.page_part[node],
        .scales = spot->scales,
        .size = spot->size,
        .page_rows = spot->page_rows,
        .page_step = spot->page_step,
        .node = node,
        .field = spot->field,
    };
    return KT_OK;
}

static void clear_field(struct kt_kv_sequence *sequence, const struct kt_kv_spot *spot, uint64_t tokens,
                        uint64_t end_page)
{
    const struct kt_kv *kv = sequence->kv;
    uint64_t begin = tokens / spot->field.stride, end = end_page * KT_KV_PAGE / spot->field.stride;
    for (uint32_t h = 0; h < spot->field.heads && begin < end; h++) {
        uint32_t node;
        char *base = kt_kv_head(kv, spot, h, &node);
        for (uint64_t row = begin; row < end; row++)
            kt_kv_row_put(spot,
                          base + sequence->pages[kt_kv_page_of(spot, row)] * kv->declared.page_part[node],
                          (uint32_t)(row % spot->page_rows), NULL, 0);
    }
}

void kt_kv_rows_clear(struct kt_kv_sequence *sequence, uint64_t tokens, uint64_t end_page)
{
    const struct kt_kv_declaration *declared = &sequence->kv->declared;
    for (uint32_t i = 0; i < declared->first[declared->n_layers]; i++)
        if (declared->spot[i].field.kind == KT_KV_ROWS)
            clear_field(sequence, &declared->spot[i], tokens, end_page);
}
