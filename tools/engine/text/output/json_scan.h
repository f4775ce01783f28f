/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.h - where a JSON value ends, and the text of a JSON string, byte by byte. */
#ifndef KT_ENGINE_TEXT_OUTPUT_JSON_SCAN_H
#define KT_ENGINE_TEXT_OUTPUT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kt_scan {
    KT_SCAN_MORE = 0,
    KT_SCAN_DONE,   /**< the value ends with this byte */
    KT_SCAN_BEFORE, /**< it ended before this byte, as numbers do, which is not a part of it */
    KT_SCAN_BAD
};

/** Deeper values are refused: what readers of JSON take by default is 1000 to 2000. */
#define KT_JSON_DEPTH 1000

/** A value, without white space before it. All 0 is the beginning. */
struct kt_json {
    uint8_t state;
    uint8_t count;       /**< digits of \u, letters of a literal */
    bool is_key;         /**< the string is a key */
    const char *literal; /**< true, false, null */
    uint32_t depth;
    uint8_t objects[(KT_JSON_DEPTH + 7) / 8]; /**< a bit a level: an object, or an array */
};

/** White space between tokens is taken. A control character in a string is too, though JSON forbids it:
 * models write them, and kt_json_control says so, so that the caller can escape it. */
enum kt_scan kt_json_scan(struct kt_json *json, char byte);
/** Is `byte`, which comes next, a control character in a string? */
bool kt_json_control(const struct kt_json *json, char byte);
/** May the value end here, where no more bytes come? */
bool kt_json_ends(const struct kt_json *json);

/** Is it one JSON value, with white space around it? `first`: its first byte, which says its type. */
bool kt_json_whole(const char *text, size_t length, char *first);

/** What a byte is in a JSON string, as its escape, or itself. */
struct kt_escape {
    char text[8];
    size_t length;
};
struct kt_escape kt_json_escape(char byte);

/** Reads the text of a string, from behind its opening quote. All 0 is the beginning. */
struct kt_unescape {
    uint8_t state;
    uint8_t n_digits;
    uint32_t code;
    uint32_t high; /**< the first half of a surrogate pair; 0: none */
    char text[8];  /**< what the last byte gave */
    size_t length;
};
/** KT_SCAN_DONE at the closing quote. `text` then may hold what was waiting. */
enum kt_scan kt_unescape(struct kt_unescape *unescape, char byte);

static inline bool kt_is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

#endif
