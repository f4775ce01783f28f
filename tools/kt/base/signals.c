/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - if a mapped file shrinks, the command ends with a clear message, not with a bare signal. */
#include "tools/kt/base/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Handlers may only use what was prepared before. */
static char bus_message[1200];
static volatile sig_atomic_t bus_length;
static char temporary_path[4096];
static volatile sig_atomic_t has_temporary;
static struct termios terminal_modes;
static volatile sig_atomic_t has_terminal;

static void write_all(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

static void remove_temporary(void)
{
    if (has_temporary)
        unlink(temporary_path);
}

static void handle_bus(int number)
{
    static char said;
    (void)number;
    /* Several threads may hit the hole at once: the first one prints, and ends them all. */
    while (__atomic_test_and_set(&said, __ATOMIC_RELAXED))
        pause();
    if (has_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal_modes);
    write_all(bus_message, (size_t)bus_length);
    remove_temporary();
    _exit(KT_EXIT_PROBLEM);
}

static void handle_end(int number)
{
    remove_temporary();
    signal(number, SIG_DFL);
    raise(number);
}

void kt_signals_mapped(const char *path)
{
    static char names[2][400];
    static int n;
    /* The handler does not know which file shrank, so it names the last two that were opened. */
    if (path && n < 2)
        snprintf(names[n++], sizeof(names[0]), "%s", path);
    bus_length = 0;
    int length =
        snprintf(bus_message, sizeof(bus_message),
                 "kt: error: a mapped file shrank or could not be read: %s%s%s; copy it to a "
                 "disk that can be read whole, or use --io read\n",
                 n ? names[n - 1] : "its name is unknown", n > 1 ? " or " : "", n > 1 ? names[0] : "");
    bus_length = length < (int)sizeof(bus_message) ? length : (int)sizeof(bus_message) - 1;
}

void kt_signals_terminal(void)
{
    has_terminal = tcgetattr(STDIN_FILENO, &terminal_modes) == 0;
}

void kt_signals_temporary(const char *path)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    static bool at_exit; /* a command without memory ends by exit() */
    if (!at_exit)
        at_exit = atexit(remove_temporary) == 0;
    has_temporary = 0;
    if (path && strlen(path) < sizeof(temporary_path)) {
        strcpy(temporary_path, path);
        has_temporary = 1;
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct sigaction action;
        /* A signal that the caller ignores, as with nohup, stays ignored. */
        if (sigaction(ends[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof(action));
        action.sa_handler = has_temporary ? handle_end : SIG_DFL;
        sigaction(ends[i], &action, NULL);
    }
}

void kt_signals_hold(bool held)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(held ? SIG_BLOCK : SIG_UNBLOCK, &ends, NULL); /* threads of the library take none */
}

/* Blocked by the caller, they would kill without a message. */
static void unblock_faults(void)
{
    static const int numbers[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t faults;
    sigemptyset(&faults);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&faults, numbers[i]);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

void kt_signals_install(void)
{
    struct sigaction action;
    kt_signals_mapped(NULL);
    unblock_faults();
    memset(&action, 0, sizeof(action));
    action.sa_handler = handle_bus;
    sigaction(SIGBUS, &action, NULL);
    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    /* A write beyond the limit of file sizes then fails like one to a full disk. */
    sigaction(SIGXFSZ, &action, NULL);
}
