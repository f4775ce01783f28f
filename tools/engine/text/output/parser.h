/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parser.h - one machine for all formats, fed byte by byte.
 *
 * Its state is a function, `step`, that takes the next byte. A tag that may be beginning stands in `part`.
 * When it turns out to be none, its bytes are unread and come again, so at most a tag's length is read twice.
 *
 * From the opening tag of a call until its name is certain, the text is a candidate: all of it, with the
 * white space before the tag, is kept in `held`. It becomes a call (kt_parser_confirm), or text as it stands
 * (kt_parser_refuse). Text that was refused is not searched again, so the work stays linear.
 */
#ifndef KT_ENGINE_TEXT_OUTPUT_PARSER_H
#define KT_ENGINE_TEXT_OUTPUT_PARSER_H

#include "tools/engine/text/output/bytes.h"
#include "tools/engine/text/output/json_scan.h"
#include "tools/engine/text/output/schema.h"

#include <kt/text.h>

/** The longest tag, and how many bytes may be unread at once. */
#define KT_PARSER_TAG 64
/** Longer names are none. */
#define KT_PARSER_NAME 256
/** Longer headers of calls and messages are none. */
#define KT_PARSER_HEADER 1024

typedef void kt_parser_step(struct kt_parser *parser, char byte);

/** What kt_parser_match found, unless it is the number of a tag. */
enum { KT_TAG_NONE = -1, KT_TAG_PART = -2 };

/** Calls in markup. A tag that is NULL does not exist. */
struct kt_markup {
    const char *section, *section_end; /**< around calls */
    const char *other_end;             /**< another spelling of that, or NULL */
    const char *call;                  /**< before the name */
    const char *name_end;              /**< NULL: white space or a tag ends a name */
    const char *key;
    const char *key_ends[3]; /**< [1] says that the value is a string, [2] that it is none */
    const char *value;       /**< between key and value */
    /** The first n_value_ends end a value, the others a call whose value has no end. */
    const char *value_ends[8];
    int n_value_ends;
    int next_key;  /**< of value_ends, begins the next key where a value's end was forgotten; 0: there is none
                    */
    int lost_ends; /**< of value_ends, the section's end, where those of value and call were forgotten; 0:
                      none */
    const char *next_section; /**< and what stands behind it then, unless the output ends */
    const char *call_end;
    bool lines; /**< a value has a line of its own: a newline before it and one behind are not a part of it */
};

struct kt_parser_family {
    const char *name;
    const char *think[2];     /**< around reasoning */
    const char *open[9];      /**< begin a call, or a section of calls */
    kt_parser_step *begin[9]; /**< and what follows */
    const char *close[8];     /**< end a call or its section, where arguments are JSON */
    int n_call_ends;          /**< of these, the first ones end a call */
    const char *stop[4];      /**< end a message (harmony) */
    const char *head_end[4];  /**< end the name of a call with JSON behind it */
    const char
        *section_call[4]; /**< begin a call within a section, the template's first; NULL: there are none */
    bool strips;          /**< white space before a call is the template's, not the answer's */
    bool takes_bare;      /**< an answer that begins with { may be a call */
    const struct kt_markup *markup;
};

/** Arguments that a model writes as JSON: an object, or a string that holds one. */
struct kt_arguments {
    enum { KT_ARGUMENTS_NONE = 0, KT_ARGUMENTS_OBJECT, KT_ARGUMENTS_TEXT, KT_ARGUMENTS_NULL } kind;
    struct kt_json json;
    struct kt_unescape text;
    bool has_begun; /**< the object within the string has begun; likewise ended */
    bool has_ended;
};

/** An event whose texts are still offsets into `text`. */
struct kt_parser_mark {
    uint32_t kind, call, is_cut;
    size_t text, length, id, id_length;
};

struct kt_parser {
    const struct kt_parser_family *family;
    struct kt_schema *schema;
    bool starts_reasoning;
    const char *tags[16]; /**< those that may stand in text, NULL behind them */
    int first_open, first_stop;
    const char
        *ends[18]; /**< those that end what is left of a broken call: `close` and `open` of the family */
    int n_closes;

    /* what a call of kt_parser_add gives */
    struct kt_bytes text;
    struct kt_parser_mark *marks;
    struct kt_parser_event *events;
    size_t n_marks, room_marks, room_events;
    bool failed;

    /* the machine */
    kt_parser_step *step;
    char part[KT_PARSER_TAG];
    size_t n_part;
    char unread[4 * KT_PARSER_TAG];
    size_t n_unread;
    uint64_t n_steps; /**< since it was created: each byte once, and again after it was unread */

    /* text */
    bool reasons;         /**< text is reasoning */
    bool is_blank;        /**< nothing but white space since the beginning, reasoning or a call */
    bool after_call;      /**< the white space belongs to a call */
    bool skips_lines;     /**< newlines belong to the tag before */
    struct kt_bytes held; /**< white space that may belong to a tag, and a candidate */
    bool is_candidate;

    /* the call */
    uint32_t n_calls;
    bool in_call;       /**< KT_OUTPUT_CALL is out, KT_OUTPUT_CALL_END is not */
    bool in_section;    /**< of calls, of which one at least was confirmed */
    bool in_list;       /**< a JSON list of calls */
    bool is_bare;       /**< no tag begins it, or not the one that should */
    bool has_arguments; /**< some of them, or all */
    bool arguments_done;
    struct kt_bytes name, id, header, key, value, gap, stash;
    struct kt_bytes given; /**< keys of the call that the tool has, each with a zero byte behind it */
    struct kt_arguments arguments;
    struct kt_json json; /**< a value that is skipped, or scanned as a Python literal */
    struct kt_unescape string;
    uint32_t types; /**< that a value may have, of enum kt_schema_type */
    bool streams;   /**< the value goes out as a JSON string while it comes */
    bool at_start;  /**< of a value */
    bool is_key;    /**< the value is a key of a dict in Python's syntax; likewise the rest */
    bool has_comma; /**< it stands before the value and goes out with it */
    char quote;
    uint32_t depth;
    char brackets[32];
};

/* What all formats are made of (output.c, text.c). */

/** Is the byte, with those in `part`, one of `tags`, or its beginning? */
int kt_parser_match(struct kt_parser *parser, const char *const *tags, char byte);
/** The same after white space, which goes to `gap`; KT_TAG_NONE: all but the gap is unread. */
int kt_parser_expect(struct kt_parser *parser, const char *const *tags, char byte);
/** The last bytes come again. They were the last read. */
void kt_parser_unread(struct kt_parser *parser, const char *bytes, size_t length);
/** Unreads `part` but for its first byte, which it returns. */
char kt_parser_first(struct kt_parser *parser);

void kt_parser_emit(struct kt_parser *parser, uint32_t kind, const char *bytes, size_t length);
void kt_parser_text(struct kt_parser *parser, char byte);
/** Text of the answer or of the reasoning, now. */
void kt_parser_emit_text(struct kt_parser *parser, const char *bytes, size_t length);
void kt_parser_end_reasoning(struct kt_parser *parser, bool is_cut);

void kt_parser_begin(struct kt_parser *parser, kt_parser_step *step);
/** Begins with the family's tag of this index, which was read. */
void kt_parser_open(struct kt_parser *parser, int index);
/** The same for one more call of a section or list, after `gap` and its tag ("": none). */
void kt_parser_next(struct kt_parser *parser, kt_parser_step *step, const char *tag);
void kt_parser_refuse(struct kt_parser *parser);
/** The name is certain. */
void kt_parser_confirm(struct kt_parser *parser);
void kt_parser_end_call(struct kt_parser *parser, bool is_cut);
/** Text may follow; what is in `gap` may be a part of it. */
void kt_parser_after_call(struct kt_parser *parser);
/** The candidate is none, or the call ends without what should follow: what comes is text. */
void kt_parser_break(struct kt_parser *parser);

/** May it be the name of a tool? */
bool kt_parser_is_name(const char *name, size_t length);

/* Arguments (arguments.c). */
void kt_parser_put(struct kt_parser *parser, const char *bytes, size_t length);
void kt_parser_put_string(struct kt_parser *parser, const char *bytes, size_t length);
enum kt_scan kt_parser_argue(struct kt_parser *parser, char byte);
/** The rest of a call whose arguments are not JSON goes out as it stands, up to the call's end. */
void kt_parser_raw(struct kt_parser *parser, char byte);
void kt_parser_begin_raw(struct kt_parser *parser);

/* How calls begin (call_json.c, call_named.c, call_markup.c, call_python.c, harmony.c). */
kt_parser_step kt_parser_json, kt_parser_json_after, kt_parser_named, kt_parser_named_section,
    kt_parser_mistral, kt_parser_markup_name, kt_parser_markup_bare, kt_parser_markup_section,
    kt_parser_python, kt_parser_harmony;
/** Behind the name of a call, which was confirmed: its arguments. */
void kt_parser_begin_arguments(struct kt_parser *parser);
kt_parser_step kt_parser_named_arguments;
/** The end of the output cuts a call: what was held back of a value. */
void kt_parser_markup_cut(struct kt_parser *parser);

/** kt_parser_create with `tools` as a value, which the parser shares, in place of the text of `params`. */
enum kt_status kt_parser_create_of(const struct kt_parser_params *params, json_t *tools,
                                   struct kt_parser **parser, struct kt_error *error);
/** A parser with the same settings, in the same thread: the tools are read once. */
enum kt_status kt_parser_create_like(const struct kt_parser *other, struct kt_parser **parser,
                                     struct kt_error *error);

extern const struct kt_parser_family kt_parser_families[];
extern const uint32_t kt_parser_n_families;

#endif
