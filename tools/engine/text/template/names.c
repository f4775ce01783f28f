/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the names of a template, each once: a table that grows with them, so that a name is found in a
 * few steps however many there are. */
#define XXH_INLINE_ALL
#include "tools/engine/text/template/parser.h"
#include "tools/engine/text/template/text.h"

#include <string.h>
#include <xxhash.h>

enum {
    FEWEST = 64, /* chains */
    CHAIN = 64   /* names in a chain: only a template that is made for it has as many */
};

struct jinja_name *jinja_find_name(const struct jinja_text *text)
{
    return (struct jinja_name *)(uintptr_t)text;
}

/* No more chains than names, but for the fewest. */
static void grow(struct jinja *j, struct jinja_names *names)
{
    uint32_t n = names->n_chains;
    struct jinja_name **old = names->chains;
    names->n_chains = n ? 2 * n : FEWEST;
    names->chains = jinja_new(j, names->n_chains * sizeof(struct jinja_name *));
    for (uint32_t i = 0; i < n; i++)
        for (struct jinja_name *name = old[i], *next; name; name = next) {
            struct jinja_name **chain = &names->chains[name->hash & (names->n_chains - 1)];
            next = name->next;
            name->next = *chain;
            *chain = name;
        }
}

const struct jinja_text *jinja_take_name(struct jinja_parser *p)
{
    if (p->token->type != JINJA_TOKEN_NAME)
        jinja_parse_fail(p, "a name");
    const char *bytes = p->source + p->token->at;
    uint32_t length = p->token->length, n = 0;
    uint32_t hash = (uint32_t)XXH3_64bits(bytes, length);
    p->token++;
    if (p->names.n == p->names.n_chains)
        grow(p->j, &p->names);
    struct jinja_name **chain = &p->names.chains[hash & (p->names.n_chains - 1)];
    for (struct jinja_name *name = *chain; name; name = name->next, n++)
        if (name->text.length == length && memcmp(name->text.bytes, bytes, length) == 0)
            return &name->text;
    if (n == CHAIN)
        jinja_raise(p->j, KT_E_RANGE, "more than %d names of one hash", CHAIN);
    struct jinja_name *name = jinja_new(p->j, sizeof *name);
    name->text = (struct jinja_text){.bytes = bytes, .length = length, .n_chars = -1};
    name->hash = hash;
    (void)jinja_chars(&name->text);
    name->next = *chain;
    *chain = name;
    p->names.n++;
    return &name->text;
}
