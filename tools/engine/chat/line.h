/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - what a person types at a terminal, by libedit: editing, history, pasted text with its newlines. */
#ifndef KT_ENGINE_CHAT_LINE_H
#define KT_ENGINE_CHAT_LINE_H

#include "tools/engine/base/buffer.h"

#include <kt/types.h>
#include <stdio.h>

struct kt_line;

enum kt_line_result {
    KT_LINE_TEXT,
    KT_LINE_EMPTIED, /* Ctrl-C at a line that held something */
    KT_LINE_EMPTY,   /* Ctrl-C at an empty line */
    KT_LINE_END      /* Ctrl-D, the terminal has gone, or a signal is to end the program (kt_wake_ends) */
};

/* The prompt is written to `out`. Needs kt_wake_install. From now on the terminal does not echo: what is
 * typed while an answer comes waits for the next line. */
enum kt_status kt_line_open(FILE *out, struct kt_line **line, struct kt_error *error);
void kt_line_close(struct kt_line *line);
/* Reads a line, which may hold newlines that were pasted, or typed by Alt-Enter. `text` ends in a zero byte
 * and is replaced; it is UTF-8. */
enum kt_line_result kt_line_read(struct kt_line *line, const char *prompt, struct kt_buffer *text);
/* Stops the program, as Ctrl-Z does, with the terminal as it was before. */
void kt_line_suspend(struct kt_line *line);
/* Adds a text for the keys up and down. */
void kt_line_remember(struct kt_line *line, const char *text);

#endif
