/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - changes one setting in the text of an INI file and leaves all other bytes alone. */
#include "tools/kt/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---------------------------------------------------------------------------------- */

enum line_kind { LINE_OTHER, LINE_SECTION, LINE_SETTING };

/* Places in the text. A commented line is one that would be a section or a setting without its ; or #. */
struct line {
    enum line_kind kind;
    bool commented;
    size_t start, end, next; /* end: before the line break */
    size_t name, name_end;   /* the section's or the key's */
    size_t equals, value, value_end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The value ends before a ; that follows a blank: a comment. */
static void find_value(const char *text, struct line *line)
{
    size_t comment = line->equals + 1;
    while (comment < line->end && !(text[comment] == ';' && is_blank(text[comment - 1])))
        comment++;
    line->value = line->equals + 1;
    while (line->value < comment && is_blank(text[line->value]))
        line->value++;
    line->value_end = comment;
    while (line->value_end > line->value && is_blank(text[line->value_end - 1]))
        line->value_end--;
}

/* Prose may hold an = too: behind "; " only a key with a single word is a setting. */
static bool is_prose(const char *text, const struct line *line)
{
    for (size_t i = line->name; i < line->name_end; i++) {
        if (is_blank(text[i]))
            return true;
    }
    return is_blank(text[line->name - 1]) &&
           (memchr(text + line->value, ' ', line->value_end - line->value) != NULL);
}

static void read_setting(const char *text, struct line *line)
{
    size_t at = line->name;
    while (at < line->end && text[at] != '=' && (line->commented || text[at] != ':'))
        at++;
    if (at == line->end)
        return;
    line->equals = at;
    while (at > line->name && is_blank(text[at - 1]))
        at--;
    line->name_end = at;
    find_value(text, line);
    if (!line->commented || !is_prose(text, line))
        line->kind = LINE_SETTING;
}

static struct line read_line(const struct ini_text *ini, size_t at)
{
    static const char mark[] = "\xef\xbb\xbf"; /* the byte order mark of UTF-8 */
    const char *text = ini->text;
    struct line line = {.start = at};
    const char *newline = memchr(text + at, '\n', ini->size - at);
    line.next = newline ? (size_t)(newline - text) + 1 : ini->size;
    line.end = newline ? line.next - 1 : ini->size;
    if (line.end > at && text[line.end - 1] == '\r')
        line.end--;
    if (at == 0 && ini->size >= 3 && memcmp(text, mark, 3) == 0)
        line.start = at = 3;
    while (at < line.end && is_blank(text[at]))
        at++;
    line.commented = at < line.end && (text[at] == ';' || text[at] == '#');
    while (line.commented && at < line.end && (is_blank(text[at]) || text[at] == ';' || text[at] == '#'))
        at++;
    line.name = at;
    if (at < line.end && text[at] != '[') {
        read_setting(text, &line);
        return line;
    }
    const char *close = at < line.end ? memchr(text + at, ']', line.end - at) : NULL;
    if (close) {
        line.kind = LINE_SECTION;
        line.name = at + 1;
        line.name_end = (size_t)(close - text);
    }
    return line;
}

static bool names(const struct ini_text *ini, const struct line *line, const char *name)
{
    size_t length = line->name_end - line->name;
    return strlen(name) == length && memcmp(ini->text + line->name, name, length) == 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

static void replace(const struct kt_cli *cli, struct ini_text *ini, size_t from, size_t to, const char *by)
{
    size_t length = strlen(by);
    char *text = kt_cli_alloc(cli, ini->size - (to - from) + length + 1, 1);
    memcpy(text + from, by, length);
    if (ini->text) { /* else it is a file that is not there yet */
        memcpy(text, ini->text, from);
        memcpy(text + from + length, ini->text + to, ini->size - to);
    }
    free(ini->text);
    ini->text = text;
    ini->size += length;
    ini->size -= to - from;
}

static unsigned count_lines(const struct ini_text *ini, size_t end)
{
    unsigned n = 1;
    for (size_t i = 0; i < end; i++)
        n += ini->text[i] == '\n';
    return n;
}

static const char *line_break(const struct ini_text *ini)
{
    const char *newline = ini->size ? memchr(ini->text, '\n', ini->size) : NULL;
    return newline && newline > ini->text && newline[-1] == '\r' ? "\r\n" : "\n";
}

/* Where the setting is, or where it belongs; places are behind a line, 0: none. */
struct search {
    bool inside;      /* the section */
    bool below_other; /* in it, but behind a commented header of another one */
    bool below_own;   /* outside of it, behind its first commented header */
    bool found;
    struct line setting;
    size_t comment; /* the section's last commented line of the key */
    size_t last;    /* its last setting, or its header */
    size_t own_header, own_comment;
};

static void pass_header(struct search *search, const struct line *line, bool own)
{
    if (line->commented) {
        search->below_other = !own;
        search->below_own = own && !search->inside && !search->own_header;
        if (search->below_own)
            search->own_header = line->next;
        return;
    }
    search->inside = own;
    search->below_other = search->below_own = false;
    if (own)
        search->last = line->next;
}

static void pass_setting(struct search *search, const struct line *line, bool own)
{
    if (line->commented) {
        if (own && search->inside && !search->below_other)
            search->comment = line->next;
        else if (own && search->below_own)
            search->own_comment = line->next;
        return;
    }
    if (search->inside)
        search->last = line->next;
    if (search->inside && own && !search->found) {
        search->found = true;
        search->setting = *line;
    }
}

/* A header put behind a commented one must not take settings from the section above. */
static bool takes_settings(const struct ini_text *ini, size_t at)
{
    for (struct line line; at < ini->size; at = line.next) {
        line = read_line(ini, at);
        if (line.kind != LINE_OTHER && !line.commented)
            return line.kind == LINE_SETTING;
    }
    return false;
}

static struct search find(const struct ini_text *ini, const struct config_key *key)
{
    struct search search = {.found = false};
    struct line line;
    for (size_t at = 0; at < ini->size; at = line.next) {
        line = read_line(ini, at);
        if (line.kind == LINE_SECTION)
            pass_header(&search, &line, names(ini, &line, key->section));
        else if (line.kind == LINE_SETTING)
            pass_setting(&search, &line, names(ini, &line, key->key));
    }
    if (search.own_header && takes_settings(ini, search.own_header))
        search.own_header = search.own_comment = 0;
    return search;
}

static unsigned replace_value(const struct kt_cli *cli, struct ini_text *ini, const struct line *line,
                              const char *value)
{
    if (line->value < line->value_end) {
        replace(cli, ini, line->value, line->value_end, value);
    } else if (*value) {
        /* Nothing or a comment follows: it stays apart. */
        bool spaced = line->equals + 1 < line->end || is_blank(ini->text[line->equals - 1]);
        char *text = kt_cli_format(cli, "%s%s", spaced ? " " : "", value);
        size_t end = line->value_end < line->end ? line->equals + 1 : line->end;
        replace(cli, ini, line->equals + 1, end, text);
        free(text);
    }
    return count_lines(ini, line->start);
}

/* Adds a line behind the one that ends at `at`. */
static unsigned insert_line(const struct kt_cli *cli, struct ini_text *ini, size_t at, const char *text)
{
    char *line = kt_cli_format(cli, "%s%s", text, line_break(ini));
    unsigned number = count_lines(ini, at);
    replace(cli, ini, at, at, line);
    free(line);
    return number;
}

unsigned ini_text_set(const struct kt_cli *cli, struct ini_text *ini, const struct config_key *key,
                      const char *value)
{
    struct search search = find(ini, key);
    if (search.found)
        return replace_value(cli, ini, &search.setting, value);
    if (ini->size > 0 && ini->text[ini->size - 1] != '\n') {
        insert_line(cli, ini, ini->size, "");
        search = find(ini, key);
    }
    char *header = kt_cli_format(cli, "[%s]", key->section);
    char *line = kt_cli_format(cli, "%s =%s%s", key->key, *value ? " " : "", value);
    unsigned number;
    if (search.comment || search.last) {
        number = insert_line(cli, ini, search.comment ? search.comment : search.last, line);
    } else if (search.own_header) {
        number = insert_line(cli, ini, search.own_comment ? search.own_comment : search.own_header, line) + 1;
        insert_line(cli, ini, search.own_header, header);
    } else {
        if (ini->size > 0)
            insert_line(cli, ini, ini->size, "");
        insert_line(cli, ini, ini->size, header);
        number = insert_line(cli, ini, ini->size, line);
    }
    free(header);
    free(line);
    return number;
}

/* ---- removal -------------------------------------------------------------------------------- */

/* A line that sets the key, the header above it, and how many other settings stand below that. */
struct entry {
    struct line header, setting;
    bool found;
    size_t n_others;
};

static struct entry find_entry(const struct ini_text *ini, const struct config_key *key)
{
    struct entry entry = {.found = false};
    struct line line;
    bool inside = false;
    for (size_t at = 0; at < ini->size; at = line.next) {
        line = read_line(ini, at);
        if (line.commented || line.kind == LINE_OTHER)
            continue;
        if (line.kind == LINE_SECTION) {
            if (entry.found)
                break;
            inside = names(ini, &line, key->section);
            entry = (struct entry){.header = line};
        } else if (inside && !entry.found && names(ini, &line, key->key)) {
            entry.setting = line;
            entry.found = true;
        } else {
            entry.n_others++;
        }
    }
    return entry;
}

/* The blank line that set it apart goes with a header at the end. */
static void remove_header(const struct kt_cli *cli, struct ini_text *ini, const struct line *header)
{
    replace(cli, ini, header->start, header->next, "");
    const char *blank = line_break(ini);
    size_t width = strlen(blank), size = ini->size;
    if (header->start == size && size > width && ini->text[size - width - 1] == '\n' &&
        memcmp(ini->text + size - width, blank, width) == 0)
        replace(cli, ini, size - width, size, "");
}

unsigned ini_text_unset(const struct kt_cli *cli, struct ini_text *ini, const struct config_key *key)
{
    unsigned first = 0;
    for (;;) {
        struct entry entry = find_entry(ini, key);
        if (!entry.found)
            return first;
        if (first == 0)
            first = count_lines(ini, entry.setting.start);
        replace(cli, ini, entry.setting.start, entry.setting.next, "");
        if (entry.n_others == 0 && strncmp(key->section, "plugin.", 7) == 0)
            remove_header(cli, ini, &entry.header);
    }
}

/* ---- whole sections ------------------------------------------------------------------------- */

/* From the header to behind the last setting. False: there is no such section. */
static bool find_section(const struct ini_text *ini, const char *section, struct line *header, size_t *end)
{
    struct line line;
    bool inside = false, found = false;
    for (size_t at = 0; at < ini->size; at = line.next) {
        line = read_line(ini, at);
        if (line.commented || line.kind == LINE_OTHER)
            continue;
        if (line.kind == LINE_SECTION)
            inside = !found && names(ini, &line, section);
        if (inside && !found)
            *header = line;
        found |= inside;
        if (inside)
            *end = line.next;
    }
    return found;
}

unsigned ini_text_remove(const struct kt_cli *cli, struct ini_text *ini, const char *section)
{
    struct line header;
    size_t end;
    if (!find_section(ini, section, &header, &end))
        return 0;
    unsigned number = count_lines(ini, header.start);
    header.next = end;
    remove_header(cli, ini, &header);
    return number;
}

unsigned ini_text_rename(const struct kt_cli *cli, struct ini_text *ini, const char *section,
                         const char *name)
{
    struct line header;
    size_t end;
    if (!find_section(ini, section, &header, &end))
        return 0;
    replace(cli, ini, header.name, header.name_end, name);
    return count_lines(ini, header.start);
}

/* ---- reading -------------------------------------------------------------------------------- */

unsigned ini_text_walk(const struct ini_text *ini, bool (*take)(void *data, const struct ini_item *item),
                       void *data)
{
    struct line line;
    unsigned number = 1;
    for (size_t at = 0; at < ini->size; at = line.next, number++) {
        line = read_line(ini, at);
        if (line.commented || line.name == line.end)
            continue;
        if (line.kind == LINE_OTHER || line.name == line.name_end)
            return number;
        struct ini_item item = {.line = number,
                                .name = ini->text + line.name,
                                .name_length = line.name_end - line.name};
        if (line.kind == LINE_SETTING) {
            item.value = ini->text + line.value;
            item.value_length = line.value_end - line.value;
        }
        if (!take(data, &item))
            return 0;
    }
    return 0;
}
