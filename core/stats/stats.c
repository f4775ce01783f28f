/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - statistics of a model's layers: added up, described, written and read. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/layer/layer.h"
#include "core/weights/file/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The limit of a layer, and more layers than any model has. */
enum { MOST_EXPERTS = 65536, MOST_LAYERS = 65536 };

/* Names of tensors in files; the first three have one number for each layer, the others one for each expert.
 */
enum column { LAYERS, BATCHES, TOKENS, COUNTS, COMPUTED, WEIGHTS, N_COLUMNS };
static const char *const names[N_COLUMNS] = {"layers", "batches", "tokens", "counts", "computed", "weights"};

struct kt_stats {
    uint32_t n_layers, n_experts;
    uint64_t total;            /* of all counts; at most INT64_MAX, so no partial sum overflows */
    uint64_t *number[WEIGHTS]; /* by enum column */
    double *weights;
};

static size_t width(const struct kt_stats *stats, enum column column)
{
    return column < COUNTS ? 1 : stats->n_experts;
}

enum kt_status kt_stats_create(uint32_t n_experts, struct kt_stats **out, struct kt_error *error)
{
    if (!out || n_experts == 0 || n_experts > MOST_EXPERTS)
        return kt_fail(error, KT_E_INVALID,
                       "kt_stats_create: stats must not be NULL; a layer has 1 to %d experts, not %" PRIu32,
                       MOST_EXPERTS, n_experts);
    struct kt_stats *stats = calloc(1, sizeof *stats);
    if (!stats)
        return kt_fail(error, KT_E_NOMEM, "no memory for statistics");
    stats->n_experts = n_experts;
    *out = stats;
    return KT_OK;
}

void kt_stats_destroy(struct kt_stats *stats)
{
    if (!stats)
        return;
    for (int c = 0; c < WEIGHTS; c++)
        free(stats->number[c]);
    free(stats->weights);
    free(stats);
}

void kt_stats_info(const struct kt_stats *stats, struct kt_stats_info *info)
{
    *info = (struct kt_stats_info){.n_layers = stats->n_layers,
                                   .n_experts = stats->n_experts,
                                   .layers = stats->number[LAYERS],
                                   .n_batches = stats->number[BATCHES],
                                   .n_tokens = stats->number[TOKENS],
                                   .counts = stats->number[COUNTS],
                                   .computed = stats->number[COMPUTED],
                                   .weights = stats->weights};
}

/* ---- adding ---- */

/* Makes room for n layers. */
static enum kt_status reserve(struct kt_stats *stats, uint32_t n, struct kt_error *error)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        void **data = c == WEIGHTS ? (void **)&stats->weights : (void **)&stats->number[c];
        uint64_t size;
        void *grown = kt_mul(n, width(stats, (enum column)c) * sizeof(uint64_t), &size)
                          ? realloc(*data, (size_t)size)
                          : NULL;
        if (!grown)
            return kt_fail(error, KT_E_NOMEM, "no memory for statistics of %" PRIu32 " layers", n);
        *data = grown;
    }
    return KT_OK;
}

/* The row of layer `number`, or where it belongs. */
static uint32_t find_row(const struct kt_stats *stats, uint64_t number)
{
    uint32_t begin = 0, end = stats->n_layers;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (stats->number[LAYERS][middle] < number)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static bool has_row(const struct kt_stats *stats, uint32_t row, uint64_t number)
{
    return row < stats->n_layers && stats->number[LAYERS][row] == number;
}

/* Inserts a row of zeros; there is room for it. */
static void insert_row(struct kt_stats *stats, uint32_t row, uint64_t number)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        size_t size = width(stats, (enum column)c) * sizeof(uint64_t);
        char *at = (c == WEIGHTS ? (char *)stats->weights : (char *)stats->number[c]) + row * size;
        memmove(at + size, at, (stats->n_layers - row) * size);
        memset(at, 0, size);
    }
    stats->number[LAYERS][row] = number;
    stats->n_layers++;
}

static bool fits(uint64_t a, uint64_t b)
{
    return a <= INT64_MAX && b <= INT64_MAX - a;
}

/* Would the sums of a row fit? */
static bool row_fits(const struct kt_stats *stats, uint32_t to, const struct kt_stats *other, uint32_t from)
{
    if (!fits(stats->number[BATCHES][to], other->number[BATCHES][from]) ||
        !fits(stats->number[TOKENS][to], other->number[TOKENS][from]))
        return false;
    for (size_t e = 0; e < stats->n_experts; e++)
        if (!isfinite(stats->weights[(size_t)to * stats->n_experts + e] +
                      other->weights[(size_t)from * stats->n_experts + e]))
            return false;
    return true;
}

/* Checked first, so that either everything is added or nothing. */
static enum kt_status check_add(const struct kt_stats *stats, const struct kt_stats *other,
                                uint32_t *n_layers, struct kt_error *error)
{
    *n_layers = stats->n_layers;
    if (other->n_experts != stats->n_experts)
        return kt_fail(error, KT_E_INVALID,
                       "statistics of %" PRIu32 " experts a layer cannot be added to those of %" PRIu32,
                       other->n_experts, stats->n_experts);
    if (!fits(stats->total, other->total))
        return kt_fail(error, KT_E_RANGE, "statistics: the counts of all layers add up to more than %" PRId64,
                       INT64_MAX);
    for (uint32_t l = 0; l < other->n_layers; l++) {
        uint64_t number = other->number[LAYERS][l];
        uint32_t row = find_row(stats, number);
        if (!has_row(stats, row, number))
            ++*n_layers;
        else if (!row_fits(stats, row, other, l))
            return kt_fail(error, KT_E_RANGE,
                           "statistics: sums of layer %" PRIu64 " are larger than a number may be", number);
    }
    if (*n_layers > MOST_LAYERS)
        return kt_fail(error, KT_E_INVALID, "statistics of %" PRIu32 " layers; at most %d are possible",
                       *n_layers, MOST_LAYERS);
    return KT_OK;
}

enum kt_status kt_stats_add(struct kt_stats *stats, const struct kt_stats *other, struct kt_error *error)
{
    uint32_t n_layers = 0;
    if (!stats || !other)
        return kt_fail(error, KT_E_INVALID, "kt_stats_add: stats and other must not be NULL");
    enum kt_status status = check_add(stats, other, &n_layers, error);
    if (status == KT_OK && n_layers > stats->n_layers)
        status = reserve(stats, n_layers, error);
    if (status != KT_OK)
        return status;
    stats->total += other->total;
    for (uint32_t l = 0; l < other->n_layers; l++) {
        uint64_t number = other->number[LAYERS][l];
        uint32_t row = find_row(stats, number);
        if (!has_row(stats, row, number))
            insert_row(stats, row, number);
        for (int c = BATCHES; c < N_COLUMNS; c++) {
            size_t n = width(stats, (enum column)c), to = row * n, from = l * n;
            for (size_t i = 0; i < n; i++)
                if (c == WEIGHTS)
                    stats->weights[to + i] += other->weights[from + i];
                else
                    stats->number[c][to + i] += other->number[c][from + i];
        }
    }
    return KT_OK;
}

static uint64_t read_number(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

enum kt_status kt_stats_add_layer(struct kt_stats *stats, uint64_t number, const struct kt_layer *layer,
                                  struct kt_error *error)
{
    struct kt_stats *one = NULL;
    if (!stats || !layer || number > INT64_MAX)
        return kt_fail(error, KT_E_INVALID,
                       "kt_stats_add_layer: stats and layer must not be NULL, and number at most 2^63 - 1");
    const struct kt_usage *usage = &layer->usage;
    enum kt_status status = kt_stats_create(layer->params.n_experts, &one, error);
    if (status == KT_OK)
        status = reserve(one, 1, error);
    if (status != KT_OK) {
        kt_stats_destroy(one);
        return status;
    }
    insert_row(one, 0, number);
    one->number[BATCHES][0] = read_number(&usage->n_batches);
    one->number[TOKENS][0] = read_number(&usage->n_tokens);
    for (uint32_t e = 0; e < one->n_experts; e++) {
        /* A forward may have counted only one of both so far. */
        uint64_t computed = read_number(&usage->computed[e]), asked = read_number(&usage->asked[e]);
        one->number[COUNTS][e] = asked;
        one->number[COMPUTED][e] = computed < asked ? computed : asked;
        one->weights[e] = atomic_load_explicit(&usage->weight[e], memory_order_relaxed);
        one->total += asked;
    }
    status = kt_stats_add(stats, one, error);
    kt_stats_destroy(one);
    return status;
}

/* ---- files ---- */

enum kt_status kt_stats_save(const struct kt_stats *stats, const char *path, struct kt_error *error)
{
    static const char *const metadata[] = {"format", "kt-stats", "version", "1"};
    struct kt_tensor_info tensors[N_COLUMNS];
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_writer *writer = NULL;
    if (!stats || stats->n_layers == 0)
        return kt_fail(error, KT_E_INVALID, "kt_stats_save: stats is NULL or has no layer");
    for (int c = 0; c < N_COLUMNS; c++)
        tensors[c] = (struct kt_tensor_info){.name = names[c],
                                             .dtype = c == WEIGHTS ? KT_DTYPE_F64 : KT_DTYPE_I64,
                                             .n_dims = c < COUNTS ? 1 : 2,
                                             .dims = {stats->n_layers, stats->n_experts}};
    params.tensors = tensors;
    params.n_tensors = N_COLUMNS;
    params.metadata = metadata;
    params.n_metadata = 2;
    enum kt_status status = kt_writer_create(path, &params, &writer, error);
    for (int c = 0; c < N_COLUMNS && status == KT_OK; c++)
        status = kt_writer_add(writer,
                               c == WEIGHTS ? (const void *)stats->weights : (const void *)stats->number[c],
                               stats->n_layers * width(stats, (enum column)c) * sizeof(uint64_t), error);
    if (status == KT_OK)
        return kt_writer_finish(writer, error);
    kt_writer_cancel(writer);
    return status;
}

static enum kt_status check_shape(const struct kt_tensor_info *info, enum column column,
                                  const struct kt_tensor_info *counts, struct kt_error *error)
{
    uint32_t dtype = column == WEIGHTS ? KT_DTYPE_F64 : KT_DTYPE_I64, n_dims = column < COUNTS ? 1 : 2;
    if (info->dtype != dtype)
        return kt_fail(error, KT_E_FORMAT, "tensor \"%s\" is %s, but must be %s", info->name,
                       kt_dtype_name(info->dtype), kt_dtype_name(dtype));
    if (info->n_dims != n_dims)
        return kt_fail(error, KT_E_FORMAT, "tensor \"%s\" has %" PRIu32 " dimensions, but must have %" PRIu32,
                       info->name, info->n_dims, n_dims);
    if (info->dims[0] != counts->dims[0] || (n_dims == 2 && info->dims[1] != counts->dims[1]))
        return kt_fail(error, KT_E_FORMAT,
                       "tensor \"%s\" is not for the %" PRIu64 " layers of %" PRIu64 " experts of \"counts\"",
                       info->name, counts->dims[0], counts->dims[1]);
    if (counts->dims[0] == 0 || counts->dims[0] > MOST_LAYERS || counts->dims[1] == 0 ||
        counts->dims[1] > MOST_EXPERTS)
        return kt_fail(error, KT_E_FORMAT,
                       "tensor \"counts\" is for %" PRIu64 " layers of %" PRIu64
                       " experts; 1 to %d and 1 to %d are possible",
                       counts->dims[0], counts->dims[1], MOST_LAYERS, MOST_EXPERTS);
    return KT_OK;
}

/* Copies a tensor, or leaves what stands for one that is missing. */
static enum kt_status read_column(struct kt_stats *stats, struct kt_checkpoint *file, enum column column,
                                  const struct kt_tensor_info *counts, struct kt_error *error)
{
    size_t n = stats->n_layers * width(stats, column);
    struct kt_tensor_info info;
    const void *data = NULL;
    uint64_t index;
    if (kt_checkpoint_find(file, names[column], &index, NULL) != KT_OK)
        return KT_OK;
    enum kt_status status = kt_checkpoint_tensor(file, index, &info, error);
    if (status == KT_OK)
        status = check_shape(&info, column, counts, error);
    if (status == KT_OK)
        status = kt_checkpoint_data(file, index, &data, error);
    if (status != KT_OK)
        return status;
    if (column == WEIGHTS)
        memcpy(stats->weights, data, n * sizeof *stats->weights);
    else
        memcpy(stats->number[column], data, n * sizeof *stats->number[column]);
    return KT_OK;
}

/* Is every number one that counting gives? */
static enum kt_status check_numbers(struct kt_stats *stats, struct kt_error *error)
{
    size_t n = (size_t)stats->n_layers * stats->n_experts;
    for (int c = 0; c < WEIGHTS; c++)
        for (size_t i = 0; i < stats->n_layers * width(stats, (enum column)c); i++)
            if (stats->number[c][i] > INT64_MAX)
                return kt_fail(error, KT_E_FORMAT,
                               "tensor \"%s\", element %zu is %" PRId64 "; it must not be negative", names[c],
                               i, (int64_t)stats->number[c][i]);
    for (uint32_t l = 1; l < stats->n_layers; l++)
        if (stats->number[LAYERS][l] <= stats->number[LAYERS][l - 1])
            return kt_fail(error, KT_E_FORMAT,
                           "tensor \"layers\", element %" PRIu32 " is %" PRIu64 "; numbers must rise", l,
                           stats->number[LAYERS][l]);
    for (size_t i = 0; i < n; i++) {
        uint64_t count = stats->number[COUNTS][i], computed = stats->number[COMPUTED][i];
        if (computed > count)
            return kt_fail(error, KT_E_FORMAT,
                           "tensor \"computed\", element %zu is %" PRIu64 ", but \"counts\" has %" PRIu64, i,
                           computed, count);
        if (!isfinite(stats->weights[i]))
            return kt_fail(error, KT_E_FORMAT, "tensor \"weights\", element %zu is %g; it must be finite", i,
                           stats->weights[i]);
        if (!fits(stats->total, count))
            return kt_fail(error, KT_E_FORMAT, "tensor \"counts\" adds up to more than %" PRId64, INT64_MAX);
        stats->total += count;
    }
    return KT_OK;
}

static enum kt_status read_file(struct kt_checkpoint *file, struct kt_stats **out, struct kt_error *error)
{
    struct kt_tensor_info counts;
    struct kt_stats *stats = NULL;
    uint64_t index;
    if (kt_checkpoint_find(file, names[COUNTS], &index, NULL) != KT_OK)
        return kt_fail(error, KT_E_FORMAT, "holds no tensor \"counts\": it is not a file of statistics");
    enum kt_status status = kt_checkpoint_tensor(file, index, &counts, error);
    if (status == KT_OK)
        status = check_shape(&counts, COUNTS, &counts, error);
    if (status == KT_OK)
        status = kt_stats_create((uint32_t)counts.dims[1], &stats, error);
    if (status == KT_OK)
        status = reserve(stats, (uint32_t)counts.dims[0], error);
    for (uint32_t l = 0; status == KT_OK && l < counts.dims[0]; l++)
        insert_row(stats, l, l);
    for (int c = 0; c < N_COLUMNS && status == KT_OK; c++)
        status = read_column(stats, file, (enum column)c, &counts, error);
    if (status == KT_OK)
        status = check_numbers(stats, error);
    if (status == KT_OK)
        *out = stats;
    else
        kt_stats_destroy(stats);
    return status;
}

enum kt_status kt_stats_open(const char *path, struct kt_stats **stats, struct kt_error *error)
{
    /* Read, not mapped: a file that another process cuts off must not raise a signal. */
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *file;
    char label[KT_LABEL_SIZE];
    params.io = KT_IO_READ;
    if (!stats)
        return kt_fail(error, KT_E_INVALID, "kt_stats_open: stats must not be NULL");
    enum kt_status status = kt_checkpoint_open(path, &params, &file, error);
    if (status != KT_OK)
        return status;
    status = read_file(file, stats, error);
    kt_checkpoint_close(file);
    kt_file_label(path, label);
    return status == KT_OK ? KT_OK : kt_fail_prefix(error, status, "%s", label);
}

/* ---- skew ---- */

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of counts in rising order, of which the sum is not 0. */
static void describe(const uint64_t *rising, uint32_t n, double sum, struct kt_skew *skew)
{
    uint32_t tenth = n - (n / 10 + (n % 10 != 0));
    double ranked = 0, bits = 0, top = 0;
    for (uint32_t i = 0; i < n; i++) {
        double share = (double)rising[i] / sum;
        ranked += share * (i + 1.0);
        if (share > 0)
            bits -= share * log2(share);
        if (i >= tenth)
            top += share;
    }
    skew->most_share = (double)rising[n - 1] / sum;
    skew->top_share = fmin(top, 1);
    skew->gini = fmax(2 * ranked / n - (n + 1.0) / n, 0);
    skew->entropy = n > 1 ? fmin(fmax(bits, 0) / log2(n), 1) : 1;
}

enum kt_status kt_usage_skew(const uint64_t *counts, uint32_t n_experts, struct kt_skew *skew,
                             struct kt_error *error)
{
    if (!counts || n_experts == 0 || !skew)
        return kt_fail(error, KT_E_INVALID, "kt_usage_skew: counts of an expert or more, and skew");
    uint64_t *rising = malloc(n_experts * sizeof *rising);
    struct kt_skew made = {.entropy = 1};
    double sum = 0;
    if (!rising)
        return kt_fail(error, KT_E_NOMEM, "no memory for the skew of %" PRIu32 " experts", n_experts);
    memcpy(rising, counts, n_experts * sizeof *rising);
    qsort(rising, n_experts, sizeof *rising, compare_numbers);
    for (uint32_t e = 0; e < n_experts; e++) {
        sum += (double)counts[e];
        made.n_used += counts[e] != 0;
        if (counts[e] > counts[made.most_used])
            made.most_used = e;
    }
    if (sum > 0)
        describe(rising, n_experts, sum, &made);
    free(rising);
    *skew = made;
    return KT_OK;
}
