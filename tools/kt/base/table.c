/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the values of facts and tables, and their JSON and CSV forms. */
#include "tools/kt/base/table.h"
#include "tools/kt/base/table_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------- */

/* One well-formed UTF-8 character at `s`: its bytes, or 0. */
size_t kt_utf8_length(const char *s)
{
    const unsigned char *c = (const unsigned char *)s;
    if (c[0] < 0x80)
        return 1;
    size_t n = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    if (c[0] < 0xC2 || c[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    }
    if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF0 && c[1] < 0x90) ||
        (c[0] == 0xF4 && c[1] > 0x8F))
        return 0;
    return n;
}

/* A copy in valid UTF-8; invalid bytes become '?'. */
static char *copy_text(const struct kt_cli *cli, const char *text)
{
    char *copy = kt_cli_alloc(cli, strlen(text) + 1, 1);
    char *to = copy;
    while (*text) {
        size_t n = kt_utf8_length(text);
        if (n == 0) {
            *to++ = '?';
            text++;
        } else {
            memcpy(to, text, n);
            to += n;
            text += n;
        }
    }
    return copy;
}

struct kt_output *kt_output_create(struct kt_cli *cli, const char *schema, int version)
{
    struct kt_output *output = kt_cli_alloc(cli, 1, sizeof(*output));
    output->cli = cli;
    output->schema = schema;
    output->version = version;
    return output;
}

void kt_output_free(struct kt_output *output)
{
    if (!output)
        return;
    for (size_t f = 0; f < output->n_facts; f++)
        free(output->fact[f].value.text);
    for (size_t t = 0; t < output->n_tables; t++) {
        struct kt_table *table = output->table[t];
        for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
            free(table->value[i].text);
        free(table->value);
        free(table->title);
        free(table->width);
        free(table->wish);
        free(table);
    }
    free(output->note);
    free(output);
}

static struct kt_cell *add_fact(struct kt_output *output, const char *name, const char *title,
                                enum kt_column_type type)
{
    if (output->n_facts == KT_OUTPUT_MAX_FACTS)
        exit(kt_cli_error(output->cli, "too many facts: %s", name));
    struct kt_fact *fact = &output->fact[output->n_facts++];
    fact->column = (struct kt_column){.name = name, .title = title, .type = type, .decimals = -1};
    fact->value.set = true;
    return &fact->value;
}

void kt_output_fact_text(struct kt_output *output, const char *name, const char *title, const char *value)
{
    add_fact(output, name, title, KT_COLUMN_TEXT)->text = copy_text(output->cli, value);
}

void kt_output_fact_uint(struct kt_output *output, const char *name, const char *title, uint64_t value)
{
    add_fact(output, name, title, KT_COLUMN_UINT)->number = value;
}

void kt_output_fact_bytes(struct kt_output *output, const char *name, const char *title, uint64_t value)
{
    add_fact(output, name, title, KT_COLUMN_BYTES)->number = value;
}

void kt_output_fact_real(struct kt_output *output, const char *name, const char *title, double value)
{
    add_fact(output, name, title, KT_COLUMN_REAL)->real = value;
}

void kt_output_note(struct kt_output *output, const char *text)
{
    char *joined =
        output->note ? kt_cli_format(output->cli, "%s %s", output->note, text) : copy_text(output->cli, text);
    free(output->note);
    output->note = joined;
}

struct kt_table *kt_output_table(struct kt_output *output, const char *name, const struct kt_column *columns,
                                 size_t n_columns)
{
    if (output->n_tables == KT_OUTPUT_MAX_TABLES)
        exit(kt_cli_error(output->cli, "too many tables: %s", name));
    struct kt_table *table = kt_cli_alloc(output->cli, 1, sizeof(*table));
    table->cli = output->cli;
    table->output = output;
    table->name = name;
    table->columns = columns;
    table->n_columns = n_columns;
    output->table[output->n_tables++] = table;
    return table;
}

void kt_table_title(struct kt_table *table, const char *title)
{
    free(table->title);
    table->title = copy_text(table->cli, title);
}

void kt_table_hide(struct kt_table *table)
{
    table->hidden = true;
}

void kt_table_row(struct kt_table *table)
{
    if (table->n_rows == table->max_rows) {
        size_t max = table->max_rows ? 2 * table->max_rows : 16;
        struct kt_cell *grown = kt_cli_alloc(table->cli, max, table->n_columns * sizeof(*grown));
        if (table->value)
            memcpy(grown, table->value, table->n_rows * table->n_columns * sizeof(*grown));
        free(table->value);
        table->value = grown;
        table->max_rows = max;
    }
    table->n_rows++;
}

static struct kt_cell *find_field(struct kt_table *table, const char *name)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        if (strcmp(table->columns[c].name, name) == 0) {
            struct kt_cell *value = &table->value[(table->n_rows - 1) * table->n_columns + c];
            free(value->text);
            value->text = NULL;
            value->set = true;
            return value;
        }
    }
    exit(kt_cli_error(table->cli, "the output has no field %s", name));
}

void kt_table_text(struct kt_table *table, const char *name, const char *value)
{
    find_field(table, name)->text = copy_text(table->cli, value);
}

void kt_table_uint(struct kt_table *table, const char *name, uint64_t value)
{
    find_field(table, name)->number = value;
}

void kt_table_int(struct kt_table *table, const char *name, int64_t value)
{
    find_field(table, name)->number = (uint64_t)value;
}

void kt_table_real(struct kt_table *table, const char *name, double value)
{
    find_field(table, name)->real = value;
}

void kt_table_bool(struct kt_table *table, const char *name, bool value)
{
    find_field(table, name)->number = value;
}

/* Do two rows look the same but for column `at`? */
static bool is_same_row(const struct kt_table *table, const struct kt_cell *a, const struct kt_cell *b,
                        size_t at)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        bool is_text = table->columns[c].type == KT_COLUMN_TEXT;
        if (c == at || table->columns[c].flags & KT_COLUMN_HIDDEN)
            continue;
        if (a[c].set != b[c].set || (a[c].set && is_text && strcmp(a[c].text, b[c].text) != 0) ||
            (a[c].set && !is_text && memcmp(&a[c].number, &b[c].number, sizeof(a[c].number)) != 0))
            return false;
    }
    return true;
}

void kt_table_join(struct kt_table *table, const char *name)
{
    size_t at = 0, n = 0, k;
    while (strcmp(table->columns[at].name, name) != 0)
        at++;
    for (size_t r = 0; r < table->n_rows && table->cli->format == KT_FORMAT_TABLE; r++) {
        struct kt_cell *row = &table->value[r * table->n_columns], *kept = table->value;
        for (k = 0; k < n && !is_same_row(table, kept, row, at); k++)
            kept += table->n_columns;
        if (k < n) {
            char *joined = kt_cli_format(table->cli, "%s,%s", kept[at].text, row[at].text);
            free(kept[at].text);
            kept[at].text = joined;
            for (size_t c = 0; c < table->n_columns; c++)
                free(row[c].text);
        } else if (n++ < r) {
            memcpy(kept, row, table->n_columns * sizeof(*row));
        }
    }
    if (table->cli->format == KT_FORMAT_TABLE && n < table->n_rows) {
        memset(&table->value[n * table->n_columns], 0,
               (table->n_rows - n) * table->n_columns * sizeof(*table->value));
        table->n_rows = n;
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *make_json(const struct kt_column *column, const struct kt_cell *value)
{
    if (!value->set)
        return json_null();
    switch (column->type) {
    case KT_COLUMN_TEXT:
        return json_string(value->text);
    case KT_COLUMN_REAL:
        return isfinite(value->real) ? json_real(value->real) : json_null();
    case KT_COLUMN_BOOL:
        return json_boolean(value->number != 0);
    default: /* jansson's integers are signed */
        return json_integer((json_int_t)value->number);
    }
}

static json_t *make_rows(const struct kt_table *table)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < table->n_rows; r++) {
        json_t *row = json_object();
        for (size_t c = 0; c < table->n_columns; c++) {
            const struct kt_cell *value = &table->value[r * table->n_columns + c];
            if (table->columns[c].flags & KT_COLUMN_VISUAL)
                continue;
            if (json_object_set_new(row, table->columns[c].name, make_json(&table->columns[c], value)) != 0) {
                json_decref(row);
                json_decref(rows);
                return NULL;
            }
        }
        if (json_array_append_new(rows, row) != 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return rows;
}

static void write_json(const struct kt_output *output)
{
    json_t *root = json_object();
    int failed = json_object_set_new(root, "schema", json_string(output->schema));

    failed |= json_object_set_new(root, "version", json_integer(output->version));
    for (size_t f = 0; f < output->n_facts; f++)
        failed |= json_object_set_new(root, output->fact[f].column.name,
                                      make_json(&output->fact[f].column, &output->fact[f].value));
    for (size_t t = 0; t < output->n_tables; t++) {
        if (!output->table[t]->hidden)
            failed |= json_object_set_new(root, output->table[t]->name, make_rows(output->table[t]));
    }
    if (failed)
        exit(kt_cli_error(output->cli, "out of memory"));
    /* A write error stays in stdout's error flag, where kt_cli_finish finds it. */
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

/* ---- CSV ------------------------------------------------------------------------------------ */

static void write_csv_text(const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void write_csv_value(const struct kt_column *column, const struct kt_cell *value)
{
    if (!value->set)
        return;
    switch (column->type) {
    case KT_COLUMN_TEXT:
        write_csv_text(value->text);
        break;
    case KT_COLUMN_REAL:
        if (isfinite(value->real))
            printf("%.9g", value->real);
        break;
    case KT_COLUMN_INT:
        printf("%" PRId64, (int64_t)value->number);
        break;
    case KT_COLUMN_BOOL:
        fputs(value->number ? "true" : "false", stdout);
        break;
    default:
        printf("%" PRIu64, value->number);
    }
}

/* Writes the header, or a row. */
static void write_csv_line(const struct kt_table *table, const struct kt_cell *values)
{
    bool first = true;
    for (size_t c = 0; c < table->n_columns; c++) {
        if (table->columns[c].flags & KT_COLUMN_VISUAL)
            continue;
        if (!first)
            putchar(',');
        first = false;
        if (values)
            write_csv_value(&table->columns[c], &values[c]);
        else
            write_csv_text(table->columns[c].name);
    }
    fputs("\r\n", stdout);
}

static void write_csv(struct kt_output *output)
{
    if (output->n_tables == 0)
        return;
    struct kt_table *table = output->table[0];
    if (!output->has_begun)
        write_csv_line(table, NULL);
    output->has_begun = true;
    for (; table->n_written < table->n_rows; table->n_written++)
        write_csv_line(table, &table->value[table->n_written * table->n_columns]);
}

int kt_table_flush(struct kt_table *table)
{
    const struct kt_cli *cli = table->cli;
    if (cli->format == KT_FORMAT_JSON)
        return KT_EXIT_OK;
    kt_progress_clear();
    if (cli->format == KT_FORMAT_CSV)
        write_csv(table->output);
    else
        kt_output_write_rows(table->output);
    return kt_cli_flush(cli);
}

int kt_output_finish(struct kt_output *output, int code)
{
    const struct kt_cli *cli = output->cli;
    kt_progress_clear();
    if (cli->format == KT_FORMAT_JSON)
        write_json(output);
    else if (cli->format == KT_FORMAT_CSV)
        write_csv(output);
    else
        kt_output_write_text(output);
    kt_output_free(output);
    return kt_cli_finish(cli, code);
}
