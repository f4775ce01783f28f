/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - kt bench --load: how fast weights are packed, beside the same threads copying the same bytes
 * into memory as fresh. Both are done in turns, and the best of each counts: where a machine's host has to
 * find pages first, both wait for that.
 */
#include "tools/kt/bench/run.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PIECE_SIZE (UINT64_C(2) << 20)

static const struct kt_column columns[] = {
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(9)},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(4)},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE},
    {"hidden_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"intermediate_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_experts", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_threads", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"source_bytes", "SOURCE", KT_COLUMN_BYTES, 0, 0},
    {"packed_bytes", "PACKED", KT_COLUMN_BYTES, 0, 0},
    {"load_gbps", "LOAD GB/s", KT_COLUMN_REAL, 2, 0},
    {"copy_gbps", "COPY GB/s", KT_COLUMN_REAL, 2, 0},
    {"copy_fraction", "FRACTION", KT_COLUMN_REAL, 3, 0},
    {"model_layers", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"kind", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

void bench_load_begin(struct bench *bench)
{
    bench->rows = kt_output_table(bench->output, "rows", columns, COUNT(columns));
}

/* ---- copying ---- */

struct piece {
    const unsigned char *from;
    uint64_t size, to;
};

struct copying {
    struct piece *pieces;
    size_t n, room;
    uint64_t size;
    struct bench_buffer buffer;
    _Atomic size_t next;
};

/* Bytes that the view's weights take, rows or columns one after the other. */
static uint64_t view_extent(const struct kt_view *view)
{
    uint32_t elements, bytes;
    if (view->data == NULL || view->row_stride <= 0 || view->block_stride <= 0)
        return 0;
    kt_dtype_block(view->dtype, &elements, &bytes);
    uint64_t by_rows = view->rows * (uint64_t)view->row_stride;
    uint64_t by_columns = (view->cols + elements - 1) / elements * (uint64_t)view->block_stride;
    return by_rows > by_columns ? by_rows : by_columns;
}

static void add_view(const struct kt_cli *cli, struct copying *copying, const struct kt_view *view)
{
    uint64_t size = view_extent(view);
    for (uint64_t at = 0; at < size; at += PIECE_SIZE) {
        uint64_t part = size - at < PIECE_SIZE ? size - at : PIECE_SIZE;
        if (copying->n == copying->room) {
            size_t room = 2 * copying->room + 256;
            struct piece *grown = kt_cli_alloc(cli, room, sizeof *grown);
            if (copying->n != 0)
                memcpy(grown, copying->pieces, copying->n * sizeof *grown);
            free(copying->pieces);
            copying->pieces = grown;
            copying->room = room;
        }
        copying->pieces[copying->n++] =
            (struct piece){(const unsigned char *)view->data + at, part, copying->size};
        copying->size += (part + 63) / 64 * 64;
    }
}

static void copy_on_thread(void *data, uint32_t thread, uint32_t n_threads)
{
    struct copying *copying = data;
    (void)thread;
    (void)n_threads;
    for (size_t i; (i = atomic_fetch_add(&copying->next, 1)) < copying->n;) {
        const struct piece *piece = &copying->pieces[i];
        memcpy(copying->buffer.data + piece->to, piece->from, piece->size);
    }
}

/* Copies the weights of n experts into new pages; raises *rate, bytes a nanosecond. */
static enum kt_status copy_once(struct bench *bench, struct copying *copying, double *rate,
                                struct kt_error *error)
{
    uint64_t size = copying->size > PIECE_SIZE ? copying->size : PIECE_SIZE;
    enum kt_status status = bench_buffer_create(&copying->buffer, size, error);
    if (status != KT_OK)
        return status;
    atomic_store(&copying->next, 0);
    double start = bench_now();
    status = kt_context_run(bench->context, copy_on_thread, copying, error);
    double found = (double)copying->size / (bench_now() - start);
    bench_buffer_destroy(&copying->buffer);
    *rate = found > *rate ? found : *rate;
    return status;
}

/* ---- a row ---- */

static int add_row(struct bench *bench, const struct bench_set *set, const struct bench_source *source,
                   uint64_t source_size, double load, double copy)
{
    char text[80] = "";
    const struct bench_shape *shape = &bench->shape;
    const char *layers = bench->layers != NULL ? bench->layers : "";
    struct kt_table *table = bench->rows;
    if (bench->has_shapes && shape->linear)
        (void)snprintf(text, sizeof text, "%s", shape->name);
    else if (bench->has_shapes)
        (void)snprintf(text, sizeof text, "%" PRIu32 "x%" PRIu64 "x%" PRIu64, set->n_experts,
                       shape->hidden_size, shape->intermediate_size);
    kt_table_row(table);
    kt_table_text(table, "layers", layers);
    kt_table_text(table, "backend", set->backend);
    kt_table_text(table, "level", set->level);
    kt_table_text(table, "source_type", source->name);
    kt_table_text(table, "shape", text);
    kt_table_uint(table, "hidden_size", shape->hidden_size);
    kt_table_uint(table, "intermediate_size", shape->intermediate_size);
    kt_table_uint(table, "n_experts", set->n_experts);
    kt_table_uint(table, "n_threads", bench->info.n_threads);
    kt_table_uint(table, "source_bytes", source_size);
    kt_table_uint(table, "packed_bytes", set->packed_size);
    kt_table_real(table, "load_gbps", load);
    kt_table_real(table, "copy_gbps", copy);
    kt_table_real(table, "copy_fraction", load / copy);
    kt_table_text(table, "model_layers", layers);
    kt_table_text(table, "kind", shape->linear ? "linear" : "experts");
    bench->n_rows++;
    int code = kt_table_flush(table);
    bench->has_ended = code != KT_EXIT_OK;
    return code;
}

int bench_load(struct bench *bench, const char *backend, const struct bench_source *source)
{
    struct bench_want want = {.backend = backend,
                              .shape = &bench->shape,
                              .source = source,
                              .cycle_size = 1, /* one copy */
                              .max_tokens = 1};
    struct copying copying = {.pieces = NULL};
    struct bench_set set = {0}, shown = {0};
    struct kt_error error;
    double load = 0, copy = 0;
    int code = KT_EXIT_OK;
    for (uint64_t i = 0; i < bench->schedule.runs && code == KT_EXIT_OK; i++) {
        code = bench_set_create(bench->cli, bench->context, &want, &set);
        if (code != KT_EXIT_OK)
            break;
        load = set.load_rate > load ? set.load_rate : load;
        shown = set;
        bench_set_destroy(&set);
        for (uint32_t e = 0; e < shown.n_experts && i == 0; e++) {
            add_view(bench->cli, &copying, &source->experts[e].gate);
            add_view(bench->cli, &copying, &source->experts[e].up);
            add_view(bench->cli, &copying, &source->experts[e].down);
        }
        if (copy_once(bench, &copying, &copy, &error) != KT_OK)
            code = kt_cli_fail(bench->cli, &error);
    }
    free(copying.pieces);
    if (code == KT_EXIT_OK)
        code = add_row(bench, &shown, source, copying.size, load, copy);
    return code == BENCH_REFUSED ? bench_refuse(bench, backend, source) : code;
}
