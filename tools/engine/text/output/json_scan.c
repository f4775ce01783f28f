/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/output/json_scan.h"

#include <string.h>

enum state {
    VALUE = 0,   /* a value must come */
    FIRST_VALUE, /* a value or ] */
    FIRST_KEY,   /* a key or } */
    KEY,         /* a key */
    COLON,
    AFTER, /* , or the end of the array or object */
    STRING,
    ESCAPE,
    HEX,
    LITERAL,
    MINUS, /* numbers: what stands before this byte */
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGIT,
    ENDED
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static int hex_digit(char byte)
{
    if (is_digit(byte))
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

static bool in_object(const struct kt_json *json)
{
    return json->objects[(json->depth - 1) / 8] >> (json->depth - 1) % 8 & 1;
}

static enum kt_scan begin_container(struct kt_json *json, bool is_object)
{
    if (json->depth == KT_JSON_DEPTH)
        return KT_SCAN_BAD;
    uint8_t bit = (uint8_t)(1 << json->depth % 8);
    uint8_t *byte = &json->objects[json->depth++ / 8];
    *byte = is_object ? *byte | bit : (uint8_t)(*byte & ~bit);
    json->state = is_object ? FIRST_KEY : FIRST_VALUE;
    return KT_SCAN_MORE;
}

static enum kt_scan end_value(struct kt_json *json)
{
    json->state = json->depth ? AFTER : ENDED;
    return json->depth ? KT_SCAN_MORE : KT_SCAN_DONE;
}

static enum kt_scan begin_string(struct kt_json *json, bool is_key)
{
    json->state = STRING;
    json->is_key = is_key;
    return KT_SCAN_MORE;
}

static enum kt_scan begin_literal(struct kt_json *json, const char *literal)
{
    json->state = LITERAL;
    json->literal = literal;
    json->count = 1;
    return KT_SCAN_MORE;
}

static enum kt_scan begin_value(struct kt_json *json, char byte)
{
    switch (byte) {
    case '{':
    case '[':
        return begin_container(json, byte == '{');
    case '"':
        return begin_string(json, false);
    case 't':
        return begin_literal(json, "true");
    case 'f':
        return begin_literal(json, "false");
    case 'n':
        return begin_literal(json, "null");
    default:
        if (byte != '-' && !is_digit(byte))
            return KT_SCAN_BAD;
        json->state = byte == '-' ? MINUS : byte == '0' ? ZERO : INTEGER;
        return KT_SCAN_MORE;
    }
}

static enum kt_scan end_container(struct kt_json *json)
{
    json->depth--;
    return end_value(json);
}

static enum kt_scan scan_between(struct kt_json *json, char byte)
{
    if (kt_is_space(byte))
        return KT_SCAN_MORE;
    switch (json->state) {
    case FIRST_VALUE:
        return byte == ']' ? end_container(json) : begin_value(json, byte);
    case FIRST_KEY:
        if (byte == '}')
            return end_container(json);
        return byte == '"' ? begin_string(json, true) : KT_SCAN_BAD;
    case KEY:
        return byte == '"' ? begin_string(json, true) : KT_SCAN_BAD;
    case COLON:
        json->state = VALUE;
        return byte == ':' ? KT_SCAN_MORE : KT_SCAN_BAD;
    case AFTER:
        if (byte == (in_object(json) ? '}' : ']'))
            return end_container(json);
        json->state = in_object(json) ? KEY : VALUE;
        return byte == ',' ? KT_SCAN_MORE : KT_SCAN_BAD;
    default:
        return begin_value(json, byte);
    }
}

static enum kt_scan scan_string(struct kt_json *json, char byte)
{
    if (json->state == STRING) {
        if (byte == '\\') {
            json->state = ESCAPE;
        } else if (byte == '"') {
            if (!json->is_key)
                return end_value(json);
            json->state = COLON;
        }
        return KT_SCAN_MORE;
    }
    if (json->state == ESCAPE) {
        json->count = 0;
        json->state = byte == 'u' ? HEX : STRING;
        return byte && strchr("\"\\/bfnrtu", byte) ? KT_SCAN_MORE : KT_SCAN_BAD;
    }
    if (++json->count == 4)
        json->state = STRING;
    return hex_digit(byte) < 0 ? KT_SCAN_BAD : KT_SCAN_MORE;
}

/* The state of a number after this byte; ENDED: the byte is not a part of it; VALUE: it is wrong. */
static uint8_t next_of_number(uint8_t state, char byte)
{
    bool digit = is_digit(byte), exponent = byte == 'e' || byte == 'E';
    switch (state) {
    case MINUS:
        return !digit ? VALUE : byte == '0' ? ZERO : INTEGER;
    case POINT:
        return digit ? FRACTION : VALUE;
    case EXPONENT:
        return digit ? EXPONENT_DIGIT : byte == '+' || byte == '-' ? EXPONENT_SIGN : VALUE;
    case EXPONENT_SIGN:
        return digit ? EXPONENT_DIGIT : VALUE;
    case EXPONENT_DIGIT:
        return digit ? EXPONENT_DIGIT : ENDED;
    case FRACTION:
        return digit ? FRACTION : exponent ? EXPONENT : ENDED;
    default: /* ZERO, INTEGER */
        if (digit)
            return state == ZERO ? VALUE : INTEGER;
        return byte == '.' ? POINT : exponent ? EXPONENT : ENDED;
    }
}

static enum kt_scan scan_number(struct kt_json *json, char byte)
{
    uint8_t next = next_of_number(json->state, byte);
    if (next == VALUE)
        return KT_SCAN_BAD;
    if (next != ENDED) {
        json->state = next;
        return KT_SCAN_MORE;
    }
    return end_value(json) == KT_SCAN_DONE ? KT_SCAN_BEFORE : scan_between(json, byte);
}

enum kt_scan kt_json_scan(struct kt_json *json, char byte)
{
    if (json->state < STRING)
        return scan_between(json, byte);
    if (json->state <= HEX)
        return scan_string(json, byte);
    if (json->state >= MINUS)
        return json->state == ENDED ? KT_SCAN_BAD : scan_number(json, byte);
    if (byte != json->literal[json->count])
        return KT_SCAN_BAD;
    return json->literal[++json->count] ? KT_SCAN_MORE : end_value(json);
}

bool kt_json_control(const struct kt_json *json, char byte)
{
    return json->state == STRING && (unsigned char)byte < 0x20;
}

bool kt_json_ends(const struct kt_json *json)
{
    return json->state == ENDED ||
           (json->depth == 0 && json->state >= MINUS && next_of_number(json->state, ' ') == ENDED);
}

bool kt_json_whole(const char *text, size_t length, char *first)
{
    struct kt_json json = {.state = VALUE};
    size_t i = 0;
    while (i < length && kt_is_space(text[i]))
        i++;
    *first = i < length ? text[i] : '\0';
    while (length > i && kt_is_space(text[length - 1]))
        length--;
    for (; i < length; i++) {
        enum kt_scan scan = kt_json_scan(&json, text[i]);
        if (scan == KT_SCAN_BAD || scan == KT_SCAN_BEFORE)
            return false;
    }
    return kt_json_ends(&json);
}

struct kt_escape kt_json_escape(char byte)
{
    static const char short_from[] = "\b\t\n\f\r\"\\", short_to[] = "btnfr\"\\", hex[] = "0123456789abcdef";
    struct kt_escape escape = {.text = {byte}, .length = 1};
    const char *found = byte ? strchr(short_from, byte) : NULL;
    if (found) {
        escape = (struct kt_escape){.text = {'\\', short_to[found - short_from]}, .length = 2};
    } else if ((unsigned char)byte < 0x20) {
        memcpy(escape.text, "\\u00", 4);
        escape.text[4] = hex[byte >> 4];
        escape.text[5] = hex[byte & 15];
        escape.length = 6;
    }
    return escape;
}

static void put_code(struct kt_unescape *unescape, uint32_t code)
{
    unsigned char *to = (unsigned char *)unescape->text + unescape->length;
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char head[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (unsigned char)(0x80 | (code & 0x3f));
    to[0] = (unsigned char)(head[n] | code);
    unescape->length += n;
}

/* Half a pair is not a character. */
static void put_half(struct kt_unescape *unescape)
{
    if (unescape->high)
        put_code(unescape, 0xfffd);
    unescape->high = 0;
}

static void put_escaped(struct kt_unescape *unescape)
{
    uint32_t code = unescape->code;
    if (unescape->high && code >= 0xdc00 && code < 0xe000) {
        put_code(unescape, 0x10000 + ((unescape->high - 0xd800) << 10) + (code - 0xdc00));
        unescape->high = 0;
        return;
    }
    put_half(unescape);
    if (code >= 0xd800 && code < 0xdc00)
        unescape->high = code;
    else
        put_code(unescape, code >= 0xdc00 && code < 0xe000 ? 0xfffd : code);
}

static enum kt_scan unescape_letter(struct kt_unescape *unescape, char byte)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (byte == 'u') {
        unescape->state = HEX;
        unescape->n_digits = 0;
        unescape->code = 0;
        return KT_SCAN_MORE;
    }
    const char *found = byte ? strchr(from, byte) : NULL;
    if (!found)
        return KT_SCAN_BAD;
    put_half(unescape);
    unescape->text[unescape->length++] = to[found - from];
    unescape->state = VALUE;
    return KT_SCAN_MORE;
}

enum kt_scan kt_unescape(struct kt_unescape *unescape, char byte)
{
    unescape->length = 0;
    if (unescape->state == ESCAPE)
        return unescape_letter(unescape, byte);
    if (unescape->state == HEX) {
        int digit = hex_digit(byte);
        if (digit < 0)
            return KT_SCAN_BAD;
        unescape->code = unescape->code << 4 | (uint32_t)digit;
        if (++unescape->n_digits == 4) {
            unescape->state = VALUE;
            put_escaped(unescape);
        }
        return KT_SCAN_MORE;
    }
    if (byte == '\\') {
        unescape->state = ESCAPE;
        return KT_SCAN_MORE;
    }
    put_half(unescape);
    if (byte == '"')
        return KT_SCAN_DONE;
    unescape->text[unescape->length++] = byte;
    return KT_SCAN_MORE;
}
