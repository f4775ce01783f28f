/* SPDX-License-Identifier: Apache-2.0 */
/* The input is what a model writes, behind three bytes: the format, options, and where to split it. Split or
 * not, the events are the same; calls begin and end; the arguments of a whole call are a JSON object. */
#include <kt/text.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"city\": {\"type\": \"string\"}, "
    "\"o\": {\"type\": [\"object\", \"string\"]}}}}}, {\"function\": {\"name\": \"now\"}}]";

/* ---- a reader of JSON that shares nothing with the one under test ---- */

struct reader {
    const char *at, *end;
};

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4))
        reader->at++;
}

static bool take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool read_string(struct reader *reader)
{
    if (!take(reader, "\""))
        return false;
    while (reader->at < reader->end) {
        char byte = *reader->at++;
        if (byte == '"')
            return true;
        if ((unsigned char)byte < 0x20)
            return false;
        if (byte != '\\')
            continue;
        if (reader->at == reader->end || !memchr("\"\\/bfnrtu", *reader->at, 9))
            return false;
        if (*reader->at++ != 'u')
            continue;
        for (int i = 0; i < 4; i++)
            if (reader->at == reader->end || !memchr("0123456789abcdefABCDEF", *reader->at++, 22))
                return false;
    }
    return false;
}

static size_t digits(struct reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - from);
}

static bool read_number(struct reader *reader)
{
    (void)take(reader, "-");
    if (!take(reader, "0") && digits(reader) == 0)
        return false;
    if (take(reader, ".") && digits(reader) == 0)
        return false;
    if (!take(reader, "e") && !take(reader, "E"))
        return true;
    if (!take(reader, "+"))
        (void)take(reader, "-");
    return digits(reader) > 0;
}

static bool read_value(struct reader *reader);

static bool read_members(struct reader *reader, bool is_object)
{
    const char *end = is_object ? "}" : "]";
    skip_space(reader);
    if (take(reader, end))
        return true;
    do {
        skip_space(reader);
        if (is_object) {
            if (!read_string(reader))
                return false;
            skip_space(reader);
            if (!take(reader, ":"))
                return false;
        }
        if (!read_value(reader))
            return false;
        skip_space(reader);
    } while (take(reader, ","));
    return take(reader, end);
}

static bool read_value(struct reader *reader)
{
    skip_space(reader);
    if (take(reader, "{"))
        return read_members(reader, true);
    if (take(reader, "["))
        return read_members(reader, false);
    if (reader->at < reader->end && *reader->at == '"')
        return read_string(reader);
    return take(reader, "true") || take(reader, "false") || take(reader, "null") || read_number(reader);
}

/* ---- events, joined ---- */

struct log {
    char *text;
    size_t length, room;
    size_t arguments; /* where those of the open call begin */
    uint32_t last;
    bool in_call;
};

static void put(struct log *log, const void *bytes, size_t length)
{
    if (log->room - log->length < length) {
        log->room = 2 * (log->room + length);
        log->text = realloc(log->text, log->room);
        if (!log->text)
            abort();
    }
    if (length)
        memcpy(log->text + log->length, bytes, length);
    log->length += length;
}

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_event(struct log *log, const struct kt_parser_event *event)
{
    must(event->kind >= KT_OUTPUT_REASONING && event->kind <= KT_OUTPUT_REASONING_END);
    bool of_call = event->kind == KT_OUTPUT_ARGUMENTS || event->kind == KT_OUTPUT_CALL_END;
    must(log->in_call == of_call);
    if (event->kind == KT_OUTPUT_CALL) {
        must(event->length > 0);
        log->in_call = true;
    }
    if (event->kind == KT_OUTPUT_CALL_END) {
        struct reader reader = {log->text + log->arguments, log->text + log->length};
        log->in_call = false;
        must(event->is_cut || (*reader.at == '{' && read_value(&reader) && reader.at == reader.end));
    }
}

static void add_events(struct log *log, const struct kt_parser_event *events, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const struct kt_parser_event *event = &events[i];
        check_event(log, event);
        bool joins = event->kind == log->last &&
                     (event->kind <= KT_OUTPUT_CONTENT || event->kind == KT_OUTPUT_ARGUMENTS);
        uint32_t head[4] = {0xfffefdfc, event->kind, event->is_cut, event->call};
        if (!joins)
            put(log, head, sizeof head);
        put(log, event->text, event->length);
        put(log, event->id, event->id_length);
        if (event->kind == KT_OUTPUT_CALL)
            log->arguments = log->length + sizeof head;
        log->last = event->kind;
    }
}

/* One for each format and its options; it begins again with each input. */
static struct kt_parser *parser_for(uint32_t format, uint8_t options)
{
    static struct kt_parser *parsers[13][4];
    struct kt_parser **parser = &parsers[format][options & 3];
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    params.format = format;
    params.starts_reasoning = options & 1;
    params.tools = options & 2 ? tools : NULL;
    params.tools_length = sizeof tools - 1;
    must(*parser || kt_parser_create(&params, parser, NULL) == KT_OK);
    return *parser;
}

static void parse(const uint8_t *data, size_t size, const char *text, uint32_t piece, struct log *log)
{
    struct kt_parser *parser = parser_for(data[0] % 13, data[1]);
    const struct kt_parser_event *events;
    uint64_t n;
    uint32_t random = data[2];
    log->length = log->arguments = 0;
    log->last = 0;
    log->in_call = false;
    for (size_t at = 0; at < size;) {
        random = random * 1664525 + 1013904223;
        size_t length = piece ? 1 + (random >> 16) % piece : size;
        length = length < size - at ? length : size - at;
        must(kt_parser_add(parser, text + at, length, &events, &n, NULL) == KT_OK);
        add_events(log, events, n);
        at += length;
    }
    must(kt_parser_end(parser, &events, &n, NULL) == KT_OK);
    add_events(log, events, n);
    must(!log->in_call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log whole, split;
    if (size < 3)
        return 0;
    parse(data, size - 3, (const char *)data + 3, 0, &whole);
    parse(data, size - 3, (const char *)data + 3, data[2] & 1 ? 9 : 1, &split);
    must(whole.length == split.length &&
         (whole.length == 0 || memcmp(whole.text, split.text, whole.length) == 0));
    return 0;
}
