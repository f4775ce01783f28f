/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/overlap.h"

#include "core/base/size.h"

/* Rows as numbers; dense ones are a single row. */
struct rows {
    uint64_t begin, end; /* of all */
    uint64_t size, stride, n;
};

static struct rows join(const struct kt_memory_rows *given)
{
    struct rows rows = {(uint64_t)(uintptr_t)given->data, 0, given->size, given->stride, given->n};
    uint64_t bytes;
    if (rows.n <= 1 || rows.stride == rows.size) {
        rows.size *= rows.n;
        rows.n = 1;
    }
    if (rows.size == 0)
        rows.n = 0;
    if (!kt_mul(rows.n ? rows.n - 1 : 0, rows.stride, &bytes) || !kt_add(bytes, rows.size, &bytes) ||
        !kt_add(rows.begin, bytes, &rows.end))
        rows.end = UINT64_MAX; /* no memory is there; nor need it be told apart */
    return rows;
}

/* Is a byte of [begin, end) in one of the rows? */
static bool meets(const struct rows *rows, uint64_t begin, uint64_t end)
{
    uint64_t first = 0; /* the first row that ends behind `begin` */
    if (begin >= rows->begin + rows->size)
        first = (begin - rows->begin - rows->size) / rows->stride + 1;
    return first < rows->n && rows->begin + first * rows->stride < end;
}

bool kt_rows_overlap(const struct kt_memory_rows *a, const struct kt_memory_rows *b)
{
    struct rows few = join(a), many = join(b);
    if (few.n == 0 || many.n == 0 || few.begin >= many.end || many.begin >= few.end)
        return false;
    if (few.n > many.n) {
        struct rows swapped = few;
        few = many;
        many = swapped;
    }
    for (uint64_t i = 0; i < few.n; i++)
        if (meets(&many, few.begin + i * few.stride, few.begin + i * few.stride + few.size))
            return true;
    return false;
}
