/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_view.h - matrices as a caller may own them: of any dtype, with scales and zeros of any, in any strides,
 * and between pages that fault, so that a byte read before the first or behind the last one ends the process.
 * Without libcheck: tests/campaign uses it, too.
 */
#ifndef KT_TESTS_SUPPORT_OWN_VIEW_H
#define KT_TESTS_SUPPORT_OWN_VIEW_H

#include <kt/kt.h>
#include <stdbool.h>

/* How rows and columns lie; added up. */
enum {
    OWN_TURNED = 1, /* columns are dense, not rows */
    OWN_GAPS = 2,   /* some bytes between them */
    OWN_BACK = 4,   /* rows run towards lower addresses */
    OWN_FIRST = 8,  /* right behind the page that faults, not right before one */
    OWN_WAYS = 16
};

struct own_shape {
    uint32_t dtype, scale_dtype, zero_dtype; /* KT_DTYPE_NONE: no scales, no zeros */
    uint64_t rows, cols, group_rows, group_cols;
    unsigned way, scale_way;
    bool wild; /* numbers are any bytes; else plain ones are small and finite */
};

/* Matrices that are there at once, and their most bytes, of weights as of scales. */
enum { OWN_VIEWS = 8, OWN_MOST = 1 << 20 };

/* Fills matrix `slot` again from *state. False: its bytes are more than OWN_MOST, or there is no memory. */
bool own_view(unsigned slot, const struct own_shape *shape, uint64_t *state, struct kt_view *view);

#endif
