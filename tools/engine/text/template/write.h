/* SPDX-License-Identifier: Apache-2.0 */
/* write.h - values as text, as Python writes them, and JSON as values. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_WRITE_H
#define KT_ENGINE_TEXT_TEMPLATE_WRITE_H

#include "tools/engine/text/template/text.h"

#include <jansson.h>

/** str(): of a text itself. */
const struct jinja_text *jinja_str(struct jinja *j, struct jinja_value value);
void jinja_write(struct jinja *j, struct jinja_buffer *out, struct jinja_value value);
/** repr() */
void jinja_write_repr(struct jinja *j, struct jinja_buffer *out, struct jinja_value value);

enum { JINJA_REAL_ROOM = 40 };
/** The shortest digits that read back as the same number, in the form of Python's repr. */
void jinja_real_text(double real, char text[JINJA_REAL_ROOM]);
/** Independent of the locale; false: `text` has more than a number, or is too long for one. */
bool jinja_read_real(const char *text, uint64_t length, double *real);

struct jinja_json_style {
    bool ascii;
    bool sort_keys;
    const struct jinja_text *indent; /* NULL: one line */
    const struct jinja_text *comma;
    const struct jinja_text *colon;
};
/** json.dumps */
void jinja_write_json(struct jinja *j, struct jinja_buffer *out, struct jinja_value value,
                      const struct jinja_json_style *style);
/** Reads JSON; its texts are content as `content` says, and their bytes copied. */
struct jinja_value jinja_read_json(struct jinja *j, const char *bytes, uint64_t length, bool content);
/** The same of JSON that was read already, whose text would have about so many bytes. */
struct jinja_value jinja_take_json(struct jinja *j, const json_t *json, uint64_t size, bool content);

#endif
