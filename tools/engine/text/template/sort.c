/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/sort.h"

#include <string.h>

struct pair {
    struct jinja_value key, item;
};

/* Merges; equal ones keep their order, in reverse too. */
static void sort(struct jinja *j, struct pair *pairs, struct pair *room, uint64_t n, bool reverse)
{
    if (n < 2)
        return;
    uint64_t half = n / 2;
    sort(j, pairs, room, half, reverse);
    sort(j, pairs + half, room, n - half, reverse);
    uint64_t a = 0, b = half;
    for (uint64_t i = 0; i < n; i++) {
        bool second = a == half;
        if (!second && b < n)
            second = reverse ? jinja_compare(j, pairs[a].key, pairs[b].key, "<") == -1
                             : jinja_compare(j, pairs[b].key, pairs[a].key, "<") == -1;
        room[i] = second ? pairs[b++] : pairs[a++];
    }
    jinja_charge(j, n);
    memcpy(pairs, room, n * sizeof *pairs);
}

void jinja_sort(struct jinja *j, struct jinja_list *items, struct jinja_list *keys, bool reverse)
{
    uint64_t n = items->n;
    struct pair *pairs = jinja_alloc(j, 2 * n * sizeof *pairs);
    for (uint64_t i = 0; i < n; i++)
        pairs[i] = (struct pair){keys->items[i], items->items[i]};
    sort(j, pairs, pairs + n, n, reverse);
    for (uint64_t i = 0; i < n; i++)
        items->items[i] = pairs[i].item;
}

void jinja_sort_by_key(struct jinja *j, struct jinja_list *pairs)
{
    struct jinja_list *keys = jinja_list_new(j, JINJA_IS_LIST, pairs->n);
    for (uint64_t i = 0; i < pairs->n; i++)
        jinja_list_add(j, keys, pairs->items[i].list->items[0]);
    jinja_sort(j, pairs, keys, false);
}
