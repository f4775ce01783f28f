/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h - what filters and methods of texts share: stripping, splitting, replacing, lines. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_SHAPE_H
#define KT_ENGINE_TEXT_TEMPLATE_SHAPE_H

#include "tools/engine/text/template/text.h"

/** `chars`: NULL: spaces. */
const struct jinja_text *jinja_strip(struct jinja *j, const struct jinja_text *text,
                                     const struct jinja_text *chars, bool left, bool right);
/** `limit` < 0: all. */
const struct jinja_text *jinja_replace(struct jinja *j, const struct jinja_text *text,
                                       const struct jinja_text *old, const struct jinja_text *new,
                                       int64_t limit);
/** `separator` NULL: runs of spaces. From the end where `reverse`. */
struct jinja_list *jinja_split(struct jinja *j, const struct jinja_text *text,
                               const struct jinja_text *separator, int64_t limit, bool reverse);
struct jinja_list *jinja_split_lines(struct jinja *j, const struct jinja_text *text, bool keep_ends);
/** Padded on both sides as str.center does (`side` 0), or on the right (1) or the left (-1). */
const struct jinja_text *jinja_pad(struct jinja *j, const struct jinja_text *text, int64_t width,
                                   const struct jinja_text *fill, int side);

#endif
