/* SPDX-License-Identifier: Apache-2.0 */
/* pick.h - "a.0.b", as filters name what of an item counts. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_PICK_H
#define KT_ENGINE_TEXT_TEMPLATE_PICK_H

#include "tools/engine/text/template/value.h"

/** `path`: a text, a number, or JINJA_NONE and JINJA_ABSENT for the item itself. `absent` stands for what is
 * undefined. */
struct jinja_value jinja_pick(struct jinja *j, struct jinja_value item, struct jinja_value path,
                              struct jinja_value absent);
/** The same of each, in lower case unless `exact`: what Jinja2 sorts and compares by. */
struct jinja_list *jinja_pick_keys(struct jinja *j, const struct jinja_list *items, struct jinja_value path,
                                   struct jinja_value absent, bool exact);

#endif
