/* SPDX-License-Identifier: Apache-2.0 */
/* table_text.c - tables for people: aligned columns, which fit a terminal. */
#define _GNU_SOURCE

#include "tools/kt/base/table_text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define GAP 2          /* spaces between columns */
#define INDENT 4       /* spaces before what stands below a row */
#define MAX_LINES 6    /* of a cell */
#define MIN_WRAPPED 16 /* a column is not squeezed below this */
#define MOST_PIECE 48  /* a wider piece, such as a path, goes below its row; no column makes room for it */

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

size_t kt_text_width(const char *text)
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

void kt_text_put(const char *text, size_t length)
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

void kt_text_spaces(size_t n)
{
    while (n-- > 0)
        putchar(' ');
}

size_t kt_terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}

/* ---- values --------------------------------------------------------------------------------- */

char *kt_text_value(const struct kt_cli *cli, const struct kt_column *column, const struct kt_cell *value)
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

/* ---- tables --------------------------------------------------------------------------------- */

/* The visible columns and their texts, the header as row 0. */
struct grid {
    size_t n_columns, n_rows;
    const struct kt_column **column;
    size_t *width;
    char **text; /* [n_rows][n_columns] */
};

/* Nothing to show: not set, an empty text, "no". */
static bool is_nothing(const struct kt_column *column, const struct kt_cell *value)
{
    if (!value->set)
        return true;
    return column->type == KT_COLUMN_TEXT ? !*value->text
                                          : column->type == KT_COLUMN_BOOL && value->number == 0;
}

static bool is_visible(const struct kt_table *table, size_t c)
{
    const struct kt_column *column = &table->columns[c];
    if (table->width)
        return table->width[c] > 0;
    if (!(column->flags & KT_COLUMN_RARE) || (column->flags & KT_COLUMN_HIDDEN))
        return !(column->flags & KT_COLUMN_HIDDEN);
    for (size_t r = 0; r < table->n_rows; r++) {
        if (!is_nothing(column, &table->value[r * table->n_columns + c]))
            return true;
    }
    return false;
}

static size_t find_column(const struct kt_table *table, const struct grid *grid, size_t c)
{
    return (size_t)(grid->column[c] - table->columns);
}

/* The header and the rows that are not written yet. */
static void fill_grid(const struct kt_table *table, struct grid *grid)
{
    const struct kt_cli *cli = table->cli;
    grid->n_rows = table->n_rows - table->n_written + 1;
    grid->n_columns = 0;
    grid->column = kt_cli_alloc(cli, table->n_columns, sizeof(*grid->column));
    grid->width = kt_cli_alloc(cli, table->n_columns, sizeof(*grid->width));
    grid->text = kt_cli_alloc(cli, grid->n_rows * table->n_columns, sizeof(*grid->text));
    for (size_t c = 0; c < table->n_columns; c++) {
        if (is_visible(table, c))
            grid->column[grid->n_columns++] = &table->columns[c];
    }
    for (size_t r = 0; r < grid->n_rows; r++) {
        for (size_t v = 0; v < grid->n_columns; v++) {
            const struct kt_column *column = grid->column[v];
            size_t value = (table->n_written + r - 1) * table->n_columns + find_column(table, grid, v);
            grid->text[r * grid->n_columns + v] = r == 0 ? kt_cli_format(cli, "%s", column->title)
                                                         : kt_text_value(cli, column, &table->value[value]);
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

/* ---- widths --------------------------------------------------------------------------------- */

/* Bytes up to the next place where a line may end: after a space, and after the commas of a list. */
static size_t find_break(const char *text, bool list)
{
    size_t n = strcspn(text, list ? " ," : " ");
    n += text[n] == ',';
    return n + strspn(text + n, " ");
}

/* Columns of the first n bytes of text, spaces at their end left out. */
static size_t measure_part(const char *text, size_t n)
{
    size_t width = 0;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    for (size_t at = 0; at < n;) {
        size_t bytes = kt_utf8_length(text + at);
        bytes = bytes ? bytes : 1;
        width += measure_character(text + at, bytes);
        at += bytes;
    }
    return width;
}

/* The widest piece of the text that no line may break. */
static size_t measure_piece(const char *text, bool list)
{
    size_t widest = 0;
    for (size_t n; *text; text += n) {
        n = find_break(text, list);
        size_t width = measure_part(text, n);
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Bytes of the text that go into a line of `room` columns, at least one piece. */
static size_t fit(const char *text, size_t room, bool list)
{
    size_t at = find_break(text, list);
    while (text[at]) {
        size_t next = at + find_break(text + at, list);
        if (measure_part(text, next) > room)
            break;
        at = next;
    }
    return at;
}

static bool is_list(const struct kt_column *column)
{
    return column->flags & KT_COLUMN_LIST;
}

static bool is_below(const struct grid *grid, size_t c)
{
    return grid->column[c]->flags & KT_COLUMN_BELOW;
}

/* The width that a column has at least. Each stage gives up more: 0 wraps wide texts, 1 narrow ones too, 2
 * moves cells with wide pieces below their row, 3 all cells that do not fit below the header. */
static size_t find_least(const struct grid *grid, size_t c, int stage)
{
    size_t header = kt_text_width(grid->text[c]), piece = header, widest = 0;
    for (size_t r = 0; r < grid->n_rows; r++) {
        const char *text = grid->text[r * grid->n_columns + c];
        size_t width = kt_text_width(text), part = measure_piece(text, is_list(grid->column[c]));
        widest = width > widest ? width : widest;
        piece = part > piece && part <= MOST_PIECE ? part : piece;
    }
    if (grid->column[c]->type != KT_COLUMN_TEXT || stage < 0 || (stage == 0 && widest <= MIN_WRAPPED))
        return widest;
    size_t enough = header > MIN_WRAPPED ? header : MIN_WRAPPED;
    if (stage == 0)
        return piece > enough ? piece : enough;
    if (stage == 1)
        return piece;
    return stage == 3 ? header : piece < enough ? piece : enough;
}

/* Narrows the column that has the most to give by one. False: none has. */
static bool squeeze(struct grid *grid, const size_t *least)
{
    size_t best = grid->n_columns;
    for (size_t c = 0; c < grid->n_columns; c++) {
        if (grid->width[c] > least[c] && (best == grid->n_columns || grid->width[c] > grid->width[best]))
            best = c;
    }
    if (best == grid->n_columns)
        return false;
    grid->width[best]--;
    return true;
}

static size_t measure_row(const struct grid *grid)
{
    size_t total = 0;
    for (size_t c = 0; c < grid->n_columns; c++)
        total += is_below(grid, c) ? 0 : grid->width[c] + (total ? GAP : 0);
    return total;
}

/* As wide as in the rows that are written, or as the column asks. */
static void widen(const struct kt_table *table, struct grid *grid)
{
    for (size_t c = 0; c < grid->n_columns; c++) {
        size_t at = find_column(table, grid, c), wish = grid->column[c]->flags >> 8;
        if (table->width)
            wish = table->width[at];
        else if (table->wish && table->wish[at] > wish)
            wish = table->wish[at];
        if (!is_below(grid, c) && grid->width[c] < wish)
            grid->width[c] = wish;
    }
}

/* Makes rows fit the terminal: columns wrap, and cells that cannot go below their row. */
static void set_widths(const struct kt_table *table, struct grid *grid, size_t terminal)
{
    size_t *least = kt_cli_alloc(table->cli, grid->n_columns, sizeof(*least));
    for (int stage = -1; stage <= 3; stage++) {
        for (size_t c = 0; c < grid->n_columns; c++) {
            least[c] = is_below(grid, c) ? 0 : find_least(grid, c, stage);
            if (stage < 0)
                grid->width[c] = least[c];
        }
        if (stage < 0)
            widen(table, grid);
        while (stage >= 0 && terminal && measure_row(grid) > terminal && squeeze(grid, least))
            ;
    }
    free(least);
}

/* Does a cell go on lines of its own? Its pieces are too wide, or it would be a long ribbon. */
static bool hangs(const struct grid *grid, size_t row, size_t c)
{
    const char *text = grid->text[row * grid->n_columns + c];
    if (is_below(grid, c) || row == 0)
        return is_below(grid, c);
    return measure_piece(text, is_list(grid->column[c])) > grid->width[c] ||
           (c > 0 && kt_text_width(text) > MAX_LINES * grid->width[c]);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A line that is being written: spaces wait for text, so that none end it. */
struct line {
    size_t at, spaces;
};

static bool is_bad(const char *text)
{
    return strcmp(text, "failed") == 0 || strcmp(text, "refused") == 0;
}

/* The first n bytes of text, without spaces at their end. */
static void put_part(struct line *line, const char *text, size_t n, bool red)
{
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n == 0)
        return;
    kt_text_spaces(line->spaces);
    if (red)
        fputs("\033[31m", stdout);
    kt_text_put(text, n);
    if (red)
        fputs("\033[0m", stdout);
    line->at += line->spaces + measure_part(text, n);
    line->spaces = 0;
}

static void go_to(struct line *line, size_t column)
{
    line->spaces = column > line->at ? column - line->at : 0;
}

/* Of n bytes that are wider than a line of `room` columns, those before the last '/' that fit: so a path is
 * cut where it has a joint. n: there is none. */
static size_t cut_path(const char *text, size_t n, size_t room)
{
    size_t cut = n;
    for (size_t i = 1; i < n && measure_part(text, i) <= room; i++)
        cut = text[i] == '/' ? i : cut;
    return cut;
}

/* Text from the line's column on, and on more lines if it is long. */
static void write_paragraph(struct line *line, const char *text, bool list, size_t terminal)
{
    while (*text) {
        size_t from = line->at + line->spaces;
        size_t n = fit(text, terminal > from ? terminal - from : SIZE_MAX, list);
        /* Where not even a piece fits behind the name, a line of its own may do. */
        if (line->at > 0 && terminal && from + measure_part(text, n) > terminal)
            n = 0;
        else if (terminal > from && measure_part(text, n) > terminal - from)
            n = cut_path(text, n, terminal - from);
        put_part(line, text, n, false);
        text += n;
        if (*text) {
            putchar('\n');
            *line = (struct line){.spaces = INDENT};
        }
    }
    putchar('\n');
}

/* The texts of columns that have their own lines. */
static void write_below(const struct grid *grid, size_t row, size_t terminal)
{
    for (size_t c = 1; c < grid->n_columns; c++) {
        const char *text = grid->text[row * grid->n_columns + c];
        const struct kt_column *column = grid->column[c];
        if (row == 0 || !hangs(grid, row, c) || !*text || strcmp(text, "-") == 0)
            continue;
        struct line line = {.spaces = INDENT};
        /* The header does not name it. */
        if (!(column->flags & KT_COLUMN_BELOW)) {
            put_part(&line, column->name, strlen(column->name), false);
            put_part(&line, ":", 1, false);
            line.spaces = 1;
        }
        write_paragraph(&line, text, is_list(column), terminal);
    }
}

/* One line of a row: the next part of each cell; text[c] moves on. False: nothing is left. */
static bool write_line(const struct grid *grid, const char **text, bool colors)
{
    struct line line = {.at = 0};
    size_t column = 0;
    bool left = false;
    for (size_t c = 0; c < grid->n_columns; c++) {
        if (is_below(grid, c))
            continue;
        enum kt_column_type type = grid->column[c]->type;
        bool right = type != KT_COLUMN_TEXT && type != KT_COLUMN_BOOL;
        size_t n = *text[c] ? fit(text[c], grid->width[c], is_list(grid->column[c])) : 0;
        go_to(&line, column + (right ? grid->width[c] - measure_part(text[c], n) : 0));
        put_part(&line, text[c], n, colors && is_bad(text[c]));
        text[c] += n;
        left |= *text[c] != 0;
        column += grid->width[c] + GAP;
    }
    putchar('\n');
    return left;
}

static bool has_colors(void)
{
    const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0 && !(none && *none);
}

/* For the rows to come. */
static void keep_widths(struct kt_table *table, const struct grid *grid)
{
    if (!table->width)
        table->width = kt_cli_alloc(table->cli, table->n_columns, sizeof(*table->width));
    for (size_t c = 0; c < grid->n_columns; c++)
        table->width[find_column(table, grid, c)] = grid->width[c] > 0 ? grid->width[c] : 1;
}

/* The rows that are not written yet; the header and the title before the first. */
static void write_table(struct kt_table *table)
{
    struct grid grid;
    size_t terminal = kt_terminal_width();
    bool colors = has_colors();
    fill_grid(table, &grid);
    set_widths(table, &grid, terminal);
    const char **text = kt_cli_alloc(table->cli, grid.n_columns, sizeof(*text));
    if (table->title && !table->width) {
        kt_text_put(table->title, strlen(table->title));
        putchar('\n');
    }
    for (size_t r = table->width ? 1 : 0; r < grid.n_rows; r++) {
        for (size_t c = 0; c < grid.n_columns; c++)
            text[c] = hangs(&grid, r, c) ? "" : grid.text[r * grid.n_columns + c];
        /* What the row is about stands above it. */
        if (hangs(&grid, r, 0))
            write_paragraph(&(struct line){.at = 0}, grid.text[r * grid.n_columns], is_list(grid.column[0]),
                            terminal);
        while (write_line(&grid, text, colors))
            ;
        write_below(&grid, r, terminal);
    }
    keep_widths(table, &grid);
    table->n_written = table->n_rows;
    free(text);
    free_grid(&grid);
}

/* wcwidth() knows nothing in the C locale; the numbers' format stays the C locale's. */
struct characters {
    locale_t locale, before;
};

static struct characters begin_characters(void)
{
    struct characters characters = {.locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)};
    if (characters.locale)
        characters.before = uselocale(characters.locale);
    return characters;
}

static void end_characters(const struct characters *characters)
{
    if (!characters->locale)
        return;
    uselocale(characters->before);
    freelocale(characters->locale);
}

void kt_table_expect(struct kt_table *table, const char *name, const char *text)
{
    struct characters characters = begin_characters();
    if (!table->wish)
        table->wish = kt_cli_alloc(table->cli, table->n_columns, sizeof(*table->wish));
    for (size_t c = 0; c < table->n_columns; c++) {
        if (strcmp(table->columns[c].name, name) == 0 && kt_text_width(text) > table->wish[c])
            table->wish[c] = kt_text_width(text);
    }
    end_characters(&characters);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* An empty line between parts. */
static void begin_part(struct kt_output *output)
{
    if (output->has_begun)
        putchar('\n');
    output->has_begun = true;
}

static void begin(struct kt_output *output)
{
    if (output->has_begun)
        return;
    output->has_begun = kt_output_write_facts(output);
}

/* Rows that are new, below those of their table. */
static void write_new_rows(struct kt_output *output, struct kt_table *table)
{
    if (table->n_rows == table->n_written)
        return;
    if (!table->width)
        begin_part(output);
    write_table(table);
}

void kt_output_write_rows(struct kt_output *output)
{
    struct characters characters = begin_characters();
    begin(output);
    write_new_rows(output, output->table[0]);
    end_characters(&characters);
}

void kt_output_write_text(struct kt_output *output)
{
    struct characters characters = begin_characters();
    begin(output);
    for (size_t t = 0; t < output->n_tables; t++)
        write_new_rows(output, output->table[t]);
    if (output->note) {
        struct line line = {.at = 0};
        begin_part(output);
        write_paragraph(&line, output->note, false, kt_terminal_width());
    }
    end_characters(&characters);
}
