/* SPDX-License-Identifier: Apache-2.0 */
#include "core/weights/plain.h"

#include "core/weights/checkpoint.h"

#include <string.h>

void kt_plain_begin(struct kt_plain *plain, const struct kt_file *file, uint64_t offset, uint64_t size,
                    struct kt_error *error)
{
    plain->reader.file = file;
    plain->reader.at = plain->reader.begin = plain->reader.end = offset;
    plain->end = offset + size;
    plain->status = KT_OK;
    plain->error = error;
}

static bool fill(struct kt_plain *plain)
{
    struct kt_reader *reader = &plain->reader;
    uint64_t rest = plain->end - reader->at;
    uint64_t count = rest < sizeof reader->window ? rest : sizeof reader->window;
    if (count == 0 || plain->status != KT_OK)
        return false;
    plain->status = kt_file_read(reader->file, reader->at, reader->window, count, plain->error);
    if (plain->status != KT_OK)
        return false;
    reader->begin = reader->at;
    reader->end = reader->at + count;
    return true;
}

/* The next letter, or -1: there is none. */
static int look(struct kt_plain *plain)
{
    struct kt_reader *reader = &plain->reader;
    if (reader->at == reader->end && !fill(plain))
        return -1;
    return reader->window[reader->at - reader->begin];
}

static int look_on(struct kt_plain *plain)
{
    int letter;
    while ((letter = look(plain)) == ' ' || letter == '\n' || letter == '\t' || letter == '\r')
        plain->reader.at++;
    return letter;
}

bool kt_plain_take(struct kt_plain *plain, char letter)
{
    if (look_on(plain) != letter)
        return false;
    plain->reader.at++;
    return true;
}

bool kt_plain_string(struct kt_plain *plain, char *text, size_t size)
{
    size_t length = 0;
    int letter;
    if (!kt_plain_take(plain, '"'))
        return false;
    for (; (letter = look(plain)) != '"'; plain->reader.at++) {
        if (letter < 0x20 || letter == '\\' || length + 1 >= size)
            return false;
        text[length++] = (char)letter;
    }
    plain->reader.at++;
    text[length] = 0;
    return kt_name_valid(text, length);
}

bool kt_plain_key(struct kt_plain *plain, const char *key)
{
    char text[32];
    return kt_plain_string(plain, text, sizeof text) && strcmp(text, key) == 0 &&
           kt_plain_take(plain, ':');
}

bool kt_plain_number(struct kt_plain *plain, uint64_t *number)
{
    enum { MOST_DIGITS = 18 }; /* below 2^63 */
    int letter = look_on(plain), digits = 0;
    bool zero = letter == '0';
    *number = 0;
    for (; letter >= '0' && letter <= '9' && digits < MOST_DIGITS; digits++) {
        *number = *number * 10 + (uint64_t)(letter - '0');
        plain->reader.at++;
        letter = look(plain);
    }
    /* What follows, another digit or a fraction too, is not what the caller takes next. */
    return digits > 0 && (!zero || digits == 1);
}

bool kt_plain_object(struct kt_plain *plain, uint64_t *offset, uint64_t *size)
{
    uint64_t depth = 0;
    bool quoted = false;
    if (look_on(plain) != '{')
        return false;
    *offset = plain->reader.at;
    do {
        int letter = look(plain);
        if (letter < 0)
            return false;
        plain->reader.at++;
        if (quoted && letter == '\\' && look(plain) >= 0)
            plain->reader.at++;
        else if (letter == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += letter == '{' ? 1 : letter == '}' ? UINT64_MAX : 0;
    } while (depth > 0);
    *size = plain->reader.at - *offset;
    return true;
}

bool kt_plain_end(struct kt_plain *plain)
{
    return look_on(plain) < 0 && plain->status == KT_OK;
}
