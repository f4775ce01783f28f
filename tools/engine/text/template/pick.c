/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/pick.h"

#include "tools/engine/text/template/call.h"
#include "tools/engine/text/template/unicode.h"

#include <string.h>

static struct jinja_value part_key(struct jinja *j, const struct jinja_text *part)
{
    int64_t number = 0;
    for (uint64_t i = 0; i < part->length; i++)
        if (part->bytes[i] < '0' || part->bytes[i] > '9' || part->length > 18)
            return jinja_text(part);
        else
            number = number * 10 + (part->bytes[i] - '0');
    (void)j;
    return part->length ? jinja_int(number) : jinja_text(part);
}

struct jinja_value jinja_pick(struct jinja *j, struct jinja_value item, struct jinja_value path,
                              struct jinja_value absent)
{
    if (path.kind == JINJA_ABSENT || path.kind == JINJA_NONE)
        return item;
    bool has_absent = absent.kind != JINJA_ABSENT && absent.kind != JINJA_NONE;
    if (path.kind != JINJA_TEXT) {
        item = jinja_item(j, item, path);
        return item.kind == JINJA_UNDEFINED && has_absent ? absent : item;
    }
    for (uint64_t at = 0; at <= path.text->length;) {
        const char *dot = memchr(path.text->bytes + at, '.', path.text->length - at);
        uint64_t end = dot ? (uint64_t)(dot - path.text->bytes) : path.text->length;
        item = jinja_item(j, item, part_key(j, jinja_slice(j, path.text, at, end)));
        if (item.kind == JINJA_UNDEFINED && has_absent)
            item = absent;
        at = end + 1;
    }
    return item;
}

struct jinja_list *jinja_pick_keys(struct jinja *j, const struct jinja_list *items, struct jinja_value path,
                                   struct jinja_value absent, bool exact)
{
    struct jinja_list *keys = jinja_list_new(j, JINJA_IS_LIST, items->n);
    for (uint64_t i = 0; i < items->n; i++) {
        jinja_charge(j, 0);
        struct jinja_value key = jinja_pick(j, items->items[i], path, absent);
        if (key.kind == JINJA_TEXT && !exact)
            key = jinja_text(jinja_change_case(j, key.text, JINJA_LOWER));
        jinja_list_add(j, keys, key);
    }
    return keys;
}
