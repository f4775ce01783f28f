/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - a case of a function of rows for kt plugin check: a job, its operands in guarded memory,
 * and what float64 makes of them.
 */
#ifndef KT_TOOL_PLUGIN_ROWS_H
#define KT_TOOL_PLUGIN_ROWS_H

#include "tools/kt/plugin/plugin.h"

/* The plugin ABI's first minor with all kinds of gates and routings. */
#define ROWS_KINDS_MINOR 9

/* Half of float32's step at 1: what rounding once costs, relatively. */
#define ROWS_UNIT 0x1p-24

/* What operands a function has. NaN is put into ROWS_X; ROWS_OUT shows it. */
enum rows_role {
    ROWS_X,
    ROWS_GATE, /* or what else is read, a row for each row */
    ROWS_MORE,
    ROWS_WEIGHT, /* the same for all rows */
    ROWS_BIAS,
    ROWS_STATE, /* of a sequence; written */
    ROWS_OUT,
    ROWS_SECOND, /* a second output */
    ROWS_SCRATCH,
    ROWS_N_ROLES
};

/* [rows][parts][size] with gaps; it ends with its last number. */
struct rows_plane {
    const char *name;
    struct guarded memory;
    uint8_t *before; /* the bytes that it begins with */
    uint32_t dtype, rows, parts, size;
    int64_t stride, part_stride;
    bool written;
};

struct rows_function;
struct rows_case {
    struct plugin_run *run;
    const struct kt_rows_ops *ops;
    const struct rows_function *function;
    unsigned round; /* which shape, which extras */
    uint64_t random;
    uint32_t n_rows, n_cuts; /* that jobs may be divided into */
    uint32_t size;
    union {
        struct kt_rows_norm norm;
        struct kt_rows_gate gate;
        struct kt_rows_rotate rotate;
        struct kt_rows_multiply multiply;
        struct kt_rows_route route;
        struct kt_rows_convolve convolve;
        struct kt_rows_decay decay;
        struct kt_rows_delta delta;
    } job;                                  /* all of it but operands */
    struct rows_plane planes[ROWS_N_ROLES]; /* by role */
    enum rows_role role[ROWS_N_ROLES];      /* whose memory it has: another one's where it is in place */
    char text[160];
};

/* Rows and parts, heads, outputs or channels of one call. */
struct rows_slice {
    uint32_t row, n_rows, cut, n_cuts;
};

struct rows_function {
    const char *name;
    bool sequence;    /* a row depends on those before it */
    bool spreads;     /* a NaN is in all numbers of its part */
    bool cut_numbers; /* jobs are divided by numbers, else by parts */
    void (*make)(struct rows_case *item);
    void (*call)(const struct rows_case *item, const struct rows_slice *slice);
    void (*compare)(struct rows_case *item);
};
extern const struct rows_function rows_norm_function, rows_gate_function, rows_rotate_function,
    rows_multiply_function, rows_route_function, rows_convolve_function, rows_decay_function,
    rows_delta_function;

/* ---- rows_plane.c ---- */

/* Random numbers times `scale`, NaN between them. */
struct rows_plane *rows_plane_make(struct rows_case *item, enum rows_role role, const char *name,
                                   uint32_t dtype, const uint32_t shape[3], double scale);
void rows_planes_free(struct rows_case *item);
/* NULL: there is none. */
struct rows_plane *rows_plane(const struct rows_case *item, enum rows_role role);
void *rows_at(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i);
double rows_get(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i);
/* As it was before the call. */
double rows_was(const struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i);
void rows_set(struct rows_plane *plane, uint32_t row, uint32_t part, uint32_t i, double value);
struct kt_rows_input rows_input(const struct rows_case *item, enum rows_role role, uint32_t row,
                                uint32_t part, uint32_t i);
struct kt_rows_output rows_output(const struct rows_case *item, enum rows_role role, uint32_t row,
                                  uint32_t part, uint32_t i);
/* Is nothing written but numbers of outputs? */
void rows_check_memory(struct rows_case *item);
/* Fails unless a number is that near; what rounding it to its dtype costs is added. */
void rows_near(struct rows_case *item, enum rows_role role, const uint32_t at[3], double want, double bound);

double rows_sigmoid(double x);
/* Of GELU, which is g times its sigmoid. */
double rows_gelu(double g);

#endif
