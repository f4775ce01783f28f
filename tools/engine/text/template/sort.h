/* SPDX-License-Identifier: Apache-2.0 */
/* sort.h - a stable sort of values, as Python sorts. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_SORT_H
#define KT_ENGINE_TEXT_TEMPLATE_SORT_H

#include "tools/engine/text/template/value.h"

/** Sorts `items` by `keys`, both of the same length. */
void jinja_sort(struct jinja *j, struct jinja_list *items, struct jinja_list *keys, bool reverse);
/** Sorts pairs by what comes first in each. */
void jinja_sort_by_key(struct jinja *j, struct jinja_list *pairs);

#endif
