/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/checkkernel/recorded.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* All NaNs are one, as in same_floats(). */
static uint64_t hash_floats(const uint8_t *data, uint64_t size, uint64_t seed)
{
    uint64_t n = size / sizeof(float);
    float *values = check_need(malloc(size + 1));
    memcpy(values, data, size);
    for (uint64_t i = 0; i < n; i++)
        values[i] = isnan(values[i]) ? NAN : values[i];
    uint64_t hash = XXH64(values, size, seed);
    free(values);
    return hash;
}

/* Levels fill rows up as they like. */
static uint64_t hash_panels(const struct check *check)
{
    uint64_t hash = 0;
    float *row = check_need(malloc(check->layout.h_row_size));
    for (uint32_t r = 0; r < check->n_rows; r++) {
        read_h(check, check->h.data, check->n_rows, r, row);
        hash = hash_floats((uint8_t *)row, check->layout.shape.intermediate_size * sizeof *row, hash);
    }
    free(row);
    return hash;
}

uint64_t recorded_hash(const struct check *check, enum kt_stage stage)
{
    const struct kt_layout *layout = &check->layout;
    if (stage == KT_STAGE_GATE_UP && check->h_panels)
        return check->h.size ? hash_panels(check) : 0;
    if (stage == KT_STAGE_GATE_UP)
        return check->h.size ? hash_floats(check->h.data, check->h.size, 0) : 0;
    bool is_half = layout->y_dtype == KT_DTYPE_BF16;
    uint64_t row_size = layout->shape.hidden_size * check_y_size(check), hash = 0;
    for (uint32_t r = 0; r < check->n_rows; r++) {
        const uint8_t *row = check->y.data + check->out_index[r] * check->y_stride;
        hash = is_half ? XXH64(row, row_size, hash) : hash_floats(row, row_size, hash);
    }
    return hash;
}

struct recorded recorded_make(const struct check *check)
{
    return (struct recorded){
        .stage = {recorded_hash(check, KT_STAGE_GATE_UP), recorded_hash(check, KT_STAGE_DOWN)}};
}

FILE *recorded_create(const char *path, uint64_t seed)
{
    FILE *file = fopen(path, "w");
    if (!file)
        perror(path);
    else
        (void)fprintf(file, "seed %" PRIu64 "\n", seed);
    return file;
}

static void name_case(const struct recorded_case *of, const char *level, char name[80])
{
    (void)snprintf(name, 80, "%s %d %s %u %d", level, of->also, of->format, of->kind, of->linear);
}

void recorded_add(FILE *file, const struct recorded_case *of, const struct recorded *recorded)
{
    char name[80];
    name_case(of, of->level, name);
    (void)fprintf(file, "%s %016" PRIx64 " %016" PRIx64 "\n", name, recorded->stage[0], recorded->stage[1]);
}

char *recorded_load(const char *path, uint64_t seed)
{
    FILE *file = fopen(path, "r");
    char *lines = NULL, head[40];
    size_t size = 0;
    (void)snprintf(head, sizeof head, "seed %" PRIu64 "\n", seed);
    if (file && getdelim(&lines, &size, '\0', file) > 0 && strncmp(lines, head, strlen(head)) == 0) {
        (void)fclose(file);
        return lines;
    }
    if (file)
        (void)fclose(file);
    free(lines);
    return NULL;
}

static bool find(const char *lines, const char *name, struct recorded *recorded)
{
    size_t length = strlen(name);
    for (const char *line = strchr(lines, '\n'); line && line[1]; line = strchr(line, '\n')) {
        line++;
        if (strncmp(line, name, length) == 0)
            return sscanf(line + length, " %16" SCNx64 " %16" SCNx64, &recorded->stage[0],
                          &recorded->stage[1]) == 2;
    }
    return false;
}

bool recorded_find(const char *lines, const struct recorded_case *of, struct recorded *recorded)
{
    char name[80], scalar[80];
    name_case(of, of->level, name);
    name_case(of, "scalar", scalar);
    recorded->of = find(lines, name, recorded) ? RECORDED_LEVEL : RECORDED_SCALAR;
    return recorded->of == RECORDED_LEVEL || find(lines, scalar, recorded);
}
