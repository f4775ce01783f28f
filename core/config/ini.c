/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/ini.h"

#include "core/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    FILE_LIMIT = 1 << 20,
    FIRST_ROOM = 1 << 12,
    LINE_LIMIT = 190,   /* inih's buffer is 200 bytes; it would read the rest as a new line */
    SECTION_LIMIT = 48, /* inih cuts names of 50 bytes */
    MOST_FAULTS = 100,
};

/* inih asks for lines and returns keys and values. It does not tell line numbers or sections without
 * settings, so the function that gives it lines notes both. */
struct reading {
    const char *path, *text, *end;
    unsigned line;
    bool in_section;
    bool skips;   /* the settings of a section that is wrong */
    bool stopped; /* by an error: no more lines are given */
    const struct kt_ini_handler *handler;
    enum kt_status status; /* of the first error */
    unsigned n_faults;
    struct kt_error error, first;
};

/* Notes the error of this line, which stands in reading->error. True: the lines behind it are read, too. */
static bool goes_on(struct reading *reading, enum kt_status status)
{
    (void)kt_fail_prefix(&reading->error, status, "%s:%u", reading->path, reading->line);
    if (reading->status == KT_OK) {
        reading->status = status;
        reading->first = reading->error;
    }
    if (!reading->handler->fault || status != KT_E_CONFIG)
        return false;
    reading->handler->fault(reading->handler->data, &reading->error);
    return ++reading->n_faults < MOST_FAULTS;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum kt_status check_bytes(const char *line, size_t length, struct kt_error *error)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)line[i];
        if ((byte < ' ' && byte != '\t') || byte == 127)
            return kt_fail(error, KT_E_CONFIG, "byte 0x%02x at column %zu is no text; is this an INI file?",
                           byte, i + 1);
    }
    return KT_OK;
}

/* A section line, here without its leading '['. */
static enum kt_status open_section(struct reading *reading, const char *line, size_t length)
{
    char name[SECTION_LIMIT + 1];
    size_t width = 0;
    while (width < length && line[width] != ']')
        width++;
    if (width == length)
        return kt_fail(&reading->error, KT_E_CONFIG, "the section's name is not closed by ]");
    for (size_t i = width + 1; i < length; i++) {
        if (line[i] == ';' || line[i] == '#')
            break;
        if (!is_blank(line[i]))
            return kt_fail(&reading->error, KT_E_CONFIG, "text after ]; settings go on lines of their own");
    }
    if (width == 0 || width > SECTION_LIMIT || memchr(line, ';', width))
        return kt_fail(&reading->error, KT_E_CONFIG, "a section's name has 1 to %d characters and no ;",
                       SECTION_LIMIT);
    memcpy(name, line, width);
    name[width] = '\0';
    return reading->handler->section(reading->handler->data, name, reading->line, &reading->error);
}

/* inih says of the first such line only that it is wrong. */
static bool is_setting(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '=' || line[i] == ':')
            return true;
        if (line[i] == ';' && i > 0 && is_blank(line[i - 1]))
            return false;
    }
    return false;
}

/* A line without leading blanks, which has `raw` bytes with them. */
static enum kt_status check_line(struct reading *reading, const char *line, size_t length, size_t raw,
                                 size_t room)
{
    if (raw > LINE_LIMIT || length + 3 > room)
        return kt_fail(&reading->error, KT_E_CONFIG, "the line has %zu bytes; at most %d are allowed", raw,
                       LINE_LIMIT);
    if (*line == '[') {
        enum kt_status status = open_section(reading, line + 1, length - 1);
        reading->in_section = true;
        reading->skips = status != KT_OK;
        return status;
    }
    if (!is_setting(line, length))
        return kt_fail(&reading->error, KT_E_CONFIG, "neither [section] nor key = value nor a comment");
    return KT_OK;
}

/* inih's fgets: gives the next line without leading blanks, comments and lines that are wrong as empty ones.
 */
static char *give_line(char *buffer, int size, void *stream)
{
    struct reading *reading = stream;
    if (reading->stopped || reading->text == reading->end)
        return NULL;
    const char *line = reading->text;
    const char *newline = memchr(line, '\n', (size_t)(reading->end - line));
    size_t length = (size_t)((newline ? newline : reading->end) - line);
    reading->text = newline ? newline + 1 : reading->end;
    reading->line++;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    enum kt_status status = check_bytes(line, length, &reading->error);
    bool is_text = status == KT_OK;
    size_t raw = length;
    for (; length > 0 && is_blank(*line); length--)
        line++;
    if (length == 0 || *line == ';' || *line == '#')
        length = 0;
    if (status == KT_OK && length > 0)
        status = check_line(reading, line, length, raw, (size_t)size);
    if (status != KT_OK) {
        reading->stopped = !goes_on(reading, status) || !is_text;
        if (reading->stopped)
            return NULL;
        length = 0;
    }
    memcpy(buffer, line, length);
    buffer[length] = '\n';
    buffer[length + 1] = '\0';
    return buffer;
}

static int take_setting(void *user, const char *section, const char *key, const char *value)
{
    struct reading *reading = user;
    enum kt_status status = KT_OK;
    if (reading->stopped)
        return 0;
    if (reading->skips)
        return 1;
    if (!reading->in_section) {
        status = kt_fail(&reading->error, KT_E_CONFIG,
                         "\"%s\" stands before the first section; put [core] or [plugin.NAME] above it", key);
        reading->skips = true;
    } else if (key[0] == '\0') {
        status = kt_fail(&reading->error, KT_E_CONFIG, "no key before the =");
    } else {
        status = reading->handler->setting(reading->handler->data, section, key, value, reading->line,
                                           &reading->error);
    }
    reading->stopped = status != KT_OK && !goes_on(reading, status);
    return !reading->stopped;
}

static enum kt_status parse(const char *path, const char *text, size_t size,
                            const struct kt_ini_handler *handler, struct kt_error *error)
{
    struct reading reading = {.path = path, .text = text, .end = text + size, .handler = handler};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        reading.text += 3;
    int bad_line = ini_parse_stream(give_line, &reading, take_setting, &reading);
    if (reading.status != KT_OK) {
        if (error)
            *error = reading.first;
        return reading.status;
    }
    if (bad_line > 0)
        return kt_fail(error, KT_E_CONFIG, "%s:%d: neither [section] nor key = value nor a comment", path,
                       bad_line);
    if (bad_line < 0)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to read it", path);
    return KT_OK;
}

static enum kt_status fail_open(const char *path, int number, struct kt_error *error)
{
    struct stat link;
    if (number == ENOENT || number == ENOTDIR) {
        if (lstat(path, &link) != 0)
            return kt_fail(error, KT_E_NOT_FOUND, "%s: there is no such file", path);
        return kt_fail(error, KT_E_IO, "%s: a symbolic link to nothing; mend or remove it", path);
    }
    if (number == ELOOP)
        return kt_fail(error, KT_E_IO, "%s: a symbolic link that leads back to itself; remove it", path);
    return kt_fail(error, kt_status_of_errno(number, KT_E_IO), "%s: cannot be opened: %s", path,
                   strerror(number));
}

static enum kt_status check_kind(const char *path, int fd, struct kt_error *error)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return kt_fail(error, kt_status_of_errno(errno, KT_E_IO), "%s: %s", path, strerror(errno));
    bool null = S_ISCHR(file.st_mode) && file.st_rdev == makedev(1, 3);
    if (!S_ISREG(file.st_mode) && !null)
        return kt_fail(error, KT_E_IO, "%s: is %s, not a file", path,
                       S_ISDIR(file.st_mode) ? "a directory" : "a device or pipe");
    return KT_OK;
}

/* Reads the file whole, or a byte more than the largest has; *size is -1 if that fails. NULL: no memory. */
static char *read_all(int fd, ssize_t *size)
{
    size_t room = 0, n = 0;
    char *text = NULL;
    ssize_t got = 1;
    while (got != 0 && n <= FILE_LIMIT) {
        if (n == room) {
            room = room ? 4 * room : FIRST_ROOM;
            char *grown = realloc(text, room);
            if (!grown) {
                free(text);
                return NULL;
            }
            text = grown;
        }
        got = read(fd, text + n, room - n);
        if (got < 0 && errno != EINTR) {
            *size = -1;
            return text;
        }
        n += got > 0 ? (size_t)got : 0;
    }
    *size = (ssize_t)n;
    return text;
}

enum kt_status kt_ini_read(const char *path, const struct kt_ini_handler *handler, struct kt_error *error)
{
    /* O_NONBLOCK: opening a pipe must not wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_open(path, errno, error);
    char *text = NULL;
    enum kt_status status = check_kind(path, fd, error);
    if (status != KT_OK)
        goto close_file;
    ssize_t size = 0;
    text = read_all(fd, &size);
    if (!text)
        status = kt_fail(error, KT_E_NOMEM, "%s: no memory to read it", path);
    else if (size < 0)
        status = kt_fail(error, kt_status_of_errno(errno, KT_E_IO), "%s: cannot be read: %s", path,
                         strerror(errno));
    else if (size > FILE_LIMIT)
        status = kt_fail(error, KT_E_CONFIG, "%s: is larger than 1 MiB; is this an INI file?", path);
    else
        status = parse(path, text, (size_t)size, handler, error);
    free(text);
close_file:
    (void)close(fd);
    return status;
}
