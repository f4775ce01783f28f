/* SPDX-License-Identifier: Apache-2.0 */
/* table_text.h - the data of table.c, for the writer of plain tables. */
#ifndef KT_TOOL_TABLE_TEXT_H
#define KT_TOOL_TABLE_TEXT_H

#include "tools/kt/base/table.h"

#define KT_OUTPUT_MAX_FACTS 64
#define KT_OUTPUT_MAX_TABLES 8

struct kt_cell {
    bool set;
    char *text;
    uint64_t number; /* also signed numbers and bool */
    double real;
};

struct kt_fact {
    struct kt_column column;
    struct kt_cell value;
};

struct kt_table {
    const struct kt_cli *cli;
    struct kt_output *output;
    const char *name;
    char *title;
    bool hidden; /* not in JSON */
    const struct kt_column *columns;
    size_t n_columns;
    struct kt_cell *value; /* [max_rows][n_columns] */
    size_t n_rows, max_rows;
    size_t n_written; /* rows that kt_table_flush has written */
    size_t *width;    /* of each column in them, 0: not visible; NULL: none was written */
    size_t *wish;     /* of each column, by kt_table_expect; NULL: none */
};

struct kt_output {
    struct kt_cli *cli;
    const char *schema;
    int version;
    struct kt_fact fact[KT_OUTPUT_MAX_FACTS];
    size_t n_facts;
    struct kt_table *table[KT_OUTPUT_MAX_TABLES];
    size_t n_tables;
    char *note;     /* NULL: none */
    bool has_begun; /* facts are written */
};

/* Bytes of the well-formed UTF-8 character at `s`, 0 if it is none. */
size_t kt_utf8_length(const char *s);

/* Columns of a text on a terminal. */
size_t kt_text_width(const char *text);
/* Write it, with control characters made visible; and spaces. */
void kt_text_put(const char *text, size_t length);
void kt_text_spaces(size_t n);
/* A value as people read it; allocated. */
char *kt_text_value(const struct kt_cli *cli, const struct kt_column *column, const struct kt_cell *value);
/* Columns of the terminal, or 0: no limit. */
size_t kt_terminal_width(void);

/* The facts; were there any? */
bool kt_output_write_facts(const struct kt_output *output);
/* The facts and tables for people, but what was written already. */
void kt_output_write_text(struct kt_output *output);
/* The facts, and the new rows of the first table. */
void kt_output_write_rows(struct kt_output *output);

#endif
