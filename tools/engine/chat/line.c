/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/chat/line.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/chat/screen.h"
#include "tools/engine/chat/wake.h"
#include "tools/engine/text/utf8.h"
#include "tools/kt/base/cli.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define MOST_HISTORY 1000
#define MOST_PASTED (1 << 20) /* characters: libedit shows all of them */

struct kt_line {
    EditLine *editor;
    HistoryW *history;
    FILE *out;
    wchar_t prompt[32];
    bool pastes; /* the terminal marks what is pasted */
    bool is_interrupted, was_empty;
};

/* ---- characters ---- */

static void set_pasting(struct kt_line *line, bool on)
{
    if (!line->pastes)
        return;
    (void)fputs(on ? "\033[?2004h" : "\033[?2004l", line->out);
    (void)fflush(line->out);
}

static bool is_empty(struct kt_line *line)
{
    const LineInfoW *info = el_wline(line->editor);
    return info->lastchar == info->buffer;
}

/* How many rows of a window of that width stand above the cursor's. */
static unsigned count_rows(struct kt_line *line, unsigned columns)
{
    const LineInfoW *info = el_wline(line->editor);
    unsigned n = 0, at = (unsigned)wcslen(line->prompt);
    for (const wchar_t *c = info->buffer; c < info->cursor; c++) {
        int width = *c == L'\t' ? (int)(8 - at % 8) : wcwidth(*c);
        at += width > 0 ? (unsigned)width : 0;
        if (*c == L'\n' || at > columns) {
            n++;
            at = *c == L'\n' ? 0 : (unsigned)width;
        }
    }
    return n + (at == columns); /* libedit puts the cursor below a full row */
}

/* The window has another size. Terminals wrap what stands there again, which libedit knows nothing of: the
 * line is taken away and drawn again. */
static void resize(struct kt_line *line)
{
    struct winsize size;
    if (line->pastes && ioctl(fileno(line->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        unsigned n = count_rows(line, size.ws_col);
        (void)fputs("\r", line->out);
        if (n > 0)
            (void)fprintf(line->out, "\033[%uA", n);
        (void)fputs("\033[J", line->out);
        (void)fflush(line->out);
    }
    el_resize(line->editor);
    el_set(line->editor, EL_REFRESH);
}

/* Acts on signals. False: the line ends here. */
static bool take_signals(struct kt_line *line)
{
    kt_wake_drain();
    if (kt_wake_take(SIGWINCH))
        resize(line);
    if (kt_wake_take(SIGTSTP)) {
        set_pasting(line, false);
        kt_line_suspend(line);
        set_pasting(line, true);
        el_set(line->editor, EL_REFRESH);
    }
    if (kt_wake_take(SIGINT)) {
        line->is_interrupted = true;
        line->was_empty = is_empty(line);
    }
    return !line->is_interrupted && kt_wake_ends() == 0;
}

/* The next character of the terminal; 0: none will come, -1: the line ends here. */
static int get_character(EditLine *editor, wchar_t *character)
{
    struct kt_line *line;
    mbstate_t state = {0};
    el_get(editor, EL_CLIENTDATA, &line);
    for (;;) {
        struct pollfd both[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = kt_wake_fd(), .events = POLLIN}};
        char byte;
        (void)poll(both, 2, -1);
        if (both[1].revents && !take_signals(line))
            return -1;
        if (!both[0].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return (int)n;
        size_t length = mbrtowc(character, &byte, 1, &state);
        if (length == (size_t)-1) { /* no character of this locale */
            *character = L'?';
            length = 1;
        }
        if (length <= 1)
            return 1;
    }
}

/* ---- what keys do ---- */

static unsigned char add_newline(EditLine *editor, int key)
{
    (void)key;
    return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* What stands between the terminal's marks of pasted text, with its newlines. */
static unsigned char add_pasted(EditLine *editor, int key)
{
    static const wchar_t mark[] = L"\033[201~";
    const size_t n_mark = sizeof(mark) / sizeof(*mark) - 1;
    wchar_t *text = malloc((MOST_PASTED + 16) * sizeof(*text)), c;
    size_t n = 0;
    (void)key;
    if (!text)
        return CC_ERROR;
    while (el_wgetc(editor, &c) == 1) {
        bool is_newline = c == L'\r' || c == L'\n';
        if (c == L'\n' && n > 0 && text[n - 1] == L'\r')
            continue;
        text[n++] = c;
        if (n >= n_mark && wmemcmp(text + n - n_mark, mark, n_mark) == 0) {
            n -= n_mark;
            break;
        }
        if (!is_newline && c != L'\t' && c != L'\033' && (c < L' ' || c == 0x7f))
            n--; /* it would be shown as ^A, and mean nothing to a model */
        if (n > MOST_PASTED)
            n = MOST_PASTED;
    }
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == L'\r' ? L'\n' : text[i] == L'\033' ? L'?' : text[i];
    text[n] = L'\0';
    int result = n > 0 ? el_winsertstr(editor, text) : 0;
    free(text);
    return result == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- the editor ---- */

static wchar_t *get_prompt(EditLine *editor)
{
    struct kt_line *line;
    el_get(editor, EL_CLIENTDATA, &line);
    return line->prompt;
}

enum kt_status kt_line_open(FILE *out, struct kt_line **line, struct kt_error *error)
{
    HistEventW event;
    struct kt_line *made = calloc(1, sizeof(*made));
    if (made) {
        made->out = out;
        kt_signals_terminal();
        made->editor = el_init("kt", stdin, out, stderr);
        made->history = history_winit();
    }
    if (!made || !made->editor || !made->history) {
        kt_line_close(made);
        return kt_engine_fail(error, KT_E_IO, "the terminal cannot be used for input");
    }
    made->pastes = kt_screen_has_escapes(out);
    history_w(made->history, &event, H_SETSIZE, MOST_HISTORY);
    history_w(made->history, &event, H_SETUNIQUE, 1);
    el_set(made->editor, EL_CLIENTDATA, made);
    el_wset(made->editor, EL_PROMPT, get_prompt);
    el_wset(made->editor, EL_HIST, history_w, made->history);
    el_wset(made->editor, EL_EDITOR, L"emacs");
    el_wset(made->editor, EL_ADDFN, L"kt-newline", L"Begin a new line", add_newline);
    el_wset(made->editor, EL_ADDFN, L"kt-pasted", L"Add pasted text", add_pasted);
    el_wset(made->editor, EL_BIND, L"\\e\\r", L"kt-newline", NULL);
    el_wset(made->editor, EL_BIND, L"\\e\\n", L"kt-newline", NULL);
    el_wset(made->editor, EL_BIND, L"\\e[200~", L"kt-pasted", NULL);
    el_wset(made->editor, EL_BIND, L"^R", L"em-inc-search-prev", NULL);
    el_source(made->editor, NULL);
    el_wset(made->editor, EL_GETCFN, get_character);
    el_set(made->editor, EL_PREP_TERM, 1);
    *line = made;
    return KT_OK;
}

void kt_line_close(struct kt_line *line)
{
    if (line && line->history)
        history_wend(line->history);
    if (line && line->editor)
        el_end(line->editor);
    free(line);
}

void kt_line_suspend(struct kt_line *line)
{
    el_set(line->editor, EL_PREP_TERM, 0);
    kt_wake_suspend();
    el_set(line->editor, EL_PREP_TERM, 1);
    el_resize(line->editor);
}

/* In UTF-8, without the newline that ended it. False: out of memory. */
static bool set_text(struct kt_buffer *text, const wchar_t *typed, size_t n)
{
    char bytes[4];
    text->length = 0;
    while (n > 0 && typed[n - 1] == L'\n')
        n--;
    for (size_t i = 0; i < n; i++)
        if (!kt_buffer_add(text, bytes, kt_utf8_write((uint32_t)typed[i], bytes)))
            return false;
    return kt_buffer_add_text(text, "");
}

enum kt_line_result kt_line_read(struct kt_line *line, const char *prompt, struct kt_buffer *text)
{
    int n = 0;
    (void)swprintf(line->prompt, sizeof(line->prompt) / sizeof(*line->prompt), L"%s", prompt);
    line->is_interrupted = false;
    (void)kt_wake_take(SIGINT);
    if (kt_wake_take(SIGWINCH)) /* while an answer came */
        el_resize(line->editor);
    set_pasting(line, true);
    const wchar_t *typed = el_wgets(line->editor, &n);
    set_pasting(line, false);
    /* libedit gives the terminal back after each line. Taken only behind the next prompt, it would lose a
     * Ctrl-D that was typed before. */
    el_set(line->editor, EL_PREP_TERM, 1);
    if (line->is_interrupted || !typed || n <= 0) {
        (void)fputs("\n", line->out);
        (void)fflush(line->out);
        if (line->is_interrupted)
            return line->was_empty ? KT_LINE_EMPTY : KT_LINE_EMPTIED;
        return KT_LINE_END;
    }
    return set_text(text, typed, (size_t)n) ? KT_LINE_TEXT : KT_LINE_END;
}

void kt_line_remember(struct kt_line *line, const char *text)
{
    HistEventW event;
    size_t length = strlen(text), n = 0;
    wchar_t *wide = malloc((length + 1) * sizeof(*wide));
    if (!wide)
        return;
    while (length > 0) {
        uint32_t code;
        size_t bytes = kt_utf8_read(text, length, &code);
        wide[n++] = bytes ? (wchar_t)code : L'?';
        bytes += bytes == 0;
        text += bytes;
        length -= bytes;
    }
    wide[n] = L'\0';
    history_w(line->history, &event, H_ENTER, wide);
    free(wide);
}
