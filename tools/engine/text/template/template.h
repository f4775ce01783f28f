/* SPDX-License-Identifier: Apache-2.0 */
/* template.h - a template that was read. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_TEMPLATE_H
#define KT_ENGINE_TEXT_TEMPLATE_TEMPLATE_H

#include "tools/engine/text/template/node.h"

struct kt_template {
    char *name;
    char *source; /* lines end in \n, without the last one's */
    uint32_t length;
    const struct jinja_node *root;
    struct jinja memory; /* of the tree */
};

/** Runs the template: the text of its output. */
const struct jinja_text *jinja_run(struct jinja *j);

#endif
