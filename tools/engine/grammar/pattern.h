/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h - regular expressions of strings, as ECMA-262 reads them with the flag u, in three steps:
 *
 *     pattern.c    text -> nodes
 *     classes.c    sets of characters: [..], \d and the like, \p{..}
 *     found.c      nodes -> operations that read a string in which the expression is found
 *
 * and look.c, which takes what looks ahead from the beginning apart.
 */
#ifndef KT_ENGINE_GRAMMAR_PATTERN_H
#define KT_ENGINE_GRAMMAR_PATTERN_H

#include "tools/engine/grammar/schema.h"
#include "tools/engine/grammar/spans.h"

/** Nodes of an expression at most, and spans of its sets. */
#define KT_REGEX_NODES 2048
#define KT_REGEX_SPANS 16384
/** The largest number in {}. */
#define KT_REGEX_REPEATS 1000

enum kt_node_kind { KT_NODE_EMPTY, KT_NODE_SET, KT_NODE_CAT, KT_NODE_ALT, KT_NODE_REPEAT, KT_NODE_HERE };

/** What KT_NODE_HERE asks of a place between two characters. */
enum kt_here { KT_HERE_BEGIN, KT_HERE_END, KT_HERE_BORDER, KT_HERE_NO_BORDER };

struct kt_node {
    enum kt_node_kind kind;
    uint32_t a, b, min, max; /**< nodes; of REPEAT how often; of SET the spans, of HERE an enum kt_here */
    uint32_t rule;           /**< of a SET of many spans: what reads those above U+007F; 0: not made yet */
};

struct kt_regex {
    struct kt_form_reader *reader;
    const struct kt_place *place;
    const char *text;
    size_t at, length;
    struct kt_node *nodes;
    struct kt_span *spans;
    size_t spans_capacity;
    uint32_t n_nodes, n_spans, groups;
    bool has_places; /**< a node of KT_NODE_HERE */
};

/** Fails with the place in the text; returns 0. */
uint32_t kt_regex_refuse(struct kt_regex *regex, const char *what);
uint32_t kt_regex_node(struct kt_regex *regex, struct kt_node node);

/** A set is made at the end of `spans`: adds to it. */
bool kt_class_add(struct kt_regex *regex, uint32_t first, uint32_t last);
/** \d, \D, \w, \W, \s and \S by their letters. */
bool kt_class_named(struct kt_regex *regex, char name);
/** \p or \P, of which the braces are read. */
bool kt_class_property(struct kt_regex *regex, char name);
/** Makes of the spans from `first` on what is in none of them. */
bool kt_class_invert(struct kt_regex *regex, uint32_t first);
/** A node of the spans from `first` on. */
uint32_t kt_class_node(struct kt_regex *regex, uint32_t first);

/** Operations for a string of min .. max characters that node `root` reads from its first to its last
 * character; 0: there is none, or a failure. */
uint32_t kt_regex_write(struct kt_regex *regex, uint32_t root, uint32_t min, uint32_t max, uint32_t next);

/** Whether all that looks ahead stands at the beginning of the text, behind its ^. */
bool kt_regex_looks_ahead(const char *pattern);
/** The expression of the texts that a pattern matches from the first to the last character, for free(); NULL:
 * no memory. The pattern itself must be right. */
char *kt_regex_whole(const char *pattern);
/** Expressions and what is asked of each, an enum kt_text_asked, with those that look ahead taken apart; NULL
 * after a failure. */
json_t *kt_form_parts(struct kt_form_reader *reader, const json_t *texts, const struct kt_place *place);
/** A string of min .. max characters that does all that is asked, and is none of the strings in `excluded`
 * (NULL: no list). */
uint32_t kt_form_looked(struct kt_form_reader *reader, const json_t *texts, const json_t *excluded,
                        const struct kt_place *place, uint32_t min, uint32_t max, uint32_t next);

#endif
