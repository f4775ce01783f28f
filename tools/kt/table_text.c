/* SPDX-License-Identifier: Apache-2.0 */
/* table_text.c - tables for people: aligned columns, the last one wrapped on a terminal. */
#define _GNU_SOURCE

#include "tools/kt/table_text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define GAP 2       /* spaces between columns */
#define MIN_LAST 24 /* the last column is not squeezed below this */

char *kt_bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    /* 1023.95 would be shown as 1024.0. */
    while (value >= (unit ? 1023.95 : 1024.0) && unit < 6) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, size, "%" PRIu64 " B", bytes);
    else
        snprintf(text, size, "%.1f %s", value, units[unit]);
    return text;
}

/* ---- width ---------------------------------------------------------------------------------- */

static uint32_t decode(const char *s, size_t n)
{
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = (unsigned char)s[0] & first[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3F);
    return c;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

/* Columns of the character of n bytes at s; control characters are shown as '?'. */
static size_t measure_character(const char *s, size_t n)
{
    uint32_t c = decode(s, n);
    if (is_control(c))
        return 1;
    int width = wcwidth((wchar_t)c);
    return width < 0 ? 1 : (size_t)width;
}

static size_t measure(const char *text)
{
    size_t width = 0;
    while (*text) {
        size_t n = kt_utf8_length(text);
        n = n ? n : 1;
        width += measure_character(text, n);
        text += n;
    }
    return width;
}

static void put_text(const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        size_t n = kt_utf8_length(text);
        if (n == 0 || is_control(decode(text, n)))
            putchar('?');
        else
            fwrite(text, 1, n, stdout);
        text += n ? n : 1;
    }
}

static void put_spaces(size_t n)
{
    while (n-- > 0)
        putchar(' ');
}

/* Columns of the terminal, or 0: no limit. */
static size_t find_terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}

/* ---- values --------------------------------------------------------------------------------- */

static char *format_value(const struct kt_cli *cli, const struct kt_column *column,
                          const struct kt_value *value)
{
    char text[32];
    if (!value->set)
        return kt_cli_format(cli, "-");
    switch (column->type) {
    case KT_COLUMN_TEXT:
        return kt_cli_format(cli, "%s", value->text);
    case KT_COLUMN_UINT:
        return kt_cli_format(cli, "%" PRIu64, value->number);
    case KT_COLUMN_INT:
        return kt_cli_format(cli, "%" PRId64, (int64_t)value->number);
    case KT_COLUMN_BYTES:
        return kt_cli_format(cli, "%s", kt_bytes_text(value->number, text, sizeof(text)));
    case KT_COLUMN_BOOL:
        return kt_cli_format(cli, "%s", value->number ? "yes" : "no");
    case KT_COLUMN_REAL:
        break;
    }
    if (isnan(value->real))
        return kt_cli_format(cli, "nan");
    if (column->decimals >= 0)
        return kt_cli_format(cli, "%.*f", column->decimals, value->real);
    return kt_cli_format(cli, "%.3g", value->real);
}

/* Facts for people have a title; an empty text is left out. */
static bool is_shown(const struct kt_fact *fact)
{
    return fact->column.title && (fact->column.type != KT_COLUMN_TEXT || *fact->value.text);
}

static void write_facts(const struct kt_output *output)
{
    size_t widest = 0;
    for (size_t f = 0; f < output->n_facts; f++) {
        const char *title = output->fact[f].column.title;
        if (is_shown(&output->fact[f]) && measure(title) > widest)
            widest = measure(title);
    }
    for (size_t f = 0; f < output->n_facts; f++) {
        const struct kt_column *column = &output->fact[f].column;
        if (!is_shown(&output->fact[f]))
            continue;
        char *text = format_value(output->cli, column, &output->fact[f].value);
        fputs(column->title, stdout);
        putchar(':');
        put_spaces(widest - measure(column->title) + 1);
        put_text(text, strlen(text));
        putchar('\n');
        free(text);
    }
}

/* ---- tables --------------------------------------------------------------------------------- */

/* The visible columns and their texts, the header as row 0. */
struct grid {
    size_t n_columns, n_rows;
    const struct kt_column **column;
    size_t *width;
    char **text; /* [n_rows][n_columns] */
};

static void fill_grid(const struct kt_table *table, struct grid *grid)
{
    const struct kt_cli *cli = table->cli;
    grid->n_rows = table->n_rows + 1;
    grid->n_columns = 0;
    grid->column = kt_cli_alloc(cli, table->n_columns, sizeof(*grid->column));
    grid->width = kt_cli_alloc(cli, table->n_columns, sizeof(*grid->width));
    grid->text = kt_cli_alloc(cli, grid->n_rows * table->n_columns, sizeof(*grid->text));
    for (size_t c = 0; c < table->n_columns; c++) {
        if (!(table->columns[c].flags & KT_COLUMN_HIDDEN))
            grid->column[grid->n_columns++] = &table->columns[c];
    }
    for (size_t r = 0; r < grid->n_rows; r++) {
        for (size_t v = 0; v < grid->n_columns; v++) {
            const struct kt_column *column = grid->column[v];
            size_t c = (size_t)(column - table->columns);
            char *text = r == 0 ? kt_cli_format(cli, "%s", column->title)
                                : format_value(cli, column, &table->value[(r - 1) * table->n_columns + c]);
            grid->text[r * grid->n_columns + v] = text;
            if (measure(text) > grid->width[v])
                grid->width[v] = measure(text);
        }
    }
}

static void free_grid(struct grid *grid)
{
    for (size_t i = 0; i < grid->n_rows * grid->n_columns; i++)
        free(grid->text[i]);
    free(grid->text);
    free(grid->width);
    free(grid->column);
}

/* Bytes of text that fit into `room` columns, cut after a space where there is one. */
static size_t fit(const char *text, size_t room)
{
    size_t at = 0, width = 0, space = 0;
    while (text[at]) {
        size_t n = kt_utf8_length(text + at);
        n = n ? n : 1;
        width += measure_character(text + at, n);
        if (width > room)
            return space ? space : (at ? at : n);
        at += n;
        if (text[at - 1] == ' ')
            space = at;
    }
    return at;
}

/* The last column, wrapped below itself. */
static void write_last(const char *text, size_t indent, size_t room)
{
    size_t n = fit(text, room);
    put_text(text, n);
    for (text += n; *text; text += n) {
        n = fit(text, room);
        putchar('\n');
        put_spaces(indent);
        put_text(text, n);
    }
}

static void write_row(const struct grid *grid, size_t row, size_t terminal)
{
    size_t at = 0, n = grid->n_columns;
    /* No spaces at the end of a line. */
    while (n > 0 && !*grid->text[row * grid->n_columns + n - 1])
        n--;
    for (size_t c = 0; c < n; c++) {
        const char *text = grid->text[row * grid->n_columns + c];
        bool last = c + 1 == n;
        bool right = grid->column[c]->type != KT_COLUMN_TEXT && grid->column[c]->type != KT_COLUMN_BOOL;
        size_t padding = grid->width[c] - measure(text);
        if (right)
            put_spaces(padding);
        if (last && !right && terminal >= at + MIN_LAST)
            write_last(text, at, terminal - at);
        else
            put_text(text, strlen(text));
        if (!last)
            put_spaces((right ? 0 : padding) + GAP);
        at += grid->width[c] + GAP;
    }
    putchar('\n');
}

static void write_table(const struct kt_table *table)
{
    struct grid grid;
    size_t terminal = find_terminal_width();
    fill_grid(table, &grid);
    if (table->title) {
        put_text(table->title, strlen(table->title));
        putchar('\n');
    }
    for (size_t r = 0; r < grid.n_rows; r++)
        write_row(&grid, r, terminal);
    free_grid(&grid);
}

void kt_output_write_text(const struct kt_output *output)
{
    /* wcwidth() knows nothing in the C locale; the numbers' format stays the C locale's. */
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = locale ? uselocale(locale) : (locale_t)0;
    bool written = false;

    write_facts(output);
    for (size_t f = 0; f < output->n_facts; f++)
        written |= is_shown(&output->fact[f]);
    for (size_t t = 0; t < output->n_tables; t++) {
        if (output->table[t]->n_rows == 0)
            continue;
        if (written)
            putchar('\n');
        write_table(output->table[t]);
        written = true;
    }
    if (locale) {
        uselocale(before);
        freelocale(locale);
    }
}
