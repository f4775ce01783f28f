/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/ini.h"

#include "core/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
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
    END_KEY = 1, /* a byte that check_bytes() refuses */
};

/* inih parses one line at a time, so its errors and settings are those of that line, and no line continues
 * another. A setting of our own follows each line: it tells the section that the line opened, if any. */
struct reading {
    const char *path;
    const char *line; /* without leading blanks; a newline ends it */
    unsigned number;
    char section[SECTION_LIMIT + 1]; /* "": none was opened */
    bool skips;                      /* the settings of an invalid section */
    const struct kt_ini_handler *handler;
    enum kt_status status;  /* of this line */
    struct kt_error error;  /* likewise */
    enum kt_status overall; /* of the first error */
    struct kt_error first;
    unsigned n_faults;
};

/* Notes the error of this line, which is in reading->error. Returns true if later lines are to be read. */
static bool goes_on(struct reading *reading)
{
    (void)kt_fail_prefix(&reading->error, reading->status, "%s:%u", reading->path, reading->number);
    if (reading->overall == KT_OK) {
        reading->overall = reading->status;
        reading->first = reading->error;
    }
    if (!reading->handler->fault || reading->status != KT_E_CONFIG)
        return false;
    reading->handler->fault(reading->handler->data, &reading->error);
    return ++reading->n_faults < MOST_FAULTS;
}

static enum kt_status check_bytes(const char *line, size_t length, struct kt_error *error)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)line[i];
        if ((byte < ' ' && byte != '\t') || byte == 127)
            return kt_fail(error, KT_E_CONFIG,
                           "byte 0x%02x at column %zu is not text; it may not be an INI file", byte, i + 1);
    }
    return KT_OK;
}

/* `name` is "" if inih found none. It ignores what follows the ]. */
static enum kt_status open_section(struct reading *reading, const char *name)
{
    size_t width = strlen(name);
    reading->skips = true;
    if (width == 0 && !strchr(reading->line, ']'))
        return kt_fail(&reading->error, KT_E_CONFIG, "the section's name is not closed by ]");
    if (width == 0 || width > SECTION_LIMIT || strchr(name, ';'))
        return kt_fail(&reading->error, KT_E_CONFIG, "a section's name has 1 to %d characters and no ;",
                       SECTION_LIMIT);
    const char *rest = reading->line + width + 2;
    rest += strspn(rest, " \t");
    if (*rest != '\n' && *rest != ';' && *rest != '#')
        return kt_fail(&reading->error, KT_E_CONFIG, "text after ]; put settings on separate lines");
    memcpy(reading->section, name, width + 1);
    enum kt_status status =
        reading->handler->section(reading->handler->data, name, reading->number, &reading->error);
    reading->skips = status != KT_OK;
    return status;
}

static enum kt_status take_setting(struct reading *reading, const char *key, const char *value)
{
    if (reading->skips)
        return KT_OK;
    if (!reading->section[0]) {
        reading->skips = true;
        return kt_fail(&reading->error, KT_E_CONFIG,
                       "\"%s\" is before the first section; put [core] or [plugin.NAME] above it", key);
    }
    if (!key[0])
        return kt_fail(&reading->error, KT_E_CONFIG, "no key before the =");
    return reading->handler->setting(reading->handler->data, reading->section, key, value, reading->number,
                                     &reading->error);
}

static int take(void *user, const char *section, const char *key, const char *value)
{
    struct reading *reading = user;
    if (key[0] != END_KEY)
        reading->status = take_setting(reading, key, value);
    else if (reading->line[0] == '[')
        reading->status = open_section(reading, section);
    return 1;
}

static enum kt_status read_setting(struct reading *reading, const char *line, size_t length)
{
    char text[LINE_LIMIT + 8];
    if (length > LINE_LIMIT)
        return kt_fail(&reading->error, KT_E_CONFIG, "the line has %zu bytes; at most %d are allowed", length,
                       LINE_LIMIT);
    /* inih ignores a byte order mark in its first line, so that one is empty. */
    (void)snprintf(text, sizeof text, "\n%.*s\n%c=\n", (int)length, line, END_KEY);
    reading->line = text + strspn(text, "\n \t");
    reading->status = KT_OK;
    int malformed = ini_parse_string(text, take, reading);
    if (malformed && reading->status == KT_OK)
        return kt_fail(&reading->error, KT_E_CONFIG, "neither [section] nor key = value nor a comment");
    return reading->status;
}

/* Returns false if no later line is to be read. */
static bool read_line(struct reading *reading, const char *line, size_t length)
{
    size_t blanks = 0;
    reading->number++;
    reading->status = check_bytes(line, length, &reading->error);
    if (reading->status != KT_OK) {
        (void)goes_on(reading);
        return false;
    }
    while (blanks < length && (line[blanks] == ' ' || line[blanks] == '\t'))
        blanks++;
    if (blanks == length || line[blanks] == ';' || line[blanks] == '#')
        return true;
    reading->status = read_setting(reading, line, length);
    return reading->status == KT_OK || goes_on(reading);
}

static enum kt_status parse(const char *path, const char *text, size_t size,
                            const struct kt_ini_handler *handler, struct kt_error *error)
{
    struct reading reading = {.path = path, .handler = handler};
    const char *end = text + size;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (bool reads = true; reads && text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((newline ? newline : end) - text);
        bool returns = length > 0 && text[length - 1] == '\r';
        reads = read_line(&reading, text, length - returns);
        text = newline ? newline + 1 : end;
    }
    if (reading.overall != KT_OK && error)
        *error = reading.first;
    return reading.overall;
}

static enum kt_status fail_open(const char *path, int number, struct kt_error *error)
{
    struct stat link;
    if (number == ENOENT || number == ENOTDIR) {
        if (lstat(path, &link) != 0)
            return kt_fail(error, KT_E_NOT_FOUND, "%s: no such file", path);
        return kt_fail(error, KT_E_IO, "%s: broken symbolic link; fix or remove it", path);
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
        status = kt_fail(error, KT_E_CONFIG, "%s: is larger than 1 MiB; it may not be an INI file", path);
    else
        status = parse(path, text, (size_t)size, handler, error);
    free(text);
close_file:
    (void)close(fd);
    return status;
}
