/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - a grammar as a program over bytes, for a machine with a stack of frames (machine.h).
 *
 * It is written backwards: each function takes where to go on, and returns where its own part begins. What
 * fails is noted in the program, and the parts that follow are worth nothing then.
 */
#ifndef KT_ENGINE_GRAMMAR_PROGRAM_H
#define KT_ENGINE_GRAMMAR_PROGRAM_H

#include <kt/types.h>

#include <stdatomic.h>
#include <stdbool.h>

/** No byte of UTF-8, which stands for the end of a text that has no quotes. */
#define KT_GRAMMAR_RAW 0xff
/** Likewise: nothing stands for the ends of a text. */
#define KT_GRAMMAR_BARE 0xfe

/** Frames on the stack, and operations of a program, at most: schemas come from strangers. */
#define KT_GRAMMAR_DEPTH 64
#ifndef KT_GRAMMAR_MOST_OPS
#define KT_GRAMMAR_MOST_OPS (1u << 17)
#endif

enum kt_op_kind {
    KT_OP_FAIL,   /**< nothing fits; number 0 of each program */
    KT_OP_BYTE,   /**< reads the byte `arg` */
    KT_OP_SWITCH, /**< reads a byte in one of the ranges arg .. arg + other - 1, and goes where that says */
    KT_OP_JUMP,
    KT_OP_SPLIT,  /**< `next` and `other` */
    KT_OP_CALL,   /**< `other` in a frame of its own, whose counter is 0, then `next` */
    KT_OP_RETURN, /**< to the caller; without one the text may end here */
    KT_OP_COUNT,  /**< adds 1 to the frame's counter, up to `arg` */
    KT_OP_LESS    /**< `next` if the counter is below `arg`, else `other` */
};

/** Bits of an operation that reads. */
enum kt_op_flag {
    KT_OP_TAG = 1,     /**< of the model's own language: added tokens such as <tool_call> may be read */
    KT_OP_COUNTED = 2, /**< characters of `plain` add to the counter, which stays below `limit` */
    KT_OP_KEEP = 4,    /**< reads a character of `plain`: no state leaves it out (machine.h) */
    KT_OP_ALIKE =
        8 /**< `plain` holds if all operations of this flag with this `limit`, the number of one of them,
             need as many frames: kt_program_finish finds that out, and then `limit` is UINT32_MAX */
};

struct kt_op {
    uint8_t kind, flags;
    uint16_t height; /**< frames that are needed at least from here to the end of this one */
    uint32_t arg, next, other;
    uint32_t plain; /**< inside a JSON string: any `limit` characters of these groups (plain.h) may come here,
                       one after the other; 0: it is not known which */
    uint32_t limit; /**< UINT32_MAX: any number of them */
};

struct kt_range {
    uint8_t first, last;
    uint32_t target;
};

struct kt_program {
    struct kt_op *ops;
    struct kt_range *ranges;
    size_t n_ops, ops_capacity, n_ranges, ranges_capacity;
    uint32_t start;
    uint8_t quote; /**< before and behind strings; KT_GRAMMAR_RAW, KT_GRAMMAR_BARE: they stand as they are */
    enum kt_status status; /**< KT_E_NOMEM, KT_E_RANGE: more than KT_GRAMMAR_MOST_OPS */
    /* Rules that many places call; 0: not made yet. */
    uint32_t blank, value, integer, number, string, digits;
};

void kt_program_init(struct kt_program *program);
void kt_program_free(struct kt_program *program);
/** Computes heights. KT_E_INVALID: no text fits; KT_E_RANGE: none with at most KT_GRAMMAR_DEPTH frames,
 * unless program->status says otherwise. */
enum kt_status kt_program_finish(struct kt_program *program, uint32_t start);

uint32_t kt_op_byte(struct kt_program *p, uint8_t byte, uint32_t flags, uint32_t next);
uint32_t kt_op_switch(struct kt_program *p, const struct kt_range *ranges, size_t n, uint32_t flags);
uint32_t kt_op_split(struct kt_program *p, uint32_t next, uint32_t other);
/** Any `limit` characters of these groups may come at this operation, one after the other. */
void kt_op_plain(struct kt_program *p, uint32_t op, uint32_t groups, uint32_t limit);
/** A call, or the rule itself where nothing follows. */
uint32_t kt_op_call(struct kt_program *p, uint32_t rule, uint32_t next);
uint32_t kt_op_return(struct kt_program *p);
uint32_t kt_op_count(struct kt_program *p, uint32_t most, uint32_t next);
uint32_t kt_op_less(struct kt_program *p, uint32_t bound, uint32_t next, uint32_t other);
/** A place that is known before what stands there: kt_op_place puts it there. */
uint32_t kt_op_reserve(struct kt_program *p);
void kt_op_place(struct kt_program *p, uint32_t reserved, uint32_t next);

/** The quote before or behind a string, if it has any. */
uint32_t kt_op_quote(struct kt_program *p, uint32_t next);
/** The bytes of a text. */
uint32_t kt_op_text(struct kt_program *p, const char *text, size_t length, uint32_t flags, uint32_t next);
/** Makes of the ranges of one byte an operation that reads one of its bytes, all to `next`. */
uint32_t kt_op_class(struct kt_program *p, const char *ranges, uint32_t next);
/** Appends ranges for the first bytes of characters above U+007F, whole ones to `next`; returns how many. */
#define KT_UTF8_RANGES 8
size_t kt_ranges_utf8(struct kt_program *p, struct kt_range *ranges, uint32_t next);

/* ---- JSON (values.c) ---- */

/** White space between tokens of JSON: nothing, a blank, or a newline and up to 20 blanks. */
uint32_t kt_op_blank(struct kt_program *p, uint32_t next);
/** Digits, none or any number. Models repeat them without an end, so many are the most; nothing that a
 * person means has as many. */
#define KT_GRAMMAR_DIGITS 100
uint32_t kt_op_digits(struct kt_program *p, uint32_t next);
/** Any value; a string; a number, or one without fraction and exponent. */
uint32_t kt_op_value(struct kt_program *p, uint32_t next);
uint32_t kt_op_string(struct kt_program *p, uint32_t next);
uint32_t kt_op_number(struct kt_program *p, bool is_integer, uint32_t next);
/** What follows the opening quote of any string. */
uint32_t kt_op_string_rest(struct kt_program *p, uint32_t next);
/** A string of min .. max characters (UINT32_MAX: no bound). */
uint32_t kt_op_string_sized(struct kt_program *p, uint32_t min, uint32_t max, uint32_t next);

/* ---- numbers within bounds (wholes.c, numbers.c) ---- */

/** An integer of any size: its digits, which do not begin with 0 unless it is 0. */
#define KT_WHOLE_DIGITS 400
struct kt_whole {
    bool is_negative;
    size_t n;
    char digits[KT_WHOLE_DIGITS + 1];
};

/** Digits, at most so many, behind a sign or none. */
void kt_whole_read(struct kt_whole *whole, const char *text);
int kt_whole_compare(const struct kt_whole *a, const struct kt_whole *b);
/** One more, or one less. */
void kt_whole_step(struct kt_whole *whole, bool up);

/** What divides an integer, and what does not. */
#define KT_GRAMMAR_MOST_MULTIPLE 1000
struct kt_divisors {
    uint32_t multiple;
    const uint32_t *others; /**< `n` that do not; the product of all is KT_GRAMMAR_MOST_MULTIPLE at most */
    size_t n;
};
/** An integer in min .. max (NULL: no bound on that side); divisors NULL: any. */
uint32_t kt_op_integer_range(struct kt_program *p, const struct kt_whole *min, const struct kt_whole *max,
                             const struct kt_divisors *divisors, uint32_t next);
/** A range of digits; those with the same target are one, and none has target 0. */
void kt_add_digit(struct kt_range *ranges, size_t *n, char digit, uint32_t target);

/** A bound of numbers, and the last integer within it. */
struct kt_bound {
    bool is_set, is_open;
    double value;
    struct kt_whole whole;
};
/** A decimal number without an exponent; is_fraction: that is not an integer. */
uint32_t kt_op_number_range(struct kt_program *p, const struct kt_bound *min, const struct kt_bound *max,
                            bool is_fraction, uint32_t next);
/** An escape sequence behind its backslash: of one character, or a pair of surrogates. */
uint32_t kt_op_escape(struct kt_program *p, uint32_t next);

#endif
