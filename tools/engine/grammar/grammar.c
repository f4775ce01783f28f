/* SPDX-License-Identifier: Apache-2.0 */
/* grammar.c - grammars of whole answers: what may stand before, then JSON. */
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/schema.h"
#include "tools/engine/text/output/parser.h"

#include <stdlib.h>
#include <string.h>

enum kt_status kt_grammar_open(const struct kt_grammar_params *params, const char *caller,
                               struct kt_grammar **grammar, struct kt_error *error)
{
    if (params && (params->struct_size < sizeof(*params) || params->reasoning > KT_REASONING_IN ||
                   params->format >= kt_parser_n_families))
        return kt_engine_fail(error, KT_E_INVALID, "%s: %s", caller,
                              params->struct_size < sizeof(*params)
                                  ? "struct_size is too small; start with KT_GRAMMAR_PARAMS_INIT"
                              : params->reasoning > KT_REASONING_IN
                                  ? "reasoning is not an enum kt_grammar_reasoning"
                                  : "format is not an enum kt_output_format");
    struct kt_grammar *made = calloc(1, sizeof(*made));
    if (!made)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a grammar");
    atomic_init(&made->references, 1);
    kt_program_init(&made->program);
    *grammar = made;
    return KT_OK;
}

enum kt_status kt_grammar_finish(struct kt_grammar *grammar, uint32_t start, struct kt_form_reader *reader)
{
    struct kt_program *p = &grammar->program;
    enum kt_status status = reader->status == KT_OK ? kt_program_finish(p, start) : KT_OK;
    if (status == KT_E_INVALID)
        kt_form_fail(reader, KT_E_INVALID, NULL, "nothing can fit it");
    else if (status == KT_E_RANGE && p->status == KT_OK)
        kt_form_fail(reader, KT_E_RANGE, NULL,
                     "whatever fits it nests deeper than %d, which is the most here", KT_GRAMMAR_DEPTH);
    if (p->status == KT_E_RANGE)
        kt_form_fail(reader, KT_E_RANGE, NULL, "it is too large: its grammar has more than %u parts",
                     KT_GRAMMAR_MOST_OPS);
    else if (p->status != KT_OK)
        kt_form_no_memory(reader);
    return reader->status;
}

/* ---- what stands before ---- */

/* Where a prefix of `tag` of k bytes is after one more byte: a longer or shorter one. */
static size_t advance(const char *tag, size_t k, uint8_t byte)
{
    for (size_t n = k + 1; n > 0; n--)
        if ((uint8_t)tag[n - 1] == byte && memcmp(tag, tag + k + 1 - n, n - 1) == 0)
            return n;
    return 0;
}

uint32_t kt_op_until(struct kt_program *p, const char *tag, uint32_t flags, uint32_t next, uint32_t end)
{
    size_t length = strlen(tag);
    if (!flags) /* the tag may be one token, though the text has none of these */
        end = kt_op_text(p, tag, length, KT_OP_TAG, next);
    uint32_t first = kt_op_reserve(p);
    for (size_t k = 1; k < length; k++)
        (void)kt_op_reserve(p);
    for (size_t k = 0; k < length && p->status == KT_OK; k++) {
        struct kt_range ranges[256];
        size_t n = 0;
        for (unsigned byte = 0; byte < 256; byte++) {
            size_t to = advance(tag, k, (uint8_t)byte);
            uint32_t target = to == length ? next : first + (uint32_t)to;
            if (n > 0 && ranges[n - 1].target == target)
                ranges[n - 1].last = (uint8_t)byte;
            else
                ranges[n++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, target};
        }
        uint32_t op = kt_op_switch(p, ranges, n, flags);
        kt_op_place(p, first + (uint32_t)k, end ? kt_op_split(p, op, end) : op);
    }
    return first;
}

/* The tree of tags, each node a beginning of one of them. */
struct tree {
    uint16_t children[256]; /* of a node; 0: none */
    uint16_t fails;         /* the longest other beginning that ends here */
    uint16_t tag;           /* that ends here, from 1 */
};

static size_t plant(struct tree *nodes, const struct kt_until *tags, size_t n)
{
    size_t n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        for (const char *byte = tags[i].tag; *byte; byte++) {
            uint16_t *child = &nodes[at].children[(uint8_t)*byte];
            *child = *child ? *child : (uint16_t)n_nodes++;
            at = *child;
        }
        nodes[at].tag = nodes[at].tag ? nodes[at].tag : (uint16_t)(i + 1);
    }
    return n_nodes;
}

/* Where each byte leads from each node, level by level (Aho and Corasick). */
static void link_nodes(struct tree *nodes, uint16_t *queue)
{
    size_t n = 0;
    for (size_t at = 0, i = 0; i == 0 || i <= n; i++) {
        at = i == 0 ? 0 : queue[i - 1];
        for (unsigned byte = 0; byte < 256; byte++) {
            uint16_t child = nodes[at].children[byte];
            uint16_t other = at == 0 ? 0 : nodes[nodes[at].fails].children[byte];
            if (!child) {
                nodes[at].children[byte] = other;
                continue;
            }
            nodes[child].fails = other;
            nodes[child].tag = nodes[child].tag ? nodes[child].tag : nodes[other].tag;
            queue[n++] = child;
        }
    }
}

static uint32_t place_tree(struct kt_program *p, const struct tree *nodes, size_t n_nodes,
                           const struct kt_until *tags, uint32_t flags, uint32_t end, uint32_t *targets)
{
    uint32_t first = kt_op_reserve(p);
    for (size_t k = 1; k < n_nodes; k++)
        (void)kt_op_reserve(p);
    for (size_t k = 0; k < n_nodes && p->status == KT_OK; k++) {
        struct kt_range ranges[256];
        size_t n = 0;
        for (unsigned byte = 0; byte < 256; byte++) {
            uint16_t to = nodes[k].children[byte], ended = nodes[to].tag;
            uint32_t target = ended ? tags[ended - 1].next : first + to;
            if (targets && k == 0)
                targets[byte] = target;
            if (target == 0)
                continue;
            if (n > 0 && ranges[n - 1].target == target && ranges[n - 1].last + 1u == byte)
                ranges[n - 1].last = (uint8_t)byte;
            else
                ranges[n++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, target};
        }
        uint32_t op = nodes[k].tag ? end : kt_op_switch(p, ranges, n, flags);
        kt_op_place(p, first + (uint32_t)k, end && !nodes[k].tag ? kt_op_split(p, op, end) : op);
    }
    return first;
}

uint32_t kt_op_until_any(struct kt_program *p, const struct kt_until *tags, size_t n, uint32_t flags,
                         uint32_t end, uint32_t *targets)
{
    size_t most = 1;
    for (size_t i = 0; i < n; i++)
        most += strlen(tags[i].tag);
    struct tree *nodes = calloc(most, sizeof(*nodes));
    uint16_t *queue = calloc(most, sizeof(*queue));
    uint32_t first = 0;
    if (nodes && queue) {
        size_t n_nodes = plant(nodes, tags, n);
        link_nodes(nodes, queue);
        first = place_tree(p, nodes, n_nodes, tags, flags, end, targets);
    } else {
        p->status = KT_E_NOMEM;
    }
    free(queue);
    free(nodes);
    return first;
}

static uint32_t tag(struct kt_program *p, const char *text, uint32_t next)
{
    return kt_op_text(p, text, strlen(text), KT_OP_TAG, next);
}

/* Blanks that models begin an answer with: up to two newlines, or a space. */
static uint32_t lead(struct kt_program *p, uint32_t next)
{
    uint32_t line = kt_op_split(p, next, kt_op_byte(p, '\n', 0, next));
    const struct kt_range blanks[] = {{' ', ' ', next}, {'\n', '\n', line}};
    return kt_op_split(p, next, kt_op_switch(p, blanks, 2, 0));
}

/* Reasoning is a message in the channel "analysis". */
uint32_t kt_grammar_channels(struct kt_program *p, uint32_t reasoning, uint32_t start)
{
    if (reasoning == KT_REASONING_NONE)
        return start;
    const struct kt_until ends[] = {{"<|end|>", tag(p, "<|start|>assistant", start)},
                                    {"<|start|>", 0},
                                    {"<|channel|>", 0},
                                    {"<|call|>", 0},
                                    {"<|return|>", 0}};
    uint32_t after = kt_op_until_any(p, ends, sizeof(ends) / sizeof(ends[0]), KT_OP_TAG, 0, NULL);
    if (reasoning == KT_REASONING_IN)
        return after;
    return kt_op_split(p, start, tag(p, "<|channel|>analysis<|message|>", after));
}

uint32_t kt_grammar_final(struct kt_program *p, uint32_t body)
{
    body = kt_op_split(p, tag(p, "<|message|>", body), tag(p, " <|constrain|>json<|message|>", body));
    return tag(p, "<|channel|>final", body);
}

size_t kt_grammar_opens(uint32_t format, const char *open, uint32_t call, struct kt_until *tags)
{
    const char *const *known = kt_parser_families[format].open;
    size_t n = 0;
    for (; known[n]; n++)
        tags[n] = (struct kt_until){known[n], open && strcmp(known[n], open) == 0 ? call : 0};
    return n;
}

/* What may stand before: reasoning. */
static uint32_t reasoned(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body,
                         const char *open, uint32_t call)
{
    uint32_t format = params ? params->format : 0, reasoning = params ? params->reasoning : KT_REASONING_NONE;
    const char *const *think = kt_parser_families[format].think;
    struct kt_until tags[KT_UNTIL_MOST];
    if (format == KT_OUTPUT_HARMONY)
        return kt_grammar_channels(p, reasoning, kt_grammar_final(p, body));
    if (reasoning == KT_REASONING_NONE)
        return body;
    size_t n = kt_grammar_opens(format, open, call, tags);
    tags[n++] = (struct kt_until){think[1], body};
    uint32_t inside = kt_op_until_any(p, tags, n, KT_OP_TAG, 0, NULL);
    if (reasoning == KT_REASONING_IN)
        return inside;
    return kt_op_split(p, body, lead(p, tag(p, think[0], inside)));
}

uint32_t kt_grammar_lead(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body,
                         const char *open, uint32_t call)
{
    bool has_channels = params && params->format == KT_OUTPUT_HARMONY;
    return reasoned(p, params, has_channels ? body : lead(p, body), open, call);
}

uint32_t kt_grammar_exact(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body)
{
    return reasoned(p, params, body, NULL, 0);
}

/* ---- JSON ---- */

static const char any_object[] = "{\"type\": \"object\"}";

enum kt_status kt_grammar_json(const char *schema, uint64_t length, const struct kt_grammar_params *params,
                               struct kt_grammar **grammar, struct kt_error *error)
{
    struct kt_grammar *made = NULL;
    json_error_t where;
    enum kt_status status = kt_grammar_open(params, "kt_grammar_json", &made, error);
    if (status != KT_OK || !grammar) {
        kt_grammar_destroy(made);
        return grammar ? status : kt_engine_fail(error, KT_E_INVALID, "kt_grammar_json: grammar is NULL");
    }
    struct kt_form_reader reader = {.program = &made->program, .error = error};
    json_t *document =
        schema ? kt_form_load(&reader, schema, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where)
               : json_loads(any_object, 0, NULL);
    if (document) {
        uint32_t body = kt_form_compile(&reader, document, kt_op_return(&made->program));
        status = kt_grammar_finish(made, kt_grammar_lead(&made->program, params, body, NULL, 0), &reader);
    } else if (reader.status != KT_OK) {
        status = reader.status;
    } else {
        status = kt_engine_fail(error, schema ? KT_E_FORMAT : KT_E_NOMEM,
                                "the JSON schema is not JSON: %s (line %d, column "
                                "%d)",
                                where.text, where.line, where.column);
    }
    json_decref(document);
    kt_form_free(&reader);
    if (status == KT_OK)
        *grammar = made;
    else
        kt_grammar_destroy(made);
    return status;
}
