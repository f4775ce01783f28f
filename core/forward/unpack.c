/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.c - an expert back in its source format, for GPU ranks. Nodes and ranks cut intermediate_size at
 * different places. A task is a range of rows of one projection of one node's shard; it becomes one job of
 * the backend for each rank that has a part of it.
 */
#include "core/forward/unpack.h"

#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/layer.h"
#include "core/layer/store_check.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/decode/dtype.h"

static const char *const projection_names[3] = {"gate", "up", "down"};

/* A projection of the whole layer: units that cannot be cut, and their sizes. */
struct matrix {
    uint64_t rows, cols;
    uint64_t elements, bytes;         /* of a block of codes */
    uint64_t group_rows, group_cols;  /* of scales and zeros; at most all rows and columns */
    uint64_t scale_bytes, zero_bytes; /* 0: there are none */
};

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t number_bytes(uint32_t dtype)
{
    const struct kt_dtype_info *info = dtype == KT_DTYPE_NONE ? NULL : kt_dtype_find(dtype);
    return info ? info->bytes : 0;
}

static const struct kt_shard *first_shard(const struct kt_layer *layer)
{
    const struct kt_shard *shard = layer->shard;
    while (shard->begin == shard->end)
        shard++;
    return shard;
}

static struct matrix find_matrix(const struct kt_layer *layer, enum kt_projection projection)
{
    const struct kt_format *format = &first_shard(layer)->layout.shape.format[projection];
    const struct kt_dtype_info *info = kt_dtype_find(format->dtype);
    bool down = projection == KT_DOWN, grouped = format->scale_dtype != KT_DTYPE_NONE;
    struct matrix matrix = {
        .rows = down ? layer->params.hidden_size : layer->params.intermediate_size,
        .cols = down ? layer->params.intermediate_size : layer->params.hidden_size,
        .elements = info ? info->elements : 1,
        .bytes = info ? info->bytes : 0,
        .scale_bytes = number_bytes(format->scale_dtype),
        .zero_bytes = number_bytes(format->zero_dtype),
    };
    matrix.group_rows = grouped ? min(format->group_rows, matrix.rows) : matrix.rows;
    matrix.group_cols = grouped ? min(format->group_cols, matrix.cols) : matrix.cols;
    return matrix;
}

/* Describes `copies` matrices of rows x cols, one below the other. */
static void describe(const struct kt_layer *layer, enum kt_projection projection, uint64_t copies,
                     uint64_t rows, uint64_t cols, struct kt_unpack_matrix *out)
{
    const struct kt_format *format = &first_shard(layer)->layout.shape.format[projection];
    struct matrix matrix = find_matrix(layer, projection);
    uint64_t group_rows = (rows - 1) / matrix.group_rows + 1, group_cols = (cols - 1) / matrix.group_cols + 1;
    *out = (struct kt_unpack_matrix){
        .dtype = format->dtype,
        .scale_dtype = format->scale_dtype,
        .zero_dtype = format->zero_dtype,
        .rows = copies * rows,
        .row_size = cols / matrix.elements * matrix.bytes,
        .scale_rows = matrix.scale_bytes ? copies * group_rows : 0,
        .scale_row_size = group_cols * matrix.scale_bytes,
        .zero_row_size = group_cols * matrix.zero_bytes,
    };
    out->size = out->rows * out->row_size;
    out->scale_size = out->scale_rows * out->scale_row_size;
    out->zero_size = out->scale_rows * out->zero_row_size;
}

/* What is cut between ranks must be whole groups and blocks. */
static enum kt_status check_slice(const struct kt_layer *layer, enum kt_projection projection,
                                  uint32_t n_ranks, struct kt_error *error)
{
    struct matrix matrix = find_matrix(layer, projection);
    uint64_t size = layer->params.intermediate_size, slice = size / n_ranks;
    bool down = projection == KT_DOWN;
    uint64_t group = down ? matrix.group_cols : matrix.group_rows;
    if (group < size && n_ranks > 1 && slice % group)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: with %u ranks a slice has %llu of intermediate_size %llu, but the %s projection "
                       "has a scale for each %llu %s; use fewer ranks",
                       layer->name, n_ranks, (unsigned long long)slice, (unsigned long long)size,
                       projection_names[projection], (unsigned long long)group, down ? "columns" : "rows");
    if (down && slice % matrix.elements)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: with %u ranks a slice has %llu columns of the down projection, whose blocks "
                       "have %llu; use fewer ranks",
                       layer->name, n_ranks, (unsigned long long)slice, (unsigned long long)matrix.elements);
    for (uint32_t n = 0; n < layer->n_shards; n++)
        if (layer->shard[n].begin < layer->shard[n].end && group < size && layer->shard[n].begin % group)
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: NUMA node %u holds the %s projection from %llu on, inside a group of %llu; "
                           "use one node (core.numa_nodes)",
                           layer->name, n, projection_names[projection],
                           (unsigned long long)layer->shard[n].begin, (unsigned long long)group);
    return KT_OK;
}

static enum kt_status unpack(const struct kt_layer *layer, const struct kt_unpack *job,
                             struct kt_error *error)
{
    struct kt_error own;
    own.message[0] = '\0';
    enum kt_status status = kt_layer_ops(layer)->unpack(layer->backend->instance, job, &own);
    if (status == KT_OK)
        return KT_OK;
    (void)kt_fail_plugin(&own, status, "gives no weights back, without a reason");
    return kt_fail(error, status, "%s: backend %s: %s", layer->name, layer->backend->name, own.message);
}

/* Was packing lossless? A job without rows asks the backend. */
static enum kt_status check_backend(const struct kt_layer *layer, struct kt_error *error)
{
    const struct kt_format *format = first_shard(layer)->layout.shape.format;
    enum kt_status status = KT_OK;
    if (!KT_OPTIONAL_OP(kt_layer_ops(layer), unpack))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: backend %s cannot give weights back in their source format", layer->name,
                       layer->backend->name);
    const enum kt_projection first = kt_layer_first(layer);
    if (format[first].dtype != format[KT_UP].dtype ||
        format[first].scale_dtype != format[KT_UP].scale_dtype ||
        format[first].zero_dtype != format[KT_UP].zero_dtype ||
        format[first].group_rows != format[KT_UP].group_rows ||
        format[first].group_cols != format[KT_UP].group_cols)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: gate and up differ in format, so no matrix holds both",
                       layer->name);
    for (int p = (int)first; p <= KT_DOWN && status == KT_OK; p++) {
        struct kt_unpack job = {.layout = &first_shard(layer)->layout, .projection = (enum kt_projection)p};
        status = unpack(layer, &job, error);
    }
    return status;
}

enum kt_status kt_layer_unpack_info(const struct kt_layer *layer, uint32_t n_ranks,
                                    struct kt_unpack_info *out, struct kt_error *error)
{
    if (!layer || !out)
        return kt_fail(error, KT_E_INVALID, "kt_layer_unpack_info: layer and info must not be NULL");
    if (!layer->loaded)
        return kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    uint64_t size = layer->params.intermediate_size, hidden = layer->params.hidden_size;
    if (n_ranks == 0)
        return kt_fail(error, KT_E_INVALID, "%s: n_ranks is 0; at least 1 is needed", layer->name);
    if (size % n_ranks)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: intermediate_size %llu does not divide by %u ranks",
                       layer->name, (unsigned long long)size, n_ranks);
    enum kt_status status = check_backend(layer, error);
    if (status == KT_OK)
        status = check_slice(layer, kt_layer_first(layer), n_ranks, error);
    if (status == KT_OK)
        status = check_slice(layer, KT_DOWN, n_ranks, error);
    if (status != KT_OK)
        return status;
    *out = (struct kt_unpack_info){.n_ranks = n_ranks, .intermediate_size = size / n_ranks};
    describe(layer, KT_UP, KT_DOWN - kt_layer_first(layer), size / n_ranks, hidden, &out->w13);
    describe(layer, KT_DOWN, 1, hidden, size / n_ranks, &out->w2);
    return KT_OK;
}

enum kt_status kt_unpack_check(const struct kt_layer *layer, const struct kt_unpacking *unpacking,
                               struct kt_error *error)
{
    struct kt_unpack_info info;
    enum kt_status status = kt_layer_unpack_info(layer, unpacking->n_ranks, &info, error);
    if (status != KT_OK)
        return status;
    if (unpacking->expert >= layer->params.n_experts)
        return kt_fail(error, KT_E_RANGE, "%s: expert %u does not exist; there are 0 to %u", layer->name,
                       unpacking->expert, layer->params.n_experts - 1);
    if (!unpacking->ranks)
        return kt_fail(error, KT_E_INVALID, "%s: ranks must not be NULL", layer->name);
    for (uint32_t r = 0; r < unpacking->n_ranks; r++) {
        const struct kt_unpack_buffers *rank = &unpacking->ranks[r];
        const char *missing = !rank->w13                                 ? "w13"
                              : !rank->w2                                ? "w2"
                              : info.w13.scale_size && !rank->w13_scales ? "w13_scales"
                              : info.w13.zero_size && !rank->w13_zeros   ? "w13_zeros"
                              : info.w2.scale_size && !rank->w2_scales   ? "w2_scales"
                              : info.w2.zero_size && !rank->w2_zeros     ? "w2_zeros"
                                                                         : NULL;
        if (missing)
            return kt_fail(error, KT_E_INVALID, "%s: rank %u has no buffer %s, which this format needs",
                           layer->name, r, missing);
    }
    return KT_OK;
}

/* ---- the work ---- */

struct run {
    struct kt_layer *layer;
    const struct kt_unpacking *unpacking;
    struct kt_unpack_info info;
    enum kt_projection first; /* KT_UP: w13 is up alone */
    struct matrix matrix[3];
    struct kt_outcome outcome;
};

static char *at(void *start, uint64_t row, uint64_t row_size, uint64_t offset)
{
    return (char *)start + row * row_size + offset;
}

/* Where the scales (or zeros) of a job go. A scale of more rows or columns than the job has is written once,
 * by the job at the start of the rank's matrix. */
static void *find_values(void *start, uint64_t bytes, bool wanted, uint64_t row, uint64_t row_size,
                         uint64_t column)
{
    return bytes && wanted ? at(start, row, row_size, column * bytes) : NULL;
}

/* Rows begin .. end - 1 of gate or up of the shard; up is behind gate, if there is one. As far as rank `rank`
 * has them. */
static void aim_rows(const struct run *run, const struct kt_shard *shard, uint32_t rank,
                     struct kt_unpack *job)
{
    const struct matrix *matrix = &run->matrix[job->projection];
    const struct kt_unpack_buffers *to = &run->unpacking->ranks[rank];
    const struct kt_unpack_matrix *w13 = &run->info.w13;
    uint64_t row = shard->begin + job->row_begin - rank * run->info.intermediate_size;
    uint64_t group = row / matrix->group_rows;
    bool up = job->projection > run->first, wanted = matrix->group_rows < matrix->rows || row == 0;
    group += up ? w13->scale_rows / 2 : 0;
    job->col_begin = 0;
    job->col_end = matrix->cols;
    job->codes = at(to->w13, row + (up ? w13->rows / 2 : 0), w13->row_size, 0);
    job->codes_stride = (int64_t)w13->row_size;
    job->scales = find_values(to->w13_scales, matrix->scale_bytes, wanted, group, w13->scale_row_size, 0);
    job->scales_stride = (int64_t)w13->scale_row_size;
    job->zeros = find_values(to->w13_zeros, matrix->zero_bytes, wanted, group, w13->zero_row_size, 0);
    job->zeros_stride = (int64_t)w13->zero_row_size;
}

/* Columns of down of the shard that rank `rank` has. */
static void aim_columns(const struct run *run, const struct kt_shard *shard, uint32_t rank,
                        struct kt_unpack *job)
{
    const struct matrix *matrix = &run->matrix[KT_DOWN];
    const struct kt_unpack_buffers *to = &run->unpacking->ranks[rank];
    const struct kt_unpack_matrix *w2 = &run->info.w2;
    uint64_t column = shard->begin + job->col_begin - rank * run->info.intermediate_size;
    uint64_t group = job->row_begin / matrix->group_rows, place = column / matrix->group_cols;
    bool wanted = (matrix->group_cols < matrix->cols || column == 0) &&
                  (matrix->group_rows < matrix->rows || job->row_begin == 0);
    job->codes = at(to->w2, job->row_begin, w2->row_size, column / matrix->elements * matrix->bytes);
    job->codes_stride = (int64_t)w2->row_size;
    job->scales = find_values(to->w2_scales, matrix->scale_bytes, wanted, group, w2->scale_row_size, place);
    job->scales_stride = (int64_t)w2->scale_row_size;
    job->zeros = find_values(to->w2_zeros, matrix->zero_bytes, wanted, group, w2->zero_row_size, place);
    job->zeros_stride = (int64_t)w2->zero_row_size;
}

/* Rows begin .. end - 1 of a projection of the shard, rank after rank. */
static void unpack_rows(struct run *run, const struct kt_shard *shard, enum kt_projection projection,
                        uint64_t begin, uint64_t end)
{
    bool down = projection == KT_DOWN;
    uint64_t slice = run->info.intermediate_size;
    uint64_t first = shard->begin + (down ? 0 : begin), last = down ? shard->end : shard->begin + end;
    struct kt_unpack job = {.layout = &shard->layout,
                            .projection = projection,
                            .packed = kt_shard_object(shard, run->unpacking->expert,
                                                      down ? KT_STAGE_DOWN : KT_STAGE_GATE_UP),
                            .row_begin = begin,
                            .row_end = end};
    for (uint64_t from = first, to; from < last; from = to) {
        uint32_t rank = (uint32_t)(from / slice);
        struct kt_error error;
        to = min(last, (rank + UINT64_C(1)) * slice);
        *(down ? &job.col_begin : &job.row_begin) = from - shard->begin;
        *(down ? &job.col_end : &job.row_end) = to - shard->begin;
        (down ? aim_columns : aim_rows)(run, shard, rank, &job);
        enum kt_status status = unpack(run->layer, &job, &error);
        if (status != KT_OK)
            kt_outcome_fail(&run->outcome, status, &error);
    }
}

/* Rows of a task: at least a panel, and whole groups, so that each scale is written by one task. */
static uint64_t task_rows(const struct run *run, const struct kt_shard *shard, enum kt_projection projection)
{
    const struct matrix *matrix = &run->matrix[projection];
    uint64_t rows = min(shard->layout.panel_rows[projection == KT_DOWN], matrix->rows);
    uint64_t group = matrix->group_rows < matrix->rows ? matrix->group_rows : 1;
    return (rows + group - 1) / group * group;
}

static void unpack_all(struct kt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct kt_shard *shard = &run->layer->shard[worker->node];
    uint64_t n_tasks[3], rows[3];
    if (shard->begin == shard->end)
        return;
    for (int p = (int)run->first; p <= KT_DOWN; p++) {
        rows[p] = p == KT_DOWN ? run->matrix[p].rows : shard->end - shard->begin;
        n_tasks[p] = (rows[p] - 1) / task_rows(run, shard, (enum kt_projection)p) + 1;
    }
    for (uint64_t task; !kt_outcome_failed(&run->outcome);) {
        enum kt_projection projection = run->first;
        for (task = kt_worker_claim(worker, 0); projection < KT_DOWN && task >= n_tasks[projection];)
            task -= n_tasks[projection++];
        if (task >= n_tasks[projection])
            return;
        uint64_t step = task_rows(run, shard, projection);
        unpack_rows(run, shard, projection, task * step, min((task + 1) * step, rows[projection]));
    }
}

enum kt_status kt_unpack_run(struct kt_layer *layer, const struct kt_unpacking *unpacking,
                             struct kt_error *error)
{
    struct run run = {.layer = layer, .unpacking = unpacking, .first = kt_layer_first(layer)};
    int64_t id = unpacking->expert;
    enum kt_status status = kt_layer_unpack_info(layer, unpacking->n_ranks, &run.info, error);
    if (status == KT_OK)
        status = kt_pool_lock(layer->context->pool, error);
    if (status != KT_OK)
        return status;
    for (int p = (int)run.first; p <= KT_DOWN; p++)
        run.matrix[p] = find_matrix(layer, (enum kt_projection)p);
    if (layer->check)
        status =
            kt_store_check_batch(layer, &(struct kt_forward){.n_tokens = 1, .top_k = 1, .expert_ids = &id},
                                 error);
    if (status == KT_OK) {
        kt_outcome_start(&run.outcome);
        kt_pool_run(layer->context->pool, unpack_all, &run);
        status = kt_outcome_end(&run.outcome, error);
    }
    kt_pool_unlock(layer->context->pool);
    return status;
}

enum kt_status kt_layer_unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                               const struct kt_unpack_buffers *ranks, struct kt_error *error)
{
    struct kt_unpacking unpacking = {expert, n_ranks, ranks};
    enum kt_status status = kt_unpack_check(layer, &unpacking, error);
    return status == KT_OK ? kt_unpack_run(layer, &unpacking, error) : status;
}
