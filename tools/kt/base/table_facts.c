/* SPDX-License-Identifier: Apache-2.0 */
/* table_facts.c - facts for people: "title: value", one a line. Many of them stand beside each other on a
 * terminal, so that what follows is on the same screen. */
#include "tools/kt/base/table_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 8     /* facts that one line each is too much for */
#define LONGEST 24 /* a longer value has its own line, and so has a path */
#define MAX_COLUMNS 3
#define GAP 2

struct facts {
    size_t n;
    const char *title[KT_OUTPUT_MAX_FACTS];
    char *text[KT_OUTPUT_MAX_FACTS];
};

/* Those of a column, `rows` from number `first` on. */
struct part {
    size_t first, rows, title, text; /* widths of both */
};

static struct part measure(const struct facts *facts, size_t first, size_t rows)
{
    struct part part = {.first = first, .rows = rows};
    for (size_t f = first; f < first + rows && f < facts->n; f++) {
        size_t title = kt_text_width(facts->title[f]), text = kt_text_width(facts->text[f]);
        part.title = title > part.title ? title : part.title;
        part.text = text > part.text ? text : part.text;
    }
    return part;
}

static void write_fact(const struct facts *facts, size_t f, size_t width)
{
    fputs(facts->title[f], stdout);
    putchar(':');
    kt_text_spaces(width - kt_text_width(facts->title[f]) + 1);
    kt_text_put(facts->text[f], strlen(facts->text[f]));
}

/* As many columns as fit; they are read from top to bottom. Returns their number. */
static size_t choose_columns(const struct facts *facts, size_t terminal, struct part *parts)
{
    for (size_t n = terminal > 0 && facts->n >= MANY ? MAX_COLUMNS : 1;; n--) {
        size_t rows = (facts->n + n - 1) / n, total = 0;
        for (size_t c = 0; c < n; c++) {
            parts[c] = measure(facts, c * rows, rows);
            total += parts[c].title + 2 + parts[c].text + (c > 0 ? GAP : 0);
        }
        if (n == 1 || total <= terminal)
            return n;
    }
}

static void write_columns(const struct facts *facts, size_t terminal)
{
    struct part parts[MAX_COLUMNS];
    size_t n = choose_columns(facts, terminal, parts);
    for (size_t row = 0; row < parts[0].rows && row < facts->n; row++) {
        size_t spaces = 0;
        for (size_t c = 0; c < n && parts[c].first + row < facts->n; c++) {
            size_t f = parts[c].first + row;
            kt_text_spaces(spaces);
            write_fact(facts, f, parts[c].title);
            spaces = parts[c].text - kt_text_width(facts->text[f]) + GAP;
        }
        putchar('\n');
    }
}

bool kt_output_write_facts(const struct kt_output *output)
{
    size_t terminal = kt_terminal_width();
    struct facts all = {.n = 0}, shorter = {.n = 0};
    for (size_t f = 0; f < output->n_facts; f++) {
        const struct kt_fact *fact = &output->fact[f];
        /* Facts for people have a title; an empty text is left out. */
        if (!fact->column.title || (fact->column.type == KT_COLUMN_TEXT && !*fact->value.text))
            continue;
        all.title[all.n] = fact->column.title;
        all.text[all.n++] = kt_text_value(output->cli, &fact->column, &fact->value);
    }
    for (size_t f = 0; f < all.n; f++) {
        bool is_long = terminal > 0 && all.n >= MANY &&
                       (strchr(all.text[f], '/') || kt_text_width(all.text[f]) > LONGEST);
        if (!is_long) {
            shorter.title[shorter.n] = all.title[f];
            shorter.text[shorter.n++] = all.text[f];
            continue;
        }
        write_fact(&all, f, kt_text_width(all.title[f]));
        putchar('\n');
    }
    write_columns(&shorter, terminal);
    for (size_t f = 0; f < all.n; f++)
        free(all.text[f]);
    return all.n > 0;
}
