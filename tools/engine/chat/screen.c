/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/chat/screen.h"
#include "tools/engine/text/utf8.h"

#include <langinfo.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define DIM "\033[2m"
#define PLAIN "\033[0m"

bool kt_screen_has_escapes(FILE *file)
{
    const char *term = getenv("TERM");
    return isatty(fileno(file)) && term && *term && strcmp(term, "dumb") != 0;
}

void kt_screen_open(struct kt_screen *screen, FILE *file)
{
    const char *none = getenv("NO_COLOR");
    *screen = (struct kt_screen){.file = file,
                                 .is_terminal = isatty(fileno(file)) != 0,
                                 .is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
    screen->has_dim = kt_screen_has_escapes(file) && !(none && *none);
}

void kt_screen_close(struct kt_screen *screen)
{
    kt_buffer_free(&screen->out);
}

/* A character as the terminal may have it. */
static void add_character(struct kt_screen *screen, uint32_t code)
{
    char bytes[8];
    size_t n;
    if (code == '\n' || code == '\t' || (code >= ' ' && code < 0x7f)) {
        bytes[0] = (char)code;
        n = 1;
    } else if (code < ' ' || code == 0x7f) { /* as terminals show what is typed: ^[ */
        bytes[0] = '^';
        bytes[1] = (char)(code ^ 0x40);
        n = 2;
    } else {
        /* Control characters of eight bits, such as CSI, and separators of lines and paragraphs. */
        if (code < 0xa0 || code == 0x2028 || code == 0x2029)
            code = 0xfffd;
        n = kt_utf8_write(code, bytes);
        if (!screen->is_utf8) {
            mbstate_t state = {0};
            char local[MB_LEN_MAX];
            size_t length = wcrtomb(local, (wchar_t)code, &state);
            n = 1;
            bytes[0] = '?';
            if (length <= sizeof(bytes) && (unsigned char)local[0] >= 0xa0) {
                memcpy(bytes, local, length);
                n = length;
            }
        }
    }
    (void)kt_buffer_add(&screen->out, bytes, n);
}

/* All whole characters; the beginning of one at the end waits for the rest. */
static void add_visible(struct kt_screen *screen, const char *text, size_t length)
{
    while (length > 0) {
        uint32_t code;
        bool is_cut = false;
        size_t n = kt_utf8_read(text, length, &code);
        if (n == 0) {
            n = kt_utf8_broken(text, length, &is_cut);
            if (is_cut && length < sizeof(screen->broken)) {
                memcpy(screen->broken, text, length);
                screen->n_broken = length;
                return;
            }
            code = 0xfffd;
        }
        add_character(screen, code);
        text += n;
        length -= n;
    }
}

static void set_dim(struct kt_screen *screen, bool is_dim)
{
    is_dim = is_dim && screen->has_dim;
    if (is_dim != screen->is_dim)
        (void)kt_buffer_add_text(&screen->out, is_dim ? DIM : PLAIN);
    screen->is_dim = is_dim;
}

static void write_out(struct kt_screen *screen)
{
    if (screen->out.length > 0) {
        (void)fwrite(screen->out.data, 1, screen->out.length, screen->file);
        (void)fflush(screen->file);
    }
    screen->out.length = 0;
}

void kt_screen_put(struct kt_screen *screen, bool is_dim, const char *text, size_t length)
{
    if (length == 0)
        return;
    if (!screen->is_terminal) {
        (void)kt_buffer_add(&screen->out, text, length);
    } else {
        char joined[sizeof(screen->broken) + 4];
        size_t n = screen->n_broken;
        set_dim(screen, is_dim);
        while (n > 0 && length > 0) { /* continues with what was cut */
            memcpy(joined, screen->broken, n);
            joined[n++] = *text++;
            length--;
            screen->n_broken = 0;
            add_visible(screen, joined, n);
            n = screen->n_broken;
        }
        add_visible(screen, text, length);
    }
    if (screen->out.length > 0)
        screen->is_within = screen->out.data[screen->out.length - 1] != '\n';
    write_out(screen);
}

void kt_screen_say(struct kt_screen *screen, bool is_dim, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        kt_screen_put(screen, is_dim, text,
                      (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

void kt_screen_end_line(struct kt_screen *screen)
{
    if (screen->n_broken > 0) {
        screen->n_broken = 0;
        add_character(screen, 0xfffd);
        screen->is_within = true;
    }
    set_dim(screen, false);
    if (screen->is_within)
        (void)kt_buffer_add(&screen->out, "\n", 1);
    screen->is_within = false;
    write_out(screen);
}
