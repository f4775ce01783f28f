/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/engine/launch/process.h"

#include "tools/engine/base/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What ends a program that does not ask for it. */
static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void open_pipe(const struct kt_cli *cli, int ends_of[2])
{
    if (pipe2(ends_of, O_CLOEXEC) != 0)
        exit(kt_cli_error(cli, "a pipe to another program: %s", strerror(errno)));
}

/* The child: its three files, its signals as they were before this program changed them, and its end with
 * ours. */
static void become(const char *const *words, const int files[3], pid_t parent, int failed)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0)
            dup2(files[i], i);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent)
        execvp(words[0], (char *const *)(uintptr_t)words);
    int error = errno;
    (void)!write(failed, &error, sizeof(error));
    _exit(127);
}

/* Returns the child, or 0 with errno: it could not be executed. A file of -1 stays this program's. */
static pid_t start(const struct kt_cli *cli, const char *const *words, const int files[3])
{
    int failed[2], error = 0;
    open_pipe(cli, failed);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        exit(kt_cli_error(cli, "%s cannot be started: %s", words[0], strerror(errno)));
    if (child == 0)
        become(words, files, parent, failed[1]);
    close(failed[1]);
    ssize_t n = read(failed[0], &error, sizeof(error)); /* closed by execvp, then nothing comes */
    close(failed[0]);
    if (n != (ssize_t)sizeof(error))
        return child;
    waitpid(child, NULL, 0);
    errno = error;
    return 0;
}

static int status_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- what a program prints ---- */

/* Writes what the program takes of its input, and reads what it prints, until it closes its output. */
static bool exchange(int to, int from, const char *input, size_t length, struct kt_buffer *printed)
{
    struct pollfd files[2] = {{.fd = from, .events = POLLIN}, {.fd = length ? to : -1, .events = POLLOUT}};
    for (size_t written = 0;;) {
        if (files[1].fd < 0 && to >= 0) {
            close(to);
            to = -1;
        }
        if (poll(files, 2, -1) < 0)
            continue;
        if (files[1].fd >= 0 && files[1].revents != 0) {
            ssize_t n = write(to, input + written, length - written);
            written += n > 0 ? (size_t)n : 0;
            if (written == length || (n < 0 && errno != EAGAIN && errno != EINTR))
                files[1].fd = -1;
        }
        if (files[0].revents != 0) {
            ssize_t n =
                kt_buffer_reserve(printed, 65536) ? read(from, printed->data + printed->length, 65535) : 0;
            if (n <= 0 && !(n < 0 && errno == EINTR)) {
                if (to >= 0)
                    close(to);
                return printed->capacity > printed->length;
            }
            printed->length += n > 0 ? (size_t)n : 0;
        }
    }
}

void kt_process_capture(const struct kt_cli *cli, const char *const *words, const char *input, size_t length,
                        struct kt_captured *captured)
{
    struct kt_buffer printed = {.data = NULL};
    int in[2], out[2], status;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    open_pipe(cli, in);
    open_pipe(cli, out);
    *captured = (struct kt_captured){.status = KT_PROCESS_MISSING};
    pid_t child = start(cli, words, (const int[]){in[0], out[1], cli->verbose ? -1 : nothing});
    close(in[0]);
    close(out[1]);
    close(nothing);
    if (child == 0) {
        kt_cli_info(cli, "%s: %s", words[0], strerror(errno));
        close(in[1]);
    } else {
        fcntl(in[1], F_SETFL, O_NONBLOCK);
        if (!exchange(in[1], out[0], input, input ? length : 0, &printed))
            exit(kt_cli_error(cli, "out of memory"));
        while (waitpid(child, &status, 0) < 0)
            continue;
        captured->status = status_of(status);
        printed.data[printed.length] = '\0';
        captured->text = printed.data;
        captured->length = printed.length;
    }
    close(out[0]);
}

/* ---- a program that serves ---- */

/* One of its outputs. */
struct stream {
    int from, to;
    size_t length; /* of the line so far */
    char line[4096];
};

struct served {
    pid_t child;
    struct stream streams[2];
    kt_process_line *line;
    void *data;
};

static void write_all(int file, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(file, bytes, length);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return; /* nobody reads it any more; the program need not end for that */
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
}

static void read_lines(struct served *served, struct stream *stream, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != '\n') {
            if (stream->length < sizeof(stream->line) - 1)
                stream->line[stream->length++] = bytes[i];
            continue;
        }
        stream->line[stream->length] = '\0';
        stream->length = 0;
        served->line(served->data, stream->line);
    }
}

/* Hands on what is there; the stream is closed at its end. */
static void pass_on(struct served *served, struct stream *stream)
{
    char bytes[16384];
    ssize_t n = read(stream->from, bytes, sizeof(bytes));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close(stream->from);
        stream->from = -1;
        return;
    }
    write_all(stream->to, bytes, (size_t)n);
    read_lines(served, stream, bytes, (size_t)n);
}

/* A terminal sends Ctrl-C to all its programs: then the child has the signal already. */
static void hand_on(const struct served *served, int signals)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo == SIGCHLD)
        return;
    if (info.ssi_code != SI_KERNEL)
        kill(served->child, (int)info.ssi_signo);
}

/* Until it has ended, and what it wrote before that is handed on. What it has started may live on with its
 * outputs: that is not waited for. */
static int serve(struct served *served, int signals)
{
    int status = 0;
    bool has_ended = false, has_read = false;
    for (;;) {
        struct pollfd files[3] = {{.fd = served->streams[0].from, .events = POLLIN},
                                  {.fd = served->streams[1].from, .events = POLLIN},
                                  {.fd = signals, .events = POLLIN}};
        int n = poll(files, 3, has_read ? 0 : has_ended ? 100 : -1);
        if (n == 0 && has_read) {
            served->line(served->data, NULL);
            has_read = false;
            continue;
        }
        for (int i = 0; n > 0 && i < 2; i++)
            if (files[i].fd >= 0 && files[i].revents != 0) {
                pass_on(served, &served->streams[i]);
                has_read = true;
            }
        if (n > 0 && files[2].revents != 0)
            hand_on(served, signals);
        bool is_silent = n == 0 || (served->streams[0].from < 0 && served->streams[1].from < 0);
        if (has_ended && is_silent)
            return status_of(status);
        has_ended = has_ended || waitpid(served->child, &status, WNOHANG) == served->child;
    }
}

int kt_process_run(const struct kt_cli *cli, const char *const *words, kt_process_line *line, void *data)
{
    struct served served = {.line = line, .data = data};
    sigset_t watched, before;
    int out[2], messages[2], status = KT_PROCESS_MISSING;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < COUNT(ends); i++)
        sigaddset(&watched, ends[i]);
    sigprocmask(SIG_BLOCK, &watched, &before);
    int signals = signalfd(-1, &watched, SFD_CLOEXEC);
    open_pipe(cli, out);
    open_pipe(cli, messages);
    served.child = start(cli, words, (const int[]){-1, out[1], messages[1]});
    int failure = errno;
    close(out[1]);
    close(messages[1]);
    served.streams[0] = (struct stream){.from = out[0], .to = STDOUT_FILENO};
    served.streams[1] = (struct stream){.from = messages[0], .to = STDERR_FILENO};
    if (served.child > 0)
        status = serve(&served, signals);
    else
        (void)kt_cli_error(cli, "%s cannot be run: %s", words[0], strerror(failure));
    for (int i = 0; i < 2; i++)
        if (served.streams[i].from >= 0)
            close(served.streams[i].from);
    close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
