/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/ktkernel_build.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const projections[3] = {"gate", "up", "down"};
static const char *const methods[] = {"INT8", "INT4", "MOE_INT8", "MOE_INT4"};

static void stop(const char *what)
{
    perror(what);
    abort();
}

static void *allocate(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        stop("memory");
    return memory;
}

static uint64_t rows_of(const struct ktk_model *model, int projection)
{
    return projection == 2 ? model->hidden : model->intermediate;
}

static uint64_t cols_of(const struct ktk_model *model, int projection)
{
    return projection == 2 ? model->intermediate : model->hidden;
}

void ktk_fill(struct ktk_model *model, uint64_t seed)
{
    uint64_t n = model->n_experts * model->intermediate * model->hidden;
    for (int p = 0; p < 3; p++) {
        model->weights[p] = allocate(n * sizeof(float));
        for (uint64_t i = 0; i < n; i++) {
            float sum = 0;
            for (int k = 0; k < 4; k++) {
                seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                sum += (float)(seed >> 40) / 16777216.0f - 0.5f;
            }
            model->weights[p][i] = sum * 0.03f;
        }
    }
}

void ktk_free(struct ktk_model *model)
{
    for (int p = 0; p < 3; p++)
        free(model->weights[p]);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static float weight_of(const struct ktk_model *model, uint32_t e, int p, uint64_t row, uint64_t col)
{
    return model->weights[p][(e * rows_of(model, p) + row) * cols_of(model, p) + col];
}

float ktk_scale(const struct ktk_model *model, uint32_t e, int p, uint64_t row, uint64_t col)
{
    uint64_t width = p == 2 ? model->intermediate / model->n_parts : model->hidden;
    uint64_t first = col / width * width;
    float largest = 0;
    for (uint64_t c = first; c < first + width; c++)
        largest = fmaxf(largest, fabsf(weight_of(model, e, p, row, c)));
    return largest / (model->method == KTK_INT4 ? 112.0f : 127.0f);
}

static int code_of(const struct ktk_model *model, float weight, float scale)
{
    if (scale == 0)
        return 0;
    if (model->method != KTK_INT4)
        return (int)nearbyintf(weight * (1.0f / scale));
    int steps = (int)nearbyintf(weight / scale);
    int four = (abs(steps) + 8) / 16;
    return steps < 0 ? -16 * four : 16 * four;
}

int ktk_code(const struct ktk_model *model, uint32_t e, int p, uint64_t row, uint64_t col)
{
    return code_of(model, weight_of(model, e, p, row, col), ktk_scale(model, e, p, row, col));
}

/* ---- places --------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of weight (n, k) in a buffer of N x K: its byte. */
static uint64_t place8(uint64_t n, uint64_t k, uint64_t N, uint64_t K)
{
    uint64_t nb = n - n % 64, kb = k - k % 3584;
    uint64_t nbs = least(64, N - nb), kbs = least(3584, K - kb);
    uint64_t n0 = (n - nb) & ~UINT64_C(31), k0 = (k - kb) & ~UINT64_C(63);
    uint64_t n_in = n - nb - n0, k_in = k - kb - k0;
    return nb * K + kb * nbs + n0 * kbs + k0 * 32 + n_in / 16 * 1024 + (k_in / 4 * 16 + n_in % 16) * 4 +
           k_in % 4;
}

/* The byte, and in *high which half of it. */
static uint64_t place4(uint64_t n, uint64_t k, uint64_t N, uint64_t K, bool *high)
{
    uint64_t nb = n - n % 128, kb = k - k % 3584;
    uint64_t nbs = least(128, N - nb), kbs = least(3584, K - kb);
    uint64_t n0 = (n - nb) & ~UINT64_C(31), k0 = (k - kb) & ~UINT64_C(127);
    uint64_t n_in = n - nb - n0, k_in = k - kb - k0, j = k_in % 64;
    *high = k_in >= 64;
    return (nb * K + kb * nbs + n0 * kbs + k0 * 32) / 2 + n_in / 16 * 1024 + (j / 4 * 16 + n_in % 16) * 4 +
           j % 4;
}

struct piece {
    uint8_t *bytes;
    size_t size;
};

static bool is_faulty(const struct ktk_model *model, enum ktk_fault fault, uint32_t e, uint32_t part, int p,
                      int role)
{
    return model->fault == fault && model->expert == e && model->part == part && model->projection == p &&
           model->role == role;
}

static struct piece make_piece(const struct ktk_model *model, uint32_t e, uint32_t part, int p, int role)
{
    uint64_t slice = model->intermediate / model->n_parts;
    uint64_t rows = p == 2 ? model->hidden : slice, cols = p == 2 ? slice : model->hidden;
    uint64_t row0 = p == 2 ? 0 : part * slice, col0 = p == 2 ? part * slice : 0;
    struct piece piece = {.size = role ? rows * 4 : rows * cols / (model->method == KTK_INT4 ? 2 : 1)};
    /* Sizes that no tile fits are written too, as far as they go. */
    piece.bytes = allocate(2 * piece.size + 4096);
    for (uint64_t r = 0; r < rows; r++) {
        float scale = ktk_scale(model, e, p, row0 + r, col0);
        if (role) {
            float written = r == 1 && is_faulty(model, KTK_BAD_SCALE, e, part, p, role) ? NAN : scale;
            memcpy(piece.bytes + 4 * r, &written, 4);
        }
        for (uint64_t c = 0; !role && c < cols; c++) {
            int code = code_of(model, weight_of(model, e, p, row0 + r, col0 + c), scale);
            bool high;
            if (r == 1 && is_faulty(model, KTK_BAD_CODE, e, part, p, role))
                code /= 2;
            if (model->method == KTK_INT8) {
                piece.bytes[place8(r, c, rows, cols)] = (uint8_t)code;
            } else if (model->method == KTK_INT4) {
                uint64_t at = place4(r, c, rows, cols, &high);
                unsigned four = (unsigned)(code / 16) & 15;
                piece.bytes[at] = (uint8_t)(piece.bytes[at] | (high ? four << 4 : four));
            } else {
                piece.bytes[r * cols + c] = (uint8_t)code;
            }
        }
    }
    if (is_faulty(model, KTK_LONGER, e, part, p, role))
        piece.size += 64;
    return piece;
}

/* ---- files ---------------------------------------------------------------------------------- */

static FILE *open_file(const char *format, ...) __attribute__((format(printf, 1, 2)));
static FILE *open_file(const char *format, ...)
{
    char path[4096];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = fopen(path, "w");
    if (!file)
        stop(path);
    return file;
}

static void write_all(FILE *file, const void *bytes, size_t size)
{
    if (size > 0 && fwrite(bytes, 1, size, file) != size)
        stop("writing");
}

static void close_file(FILE *file)
{
    if (fclose(file) != 0)
        stop("closing");
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        stop(path);
}

static void write_files(const struct ktk_model *model, const char *folder, unsigned layer)
{
    for (uint32_t part = 0; part < model->n_parts; part++) {
        char path[2048];
        (void)snprintf(path, sizeof path, "%s/_layer_%u", folder, layer);
        make_folder(path);
        (void)snprintf(path, sizeof path, "%s/_layer_%u/_numa_%u", folder, layer, part);
        make_folder(path);
        for (uint32_t i = 0; i < model->n_experts * 6; i++) {
            uint32_t e = i / 6;
            int p = (int)(i / 2 % 3), role = (int)(i % 2);
            if (is_faulty(model, KTK_MISSING, e, part, p, role))
                continue;
            struct piece piece = make_piece(model, e, part, p, role);
            FILE *file = open_file("%s/%s_%s_%u_%zuByte_%s_.kt", path, methods[model->method], projections[p],
                                   e, piece.size, role ? "scale" : "quant");
            write_all(file, piece.bytes, piece.size);
            close_file(file);
            free(piece.bytes);
        }
    }
}

static void write_tensors(const struct ktk_model *model, const char *folder, unsigned layer)
{
    size_t n = (size_t)model->n_experts * model->n_parts * 6, at = 0, used = 0, room = n * 160 + 64;
    struct piece *piece = allocate(n * sizeof *piece);
    char *header = allocate(room);
    for (size_t i = 0; i < n; i++) {
        uint32_t e = (uint32_t)(i / 6) / model->n_parts, part = (uint32_t)(i / 6) % model->n_parts;
        int p = (int)(i / 2 % 3), role = (int)(i % 2);
        if (is_faulty(model, KTK_MISSING, e, part, p, role))
            continue;
        piece[i] = make_piece(model, e, part, p, role);
        bool typed = !is_faulty(model, KTK_BAD_TYPE, e, part, p, role);
        used += (size_t)snprintf(header + used, room - used,
                                 "%s\"blk.%u.ffn_%s_exps.%u.numa.%u.%s\":{\"dtype\":\"%s\",\"shape\":[%zu],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 used ? "," : "{", layer, projections[p], e, part, role ? "scale" : "weight",
                                 !role ? (typed ? "I8" : "U8") : (typed ? "F32" : "I32"),
                                 piece[i].size / (role ? 4 : 1), at, at + piece[i].size);
        at += piece[i].size;
    }
    /* A tensor that is none of the experts', as the converter's last file has. */
    used += (size_t)snprintf(header + used, room - used,
                             ",\"blk.%u.attn_norm.weight\":{\"dtype\":\"F32\",\"shape\":[2],"
                             "\"data_offsets\":[%zu,%zu]}}",
                             layer, at, at + 8);
    while (used % 8)
        header[used++] = ' ';
    uint64_t length = used;
    FILE *file = open_file("%s/model-%05u.safetensors", folder, layer);
    write_all(file, &length, 8);
    write_all(file, header, used);
    for (size_t i = 0; i < n; i++)
        write_all(file, piece[i].bytes, piece[i].size);
    write_all(file, "\0\0\0\0\0\0\0\0", 8);
    close_file(file);
    for (size_t i = 0; i < n; i++)
        free(piece[i].bytes);
    free(piece);
    free(header);
}

void ktk_write(const struct ktk_model *model, const char *folder, unsigned layer, bool files)
{
    if (files)
        write_files(model, folder, layer);
    else
        write_tensors(model, folder, layer);
}
