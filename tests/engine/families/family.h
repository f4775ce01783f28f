/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.h - tiny random models of a family, made from its table in tests/data/families: README says how one
 * is written. The functions end the program with a sentence where a table is wrong.
 */
#ifndef KT_TESTS_ENGINE_FAMILIES_FAMILY_H
#define KT_TESTS_ENGINE_FAMILIES_FAMILY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_DIMS = 6, MOST_WORDS = 40, MOST_KEEP = 16, LONGEST = 300 };

/* A line of a table. */
struct line {
    char *text, *word[MOST_WORDS];
    int n_words;
};

/* A tensor as safetensors files have it: where all numbers are from. */
struct source {
    char name[160];
    const char *drawn; /* the name that its numbers are drawn by, or NULL: its own */
    uint64_t dims[MOST_DIMS], count;
    int n_dims;
    double mean, deviation;
    bool is_wide; /* float32 in all files */
    bool is_byte; /* whole numbers from `mean` to mean + deviation */
};

/* A cut of a source, its axes in another order. */
struct part {
    const struct source *source; /* NULL: the divisors of Llama 3's rope, or of */
    bool is_proportional;        /* Gemma 4's */
    uint64_t begin[MOST_DIMS], count[MOST_DIMS], stride[MOST_DIMS];
    int n_axes;
    const char *function; /* of each number, or NULL */
};

/* A tensor of a GGUF file: parts one behind another. */
struct target {
    char name[160];
    uint64_t dims[MOST_DIMS], count;
    int n_dims;
    struct part *parts;
    int n_parts;
    bool is_wide;
};

struct family {
    char folder[4096], name[80], arch[40];
    char like[80]; /* the family whose configuration and table it has, changed; "": none */
    bool is_other; /* the lines that are being read are that one's */
    json_t *config;
    struct line *lines;
    int n_lines, n_sources, n_targets, n_errors, n_keep;
    struct source *sources;
    struct target *targets;
    const struct line *error; /* what is done wrong on purpose, or NULL */
    int n_mtp;
    const char *draws; /* a digit per token: how often it was drawn again */
    uint32_t n_tokens, keep[MOST_KEEP], mtp[MOST_KEEP], vocabulary;
    uint32_t longest; /* tokens of long runs */
};

/* What names stand for besides those of the table and the configuration. */
struct scope {
    int layer, expert, index;
};

#define die(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* ---- numbers.c ---- */
uint64_t numbers_hash(const char *name);
/* 64 random bits. */
uint64_t numbers_draw(uint64_t hash, uint64_t index);
/* A number of bfloat16, nearly normal. */
float numbers_value(uint64_t hash, uint64_t index, double mean, double deviation);
/* A whole number from `first` to first + range. */
float numbers_byte(uint64_t hash, uint64_t index, double first, double range);

/* What is recorded of logits of a token: the root of the sum of their squares, and sums of all of them with
 * random signs. README says what these tell of a difference. */
enum { PROJECTIONS = 16, RECORDED = 1 + PROJECTIONS };
/* How far logits are from those recorded for a position, relative to their size. */
double numbers_away(const float *logits, uint32_t n, uint32_t position, const float *recorded);
/* The same of two that were recorded for one position. */
double numbers_apart(const float *one, const float *other);

/* ---- expression.c ---- */
/* A number; a text counts as its hash, what is missing as 0. */
double expression_value(const struct family *family, const struct scope *scope, const char *text);
/* {EXPRESSION} becomes its whole number. */
void expression_fill(const struct family *family, const struct scope *scope, const char *text, char *out,
                     size_t size);
/* A value of the configuration, a.b.0; NULL: none. */
json_t *expression_find(const struct family *family, const char *path);

/* ---- family.c ---- */
/* Reads FOLDER/NAME/model and config.json. */
void family_open(struct family *family, const char *folder, const char *name);
void family_close(struct family *family);
/* The word behind `if` holds, or there is none. */
bool family_applies(const struct family *family, const struct line *line, const struct scope *scope);
bool family_has_word(const struct line *line, const char *word);
/* "arch none": a model that GGUF files cannot express. */
bool family_has_gguf(const struct family *family);
int32_t family_id(const struct family *family, uint32_t position);
/* Of long runs. */
int32_t family_long_id(const struct family *family, int seed, uint32_t position);
/* From now on the model has the deliberate error of this number; false: it is a patch of transformers. */
bool family_spoil(struct family *family, int error);
const char *family_error_name(const struct family *family, int error);

/* ---- code.c ---- */
enum code { CODE_NONE, CODE_Q8_0, CODE_Q4_0, CODE_FP8 };
enum { CODE_TILE = 8 }; /* FP8: numbers that share a scale, both ways */
/* What so many numbers take; count: whole blocks of 32, but for FP8. */
uint64_t code_bytes(enum code code, uint64_t count);
/* Q8_0, Q4_0: codes to `bytes`; values become what they stand for. */
void code_rows(enum code code, float *values, uint64_t count, uint8_t *bytes);
/* FP8, rows and cols multiples of a tile; scales: one for each tile. */
void code_tiles(float *values, uint64_t rows, uint64_t cols, uint8_t *bytes, float *scales);

/* ---- write.c ---- */
/* BF16: matrices are bfloat16. F32: the same numbers. CODED: matrices whose sizes allow that are Q8_0 and
 * Q4_0 in GGUF, with a scale beside each, FP8 in safetensors. DECODED: what those stand for, in float32. */
enum form { FORM_BF16, FORM_F32, FORM_CODED, FORM_DECODED };
/* config.json and model.safetensors, with the deliberate error if there is one, into a folder that is there.
 */
void family_write_folder(const struct family *family, const char *folder, enum form form);
void family_write_gguf(const struct family *family, const char *path, enum form form);

#endif
