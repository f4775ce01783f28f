/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the output of a verb: rows of typed columns, as a table, JSON or CSV (--format).
 *
 *     static const struct kt_column columns[] = {
 *         {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
 *         {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
 *         {"ms_median", "MS", KT_COLUMN_REAL, 3, 0},
 *         {"weight_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
 *     };
 *     struct kt_output *output = kt_output_create(cli, "kt.bench", 1);
 *     kt_output_fact_real(output, "read_gbps", "read bandwidth, GB/s", 36.2);
 *     struct kt_table *table = kt_output_table(output, "rows", columns, 4);
 *     kt_table_row(table);
 *     kt_table_text(table, "backend", "llamafile");
 *     kt_table_uint(table, "n_tokens", 1);
 *     return kt_output_finish(output, KT_EXIT_OK);
 *
 * table  facts as "title: value" lines, then each table with a header; columns are aligned, bytes are shown
 *        as KiB, MiB, GiB; a value that was not set is "-". On a terminal texts wrap at spaces until rows
 * fit; a column that cannot, such as a path, goes below its row. "failed" and "refused" are red there. json
 * {"schema": "kt.bench", "version": 1, facts..., "rows": [{...}, ...], further tables...}; bytes and numbers
 * are numbers; a value that was not set or is not finite is null. csv    RFC 4180, the first table only, with
 * a header of field names.
 *
 * Field names are stable: scripts read them. The command ends if memory cannot be allocated.
 */
#ifndef KT_TOOL_TABLE_H
#define KT_TOOL_TABLE_H

#include "tools/kt/base/cli.h"

enum kt_column_type {
    KT_COLUMN_TEXT,
    KT_COLUMN_UINT,
    KT_COLUMN_INT,
    KT_COLUMN_REAL,
    KT_COLUMN_BYTES, /* set with kt_table_uint */
    KT_COLUMN_BOOL
};

enum {
    KT_COLUMN_HIDDEN = 1, /* in JSON and CSV only */
    KT_COLUMN_VISUAL = 2, /* in tables only */
    KT_COLUMN_BELOW = 4,  /* tables have it on lines of its own under the row, without a header */
    KT_COLUMN_LIST = 8,   /* "0-3,7,9": lines may end after a comma */
    KT_COLUMN_RARE = 16   /* tables leave it out where no row has one, or none says yes */
};
/* At least so wide in tables: for rows that are written before the widest is known. */
#define KT_COLUMN_WIDTH(columns) ((unsigned)(columns) << 8)

struct kt_column {
    const char *name;  /* field name in JSON and CSV */
    const char *title; /* header of the table; NULL with KT_COLUMN_HIDDEN */
    enum kt_column_type type;
    int decimals; /* KT_COLUMN_REAL in tables: >= 0 fixed, -1: three significant digits, 1.23e-05 */
    unsigned flags;
};

struct kt_output;
struct kt_table;

struct kt_output *kt_output_create(struct kt_cli *cli, const char *schema, int version);

/* Values of the whole output. Not in CSV. `title` NULL: in JSON only. */
void kt_output_fact_text(struct kt_output *output, const char *name, const char *title, const char *value);
void kt_output_fact_uint(struct kt_output *output, const char *name, const char *title, uint64_t value);
void kt_output_fact_real(struct kt_output *output, const char *name, const char *title, double value);
void kt_output_fact_bytes(struct kt_output *output, const char *name, const char *title, uint64_t value);

/* A sentence at the end, behind those before it; in the table format only. Copied. */
void kt_output_note(struct kt_output *output, const char *text);

/* A table; the first one is "rows". `columns` must outlive the output. */
struct kt_table *kt_output_table(struct kt_output *output, const char *name, const struct kt_column *columns,
                                 size_t n_columns);
/* A line above the table, in the table format only. Copied. */
void kt_table_title(struct kt_table *table, const char *title);
/* For people only: not in JSON. */
void kt_table_hide(struct kt_table *table);

/* In the table format: rows that differ in this field only, a text, become one, with the texts as a list. */
void kt_table_join(struct kt_table *table, const char *name);

/* Begins a row; the calls below set its fields, text is copied. */
void kt_table_row(struct kt_table *table);
void kt_table_text(struct kt_table *table, const char *name, const char *value);
void kt_table_uint(struct kt_table *table, const char *name, uint64_t value);
void kt_table_int(struct kt_table *table, const char *name, int64_t value);
void kt_table_real(struct kt_table *table, const char *name, double value);
void kt_table_bool(struct kt_table *table, const char *name, bool value);

/* A text that the column may get later: what is written before leaves room for it. */
void kt_table_expect(struct kt_table *table, const char *name, const char *text);

/* Writes the rows so far at once, in JSON not before the end. Facts are set before; it is the first table.
 * Later rows are aligned with these. Returns 0, or 1 after a message: the write failed, and so would others.
 */
int kt_table_flush(struct kt_table *table);

/* Writes everything to standard output and frees it. Returns `code`, or 1 if the write failed. */
int kt_output_finish(struct kt_output *output, int code);
void kt_output_free(struct kt_output *output);

/* "1.5 MiB" into text; returns text. */
char *kt_bytes_text(uint64_t bytes, char *text, size_t size);

#endif
