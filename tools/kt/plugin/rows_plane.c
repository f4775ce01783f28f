/* SPDX-License-Identifier: Apache-2.0 */
/* rows_plane.c - operands of functions of rows, in guarded memory. */
#include "tools/kt/plugin/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t offset(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    return (int64_t)row * plane->stride + (int64_t)part * plane->part_stride +
           (int64_t)i * number_size(plane->dtype);
}

struct rows_plane *rows_plane_make(struct rows_case *item, enum rows_role role, const char *name,
                                   uint32_t dtype, const uint32_t shape[3], double scale)
{
    struct rows_plane *plane = &item->planes[role];
    *plane = (struct rows_plane){.name = name,
                                 .dtype = dtype,
                                 .rows = shape[0],
                                 .parts = shape[1],
                                 .size = shape[2]};
    const uint32_t gap = role == ROWS_SCRATCH || role == ROWS_BIAS ? 0 : item->round % 3;
    plane->written = role == ROWS_OUT || role == ROWS_SECOND || role == ROWS_STATE || role == ROWS_SCRATCH;
    const uint32_t part_gap = item->function == &rows_delta_function ? 0 : gap; /* its parts are dense */
    plane->part_stride = (int64_t)(plane->size + part_gap) * number_size(plane->dtype);
    plane->stride = plane->part_stride * plane->parts + 2 * (int64_t)gap * number_size(plane->dtype);
    const uint64_t size = (uint64_t)offset(plane, plane->rows - 1, plane->parts - 1, plane->size);
    check_guard(name, size, role == ROWS_SCRATCH ? 64 : number_size(plane->dtype), item->round % 4 != 3,
                &plane->memory);
    memset(plane->memory.data, 0xff, size);
    for (uint32_t r = 0; r < plane->rows; r++)
        for (uint32_t p = 0; p < plane->parts; p++)
            for (uint32_t i = 0; i < plane->size && role != ROWS_SCRATCH; i++)
                write_number(rows_at(plane, r, p, i), dtype, (float)(scale * random_gaussian(&item->random)));
    plane->before = check_need(malloc(size));
    memcpy(plane->before, plane->memory.data, size);
    item->role[role] = role;
    return plane;
}

void rows_planes_free(struct rows_case *item)
{
    for (int role = 0; role < ROWS_N_ROLES; role++) {
        guard_free(&item->planes[role].memory);
        free(item->planes[role].before);
        item->planes[role] = (struct rows_plane){.name = NULL};
    }
}

struct rows_plane *rows_plane(const struct rows_case *item, enum rows_role role)
{
    const struct rows_plane *plane = &item->planes[item->role[role]];
    return plane->name ? (struct rows_plane *)(uintptr_t)plane : NULL;
}

void *rows_at(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    return plane->memory.data + offset(plane, row, part, i);
}

double rows_get(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    return (double)read_number(rows_at(plane, row, part, i), plane->dtype);
}

double rows_was(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    return (double)read_number(plane->before + offset(plane, row, part, i), plane->dtype);
}

void rows_set(struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i, double value)
{
    write_number(rows_at(plane, row, part, i), plane->dtype, (float)value);
    memcpy(plane->before + offset(plane, row, part, i), rows_at(plane, row, part, i),
           number_size(plane->dtype));
}

struct kt_rows_input rows_input(const struct rows_case *item, enum rows_role role, uint32_t row,
                                uint32_t part, uint32_t i)
{
    const struct rows_plane *plane = rows_plane(item, role);
    if (!plane)
        return (struct kt_rows_input){.data = NULL};
    return (struct kt_rows_input){rows_at(plane, row, part, i), plane->stride, plane->part_stride,
                                  plane->dtype, 0};
}

struct kt_rows_output rows_output(const struct rows_case *item, enum rows_role role, uint32_t row,
                                  uint32_t part, uint32_t i)
{
    const struct rows_plane *plane = rows_plane(item, role);
    if (!plane)
        return (struct kt_rows_output){.data = NULL};
    return (struct kt_rows_output){rows_at(plane, row, part, i), plane->stride, plane->part_stride,
                                   plane->dtype, 0};
}

static bool gaps_kept(const struct rows_plane *plane)
{
    const int64_t end = (int64_t)plane->memory.size;
    for (uint32_t r = 0; r < plane->rows; r++)
        for (uint32_t p = 0; p < plane->parts; p++) {
            int64_t from = offset(plane, r, p, plane->size);
            int64_t to = p + 1 < plane->parts ? offset(plane, r, p + 1, 0) : offset(plane, r + 1, 0, 0);
            to = to < end ? to : end;
            if (to > from &&
                memcmp(plane->memory.data + from, plane->before + from, (size_t)(to - from)) != 0)
                return false;
        }
    return true;
}

void rows_check_memory(struct rows_case *item)
{
    plugin_check_modes(item->run);
    plugin_host_forbid(NULL);
    for (int role = 0; role < ROWS_N_ROLES && !plugin_failed(item->run); role++) {
        const struct rows_plane *plane = &item->planes[role];
        if (!plane->name || !plane->written)
            continue;
        if (!guard_intact(&plane->memory))
            plugin_fail(item->run, "it wrote beyond its %s", plane->name);
        else if (role != ROWS_SCRATCH && !gaps_kept(plane))
            plugin_fail(item->run, "it wrote between the numbers of its %s", plane->name);
    }
}

static double rounding(uint32_t dtype, double value)
{
    if (dtype == KT_DTYPE_F32)
        return fabs(value) * ROWS_UNIT + 0x1p-150;
    return dtype == KT_DTYPE_BF16 ? fabs(value) * 0x1p-8 + 0x1p-134 : fabs(value) * 0x1p-11 + 0x1p-25;
}

void rows_near(struct rows_case *item, enum rows_role role, const uint32_t at[3], double want, double bound)
{
    const struct rows_plane *plane = rows_plane(item, role);
    const double got = rows_get(plane, at[0], at[1], at[2]);
    bound += rounding(plane->dtype, fabs(want) + bound);
    if (!plugin_failed(item->run) && !(fabs(got - want) <= bound))
        plugin_fail(item->run,
                    "number %u of row %u, part %u of its %s is %.9g, float64 gives %.9g with a bound of %.2g",
                    at[2], at[0], at[1], plane->name, got, want, bound);
}

double rows_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double rows_gelu(double g)
{
    return 2 * sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
}
