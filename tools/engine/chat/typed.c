/* SPDX-License-Identifier: Apache-2.0 */
/* typed.c - lines that were typed, for the keys up and down of later conversations: a file to which each
 * one is added at once, so several programs may use it and none loses what another one has written. A message
 * is a line; \n and \\ stand for newlines and backslashes in it. */
#define _GNU_SOURCE

#include "tools/engine/base/rename.h"
#include "tools/engine/chat/chat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20) /* from here on its older half goes */
#define MOST_LINE (1 << 16)

/* Makes a folder and those above it. */
static bool make_folder(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool done = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!done)
            return false;
    }
    return true;
}

char *kt_typed_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (state && *state == '/') /* another path is to be ignored, the specification says */
        n = asprintf(&path, "%s/kt-kernel/chat_history", state);
    else if (home && *home)
        n = asprintf(&path, "%s/.local/state/kt-kernel/chat_history", home);
    if (n < 0)
        return NULL;
    if (make_folder(path))
        return path;
    free(path);
    return NULL;
}

/* Undoes add_escaped, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        bool is_escaped = *text == '\\' && (text[1] == 'n' || text[1] == '\\');
        text += is_escaped;
        *to++ = is_escaped && *text == 'n' ? '\n' : *text;
    }
    *to = '\0';
}

static bool add_escaped(struct kt_buffer *out, const char *text)
{
    bool done = true;
    for (; *text && done; text++)
        done = *text == '\n' ? kt_buffer_add(out, "\\n", 2)
                             : kt_buffer_add(out, *text == '\\' ? "\\\\" : text, 1 + (*text == '\\'));
    return done && kt_buffer_add(out, "\n", 1);
}

void kt_typed_read(const char *path, struct kt_line *line)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    if (!file)
        return;
    while ((length = getline(&text, &capacity, file)) > 0) {
        text[length - (text[length - 1] == '\n')] = '\0';
        unescape(text);
        if (*text)
            kt_line_remember(line, text);
    }
    free(text);
    (void)fclose(file);
}

/* Writes the newer half of a file that has grown large to another one, which replaces it. */
static void shorten(const char *path)
{
    struct kt_buffer kept = {.data = NULL};
    FILE *file = fopen(path, "re");
    char *temporary = NULL;
    if (file && fseek(file, -(MOST_BYTES / 2), SEEK_END) == 0 && kt_buffer_reserve(&kept, MOST_BYTES / 2))
        kept.length = fread(kept.data, 1, MOST_BYTES / 2, file);
    if (file)
        (void)fclose(file);
    char *start = kept.length > 0 ? memchr(kept.data, '\n', kept.length) : NULL;
    if (start && asprintf(&temporary, "%s.XXXXXX", path) > 0) {
        int fd = mkostemp(temporary, O_CLOEXEC);
        size_t n = kept.length - (size_t)(start + 1 - kept.data);
        bool done = fd >= 0 && write(fd, start + 1, n) == (ssize_t)n && fsync(fd) == 0;
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && (!done || !kt_rename_synced(temporary, path)))
            unlink(temporary);
        free(temporary);
    }
    kt_buffer_free(&kept);
}

void kt_typed_add(const char *path, const char *text)
{
    struct kt_buffer line = {.data = NULL};
    struct stat about;
    if (strlen(text) > MOST_LINE || !add_escaped(&line, text))
        return kt_buffer_free(&line);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_own = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && fchmod(fd, 0600) == 0;
    /* One write, so that lines of two programs do not mix; a full disk loses history, nothing else. */
    bool is_large = is_own && write(fd, line.data, line.length) > 0 && about.st_size > MOST_BYTES;
    if (fd >= 0)
        close(fd);
    if (is_large)
        shorten(path);
    kt_buffer_free(&line);
}
