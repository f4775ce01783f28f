/* SPDX-License-Identifier: Apache-2.0 */
/* string.c - strings: lengths, formats, expressions that must be found and others that must not. */
#include "tools/engine/grammar/pattern.h"

#include <string.h>

/* Years that four divides, but for hundreds that it does not. */
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                       \
    "([0-9]{4}-(0[13578]-(0[1-9]|[12][0-9]|3[01])|1[02]-(0[1-9]|[12][0-9]|3[01])|" \
    "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

#define DURATION                                                         \
    "^P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)" \
    "(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?|"       \
    "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))$"

/* RFC 3986. */
#define UNRESERVED "A-Za-z0-9._~\\-"
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define PCHAR "([" UNRESERVED "!$&'()*+,;=:@]|" ESCAPED ")"
#define SEGMENT_NC "([" UNRESERVED "!$&'()*+,;=@]|" ESCAPED ")+"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" BYTE "(\\." BYTE "){3})"
#define IPV6                                                                                                \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 \
    ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16       \
    ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16    \
    ":){0,6}" H16 ")?::)"
#define AUTHORITY                                                                                 \
    "((([" UNRESERVED "!$&'()*+,;=:]|" ESCAPED ")*)@)?(\\[(" IPV6 "|v[0-9A-Fa-f]+\\.[" UNRESERVED \
    "!$&'()*+,;=:]+)\\]|([" UNRESERVED "!$&'()*+,;=]|" ESCAPED ")*)(:[0-9]*)?"
#define PATH_ABEMPTY "(/" PCHAR "*)*"
#define PATH_ABSOLUTE "/(" PCHAR "+" PATH_ABEMPTY ")?"
#define TAIL "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define URI                                                                                           \
    "[A-Za-z][A-Za-z0-9+.-]*:(//" AUTHORITY PATH_ABEMPTY "|" PATH_ABSOLUTE "|" PCHAR "+" PATH_ABEMPTY \
    "|)" TAIL
#define RELATIVE "(//" AUTHORITY PATH_ABEMPTY "|" PATH_ABSOLUTE "|" SEGMENT_NC PATH_ABEMPTY "|)" TAIL
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,64}"
#define QUOTED "\"([ !#-\\[\\]-~]|\\\\[ -~]){0,62}\""
#define POINTER "(/([^~/]|~[01])*)*"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", DURATION},
    {"uuid", "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
    {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
    {"ipv6", "^" IPV6 "$"},
    {"email", "^(" ATOM "(\\." ATOM ")*|" QUOTED ")@(" LABEL "(\\." LABEL ")*|\\[(" BYTE "(\\." BYTE
              "){3}|IPv6:" IPV6 ")\\])$"},
    {"uri", "^" URI "$"},
    {"uri-reference", "^(" URI "|" RELATIVE ")$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(0|[1-9][0-9]*)(#|" POINTER ")$"},
};

const char *kt_form_format(struct kt_form_reader *reader, const char *name, const struct kt_place *place)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                 "format '%.40s' is not supported; date, time, date-time, duration, uuid, ipv4, ipv6, email, "
                 " uri, uri-reference, json-pointer and relative-json-pointer are",
                 name);
    return NULL;
}

/* ---- strings ---- */

static bool ask(struct kt_form_reader *reader, json_t *texts, const char *text)
{
    json_int_t asked = KT_TEXT_FOUND | json_integer_value(json_object_get(texts, text));
    return json_object_set_new(texts, text, json_integer(asked)) == 0 || kt_form_no_memory(reader);
}

json_t *kt_form_texts(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place)
{
    json_t *given = json_object_get(schema, KT_FORM_TEXTS), *texts = given ? json_copy(given) : json_object();
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    bool done = texts || kt_form_no_memory(reader);
    done = done && (!pattern || ask(reader, texts, pattern));
    if (done && format) {
        format = kt_form_format(reader, format, place);
        done = format && ask(reader, texts, format);
    }
    if (done)
        return texts;
    json_decref(texts);
    return NULL;
}

static bool has_text(const json_t *list)
{
    const json_t *one;
    size_t i;
    json_array_foreach (list, i, one) {
        if (json_is_string(one))
            return true;
    }
    return false;
}

uint32_t kt_form_string(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                        uint32_t next)
{
    const json_t *excluded = json_object_get(schema, KT_FORM_NONE);
    uint32_t min = kt_form_count(schema, "minLength", 0),
             max = kt_form_count(schema, "maxLength", UINT32_MAX);
    uint32_t op = 0;
    if (min > max)
        return 0;
    json_t *texts = kt_form_texts(reader, schema, place);
    const char *first = json_object_iter_key(json_object_iter(texts));
    bool is_plain = !has_text(excluded);
    if (texts && is_plain && json_object_size(texts) == 0)
        op = kt_op_string_sized(reader->program, min, max, next);
    else if (texts && is_plain && json_object_size(texts) == 1 &&
             json_integer_value(json_object_get(texts, first)) == KT_TEXT_FOUND)
        op = kt_form_pattern(reader, first, place, min, max, next);
    else if (texts)
        op = kt_form_looked(reader, texts, excluded, place, min, max, next);
    json_decref(texts);
    return op;
}
