/* SPDX-License-Identifier: Apache-2.0 */
/* residual.c - what goes into the stream of hidden states and comes out of it: the embedding, what halves of
 * layers give, and logits, with the factors that families have there. */
#include "tools/engine/model/block/block.h"

#include <math.h>

bool kt_slice_adds(const struct kt_slice *s, enum kt_half half)
{
    const struct kt_place *place = &s->block->places[half];
    return !place->after.is_there && place->keep == 1 && place->add == 1;
}

struct kt_linear_output kt_slice_result(const struct kt_slice *s, enum kt_half half,
                                        const struct kt_linear *linear)
{
    bool adds = kt_slice_adds(s, half);
    return kt_slice_output(linear, s->model->buffers[adds ? KT_BUFFER_X : KT_BUFFER_RESULT], adds);
}

enum kt_status kt_slice_settle_place(const struct kt_slice *s, struct kt_range range,
                                     const struct kt_place *place, struct kt_error *error)
{
    uint64_t size = s->model->config.hidden_size, first = range.begin * size;
    float *x = s->model->buffers[KT_BUFFER_X] + first, *f = s->model->buffers[KT_BUFFER_RESULT] + first;
    uint64_t n = (range.end - range.begin) * size;
    enum kt_status status = KT_OK;
    if (place->after.is_there)
        status = kt_slice_norm_hidden(s->model, f, &place->after, f, range.end - range.begin, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        x[i] = place->keep * x[i] + place->add * f[i];
    return status;
}

static enum kt_status settle_mixer(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    return kt_slice_settle_place(s, range, &s->block->places[KT_HALF_MIXER], error);
}

static enum kt_status settle_ffn(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    return kt_slice_settle_place(s, range, &s->block->places[KT_HALF_FFN], error);
}

enum kt_status kt_slice_settle(const struct kt_slice *s, enum kt_half half, struct kt_error *error)
{
    return kt_slice_adds(s, half)
               ? KT_OK
               : kt_slice_run_tokens(s, half == KT_HALF_MIXER ? settle_mixer : settle_ffn, error);
}

enum kt_status kt_slice_embed(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const float scale = m->config.embedding_scale;
    uint64_t size = m->config.hidden_size, n = (range.end - range.begin) * size;
    float *x = m->buffers[KT_BUFFER_X] + range.begin * size;
    enum kt_status status = kt_view_gather(&m->embedding, m->ids + range.begin, range.end - range.begin,
                                           KT_DTYPE_F32, x, 0, error);
    for (uint64_t i = 0; i < n && scale != 0 && status == KT_OK; i++)
        x[i] *= scale;
    return status;
}

/* ---- logits ---- */

struct logits {
    struct kt_slice slice;
    float *rows;
    uint64_t n;
};

static void cap(void *data, const struct kt_thread *thread)
{
    const struct logits *logits = data;
    const struct kt_engine_config *c = &logits->slice.model->config;
    float scale = c->logits_scale != 0 ? c->logits_scale : 1, most = c->logits_cap;
    uint64_t begin = logits->n * thread->index / thread->n_threads;
    uint64_t end = logits->n * (thread->index + 1) / thread->n_threads;
    for (uint64_t i = begin; i < end; i++) {
        float z = logits->rows[i] * scale;
        logits->rows[i] = most > 0 ? most * tanhf(z / most) : z;
    }
}

enum kt_status kt_slice_cap(const struct kt_slice *s, float *rows, uint32_t n, struct kt_error *error)
{
    const struct kt_engine_config *c = &s->model->config;
    struct logits logits = {.slice = *s, .rows = rows, .n = n * s->model->vocabulary};
    if (c->logits_scale == 0 && c->logits_cap == 0)
        return KT_OK;
    return kt_context_run_threads(s->model->context, cap, &logits, error);
}
