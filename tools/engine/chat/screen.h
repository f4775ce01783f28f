/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h - text of models and servers on its way to a stream. On a terminal it cannot do harm there: escape
 * sequences become visible, and what the locale cannot show a question mark. */
#ifndef KT_ENGINE_CHAT_SCREEN_H
#define KT_ENGINE_CHAT_SCREEN_H

#include "tools/engine/base/buffer.h"

#include <kt/types.h>
#include <stdio.h>

struct kt_screen {
    FILE *file;
    bool is_terminal, is_utf8;
    bool has_dim;   /* it is a terminal that can, and NO_COLOR is not set */
    bool is_dim;    /* now */
    bool is_within; /* a line */
    char broken[4]; /* the beginning of a character that is not whole yet */
    size_t n_broken;
    struct kt_buffer out; /* what goes to the file at once */
};

void kt_screen_open(struct kt_screen *screen, FILE *file);
void kt_screen_close(struct kt_screen *screen);
/* Shows text, dim if it can be. */
void kt_screen_put(struct kt_screen *screen, bool is_dim, const char *text, size_t length);
void kt_screen_say(struct kt_screen *screen, bool is_dim, const char *format, ...) KT_PRINTF(3, 4);
/* Ends the line, if one was begun, and dim text. */
void kt_screen_end_line(struct kt_screen *screen);
/* Whether this is a terminal that understands escape sequences. */
bool kt_screen_has_escapes(FILE *file);

#endif
